package simulate

import (
	"fmt"
	"math"
	"strings"

	"github.com/retrydecider/decider/internal/decide"
)

// The experiments of the texts that decider grew from, to their printed digit.

// Study is a question whose answer is tables and no scenario.
type Study struct {
	Name, Title string
	Tables      func(progress Progress) []*Table
}

// Studies lists the built-in ones.
func Studies() []*Study {
	return []*Study{
		{"seeds-schedules", "Five ways to wait, one client and 10,000", func(Progress) []*Table { return []*Table{oneClient(), schedules()} }},
		{"seeds-storm", "A chain of three services, counted while the database is down", func(Progress) []*Table { return []*Table{storm()} }},
		{"seeds-amplification", "Layers multiply attempts", func(Progress) []*Table { return []*Table{amplification()} }},
		{"seeds-jitter", "No jitter, full, equal and decorrelated jitter side by side", func(Progress) []*Table { return []*Table{jitterExamples()} }},
		{"aws-jitter", "Exponential Backoff And Jitter: writers that compete for one row", func(tell Progress) []*Table { return []*Table{occTable(occClients(), 20, tell)} }},
	}
}

// StudyNamed finds a study by its name, in any case.
func StudyNamed(name string) (*Study, bool) {
	for _, s := range Studies() {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
	}
	return nil, false
}

var fiveStrategies = []decide.Strategy{decide.Constant, decide.Exponential, decide.FullJitter, decide.EqualJitter, decide.DecorrelatedJitter}

// crowd is the experiment of schedules.py: clients that failed at one moment.
type crowd struct {
	backoff decide.Backoff
	retries int
	clients int
	seed    uint32
	slot    float64 // ms
}

func newCrowd(s decide.Strategy, clients int, seed uint32) crowd {
	return crowd{decide.Backoff{Strategy: s, Base: 100, Cap: 1000, Multiplier: 2}, 5, clients, seed, 10}
}

// waits of one client in real-valued ms; constant and exponential draw nothing.
func (c *crowd) waits(chance *twister) []float64 {
	var list []float64
	previous := float64(c.backoff.Base)
	for n := range int64(c.retries) {
		random := 0.0
		if c.backoff.Strategy != decide.Constant && c.backoff.Strategy != decide.Exponential {
			random = chance.float()
		}
		previous = c.backoff.Real(n+1, previous, random)
		list = append(list, previous)
	}
	return list
}

// crowdResult is the mean and the longest of all waits of a client, and the
// most calls in one slot.
type crowdResult struct {
	mean, longest float64
	busiest       int
}

func (c *crowd) run() (r crowdResult) {
	chance := newTwister(c.seed)
	slots := make([]int, int(float64(c.retries)*float64(c.backoff.Cap)/c.slot)+1)
	sum := 0.0
	for range c.clients {
		at := 0.0
		for _, wait := range c.waits(chance) {
			at += wait
			slots[int(math.Floor(at/c.slot))]++
		}
		sum += at
		r.longest = max(r.longest, at)
	}
	for _, n := range slots {
		r.busiest = max(r.busiest, n)
	}
	r.mean = sum / float64(c.clients)
	return r
}

