package decider

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// maxDependencies bounds what is kept: a program that takes names from its
// input must not fill its memory. What is beyond shares one entry and is not
// reported.
const maxDependencies = 1024

// book is what this process knows of every dependency.
type book struct {
	mu    sync.RWMutex
	of    map[string]*dependency
	other dependency
}

// dependency is what this process knows of one dependency. Its counts are those
// since the last report.
type dependency struct {
	name                    string
	firsts, retries, finals atomic.Int64
	// used since the last report, and idle for so many reports.
	used atomic.Bool
	idle int
	// shed calls since the start.
	shed    atomic.Int64
	bucket  bucket
	learned atomic.Pointer[learned]
	// quiet is what a decision said of all retries.
	quiet atomic.Pointer[quiet]
}

// learned is the state of the last report, and when that was.
type learned struct {
	state DependencyState
	at    time.Time
}

// quiet is why and until when no retry of a dependency is asked for.
type quiet struct {
	reason Reason
	until  time.Time
}

// learnedFor is how long a report's state holds where no other comes: a breaker
// that was open when decider went away must not stay so.
const learnedFor = 5 * time.Second

// quietFor bounds how long a stop is believed without asking: an operator's word
// ends within a second.
const quietFor = time.Second

// use finds a dependency and notes that it is used.
func (c *Client) use(name string) *dependency {
	d := c.book.find(name)
	c.touch(d)
	return d
}

func (c *Client) touch(d *dependency) {
	if !d.used.Load() {
		d.used.Store(true)
	}
	c.reporter.arm(c)
}

func (b *book) find(name string) *dependency {
	b.mu.RLock()
	d := b.of[name]
	b.mu.RUnlock()
	if d != nil {
		return d
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch d = b.of[name]; {
	case d != nil:
		return d
	case len(b.of) >= maxDependencies:
		return &b.other
	case b.of == nil:
		b.of = map[string]*dependency{}
	}
	d = &dependency{name: name}
	b.of[name] = d
	return d
}

// Succeeded counts a call of dependency that succeeded at its attempt number,
// the first call being 1. It feeds the fleet's budget, by the next report, and
// the local rule's bucket. [Transport] calls it by itself.
func (c *Client) Succeeded(dependency string, attempt int) {
	c.use(dependency).succeeded(attempt)
}

func (d *dependency) succeeded(attempt int) {
	if attempt <= 1 {
		d.firsts.Add(1)
	} else {
		d.retries.Add(1)
	}
	d.deposit()
}

// Failed counts a call of dependency that failed and is given up without a
// question. [Transport] and [Client.Ask] call it by themselves.
func (c *Client) Failed(dependency string) { c.use(dependency).finals.Add(1) }

// Admit says whether to make a call at all: nil, or a [*ShedError] while
// decider sheds calls of the dependency because its breaker, in mode all, is
// open. [Transport] asks it before the first attempt.
func (c *Client) Admit(dependency string) error { return c.admit(c.use(dependency)) }

func (c *Client) admit(d *dependency) error {
	known := d.learned.Load()
	if known == nil || known.state.Admit >= 1 || time.Since(known.at) > learnedFor {
		return nil
	}
	if rand.Float64() < known.state.Admit {
		return nil
	}
	d.shed.Add(1)
	c.tally.shed.Add(1)
	return &ShedError{Dependency: d.name, Breaker: known.state.Breaker}
}

// ShedError is a call that was not made, because the dependency's breaker is
// open for the whole fleet and stops first attempts too. Get at it with
// errors.As.
type ShedError struct {
	// Dependency is the one that was not called.
	Dependency string
	// Breaker is its state, "open" or "half_open".
	Breaker string
}

// Error says what was not called, and why.
func (e *ShedError) Error() string {
	return fmt.Sprintf("decider: %s is not called: its breaker is %s for the whole fleet", e.Dependency, e.Breaker)
}

// stopped says why all retries are stopped now, where they are.
func (d *dependency) stopped(now time.Time) (Reason, bool) {
	if q := d.quiet.Load(); q != nil && now.Before(q.until) {
		return q.reason, true
	}
	if o := d.override(now); o == "pause" {
		return ReasonPaused, true
	}
	return "", false
}

// override is the operator's word of the last report, while that holds.
func (d *dependency) override(now time.Time) string {
	known := d.learned.Load()
	if known == nil || known.state.Override == nil {
		return ""
	}
	if age := now.Sub(known.at); age > min(known.state.Override.ExpiresIn, learnedFor) {
		return ""
	}
	return known.state.Override.Mode
}

// coolDown is what is left of the server's wait that the last report told.
func (d *dependency) coolDown(now time.Time) time.Duration {
	known := d.learned.Load()
	if known == nil {
		return 0
	}
	return max(known.state.CoolDown-now.Sub(known.at), 0)
}

// heed keeps what an answer says of all retries of the dependency.
func (d *dependency) heed(answer *Decision) {
	if answer.AskAgainIn == nil || answer.Reason != ReasonPaused && answer.Reason != ReasonBreakerOpen {
		return
	}
	d.quiet.Store(&quiet{answer.Reason, time.Now().Add(min(*answer.AskAgainIn, quietFor))})
}

// learn keeps the state that a report was answered with.
func (d *dependency) learn(state *DependencyState, now time.Time) {
	d.learned.Store(&learned{*state, now})
	if state.Override == nil || state.Override.Mode != "pause" {
		if q := d.quiet.Load(); q != nil && q.reason == ReasonPaused {
			d.quiet.CompareAndSwap(q, nil)
		}
	}
}

// fallback is the rule to act by alone: the last that decider told, or its default.
func (d *dependency) fallback() *Fallback {
	if known := d.learned.Load(); known != nil {
		return &known.state.Fallback
	}
	return &defaultFallback
}
