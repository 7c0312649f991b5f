package decide

import (
	"context"
	"strings"
	"time"
)

// Trials judges the candidates of rules beside the decisions that are enforced.
type Trials interface {
	// AskLater puts a candidate's question to its own state and hands on the
	// answer, at once or soon, off the path of the request. A question too many
	// is dropped.
	AskLater(q *Question, answered func(Answer))
	// Compared takes what both rules came to.
	Compared(c *Comparison)
}

// Comparison is what a rule and its candidate came to on one attempt.
type Comparison struct {
	Dependency string
	// Policy is the rule that is enforced; its candidate is judged.
	Policy *Policy
	// Enforced is what the rule came to by itself, whether or not it is in shadow.
	Enforced, Candidate Reason
	// First: attempt 1, an original call.
	First bool
}

// candidateMark ends the bucket of a candidate. No dependency's name has it.
const candidateMark = "#candidate"

// CandidateBucket is the bucket that keeps the state of a bucket's candidate.
func CandidateBucket(bucket string) string { return bucket + candidateMark }

// CutCandidate is the bucket whose candidate's state a bucket keeps.
func CutCandidate(bucket string) (of string, ok bool) {
	return strings.CutSuffix(bucket, candidateMark)
}

// tries says whether a rule's candidate is judged.
func (d *Decider) tries(p *Policy) bool { return p.Candidate != nil && d.Trials != nil }

// enforced is a decision by a rule that has a candidate, and all that it came from.
type enforced struct {
	policy   *Policy
	bucket   string
	attempt  *Attempt
	now      time.Time
	chance   *draws
	decision Decision
	// answer is the fleet's, where it was asked.
	answer Answer
	asked  bool
}

func newEnforced(p *Policy, bucket string, a *Attempt, now time.Time, random func() float64) *enforced {
	return &enforced{policy: p, bucket: bucket, attempt: a, now: now, chance: &draws{source: random}}
}

// tryBoth decides by a rule and judges its candidate.
func (d *Decider) tryBoth(ctx context.Context, p *Policy, bucket string, a *Attempt, t *Trace, dryRun bool) Decision {
	e := newEnforced(p, bucket, a, d.Now(), d.Random)
	e.decision, e.answer, e.asked = d.enforce(ctx, p, bucket, a, e.now, e.chance.draw, t, dryRun)
	d.try(ctx, e, t, dryRun)
	return e.decision
}

// try judges a rule's candidate on the same attempt, at the same instant and with
// the same floats, so that only what the rules say differs. The candidate draws
// nothing from the source of chance: a seeded decider answers alike with and
// without it.
func (d *Decider) try(ctx context.Context, e *enforced, t *Trace, dryRun bool) {
	if e.answer.Replayed { // it has been compared when it was granted
		return
	}
	p, a := e.policy, e.attempt
	again := e.chance.again(e.decision.DecisionID, a.number())
	c := trial{
		Comparison: Comparison{Dependency: a.Dependency, Policy: p, Enforced: e.decision.Enforced(), First: a.number() == 1},
		plan:       NewPlan(p.Candidate, a, e.now, again),
	}
	c.Candidate = c.plan.Decision.Reason
	bucket := CandidateBucket(e.bucket)
	switch {
	case c.plan.Asks && e.asked && overridden(p, &e.answer): // an operator's word holds for both
		c.plan.Asks, c.plan.Tells = false, true
		c.Candidate = c.Enforced
	case c.plan.Asks:
		q := c.plan.question(p.Candidate, bucket, a)
		if dryRun {
			q.DryRun = true
			c.settle(d.Fleet.Ask(ctx, &q), &q, again)
			break
		}
		d.Trials.AskLater(&q, func(answer Answer) {
			c.settle(answer, &q, again)
			d.Trials.Compared(&c.Comparison)
		})
		return
	}
	if dryRun {
		c.explain(t)
		return
	}
	if c.plan.Tells {
		f := c.plan.failed(p.Candidate, bucket, a)
		d.Fleet.Tell(&f)
	}
	d.Trials.Compared(&c.Comparison)
}

// trial is a comparison in the making.
type trial struct {
	Comparison
	plan Plan
}

func (c *trial) settle(answer Answer, q *Question, random func() float64) {
	c.plan.settle(answer, q, random, nil)
	c.Candidate = c.plan.Decision.Reason
}

func (c *trial) explain(t *Trace) {
	if t == nil {
		return
	}
	verdict := "the same"
	if c.Candidate != c.Enforced {
		verdict = "something else"
	}
	t.add(10, "what does the candidate say?", "%s: %s", verdict, c.plan.Decision.Message())
}

// overridden says whether an operator's override answered in the rule's place:
// a pause says so, and nothing else grants without asking a budget that is there.
func overridden(p *Policy, answer *Answer) bool {
	allowed := answer.Verdict == Granted && !answer.Budget.Asked && !p.Budget.Off && !answer.Degraded
	return answer.Verdict == Paused || allowed
}

// draws remembers the floats of one decision, two at most.
type draws struct {
	source func() float64
	kept   [2]float64
	count  int
}

func (d *draws) draw() float64 {
	x := d.source()
	if d.count < len(d.kept) {
		d.kept[d.count] = x
		d.count++
	}
	return x
}

// again gives the same floats once more, and others that depend on the id alone
// where more are asked for.
func (d *draws) again(id string, attempt int64) func() float64 {
	next := 0
	return func() float64 {
		next++
		if next <= d.count {
			return d.kept[next-1]
		}
		return idFloat(id+candidateMark, attempt)
	}
}
