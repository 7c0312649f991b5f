//go:build linux

package chaos

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// long asks for the long form: `make test-chaos`.
var long = os.Getenv("DECIDER_CHAOS") == "long"

// What a fault is played with. In the short form the store has more time than
// by default, for no answer may miss it just because the machine is busy.
var (
	storeTimeout               = 250 * time.Millisecond
	before, during, after      = 500 * time.Millisecond, 1200 * time.Millisecond, 300 * time.Millisecond
	loadWorkers, loadPerSecond = 8, 80
)

func init() {
	if long {
		storeTimeout = 50 * time.Millisecond
		before, during, after = 4*time.Second, 10*time.Second, 4*time.Second
		loadWorkers, loadPerSecond = 16, 200
	}
}

const (
	// account has tokens for everybody: what is charged is a matter of counting.
	account = "account"
	// scarce has few, of which each replica may grant its share in an outage.
	scarce         = "scarce"
	accountTokens  = 1_000_000
	scarceTokens   = 40
	replicas       = 2
	normalWithin   = time.Second
	promisedBeyond = 5 * time.Millisecond
)

var chaosPolicies = fmt.Sprintf(`version: 1
dependencies:
  %s:
    budget: {capacity: %d, capacity_seconds: 0, min_per_second: 0, ratio: 0}
  %s:
    budget: {capacity: %d, capacity_seconds: 0, min_per_second: 0, ratio: 0}
`, account, accountTokens, scarce, scarceTokens)

func stateKey(dependency string) string { return "decider:{" + dependency + "}:state" }

// row is what one fault came to, for the table.
type row struct {
	name                        string
	answers, degraded           int
	control, p99, slowest, back time.Duration
	late, strays                int
	grants                      [replicas]int
}

// Every fault of the store: each question is answered with 200, in time, within
// the replicas' shares; when the store is back so is everything within a second,
// and every decision was charged once at most.
func TestEveryFault(t *testing.T) {
	var mu sync.Mutex
	var rows []row
	t.Run("play", func(t *testing.T) {
		for _, f := range faults() {
			if f.long && !long {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				if !long {
					t.Parallel()
				}
				var r row
				programtest.InTime(t, func() (late []string) {
					r, late = f.play(t)
					return late
				})
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, r)
			})
		}
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tanswers\tdegraded\tp99 without\tp99 with\tslowest\tnormal after\tcharged late\tstrays\tlocal grants")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%v\n", r.name, r.answers, r.degraded, millis(r.control), millis(r.p99), millis(r.slowest), millis(r.back), r.late, r.strays, r.grants)
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	t.Logf("store timeout %s, %d decisions a second on %d replicas\n%s", storeTimeout, loadPerSecond, replicas, &table)
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

// timeout is the store's. A fault that nobody may notice has, in the short form,
// as much as no machine misses: one degraded answer is one too many.
func (f *fault) timeout() time.Duration {
	if f.unnoticed && !long {
		return 20 * time.Second
	}
	return storeTimeout
}

// play plays one fault under load, and returns what came too late.
func (f *fault) play(t *testing.T) (r row, late []string) {
	if f.setup == nil {
		f.setup = behindProxy
	}
	s := f.setup(t)
	args := append([]string{"--redis-url=" + s.url, "--store-timeout=" + f.timeout().String(), "--policies=" + programtest.PolicyFile(t, chaosPolicies)}, s.args...)
	fleet, urls := make([]*process, replicas), make([]string, replicas)
	for i := range fleet {
		fleet[i] = serve(t, args...)
		urls[i] = fleet[i].URL
	}
	know(t, fleet)
	idle := measureIdle(t, fleet)

	l := &load{urls: urls, dependencies: []string{account, scarce}, workers: loadWorkers, perSecond: loadPerSecond}
	begun := time.Now()
	l.run()
	time.Sleep(before)
	faulty := time.Now()
	f.begin(t, s)
	time.Sleep(during)
	f.end(t, s)
	well := time.Now()
	time.Sleep(normalWithin + after)
	records := l.end()

	r = row{name: f.name, answers: len(records), degraded: count(records, degraded), control: percentile(between(records, begun, faulty), 99)}
	fault := between(records, faulty, well)
	r.p99, r.slowest = percentile(fault, 99), percentile(fault, 100)
	late = f.checkAnswers(t, records, faulty, well, &r)
	checkShares(t, records, &r)
	f.checkAccount(t, s.server, records, well, &r)
	checkLeaks(t, fleet, idle)
	for _, p := range fleet {
		checkWell(t, p, f)
	}
	return r, late
}

// stray is an answer that had asked a store that was well and did not hear from
// it in time: the machine stood still for longer than that.
func stray(r *record) bool { return r.degraded && r.took >= storeTimeout }

// mostStrays is one in how many answers may be a stray: few on the quiet machine
// that the long form wants, more beside the tests of other packages.
func mostStrays() int {
	if long {
		return 100
	}
	return 10
}

