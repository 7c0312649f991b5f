package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// fileWords are the words of a scenario file, with what holds where they are
// not said.
type fileWords struct {
	out      File
	model    Model
	capacity float64
	said     map[string]ast.Node
	vary     string
	over     []float64
}

func newFileWords() *fileWords {
	w := &fileWords{said: map[string]ast.Node{}}
	w.model = fleetOf(100, 100, 0, 10*millisecond)
	w.model.End = 130 * second
	w.out.Scenario = &Scenario{Name: "scenario", Title: "Your fleet", Seeds: 3, Compared: []string{"none", "full-jitter", "decider"}}
	return w
}

// Bounds of a scenario file's numbers.
const (
	longest  = time.Hour
	maxCount = 1_000_000
)

func (w *fileWords) words() []word {
	m, s := &w.model, w.out.Scenario
	list := []word{
		textWord("name", &s.Name), textWord("title", &s.Title), textWord("about", &s.About),
		countWord("clients", 1, maxClients, &m.Clients), countWord("life", 0, maxCount, &m.Life), truthWord("zipf", &m.Zipf),
		shareWord("first_share", &m.FirstShare), truthWord("first_fails", &m.FirstFails),
		numberWord("rate", maxRate, &m.Rate), {"rates", w.readRates},
		countWord("burst", 0, maxCount, &m.Burst), durationWord("burst_at", &m.BurstAt),
		durationWord("timeout", &m.Timeout), durationWord("latency", &m.Latency), truthWord("latency_varies", &m.LatencyVaries),
		countWord("workers", 0, maxCount, &m.Workers), numberWord("capacity", maxRate, &w.capacity), durationWord("service", &m.Service),
		countWord("queue", 0, maxCount, &m.Queue), {"faults", w.readFaults},
		countWord("layers", 1, maxLayers, &m.Layers), enumWord("budget_of", scopeNames, &m.Scope),
		countWord("retries", 0, 100, &m.Retries), countWord("tokens", 0, maxCount, &m.Tokens), durationWord("answer", &m.Answer),
		durationWord("report_every", &m.ReportEvery), enumWord("callers", callerNames, &m.Callers),
		{"window", w.readWindow}, durationWord("end", &m.End),
		countWord("seeds", 1, maxSeeds, &s.Seeds), {"compare", w.readCompare}, {"vary", w.readVary},
		textWord("policies", &w.out.Policies), textWord("dependency", &w.out.Dependency),
	}
	for i := range list {
		read := list[i].read
		list[i].read = func(f *file, name string, n ast.Node) {
			w.said[name] = n
			read(f, name, n)
		}
	}
	return list
}

var (
	scopeNames  = []string{"each_layer", "all_layers", "lowest_layer"}
	callerNames = []string{"each", "one", "first"}
)

func (w *fileWords) readRates(f *file, name string, n ast.Node) {
	f.list(name, n, func(n ast.Node) {
		var step RateStep
		f.mapping(n, "a step of rates", []word{durationWord("at", &step.At), numberWord("rate", maxRate, &step.Rate)})
		if k := len(w.model.Rates); k > 0 && step.At <= w.model.Rates[k-1].At {
			f.wrongAt(n, "the steps of rates stand in the order of their times")
		}
		w.model.Rates = append(w.model.Rates, step)
	})
}

func (w *fileWords) readFaults(f *file, name string, n ast.Node) {
	f.list(name, n, func(n ast.Node) {
		fault := Fault{P: 1, Factor: 1}
		f.mapping(n, "a fault", []word{enumWord("kind", faultNames[:], &fault.Kind), durationWord("from", &fault.From), durationWord("to", &fault.To),
			shareWord("p", &fault.P), numberWord("factor", 1000, &fault.Factor)})
		if fault.To <= fault.From {
			f.wrongAt(n, "a fault ends after it begins: from %s to %s", fault.From, fault.To)
		}
		if fault.Kind == FaultCut && fault.Factor > 1 {
			f.wrongAt(n, "a cut leaves a factor of the workers from 0 to 1, not %s", decimal(fault.Factor, 6))
		}
		w.model.Faults = append(w.model.Faults, fault)
	})
}

func (w *fileWords) readWindow(f *file, name string, n ast.Node) {
	f.mapping(n, name, []word{durationWord("from", &w.model.From), durationWord("to", &w.model.To)})
}

func (w *fileWords) readCompare(f *file, name string, n ast.Node) {
	w.out.Scenario.Compared = nil
	f.list(name, n, func(n ast.Node) {
		s, ok := f.scalar(name, n)
		if _, known := contender(s); ok && !known {
			f.wrongAt(n, "no policy is called %q; known are %s", s, strings.Join(contenderNames(), ", "))
			return
		}
		w.out.Scenario.Compared = append(w.out.Scenario.Compared, s)
	})
}

