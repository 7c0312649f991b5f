package budget

import "github.com/retrydecider/decider/internal/decide"

const (
	// failOver is how far, in ms, a clock may be behind the bucket's before it
	// is taken for another machine's: below, time stands still until the clock
	// has caught up; above, every instant moves with it and nothing is credited.
	failOver = 10_000
	// quiet is how long, in ms, nobody has reported before an answer asks for reports.
	quiet = 60_000
	// idsLive is how long, in ms, a granted decision_id is answered the same.
	idsLive = 60_000
	// reportsLive is how long, in ms, a report_id is remembered.
	reportsLive = 600_000
	// ttlMargin is added, in ms, to what a bucket must outlive.
	ttlMargin = 10_000
	// longestTTL bounds, in ms, what a slow refill asks for: a year.
	longestTTL = 366 * 86_400_000
	// noRefillTTL is how long, in ms, a bucket without refill by time is kept.
	noRefillTTL = 86_400_000
)

// bucket is the fleet's state of one dependency. The zero bucket does not
// exist yet: it is full at its first touch.
type bucket struct {
	exists bool
	// at is the instant in ms up to which time has been credited; never back,
	// but for a fail-over. rest is what of a millionth of a token the refill has
	// not credited yet, in millionths of that millionth.
	at, rest int64
	tokens   decide.Micro
	// flow is what was deposited lately, losing a tenth each second, so a tenth
	// of it is the deposit rate per second; flowAt is its second.
	flow, flowAt int64
	// yield is how retries have ended lately, and what they have earned.
	yield yield
	// slot is when the next slot of a paced fleet begins.
	slot instant
	// reported is the instant in ms of the last report, or of the birth.
	reported int64
	// coolDown is the instant in ms at which the fleet's cool-down ends.
	coolDown int64
	callers  map[string]caller
	breaker  breaker
	override override
}

// override is what an operator has set; until is the instant in ms at which it ends.
type override struct {
	mode          decide.OverrideMode
	until, since  int64
	author, words string
}

// touch brings the bucket to now, in ms, under the rule, and returns the
// bucket's own time, which does not go back.
func (b *bucket) touch(now int64, p *decide.Policy) int64 {
	switch {
	case !b.exists:
		tokens := p.Budget.Capacity
		if p.Budget.Initial > 0 {
			tokens = p.Budget.Initial
		}
		*b = bucket{exists: true, at: now, tokens: tokens, flowAt: floorDiv(now, 1000), reported: now}
	case now < b.at-failOver:
		b.shift(now - b.at)
	}
	t := max(now, b.at)
	b.fade(floorDiv(t, 1000))
	b.credit(t, &p.Budget)
	b.yield.extra = min(b.yield.extra, b.extraCapacity(&p.Budget))
	if b.override.mode != decide.OverrideNone && b.override.until <= t {
		b.override = override{}
	}
	return t
}

// shift moves every instant by ms: the clock is another machine's now, and what
// was to last a second more still does.
func (b *bucket) shift(ms int64) {
	b.at += ms
	b.flowAt = floorDiv(b.at, 1000)
	b.reported += ms
	b.coolDown += ms
	b.override.until += ms
	b.slot.ms += ms
	b.breaker.shift(ms)
	for name, c := range b.callers {
		c.coolDown += ms
		c.seen += ms
		b.callers[name] = c
	}
}

// fade lets the flow of deposits, and what is known of the yield, lose a tenth
// for each second.
func (b *bucket) fade(second int64) {
	for n := second - b.flowAt; n > 0 && (b.flow > 0 || b.yield.won > 0 || b.yield.lost > 0); n-- {
		b.flow, b.yield.won, b.yield.lost = faded(b.flow), faded(b.yield.won), faded(b.yield.lost)
	}
	b.flowAt = max(b.flowAt, second)
}

func faded(v int64) int64 { return v - (v+9)/10 }

// credit adds what the refill by time has brought since at, exactly: what is
// less than a millionth is kept for the next time.
func (b *bucket) credit(t int64, r *decide.BudgetRule) {
	missing := capacity(b.flow, r) - b.tokens
	elapsed := t - b.at
	b.at = t
	if missing <= 0 {
		b.tokens += missing
		b.rest = 0
		return
	}
	elapsed = min(elapsed, longestTTL, timeToFull(missing, r.NanoPerSecond))
	// elapsed · nano per second is millionths of a millionth; split, so that
	// no product passes 2^53.
	micro, nano := r.NanoPerSecond/1000, r.NanoPerSecond%1000
	whole := elapsed * micro
	parts := whole%1000*1000 + elapsed*nano + b.rest
	gain := whole/1000 + parts/1_000_000
	b.rest = parts % 1_000_000
	if gain >= missing {
		gain, b.rest = missing, 0
	}
	b.tokens += gain
}

