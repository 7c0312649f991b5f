package decide

import (
	"fmt"
	"time"
)

// Plan is what the questions that need no shared state have come to.
type Plan struct {
	// Decision is complete where Asks is false. Else it is the retry that is
	// planned, and the fleet has the last word.
	Decision Decision
	// Asks: the fleet's state must be asked before the retry is granted.
	Asks bool
	// Tells: given up on a failure of the dependency's own, which the fleet's
	// state is told of afterwards: a breaker failure, a request's deposit, a
	// cool-down. It never spends.
	Tells bool

	fit    Millis  // the longest wait that the deadline allows
	chance float64 // the spread's float, where drawn says so
	drawn  bool
}

// TraceStep is one question of a decision and what it answered.
type TraceStep struct {
	// Step is the question's number in DESIGN §3.
	Step int
	// Question and Answer are English.
	Question, Answer string
}

// Trace records the questions of one decision in order. A nil Trace records
// nothing and costs nothing.
type Trace struct{ Steps []TraceStep }

func (t *Trace) add(step int, question, format string, args ...any) {
	t.Steps = append(t.Steps, TraceStep{step, question, fmt.Sprintf(format, args...)})
}

// NewPlan asks steps 1 to 8 of one attempt under its policy. now is when the
// failed response came, random gives floats in [0, 1) and is called only where
// one is used: once for a strategy with jitter, then once for the spread above
// the server's wait. NewPlan is total and changes nothing.
func NewPlan(p *Policy, a *Attempt, now time.Time, random func() float64) Plan {
	return plan(p, a, now, random, nil)
}

func plan(p *Policy, a *Attempt, now time.Time, random func() float64, t *Trace) (out Plan) {
	d := &out.Decision
	word := a.Headers.read(p.RetryAfter.Headers, now)
	class := p.Classes.Of(a.Failure, word.wait.Present)
	d.begin(p, a, word)
	if t != nil {
		t.add(1, "which rule holds?", "%q, written over preset %q", p.Name, p.Preset)
	}
	if reason, ok := whetherWorthwhile(p, a, word, class, t); !ok {
		d.Reason = reason
		return out
	}
	if reason, ok := whetherAllowed(p, a, class, t); !ok {
		d.Reason = reason
		out.Tells = true
		return out
	}
	out.planDelay(p, a, random, t)
	return out
}

// begin fills what every answer says.
func (d *Decision) begin(p *Policy, a *Attempt, word serverWord) {
	d.Dependency, d.Policy, d.DecisionID = a.Dependency, p.Name, a.DecisionID
	d.failure, d.method, d.caller = a.Failure, a.Method, a.Caller
	d.attempt, d.maxAttempts, d.maxServer = a.number(), p.MaxAttempts, p.RetryAfter.Max
	d.remaining, d.minAttempt = a.remaining(), a.minAttempt(p)
	if p.OnlyFirstInbound {
		d.inbound = a.InboundAttempt
	}
	d.ServerDelay = word.wait
	switch {
	case word.wait.Present:
		d.ServerDelayUse = DelayUnused
	case word.malformed:
		d.ServerDelayUse = DelayMalformed
	}
}

func (a *Attempt) number() int64 { return max(a.Number, 1) }

// remaining is the deadline that is left, bounded so that no sum overflows.
func (a *Attempt) remaining() Millis {
	return Millis{Value: min(max(a.Remaining.Value, -MaxMillis), MaxMillis), Present: a.Remaining.Present}
}

func (a *Attempt) minAttempt(p *Policy) int64 {
	least := p.MinAttempt
	if a.MinAttempt.Present {
		least = a.MinAttempt.Value
	}
	return min(max(least, 0), MaxMillis)
}

// whetherWorthwhile asks steps 2 to 4: is it a failure that may not happen
// again? A give-up here says nothing against the dependency.
func whetherWorthwhile(p *Policy, a *Attempt, word serverWord, class Class, t *Trace) (Reason, bool) {
	if t != nil {
		t.add(2, "is it a failure?", "%s is %s", a.Failure, class)
	}
	switch class {
	case NotAFailure:
		return ReasonNotAFailure, false
	case Canceled:
		return ReasonCanceled, false
	}
	if t != nil {
		t.add(3, "what does the server say of a retry?", "%s", word.verdict())
	}
	if word.no {
		return ReasonServerRefused, false
	}
	if class == CallerBreaker {
		return ReasonBreakerOpen, false
	}
	if t != nil {
		t.add(4, "may it pass?", "%s is %s under %q", a.Failure, class, p.Name)
	}
	if class == Final && !word.yes {
		return ReasonNotRetryable, false
	}
	return 0, true
}

func (w serverWord) verdict() string {
	switch {
	case w.no:
		return "no"
	case w.yes:
		return "yes"
	}
	return "nothing"
}

