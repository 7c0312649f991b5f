package budget

import "github.com/retrydecider/decider/internal/decide"

// breaker is the fleet's breaker of one dependency. Half open is no stored
// state: it is what comes after openUntil, so nothing can be stuck in it.
type breaker struct {
	// window counts attempts by their slot of time, the oldest first.
	window []slot
	// openUntil is the instant in ms at which an open breaker becomes half
	// open; 0: closed.
	openUntil int64
	// probed: a probe was let through since the breaker became half open.
	probed bool
	// leases are the instants in ms at which the probes' leases end, in order.
	leases []int64
}

// slot counts the attempts that ended in one tenth of the window.
type slot struct{ start, failures, successes int64 }

const (
	// windowSlots is how many parts a window has.
	windowSlots = 10
	// maxSlots bounds the slots that reach back beyond the window where there
	// is little traffic.
	maxSlots = 20
	// fewSuccesses close a half-open breaker that nobody probes, where nothing failed.
	// With five a dependency near its limit was let in too early and fell over once
	// more; with twenty a small one waits a second longer than it need (goals G6, G7).
	fewSuccesses = 10
	// maxSlotCount bounds a slot's counts, so that the ratio's products stay exact.
	maxSlotCount = 100_000_000
)

// state is closed, open or half open; off where the rule has no breaker.
func (b *breaker) state(t int64, r *decide.BreakerRule) decide.BreakerState {
	switch {
	case r.Mode == decide.BreakerModeOff:
		return decide.BreakerOff
	case b.openUntil == 0:
		return decide.BreakerClosed
	case t < b.openUntil:
		return decide.BreakerOpen
	}
	return decide.BreakerHalfOpen
}

// wait is how many ms a retry must wait for the breaker; 0: it may pass.
func (b *breaker) wait(t int64, r *decide.BreakerRule) int64 {
	switch b.state(t, r) {
	case decide.BreakerOpen:
		return b.openUntil - t
	case decide.BreakerHalfOpen:
		b.endLeases(t)
		if int64(len(b.leases)) >= r.Probes {
			return b.leases[0] - t
		}
	}
	return 0
}

// hasProbe says whether a half-open breaker still has a probe to let through.
func (b *breaker) hasProbe(t int64, r *decide.BreakerRule) bool {
	if b.state(t, r) != decide.BreakerHalfOpen {
		return false
	}
	b.endLeases(t)
	return int64(len(b.leases)) < r.Probes
}

// lease lets one probe through until its lease ends.
func (b *breaker) lease(t int64, r *decide.BreakerRule) {
	b.leases = append(b.leases, t+r.OpenFor)
	b.probed = true
}

// endLeases drops the leases that have run out.
func (b *breaker) endLeases(t int64) {
	ended := 0
	for ended < len(b.leases) && b.leases[ended] <= t {
		ended++
	}
	b.leases = b.leases[ended:]
}

// fail counts failures: too many open a closed breaker, and one while a probe
// is out opens it again until that probe's lease would have ended. So the
// dependency is probed at most so many times in each open_for.
func (b *breaker) fail(t int64, r *decide.BreakerRule, count int64) {
	if count == 0 {
		return
	}
	state := b.state(t, r)
	if state == decide.BreakerHalfOpen {
		if b.endLeases(t); len(b.leases) > 0 {
			*b = breaker{openUntil: b.leases[len(b.leases)-1]}
			return
		}
	}
	if state == decide.BreakerClosed || state == decide.BreakerHalfOpen {
		b.count(t, r, count, 0)
		b.judge(t, r)
	}
}

// succeed counts successes: any one after a probe closes the breaker. Where
// nobody has asked for a probe, a few successes without a failure do, or as many
// attempts as would open it.
func (b *breaker) succeed(t int64, r *decide.BreakerRule, count int64) {
	if count == 0 {
		return
	}
	switch b.state(t, r) {
	case decide.BreakerClosed:
		b.count(t, r, 0, count)
	case decide.BreakerHalfOpen:
		if b.probed {
			*b = breaker{}
			return
		}
		b.count(t, r, 0, count)
		b.judge(t, r)
	}
}

// judge opens or closes the breaker by the attempts of the window, where those
// are enough.
func (b *breaker) judge(t int64, r *decide.BreakerRule) {
	failures, total := b.sum()
	switch {
	case b.openUntil != 0 && failures == 0 && total >= min(r.MinAttempts, fewSuccesses):
		*b = breaker{}
	case total < r.MinAttempts:
	case failures*1_000_000 >= r.FailureRatio*total:
		*b = breaker{openUntil: t + r.OpenFor}
	case b.openUntil != 0:
		*b = breaker{}
	}
}

// count adds to the slot of t and lets go of the slots outside the window. A
// slot outside stays while without it there are fewer attempts than the rule
// asks for: the window is the last so many ms or so many attempts, whichever
// reaches further back.
func (b *breaker) count(t int64, r *decide.BreakerRule, failures, successes int64) {
	width := max(r.Window/windowSlots, 1)
	start := t - t%width
	if n := len(b.window); n == 0 || b.window[n-1].start < start {
		b.window = append(b.window, slot{start: start})
	}
	last := &b.window[len(b.window)-1]
	last.failures = min(last.failures+failures, maxSlotCount)
	last.successes = min(last.successes+successes, maxSlotCount)
	for _, total := b.sum(); len(b.window) > 1; _, total = b.sum() {
		oldest := b.window[0]
		outside := oldest.start <= start-r.Window
		if outside && total-oldest.failures-oldest.successes >= r.MinAttempts {
			b.window = b.window[1:]
			continue
		}
		if len(b.window) <= maxSlots {
			return
		}
		b.window[1].failures = min(b.window[1].failures+oldest.failures, maxSlotCount)
		b.window[1].successes = min(b.window[1].successes+oldest.successes, maxSlotCount)
		b.window = b.window[1:]
	}
}

func (b *breaker) sum() (failures, total int64) {
	for _, s := range b.window {
		failures += s.failures
		total += s.failures + s.successes
	}
	return failures, total
}

func (b *breaker) shift(ms int64) {
	for i := range b.window {
		b.window[i].start += ms
	}
	for i := range b.leases {
		b.leases[i] += ms
	}
	if b.openUntil != 0 {
		b.openUntil = max(b.openUntil+ms, 1)
	}
}