// timeToFull is how many ms at least bring the missing tokens.
func timeToFull(missing decide.Micro, nanoPerSecond int64) int64 {
	if nanoPerSecond == 0 {
		return 0
	}
	micro := nanoPerSecond / 1000
	if micro == 0 {
		return longestTTL
	}
	return missing*1000/micro + 1
}

// capacity is what the bucket holds: the rule's, or what its span of the
// measured deposit rate brings, where that is more.
func capacity(flow int64, r *decide.BudgetRule) decide.Micro {
	if r.CapacityMillis == 0 {
		return r.Capacity
	}
	rate := flow / 10
	grown := decide.MaxCapacity
	if rate <= decide.MaxCapacity*1000/r.CapacityMillis {
		grown = min(grown, rate*r.CapacityMillis/1000)
	}
	return max(r.Capacity, grown)
}

// maxFlow bounds the flow, so that sums of it stay exact.
const maxFlow = 4_000_000_000_000_000

// deposit adds the ratio for so many original calls.
func (b *bucket) deposit(calls int64, r *decide.BudgetRule) {
	gain := min(calls*r.Ratio, maxFlow)
	b.flow = min(b.flow+gain, maxFlow)
	b.tokens += gain
	if full := capacity(b.flow, r); b.tokens >= full {
		b.tokens, b.rest = full, 0
	}
	b.depositExtra(calls, r)
}

// failed records failures of the dependency's own: for the breaker, as
// deposits where requests deposit, and for the cool-down.
func (b *bucket) failed(t int64, p *decide.Policy, f *failures) {
	b.breaker.fail(t, &p.Breaker, f.count)
	b.record(t, p, f)
}

// record is what failures say to all but the breaker.
func (b *bucket) record(t int64, p *decide.Policy, f *failures) {
	b.yield.lose(f.count-f.firsts, &p.Budget)
	if p.Budget.DepositOnRequest && f.firsts > 0 {
		b.deposit(f.firsts, &p.Budget)
		b.earn(t, p, f.caller, f.firsts)
	}
	if f.serverDelay <= 0 || p.CoolDown == decide.CoolDownOff {
		return
	}
	until := t + f.serverDelay
	if !f.forCaller {
		b.coolDown = max(b.coolDown, until)
		return
	}
	name, c := b.caller(t, p, f.caller)
	c.coolDown = max(c.coolDown, until)
	b.callers[name] = c
}

// ask is step 9 of a decision: override, breaker, cool-down, budget; it spends
// where it grants.
func (b *bucket) ask(t int64, p *decide.Policy, q *question) (a decide.Answer) {
	if !b.breaker.hasProbe(t, &p.Breaker) { // else this one is let through to try
		b.breaker.fail(t, &p.Breaker, q.count)
	}
	b.record(t, p, &q.failures)
	a.Breaker = b.breaker.state(t, &p.Breaker)
	a.ReportOutcomes = !p.Budget.Off && !p.Budget.DepositOnRequest && t-b.reported >= quiet
	switch b.override.mode {
	case decide.OverrideAllow:
		return a
	case decide.OverridePause:
		a.Verdict, a.AskAgain = decide.Paused, decide.Some(b.override.until-t)
		return a
	}
	if wait := b.breaker.wait(t, &p.Breaker); wait > 0 {
		a.Verdict, a.AskAgain = decide.OpenBreaker, decide.Some(wait)
		return a
	}
	if a.CoolDown = b.coolDownLeft(t, p, q.caller); q.fit.Present && a.CoolDown > q.fit.Value {
		a.Verdict = decide.CoolDownTooLong
		return a
	}
	begin, free := b.nextSlot(t, p, q, &a)
	if !free {
		return a
	}
	if !p.Budget.Off && !b.spend(t, p, q, &a) {
		a.Slot = 0
		return a
	}
	b.takeSlot(begin, p, q)
	if a.Breaker == decide.BreakerHalfOpen {
		b.breaker.lease(t, &p.Breaker)
	}
	return a
}