// whetherAllowed asks steps 5 to 7: may this caller repeat this call now?
func whetherAllowed(p *Policy, a *Attempt, class Class, t *Trace) (Reason, bool) {
	safe := class == NeverSent || a.mayRepeat(&p.Repeat)
	if t != nil {
		t.add(5, "is it safe to repeat?", "%t: %s, %s, idempotency key %t", safe, class, a.Method, a.HasIdempotencyKey)
	}
	if !safe {
		return ReasonNotSafeToRepeat, false
	}
	reason, ok := whetherThisLayer(p, a)
	if t != nil {
		t.add(6, "does this layer retry?", "%t: caller %q, inbound attempt %d, retried below %t", ok, a.Caller, a.InboundAttempt, a.RetriedBelow)
	}
	if !ok {
		return reason, false
	}
	left := a.number() < p.MaxAttempts && !(a.Failure.OneShot() && a.number() >= 2)
	if t != nil {
		t.add(7, "are attempts left?", "%t: attempt %d of %d", left, a.number(), p.MaxAttempts)
	}
	if !left {
		return ReasonAttemptsExhausted, false
	}
	return 0, true
}

// mayRepeat: a key wins over everything, the caller's own knowledge over the method.
func (a *Attempt) mayRepeat(r *Repeat) bool {
	switch {
	case a.HasIdempotencyKey, a.Idempotent == Yes:
		return true
	case a.Idempotent == No:
		return false
	}
	return r.Allows(a.Method)
}

func whetherThisLayer(p *Policy, a *Attempt) (Reason, bool) {
	if a.RetriedBelow {
		return ReasonRetriedBelow, false
	}
	if len(p.RetryLayer) > 0 && !contains(p.RetryLayer, a.Caller) || p.OnlyFirstInbound && a.InboundAttempt > 1 {
		return ReasonNotTheRetryLayer, false
	}
	return 0, true
}

func contains(list []string, word string) bool {
	for _, each := range list {
		if each == word {
			return true
		}
	}
	return false
}

// planDelay asks step 8: how long, and does that fit the deadline?
func (out *Plan) planDelay(p *Policy, a *Attempt, random func() float64, t *Trace) {
	d := &out.Decision
	server := d.ServerDelay
	if server.Present && server.Value > min(p.RetryAfter.Max, MaxDelayMillis) {
		if t != nil {
			t.add(8, "how long?", "the server asks for %d ms, at most %d ms are honoured", server.Value, p.RetryAfter.Max)
		}
		d.Reason, d.ServerDelayUse, out.Tells = ReasonServerDelayTooLong, DelayTooLong, true
		return
	}
	d.own = p.Backoff[a.Failure.Kind()].Delay(a.number(), a.PreviousDelay, random)
	if d.remaining.Present {
		out.fit = Some(d.remaining.Value - max(d.minAttempt, 1))
	}
	fits := out.setDelay(server.Value, 0, p.RetryAfter.Spread, random)
	if t != nil {
		t.add(8, "how long?", "own backoff %d ms, server %d ms, so %d ms; fits the deadline: %t", d.own, server.Value, d.Delay, fits)
	}
	if !fits {
		out.giveUp(ReasonDeadline)
		out.Tells = true
		return
	}
	out.Asks = true
	d.NextAttempt = a.number() + 1
	d.Hints = a.Failure.hint()
	if a.HasIdempotencyKey {
		d.Hints |= SameIdempotencyKey
	}
}

// setDelay sets the wait from the server's and what is left of a cool-down, and
// says whether it fits the deadline. The spread is cut to what the deadline
// leaves; only the floor itself, or the own wait, can miss it. However often
// the wait is set, the spread draws one float.
func (out *Plan) setDelay(server, coolDown int64, share float64, random func() float64) (fits bool) {
	floor := min(max(server, coolDown), MaxDelayMillis)
	room := int64(MaxDelayMillis) - floor
	if out.fit.Present {
		room = min(room, out.fit.Value-floor)
	}
	spread := Spread(floor, share, room, func() float64 { return out.draw(random) })
	return out.label(max(out.Decision.own, floor+spread), server, coolDown)
}

func (out *Plan) draw(random func() float64) float64 {
	if !out.drawn {
		out.chance, out.drawn = random(), true
	}
	return out.chance
}

// label says what a wait comes from, and whether it fits the deadline. What
// became of the server's own wait is not changed by a longer cool-down.
func (out *Plan) label(delay, server, coolDown int64) (fits bool) {
	d := &out.Decision
	d.Delay = delay
	use := DelayUsed
	switch {
	case delay <= d.own:
		d.Reason, use = ReasonBackoff, DelayShorterThanBackoff
	case coolDown > server:
		d.Reason = ReasonCoolDown
	default:
		d.Reason = ReasonRetryAfter
	}
	if d.ServerDelay.Present && coolDown <= server {
		d.ServerDelayUse = use
	}
	d.Remaining = Millis{}
	if d.remaining.Present {
		d.Remaining = Some(d.remaining.Value - delay)
	}
	return !out.fit.Present || delay <= out.fit.Value
}

// giveUp turns the planned retry into a give-up.
func (out *Plan) giveUp(reason Reason) {
	d := &out.Decision
	d.Reason, d.Delay, d.NextAttempt, d.Remaining, d.Hints = reason, 0, 0, Millis{}, 0
	out.Asks = false
}
