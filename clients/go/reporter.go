package decider

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultReportInterval is how often successes are reported.
const DefaultReportInterval = time.Second

const (
	// reportTimeout bounds one report; nobody waits for it.
	reportTimeout = time.Second
	// reportAge is how old counts may be; older ones would feed a budget with
	// the traffic of another time.
	reportAge = 10 * time.Second
	// reportIdle is how many reports a dependency stays in without being used,
	// so that what is in force is known when it is used again.
	reportIdle = 3
	// forgetIdle is after how many reports without use a dependency is forgotten.
	forgetIdle = 600
	// maxOutcomes is how many dependencies a report may have.
	maxOutcomes = 256
)

// WithReportInterval reports every d instead of [DefaultReportInterval]; 0
// never reports, which leaves the fleet's budget unfed and the state unknown.
func WithReportInterval(d time.Duration) Option { return func(c *Client) { c.reporter.every = d } }

// reporter sends what was counted, about once a second while the client is in
// use. It runs on a timer, so an idle client has no goroutine.
type reporter struct {
	every time.Duration
	armed atomic.Bool
	// armedAt is when the report that is to come was asked for, in Unix ns.
	armedAt atomic.Int64

	mu     sync.Mutex // of timer and closed
	timer  *time.Timer
	closed bool

	sending sync.Mutex // of what follows, and of idle in each dependency
	queue   []OutcomeReport
	began   time.Time // when the counts of the queue began
	taken   time.Time // when they were taken
}

// arm makes sure that a report is to come.
func (r *reporter) arm(c *Client) {
	if r.armed.Load() || r.every <= 0 || c.outcomesURL == "" || !r.armed.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.armedAt.Store(time.Now().UnixNano())
	// A fleet that was started at once must not report at once.
	wait := time.Duration((0.9 + 0.2*rand.Float64()) * float64(r.every))
	r.timer = time.AfterFunc(wait, func() {
		r.armed.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), maxOutcomes*reportTimeout)
		defer cancel()
		if more, _ := c.flush(ctx); more {
			r.arm(c)
		}
	})
}

// Flush reports now what has been counted, and waits for the answers. Its error
// is that of the last report that failed; what was in it goes with the next one.
func (c *Client) Flush(ctx context.Context) error {
	_, err := c.flush(ctx)
	return err
}

// Close reports what has been counted, sends no more reports, and closes the
// connections that are not in use. It waits no longer than ctx lasts. The client
// still answers afterwards.
func (c *Client) Close(ctx context.Context) error {
	c.reporter.mu.Lock()
	c.reporter.closed = true
	if c.reporter.timer != nil {
		c.reporter.timer.Stop()
	}
	c.reporter.mu.Unlock()
	err := c.Flush(ctx)
	c.CloseIdleConnections()
	return err
}

// flush sends what is queued and then what has been counted since; more says
// whether there is reason for another report.
func (c *Client) flush(ctx context.Context) (more bool, err error) {
	if c.outcomesURL == "" {
		return false, nil
	}
	r := &c.reporter
	r.sending.Lock()
	defer r.sending.Unlock()
	began := time.Unix(0, r.armedAt.Load())
	if c.dropOld(time.Now()) {
		began = r.taken
	}
	if len(r.queue) == 0 {
		r.queue, r.began, r.taken = c.collect(), began, time.Now()
	}
	for len(r.queue) > 0 {
		if err = c.send(ctx, &r.queue[0]); err != nil && lost(err) {
			return true, err
		}
		r.queue = r.queue[1:]
		more = true
	}
	return more, err
}

// send sends one report and learns from its answer.
func (c *Client) send(ctx context.Context, report *OutcomeReport) error {
	states, err := c.report(ctx, reportTimeout, report)
	switch {
	case err == nil:
		c.tally.reports.Add(1)
		c.health.succeeded()
		now := time.Now()
		for i := range states {
			c.book.find(states[i].Dependency).learn(&states[i], now)
		}
	case lost(err):
		c.tally.reportsFailed.Add(1)
	default: // it was refused, and would be again
		c.tally.reportsFailed.Add(1)
		c.tally.dropped.Add(report.calls())
	}
	return err
}