func oneClient() *Table {
	t := &Table{Name: "seeds-schedules", Title: "One client's waits in ms (seed 11)", Head: []Head{{Name: "strategy", Text: true}}}
	for n := range 5 {
		t.Head = append(t.Head, Head{Name: fmt.Sprintf("retry %d", n+1), Unit: "ms"})
	}
	for _, s := range fiveStrategies {
		c := newCrowd(s, 1, 11)
		row := []Cell{text(s.String())}
		for _, wait := range c.waits(newTwister(c.seed)) {
			row = append(row, number(wait))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func schedules() *Table {
	t := &Table{Name: "seeds-schedules", Title: "10,000 clients, all failing at 0 ms (seed 2026)",
		Head: []Head{{Name: "strategy", Text: true}, {Name: "mean wait", Unit: "ms"}, {Name: "longest", Unit: "ms"}, {Name: "busiest 10 ms", Unit: "calls"}}}
	for _, s := range fiveStrategies {
		c := newCrowd(s, 10_000, 2026)
		r := c.run()
		t.Rows = append(t.Rows, []Cell{text(s.String()), number(r.mean), number(r.longest), number(float64(r.busiest))})
	}
	return t
}

// chain counts the calls that reach a database that is down. Its policies have
// decider decide at each layer that retries.
type chain struct {
	attempts int
	layers   int
	budget   bool
}

// calls of so many requests that reach the database, waits left out.
func (c chain) calls(requests int) (total int) {
	m := Model{Clients: 1, Layers: 1, Retries: c.attempts - 1}
	words := "off"
	if c.budget {
		words = "{ratio: 10%, capacity: 10, capacity_seconds: 0, min_per_second: 0, deposit_on: request}"
	}
	r := newRun(&m, fleet("", "", func(m *Model) string { return attemptWords(m) + "budget: " + words }), 1)
	for range requests {
		total += r.chainCalls(c.layers)
	}
	return total
}

// chainCalls sends one request into a chain of so many layers that retry.
func (r *run) chainCalls(layers int) (total int) {
	if layers == 0 {
		return 1
	}
	one := call{failure: unavailable}
	for one.tries[0] = 1; ; one.tries[0]++ {
		total += r.chainCalls(layers - 1)
		if _, again := r.rule.failed(&one, 0); !again {
			return total
		}
	}
}

func storm() *Table {
	t := &Table{Name: "seeds-storm", Title: "Calls that reach the database while it is down, decided by decider",
		Head: []Head{{Name: "who retries", Text: true}, {Name: "1 request", Unit: "calls"}, {Name: "1,000 requests", Unit: "calls"}}}
	for _, row := range []struct {
		label string
		chain chain
	}{
		{"every layer retries, 3 attempts each", chain{3, 3, false}},
		{"only payments retries, 3 attempts", chain{3, 1, false}},
		{"only payments retries, with a 10 % budget", chain{3, 1, true}},
	} {
		t.Rows = append(t.Rows, []Cell{text(row.label), number(float64(row.chain.calls(1))), number(float64(row.chain.calls(1000)))})
	}
	return t
}

func amplification() *Table {
	t := &Table{Name: "seeds-amplification", Title: "Calls that one request of the outermost layer comes to",
		Head: []Head{{Name: "layers"}, {Name: "retries of each"}, {Name: "calls"}}}
	for _, c := range [][2]int{{3, 2}, {4, 3}, {3, 3}, {5, 2}} {
		made := chain{attempts: c[1] + 1, layers: c[0]}.calls(1)
		t.Rows = append(t.Rows, []Cell{number(float64(c[0])), number(float64(c[1])), number(float64(made))})
	}
	return t
}

// jitterExamples are the printed lists of one generator, seed 42, from 100 ms to 10 s.
func jitterExamples() *Table {
	t := &Table{Name: "seeds-jitter", Title: "Waits in s, seed 42, from 0.1 s to 10 s", Head: []Head{{Name: "jitter", Text: true}}}
	for n := range 6 {
		t.Head = append(t.Head, Head{Name: fmt.Sprintf("retry %d", n+1), Unit: "s", Decimals: 2})
	}
	chance := newTwister(42)
	for _, s := range []decide.Strategy{decide.Exponential, decide.FullJitter, decide.EqualJitter, decide.DecorrelatedJitter} {
		b := decide.Backoff{Strategy: s, Base: 100, Cap: 10_000, Multiplier: 2}
		previous, row := 100.0, []Cell{text(s.String())}
		for n := range int64(6) {
			random := 0.0
			switch {
			case s != decide.Exponential && n == 5: // the text prints five draws
				row = append(row, number(math.NaN()))
				continue
			case s != decide.Exponential:
				random = chance.float()
			}
			previous = b.Real(n+1, previous, random)
			row = append(row, number(previous/1000))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
