package budget

import (
	"context"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Backend keeps buckets and applies operations to one of them.
type Backend interface {
	// Run applies the operations to a bucket under a rule, in order and as one
	// atomic step, and fills what each one answers. An error means that none,
	// or that nobody knows whether they, were applied.
	Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error
}

// op is one operation on a bucket: exactly one of its parts is set.
type op struct {
	ask      *question
	tell     *failures
	report   *report
	look     *look
	override *override

	// answer is what ask was answered, state what look was.
	answer decide.Answer
	state  decide.State
}

// failures of the dependency's own, merged where they came from one caller and
// concern the same.
type failures struct {
	caller string
	// count of failures, and of those that were first attempts.
	count, firsts int64
	// serverDelay is the longest wait in ms that the server gave; forCaller says
	// that it holds for the caller alone.
	serverDelay int64
	forCaller   bool
}

// question is step 9 of one decision.
type question struct {
	failures
	kind decide.Kind
	cost decide.Micro
	// id makes asking again spend nothing; "" where the caller chose none.
	id string
	// fit is the longest wait in ms that the deadline allows.
	fit decide.Millis
	// own and delay are the planned waits in ms, kept with the id.
	own, delay int64
	dryRun     bool
}

// report counts original calls that ended without a decision.
type report struct {
	caller string
	// id makes a report that is sent again count once.
	id                          string
	firstTries, retries, finals int64
}

// look asks for the state as a caller sees it.
type look struct{ caller string }

// newQuestion is a decision's question in the bucket's words.
func newQuestion(q *decide.Question) *question {
	out := &question{failures: newFailures(&q.Failed), kind: q.Kind, cost: q.Cost(), fit: q.Fit, own: q.Own, delay: q.Delay, dryRun: q.DryRun}
	if q.ID != "" {
		out.id = idKey(q.ID, q.Attempt)
	}
	return out
}

func newFailures(f *decide.Failed) failures {
	out := failures{caller: f.Caller, count: 1, serverDelay: f.ServerDelay, forCaller: f.Policy.CoolDown.ForCaller(f.Kind)}
	if f.First {
		out.firsts = 1
	}
	return out
}

// apply runs one operation on a bucket in Go. Ids are the backend's business.
func (b *bucket) apply(now int64, p *decide.Policy, o *op) {
	switch t := b.touch(now, p); {
	case o.ask != nil:
		o.answer = b.ask(t, p, o.ask)
	case o.tell != nil:
		b.failed(t, p, o.tell)
	case o.report != nil:
		b.report(t, p, o.report)
	case o.look != nil:
		o.state = b.look(t, p, o.look.caller)
	case o.override != nil:
		b.setOverride(t, *o.override)
	}
}

// setOverride sets an override whose until is still how long it lasts, in ms,
// and whose since is 0 where that is now.
func (b *bucket) setOverride(t int64, o override) {
	if o.mode == decide.OverrideNone {
		b.override = override{}
		return
	}
	if o.since == 0 {
		o.since = t
	}
	o.until += t
	b.override = o
}

func unixMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