// dropOld lets go of counts that decider could not be told in time, and says
// whether there were some. What was counted since they were taken is younger,
// and is told next.
func (c *Client) dropOld(now time.Time) bool {
	r := &c.reporter
	if len(r.queue) == 0 || now.Sub(r.began) <= reportAge {
		return false
	}
	for i := range r.queue {
		c.tally.dropped.Add(r.queue[i].calls())
	}
	r.queue = nil
	return true
}

// collect takes the counts of all dependencies into as many reports as are needed.
func (c *Client) collect() (reports []OutcomeReport) {
	var outcomes []Outcomes
	c.book.mu.Lock()
	maps.DeleteFunc(c.book.of, func(name string, d *dependency) bool {
		counted, wanted := d.take()
		if wanted {
			counted.Dependency = name
			outcomes = append(outcomes, counted)
		}
		return d.idle > forgetIdle
	})
	c.book.mu.Unlock()
	for len(outcomes) > 0 {
		n := min(len(outcomes), maxOutcomes)
		reports = append(reports, OutcomeReport{ReportID: newID(), Outcomes: outcomes[:n]})
		outcomes = outcomes[n:]
	}
	return reports
}

// take is what was counted, and whether that or the state is worth a report.
func (d *dependency) take() (o Outcomes, wanted bool) {
	o = Outcomes{FirstTrySuccesses: takeCount(&d.firsts), RetrySuccesses: takeCount(&d.retries), FinalFailures: takeCount(&d.finals)}
	if d.used.Swap(false) {
		d.idle = 0
	} else {
		d.idle++
	}
	return o, d.idle < reportIdle || o != Outcomes{}
}

func takeCount(n *atomic.Int64) int { return int(min(n.Swap(0), math.MaxInt32)) }

func (r *OutcomeReport) calls() int64 {
	n := 0
	for _, o := range r.Outcomes {
		n += o.FirstTrySuccesses + o.RetrySuccesses + o.FinalFailures
	}
	return int64(n)
}

// tally counts what a client did.
type tally struct {
	asked, askedAgain, unanswered, notAsked atomic.Int64
	grantedAlone, refusedAlone, shed        atomic.Int64
	reports, reportsFailed, dropped         atomic.Int64
	resent                                  atomic.Int64
}

// Stats are what a client did since it was made.
type Stats struct {
	// Asked are questions to decider, AskedAgain those put a second time, and
	// Unanswered those without an answer. NotAsked were answered without one.
	Asked, AskedAgain, Unanswered, NotAsked int64
	// GrantedAlone and RefusedAlone are answers of the local rule.
	GrantedAlone, RefusedAlone int64
	// Shed are calls that were not made because decider sheds them.
	Shed int64
	// Resent are requests that net/http sent again by itself.
	Resent int64
	// Reports were answered, ReportsFailed were not, Dropped are calls that no
	// report could tell of.
	Reports, ReportsFailed, Dropped int64
	// Down: decider is not asked now, because it did not answer.
	Down bool
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	t := &c.tally
	return Stats{
		Asked: t.asked.Load(), AskedAgain: t.askedAgain.Load(), Unanswered: t.unanswered.Load(), NotAsked: t.notAsked.Load(),
		GrantedAlone: t.grantedAlone.Load(), RefusedAlone: t.refusedAlone.Load(), Shed: t.shed.Load(), Resent: t.resent.Load(),
		Reports: t.reports.Load(), ReportsFailed: t.reportsFailed.Load(), Dropped: t.dropped.Load(),
		Down: c.health.until.Load() != 0,
	}
}

// String is the counts in one line.
func (s Stats) String() string {
	return fmt.Sprintf("asked %d (again %d, unanswered %d), not asked %d, alone: granted %d, refused %d, shed %d, resent %d, reports %d (failed %d, dropped calls %d), down %t",
		s.Asked, s.AskedAgain, s.Unanswered, s.NotAsked, s.GrantedAlone, s.RefusedAlone, s.Shed, s.Resent, s.Reports, s.ReportsFailed, s.Dropped, s.Down)
}
