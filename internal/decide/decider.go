package decide

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"
)

// ErrUnknownDependency says that the policy file refuses names that it does
// not know.
var ErrUnknownDependency = errors.New("no rule of the policy file matches this dependency")

// Policies finds the rule of a dependency. What one call returns is of one
// policy file, however often the file changes meanwhile.
type Policies interface {
	// Find returns the rule and the name of the bucket that serves it, or
	// [ErrUnknownDependency].
	Find(dependency string) (p *Policy, bucket string, err error)
	// Peek is Find for whoever only looks: a name that it is asked for does not
	// become one that has a bucket of its own.
	Peek(dependency string) (p *Policy, bucket string, err error)
}

// Decider decides: plan first, then one question to the fleet, spend last. All
// its fields must be set; it is safe for concurrent use where they are.
type Decider struct {
	Policies Policies
	Fleet    Fleet
	// Now is the clock, from which HTTP-dates count.
	Now func() time.Time
	// Random gives floats in [0, 1).
	Random func() float64
	// NewID makes a decision_id where the caller chose none.
	NewID func() string
	// Trials judges candidates; nil: nobody does.
	Trials Trials
}

// Decide answers one failed attempt. The only error is [ErrUnknownDependency].
func (d *Decider) Decide(ctx context.Context, a *Attempt) (Decision, error) {
	return d.decide(ctx, a, nil, false)
}

// Explain answers as Decide would, records every question in t, and neither
// spends nor changes anything.
func (d *Decider) Explain(ctx context.Context, a *Attempt, t *Trace) (Decision, error) {
	return d.decide(ctx, a, t, true)
}

func (d *Decider) decide(ctx context.Context, a *Attempt, t *Trace, dryRun bool) (Decision, error) {
	find := d.Policies.Find
	if dryRun {
		find = d.Policies.Peek
	}
	policy, bucket, err := find(a.Dependency)
	if err != nil {
		return Decision{}, err
	}
	if d.tries(policy) {
		return d.tryBoth(ctx, policy, bucket, a, t, dryRun), nil
	}
	out, _, _ := d.enforce(ctx, policy, bucket, a, d.Now(), d.Random, t, dryRun)
	return out, nil
}

// enforce is the decision of one rule, and the fleet's answer where it was asked.
func (d *Decider) enforce(ctx context.Context, policy *Policy, bucket string, a *Attempt, now time.Time, random func() float64, t *Trace, dryRun bool) (out Decision, answer Answer, asked bool) {
	plan := d.plan(policy, a, now, random, t)
	switch {
	case plan.Asks:
		asked = true
		q := plan.question(policy, bucket, a)
		q.DryRun = dryRun
		answer = d.Fleet.Ask(ctx, &q)
		plan.settle(answer, &q, random, t)
	case !dryRun:
		d.tell(&plan, policy, bucket, a)
	}
	return plan.Decision, answer, asked
}

// plan is what can be decided without the fleet.
func (d *Decider) plan(policy *Policy, a *Attempt, now time.Time, random func() float64, t *Trace) Plan {
	out := plan(policy, a, now, random, t)
	if out.Decision.DecisionID == "" {
		out.Decision.DecisionID = d.NewID()
	}
	if policy.Breaker.Mode != BreakerModeOff {
		out.Decision.Breaker = BreakerClosed
	}
	return out
}

// tell lets the fleet know of a failure that was given up without a question.
func (d *Decider) tell(plan *Plan, policy *Policy, bucket string, a *Attempt) {
	if plan.Tells {
		f := plan.failed(policy, bucket, a)
		d.Fleet.Tell(&f)
	}
}

func (out *Plan) failed(p *Policy, bucket string, a *Attempt) Failed {
	return Failed{Bucket: bucket, Policy: p, Caller: a.Caller, Kind: a.Failure.Kind(), First: a.number() == 1,
		ServerDelay: min(out.Decision.ServerDelay.Value, p.RetryAfter.Max)}
}