// What a scenario file can vary.
var varied = []string{"clients", "rate", "p"}

func (w *fileWords) readVary(f *file, name string, n ast.Node) {
	var what uint8
	f.mapping(n, name, []word{enumWord("what", varied, &what), {"over", func(f *file, name string, n ast.Node) {
		f.list(name, n, func(n ast.Node) {
			if x, ok := f.varies(n); ok {
				w.over = append(w.over, x)
			}
		})
	}}})
	w.vary = varied[what]
	if len(w.over) > 100 {
		f.wrongAt(n, "vary names %d values, at most 100 are played", len(w.over))
	}
}

// varies reads a value to vary over: a number, or a share.
func (f *file) varies(n ast.Node) (float64, bool) {
	if s, ok := f.scalar("over", n); ok && strings.HasSuffix(s, "%") {
		return f.share("over", n)
	}
	return f.number("over", n, 0, maxRate)
}

// file is what the words come to, checked as a whole.
func (w *fileWords) file(f *file, root ast.Node) *File {
	m := &w.model
	w.setWorkers(f)
	w.setWindow()
	if m.To <= m.From || m.To > m.End {
		f.wrongAt(w.node("window", root), "the window of a run, from %s to %s, must end after it begins and by the run's end at %s", m.From, m.To, m.End)
	}
	if calls := float64(m.peakRate() * m.End.Seconds()); calls > maxCalls {
		f.wrongAt(w.node("rate", root), "a run of %s has %s calls, at most %s are played", m.End, decimal(calls, 0), decimal(maxCalls, 0))
	}
	if m.Rate == 0 && m.Burst == 0 && len(m.Rates) == 0 {
		f.wrongAt(w.node("rate", root), "nobody calls: say a rate or a burst")
	}
	if (w.out.Policies == "") != (w.out.Dependency == "") {
		f.wrongAt(w.node("policies", w.node("dependency", root)), "policies and dependency go together: the file, and whose rule in it is played")
	}
	w.setPoints(f, root)
	return &w.out
}

// maxCalls bounds one run.
const maxCalls = 1e9

func (m *Model) peakRate() float64 {
	most := m.Rate
	for _, step := range m.Rates {
		most = max(most, step.Rate)
	}
	return most
}

func (w *fileWords) node(name string, otherwise ast.Node) ast.Node {
	if n, ok := w.said[name]; ok {
		return n
	}
	return otherwise
}

// setWorkers makes workers of a capacity.
func (w *fileWords) setWorkers(f *file) {
	n, ok := w.said["capacity"]
	if !ok {
		return
	}
	if _, both := w.said["workers"]; both {
		f.wrongAt(n, "capacity and workers say the same thing: workers = capacity · service")
		return
	}
	w.model.Workers = int(math.Round(float64(w.capacity * w.model.Service.Seconds())))
	if w.model.Workers < 1 || w.model.Workers > maxCount {
		f.wrongAt(n, "a capacity of %s/s at %s a call is no whole number of workers from 1 to %d", decimal(w.capacity, 3), w.model.Service, maxCount)
	}
}

// setWindow measures over the faults where the file does not say.
func (w *fileWords) setWindow() {
	m := &w.model
	if _, said := w.said["window"]; said {
		return
	}
	m.From, m.To = 0, m.End
	for i, fault := range m.Faults {
		if i == 0 {
			m.From, m.To = fault.From, fault.To
		}
		m.From, m.To = min(m.From, fault.From), min(max(m.To, fault.To), m.End)
	}
}

func (w *fileWords) setPoints(f *file, root ast.Node) {
	s := w.out.Scenario
	if w.vary == "" {
		s.Points = []Point{{Label: s.Name, Model: w.model}}
		return
	}
	s.Axis = w.vary
	for _, x := range w.over {
		m := w.model
		m.Faults = slices.Clone(m.Faults)
		switch w.vary {
		case "clients":
			m.Clients = int(x)
		case "rate":
			m.Rate = x
		case "p":
			for i := range m.Faults {
				m.Faults[i].P = min(x, 1)
			}
		}
		if m.Clients < 1 || m.Clients > maxClients || float64(m.peakRate()*m.End.Seconds()) > maxCalls {
			f.wrongAt(w.node("vary", root), "%s cannot be %s", w.vary, decimal(x, 6))
		}
		s.Points = append(s.Points, Point{Label: fmt.Sprintf("%s %s", w.vary, decimal(x, 6)), X: x, Model: m})
	}
	if len(s.Points) == 0 {
		f.wrongAt(w.node("vary", root), "vary names no value")
	}
}