// spend takes the cost from the bucket, or says when it will be there.
func (b *bucket) spend(t int64, p *decide.Policy, q *question, a *decide.Answer) bool {
	full := capacity(b.flow, &p.Budget)
	needed := q.cost
	if b.spendExtra(p, q) {
		a.Budget = decide.Budget{Asked: true, Tokens: b.tokens, Capacity: full, Cost: q.cost}
		return true
	}
	own := b.ownShare(t, p, q.caller, q.cost)
	if !own { // borrowing leaves the bucket half full
		needed = max(needed, full/2+1)
	}
	granted := b.tokens >= needed
	if granted {
		b.tokens -= q.cost
		if own {
			b.useShare(t, p, q.caller, q.cost)
		}
	}
	a.Budget = decide.Budget{Asked: true, Tokens: b.tokens, Capacity: full, Cost: q.cost}
	if granted {
		return true
	}
	a.Verdict = decide.NoTokens
	if nano := p.Budget.NanoPerSecond; nano > 0 && needed <= full { // time brings no more than full
		a.AskAgain = decide.Some(timeFor(needed-b.tokens, nano))
	}
	return false
}

// timeFor is in how many whole ms the refill brings the missing tokens, or
// [decide.MaxMillis] where that is longer.
func timeFor(missing decide.Micro, nanoPerSecond int64) int64 {
	ms := ceilRatio(missing, nanoPerSecond)
	return min(ms, decide.MaxMillis)
}

// ceilRatio is ⌈missing · 10^6 / nano⌉ without a product above 2^53. From a
// thousand tokens per second on, the rate is cut to millionths.
func ceilRatio(missing, nano int64) int64 {
	if nano >= 1_000_000_000_000 {
		micro := nano / 1000
		return (missing*1000 + micro - 1) / micro
	}
	quotient, left := missing/nano, missing%nano
	for range 2 {
		if quotient > decide.MaxMillis/1000-1 {
			return decide.MaxMillis
		}
		quotient = quotient*1000 + left*1000/nano
		left = left * 1000 % nano
	}
	if left > 0 {
		quotient++
	}
	return quotient
}

// coolDownLeft is what is left in ms of the fleet's and the caller's cool-down.
func (b *bucket) coolDownLeft(t int64, p *decide.Policy, name string) int64 {
	if p.CoolDown == decide.CoolDownOff {
		return 0
	}
	return max(b.fleetCoolDown(t, p), min(b.known(name).coolDown-t, p.RetryAfter.Max))
}

// fleetCoolDown is what is left in ms of the cool-down that holds for all.
func (b *bucket) fleetCoolDown(t int64, p *decide.Policy) int64 {
	if p.CoolDown == decide.CoolDownOff {
		return 0
	}
	return min(max(b.coolDown-t, 0), p.RetryAfter.Max)
}

// report counts original calls that ended without a decision.
func (b *bucket) report(t int64, p *decide.Policy, r *report) {
	b.reported = t
	b.yield.win(r.retries, &p.Budget)
	successes := r.firstTries + r.retries
	calls := successes
	if p.Budget.DepositOnRequest {
		calls += r.finals
	}
	if !p.Budget.Off && calls > 0 {
		b.deposit(calls, &p.Budget)
		b.earn(t, p, r.caller, calls)
	}
	b.breaker.succeed(t, &p.Breaker, successes)
	b.breaker.fail(t, &p.Breaker, r.finals)
}

// look is the bucket's state for a caller.
func (b *bucket) look(t int64, p *decide.Policy, name string) (s decide.State) {
	if !p.Budget.Off {
		s.Budget = decide.Budget{Asked: true, Tokens: b.tokens, Capacity: capacity(b.flow, &p.Budget), Cost: p.Budget.Cost[decide.Plain]}
	}
	s.CoolDown = b.coolDownLeft(t, p, name)
	s.Breaker = b.breaker.state(t, &p.Breaker)
	if o := b.override; o.mode != decide.OverrideNone {
		s.Override = decide.Override{Mode: o.mode, ExpiresIn: o.until - t, Author: o.author, Reason: o.words, Since: unixMilli(o.since)}
	}
	return s
}

// ttl is how long in ms the bucket must be kept: absent means full, closed,
// cool and nobody's override.
func (b *bucket) ttl(t int64, p *decide.Policy) int64 {
	keep := int64(idsLive)
	if missing := capacity(b.flow, &p.Budget) - b.tokens; missing > 0 {
		full := int64(noRefillTTL)
		if p.Budget.NanoPerSecond > 0 {
			full = min(timeFor(missing, p.Budget.NanoPerSecond), longestTTL)
		}
		keep = max(keep, full)
	}
	keep = max(keep, b.coolDown-t, b.override.until-t, b.slot.ms-t, p.Breaker.Window+p.Breaker.OpenFor)
	for _, c := range b.callers {
		keep = max(keep, c.coolDown-t)
	}
	return keep + ttlMargin
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