func (out *Plan) question(p *Policy, bucket string, a *Attempt) Question {
	return Question{Failed: out.failed(p, bucket, a), ID: a.DecisionID, Attempt: a.number(), Fit: out.fit, Own: out.Decision.own, Delay: out.Decision.Delay}
}

// settle gives the fleet's answer the last word on a planned retry (step 9).
func (out *Plan) settle(answer Answer, q *Question, random func() float64, t *Trace) {
	d := &out.Decision
	planned := *d
	d.Budget, d.Breaker, d.Degraded, d.Replayed = answer.Budget, answer.Breaker, answer.Degraded, answer.Replayed
	if answer.ReportOutcomes {
		d.Hints |= ReportOutcomes
	}
	d.coolDown = answer.CoolDown
	if answer.Verdict == Granted && !out.grant(answer, q, random) {
		answer.Verdict = CoolDownTooLong
	}
	switch {
	case answer.Verdict == Granted:
	case q.Policy.Shadow && answer.Verdict != Paused:
		d.allow(&planned, verdictReasons[answer.Verdict])
	default:
		hints := d.Hints & ReportOutcomes
		out.giveUp(verdictReasons[answer.Verdict])
		d.Hints = hints
		if answer.Verdict == CoolDownTooLong { // time cures no deadline
			d.own = max(d.own, answer.Slot)
		} else {
			d.AskAgain = answer.AskAgain
		}
	}
	if t != nil {
		t.add(9, "does the fleet's state allow it?", "%s", answer.describe(d))
	}
}

// allow lets a retry through that the fleet's state has refused: as it was
// planned, without what the state has added to its wait.
func (d *Decision) allow(planned *Decision, refused Reason) {
	d.Reason, d.Delay, d.Remaining, d.ServerDelayUse = planned.Reason, planned.Delay, planned.Remaining, planned.ServerDelayUse
	d.ShadowReason = refused
}

// grant sets the wait of a granted retry, and says whether it fits the
// deadline: a replayed one may not, where the deadline has shrunk since.
func (out *Plan) grant(answer Answer, q *Question, random func() float64) (fits bool) {
	d := &out.Decision
	delay := max(d.Delay, answer.Slot)
	if answer.Replayed {
		d.own, delay = answer.Own, answer.Delay
		if d.ServerDelay.Present || answer.ReplayedServerDelay > 0 {
			d.ServerDelay = Some(answer.ReplayedServerDelay)
		}
	}
	server := d.ServerDelay.Value
	floor := max(server, answer.CoolDown)
	if answer.Slot > floor {
		d.own = max(d.own, answer.Slot)
	}
	if answer.Replayed && q.Fit.Present { // what was added to the floor gives way to a deadline that has shrunk
		delay = max(d.own, server, min(delay, q.Fit.Value))
	}
	fits = out.label(delay, server, 0)
	if answer.Slot > 0 && answer.Slot >= floor { // the slots spread the crowd
		return out.label(max(d.own, answer.Slot), server, answer.CoolDown)
	}
	if answer.CoolDown <= server {
		return fits
	}
	if q.ID != "" { // the same id must come to the same wait
		out.chance, out.drawn = idFloat(q.ID, q.Attempt), true
	}
	return out.setDelay(server, answer.CoolDown, q.Policy.RetryAfter.Spread, random)
}

// idFloat is a float in [0, 1) that is always the same for an id and attempt.
func idFloat(id string, attempt int64) float64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	h.Write([]byte{':'})
	h.Write(strconv.AppendInt(nil, attempt, 10))
	x := h.Sum64()
	x ^= x >> 33 // FNV alone leaves the high bits of short texts alike
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

func (answer Answer) describe(d *Decision) string {
	text := d.Message()
	if answer.Budget.Asked {
		text += " Budget: " + FormatMicro(answer.Budget.Tokens) + " of " + FormatMicro(answer.Budget.Capacity) +
			" tokens, " + answer.Budget.Source() + "."
	}
	if answer.Replayed {
		text += " This decision_id was granted before."
	}
	return text
}
