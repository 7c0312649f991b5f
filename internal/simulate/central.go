package simulate

import (
	"context"
	"strconv"
	"time"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
)

// central is decider: its own code decides, over a virtual clock.
type central struct {
	run     *run
	decider decide.Decider
	fleet   *budget.Fleet
	policy  *decide.Policy
	attempt decide.Attempt
	// targets are the dependency's names by layer, names the clients'.
	targets, names []string
	// pending successes by layer and client, told at the client's next report.
	pending []successes
	phase   []int64
	// heard is, by layer and client, what the client has heard of the breaker;
	// none where the breaker sheds nothing.
	heard []heard
}

// successes of one client that were not reported yet, and failures that were
// not brought to a decision.
type successes struct {
	first, retried, finals int32
	planned                bool
}

// heard is what a client knows of a breaker, as clients/go keeps it: the share
// of calls that it makes, which the answer to its last report told, and until
// when it asks for no retry, which an answer to a question told.
type heard struct {
	share          float64
	at, quietUntil int64
}

const (
	// heardFor is how long, in ns, a share holds where no report is answered.
	heardFor = int64(5 * time.Second)
	// quietFor bounds, in ns, how long a client believes that no retry passes.
	quietFor = int64(time.Second)
	// shareHalfOpen is the share of calls that clients make to find out whether a
	// dependency is back: admit in the answer to a report.
	shareHalfOpen = 0.05
)

// epoch is where virtual time starts: any instant will do.
const epoch = 1_767_225_600_000 // ms

// newCentral makes the rule of a policy.
func newCentral(r *run, p *decide.Policy) rule {
	c := &central{run: r, policy: p, targets: targets(r.model), names: callers(r.model)}
	now := func() time.Time { return time.UnixMilli(epoch + r.now/1e6) }
	c.fleet = budget.NewFleet(budget.NewMemory(now))
	c.decider = decide.Decider{Policies: c, Fleet: c.fleet, Now: now, Random: r.waits.float, NewID: func() string { return "-" }}
	c.attempt.Method = "GET"
	c.pending = make([]successes, r.model.Layers*r.model.Clients)
	if r.model.ReportEvery > 0 {
		c.phase = make([]int64, r.model.Clients)
		for i := range c.phase {
			c.phase[i] = int64(float64(r.reports.float() * float64(r.model.ReportEvery)))
		}
	}
	r.answer = int64(r.model.Answer)
	if c.sheds() {
		c.heard = make([]heard, len(c.pending))
		for i := range c.pending { // who obeys a breaker must hear of it
			c.heard[i].share = 1
			c.planReport(int32(i))
		}
	}
	return c
}

// targets are the names of what each layer calls.
func targets(m *Model) []string {
	names := make([]string, m.Layers)
	for layer := range names {
		names[layer] = "dependency"
		if layer > 0 && m.Scope != Shared {
			names[layer] += "-" + strconv.Itoa(layer)
		}
	}
	return names
}

func callers(m *Model) []string {
	names := make([]string, m.Clients)
	for i := range names {
		switch {
		case m.Callers == CallerEach, m.Callers == CallerFirst && i == 0:
			names[i] = "client-" + strconv.Itoa(i)
		default:
			names[i] = "clients"
		}
	}
	return names
}

// Find is the one policy, whatever is called.
func (c *central) Find(dependency string) (*decide.Policy, string, error) {
	return c.policy, dependency, nil
}

// sheds says whether an open breaker stops first attempts too.
func (c *central) sheds() bool { return c.policy.Breaker.Mode == decide.BreakerModeAll }

func (c *central) at(layer, client int) int32 { return int32(layer*c.run.model.Clients + client) }

func (c *central) begins(call *call, layer int) bool {
	if !c.sheds() {
		return true
	}
	h := &c.heard[c.at(layer, int(call.client))]
	return h.share >= 1 || c.run.now-h.at > heardFor || h.share > 0 && c.run.admits.float() < h.share
}

// failed asks decider.
func (c *central) failed(call *call, layer int) (wait int64, granted bool) {
	i := c.at(layer, int(call.client))
	if c.sheds() && c.run.now < c.heard[i].quietUntil {
		c.pending[i].finals++
		return 0, false
	}
	a := &c.attempt
	a.Dependency, a.Caller = c.targets[layer], c.names[call.client]
	a.Failure, a.Number, a.PreviousDelay = call.failure, int64(call.tries[layer]), int64(call.waited[layer])
	a.RetriedBelow = c.run.model.Scope == Lowest && layer > 0
	d, _ := c.decider.Decide(context.Background(), a) // the one policy serves every name
	c.run.stats.breaker(c.run.now, d.Breaker)
	if c.sheds() && d.Reason == decide.ReasonBreakerOpen {
		c.heard[i].quietUntil = c.run.now + min(d.AskAgain.Value*1e6, quietFor)
	}
	return d.Delay * 1e6, d.Retry()
}

func (c *central) succeeded(call *call, layer int) {
	if !c.run.feeds(layer) {
		return
	}
	i := c.at(layer, int(call.client))
	if call.tries[layer] > 1 {
		c.pending[i].retried++
	} else {
		c.pending[i].first++
	}
	c.planReport(i)
}

// planReport plans the client's next report.
func (c *central) planReport(i int32) {
	every := int64(c.run.model.ReportEvery)
	if every == 0 {
		c.report(i)
		return
	}
	if c.pending[i].planned {
		return
	}
	c.pending[i].planned = true
	phase := c.phase[int(i)%c.run.model.Clients]
	next := (c.run.now-phase+every)/every*every + phase
	c.run.events.plan(next, wake, i, 0)
}

// wake is a client's report.
func (c *central) wake(i int32, _ uint32) {
	c.pending[i].planned = false
	c.report(i)
	if c.sheds() {
		c.planReport(i)
	}
}

func (c *central) report(i int32) {
	clients := c.run.model.Clients
	told := &c.pending[i]
	s := c.fleet.Report(context.Background(), &decide.Outcome{
		Bucket: c.targets[int(i)/clients], Policy: c.policy, Caller: c.names[int(i)%clients],
		FirstTrySuccesses: int64(told.first), RetrySuccesses: int64(told.retried),
		FinalFailures: int64(told.finals),
	})
	told.first, told.retried, told.finals = 0, 0, 0
	c.run.stats.breaker(c.run.now, s.Breaker)
	if c.sheds() {
		h := &c.heard[i]
		h.share, h.at = 1, c.run.now
		switch s.Breaker {
		case decide.BreakerOpen:
			h.share = 0
		case decide.BreakerHalfOpen:
			h.share = shareHalfOpen
		}
	}
}

func (c *central) reborn(client, layer int) {} // the fleet's state is nobody's own

func (c *central) Peek(dependency string) (*decide.Policy, string, error) { return c.Find(dependency) }