// checkAnswers holds the answers to what every caller is promised, and returns
// what came too late.
func (f *fault) checkAnswers(t *testing.T, records []record, faulty, well time.Time, r *row) (late []string) {
	t.Helper()
	undisturbed := 0
	for _, each := range records {
		if each.wrong != "" {
			t.Errorf("%s of %s: %s", each.id, each.dependency, each.wrong)
		}
		disturbed := !f.unnoticed && each.asked.After(faulty.Add(-storeTimeout)) && each.asked.Before(well.Add(normalWithin))
		if !disturbed {
			undisturbed++
		}
		switch {
		case each.degraded && !disturbed && stray(&each):
			r.strays++
		case each.degraded && f.unnoticed:
			t.Errorf("%s was answered degraded", each.id)
		case each.degraded && !disturbed:
			late = append(late, fmt.Sprintf("%s was answered degraded %s after the fault's begin and %s after its end, in %s", each.id, each.asked.Sub(faulty), each.asked.Sub(well), each.took))
		case each.degraded && each.asked.After(well):
			r.back = each.asked.Sub(well)
		}
	}
	if r.strays > undisturbed/mostStrays() {
		late = append(late, fmt.Sprintf("%d of %d answers that nothing disturbed were late for the store", r.strays, undisturbed))
	}
	if !f.unnoticed && count(between(records, faulty, well), degraded) == 0 {
		t.Error("no answer was degraded: the fault was not played")
	}
	if bound := f.bound(r); r.p99 > bound {
		late = append(late, fmt.Sprintf("p99 with the fault is %s, more than %s; without it %s", r.p99, bound, r.control))
	}
	return late
}

// bound is what the p99 of the answers is held to. In the long form that is the
// promise, and beyond it no more than the machine needs for an answer where there
// is no fault; in the short one what shows that nobody waits for a store that is
// known to be away.
func (f *fault) bound(r *row) time.Duration {
	if !long {
		return storeTimeout + max(time.Second, r.control)
	}
	return storeTimeout + max(promisedBeyond, r.control)
}

// checkShares holds each replica to its share of what is scarce.
func checkShares(t *testing.T, records []record, r *row) {
	t.Helper()
	for i := range r.grants {
		r.grants[i] = count(records, func(r *record) bool { return r.dependency == scarce && r.replica == i && r.degraded && r.granted })
		if r.grants[i] > scarceTokens/replicas {
			t.Errorf("replica %d granted %d by itself, more than its share of %d", i+1, r.grants[i], scarceTokens/replicas)
		}
	}
}

// checkAccount compares what the server charged with what was granted. The
// server keeps the id of each grant, so each charge has a decision.
func (f *fault) checkAccount(t *testing.T, server *redistest.Server, records []record, well time.Time, r *row) {
	t.Helper()
	charged := map[string]bool{}
	var spent int64
	// A command that was on its way may still be run.
	eventually(t, "the account", 5*time.Second, func() (err error) {
		if charged, spent, err = readAccount(t, server); err == nil && spent != int64(len(charged)) {
			err = fmt.Errorf("%d tokens are spent on %d decisions", spent, len(charged))
		}
		return err
	})
	for _, each := range records {
		if each.dependency != account {
			continue
		}
		switch kept := !f.forgets || each.asked.After(well); {
		case !each.granted && each.wrong == "":
			t.Errorf("%s was not granted", each.id)
		case !each.degraded && kept && !charged[each.id]:
			t.Errorf("%s was granted from the fleet's budget and never charged", each.id)
		case each.degraded && charged[each.id] && each.took < storeTimeout-promisedBeyond && !f.cuts:
			t.Errorf("%s was answered by a local rule after %s, and charged all the same", each.id, each.took)
		case each.degraded && charged[each.id]:
			r.late++
		}
		delete(charged, each.id)
	}
	if len(charged) > 0 {
		t.Errorf("%d decisions were charged that nobody asked for", len(charged))
	}
}

func readAccount(t *testing.T, server *redistest.Server) (charged map[string]bool, spent int64, err error) {
	t.Helper()
	tokens, err := strconv.ParseInt(fmt.Sprint(server.Do(t, "HGET", stateKey(account), "tokens")), 10, 64)
	if err != nil {
		return nil, 0, err
	}
	charged = map[string]bool{}
	prefix := "decider:{" + account + "}:id:1:"
	for _, key := range server.Do(t, "KEYS", prefix+"*").([]any) {
		charged[strings.TrimPrefix(key.(string), prefix)] = true
	}
	return charged, accountTokens - tokens/1_000_000, nil
}

// idle is what a replica holds when nobody asks.
type idle struct{ goroutines, connections float64 }

func measureIdle(t *testing.T, fleet []*process) []idle {
	t.Helper()
	web.CloseIdleConnections()
	out := make([]idle, len(fleet))
	for i, p := range fleet {
		out[i] = idle{p.metric(t, "go_goroutines"), p.metric(t, "decider_store_connections")}
	}
	return out
}

// moreIdle is how many more goroutines an idle replica may have: those of
// connections that this test holds open, and of timers that end.
const moreIdle = 6

// mostConnections is how many connections a pool may hold; what was made for the
// load may stay open.
const mostConnections = 40

// checkLeaks compares what idle replicas hold with what they held before.
func checkLeaks(t *testing.T, fleet []*process, before []idle) {
	t.Helper()
	eventually(t, "goroutines and connections", 10*time.Second, func() error {
		for i, now := range measureIdle(t, fleet) {
			if now.goroutines > before[i].goroutines+moreIdle || now.connections > mostConnections {
				return fmt.Errorf("replica %d has %+v, and had %+v", i+1, now, before[i])
			}
		}
		return nil
	})
}

// checkWell asks the replica itself: it is well, and told of its turns once each.
func checkWell(t *testing.T, p *process, f *fault) {
	t.Helper()
	eventually(t, "in the end", patience, func() error { // who is there they tell each other every second
		if s := p.status(t); s.Store.State != "ok" || len(s.Replicas) != replicas || s.Drift {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	var away int
	eventually(t, "each turn is told", patience, func() error { // after it, and by a pipe
		log := p.Log.String()
		away = strings.Count(log, "the store is out of reach")
		if back := strings.Count(log, "the store is back"); away != back {
			return fmt.Errorf("told %d times that the store is away, %d times that it is back:\n%s", away, back, log)
		}
		return nil
	})
	if f.unnoticed && away > 0 {
		t.Errorf("told %d times that the store is away:\n%s", away, p.Log)
	}
}
