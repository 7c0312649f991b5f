package decide_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// noon is the clock of the tests.
var noon = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC)

// standard is the built-in preset of the contract (DESIGN §13), edited.
func standard(edits ...func(*decide.Policy)) *decide.Policy {
	p := &decide.Policy{
		Name:        "payments",
		Preset:      "standard",
		MaxAttempts: 4,
		RetryAfter:  decide.RetryAfter{Max: 60_000, Spread: 0.1, Headers: []decide.Header{decide.RetryAfterHeader}},
		Classes:     decide.StandardClasses,
		Budget: decide.BudgetRule{Ratio: 100_000, Capacity: 10 * decide.MicroPerToken, CapacityMillis: 1000,
			NanoPerSecond: 100_000_000},
	}
	for kind := range p.Backoff {
		p.Backoff[kind] = decide.Backoff{Strategy: decide.FullJitter, Base: 100, Cap: 1000, Multiplier: 2, Jitter: 0.2}
		p.Budget.Cost[kind] = decide.MicroPerToken
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// waits gives a policy one backoff for every kind of failure.
func waits(b decide.Backoff) func(*decide.Policy) {
	return func(p *decide.Policy) {
		for kind := range p.Backoff {
			p.Backoff[kind] = b
		}
	}
}

// constant makes the own wait the same every time and the spread none, so that
// nothing is drawn.
func constant(ms int64) func(*decide.Policy) {
	return func(p *decide.Policy) {
		waits(decide.Backoff{Strategy: decide.Constant, Base: ms, Cap: ms, Multiplier: 1})(p)
		p.RetryAfter.Spread = 0
	}
}

// honours replaces the headers that a policy reads.
func honours(headers ...decide.Header) func(*decide.Policy) {
	return func(p *decide.Policy) { p.RetryAfter.Headers = headers }
}

// got503 is a failed GET of payments, edited.
func got503(edits ...func(*decide.Attempt)) *decide.Attempt {
	a := &decide.Attempt{Dependency: "payments", Method: "GET", Failure: 503, Number: 1}
	for _, edit := range edits {
		edit(a)
	}
	return a
}

// header gives a response's header its raw value.
func header(h decide.Header, value string) func(*decide.Attempt) {
	return func(a *decide.Attempt) { a.Headers.Set(h, value) }
}

// retryAfter gives the response a Retry-After.
func retryAfter(value string) func(*decide.Attempt) { return header(decide.RetryAfterHeader, value) }

// remaining gives the caller a deadline.
func remaining(ms int64) func(*decide.Attempt) {
	return func(a *decide.Attempt) { a.Remaining = decide.Some(ms) }
}

// always is a source of chance with one value.
func always(f float64) func() float64 { return func() float64 { return f } }

// script hands out floats in order and fails the test where one more is drawn,
// or where some are left at its end.
func script(t *testing.T, floats ...float64) func() float64 {
	t.Helper()
	drawn := 0
	t.Cleanup(func() {
		if drawn < len(floats) {
			t.Errorf("drew %d floats, want %d", drawn, len(floats))
		}
	})
	return func() float64 {
		if drawn++; drawn > len(floats) {
			t.Errorf("drew float number %d, want %d", drawn, len(floats))
			return 0
		}
		return floats[drawn-1]
	}
}

// fakeFleet is a fleet of function fields; a nil ask grants.
type fakeFleet struct {
	ask  func(*decide.Question) decide.Answer
	tell func(*decide.Failed)
}

func (f fakeFleet) Ask(_ context.Context, q *decide.Question) decide.Answer {
	if f.ask == nil {
		return decide.Answer{}
	}
	return f.ask(q)
}

func (f fakeFleet) Tell(x *decide.Failed) {
	if f.tell != nil {
		f.tell(x)
	}
}

// answers is a fleet that always says the same.
func answers(a decide.Answer) fakeFleet {
	return fakeFleet{ask: func(*decide.Question) decide.Answer { return a }}
}

// onePolicy is a policy file with one rule for every name.
type onePolicy struct{ policy *decide.Policy }

func (o onePolicy) Find(dependency string) (*decide.Policy, string, error) {
	if dependency == "unknown" {
		return nil, "", decide.ErrUnknownDependency
	}
	return o.policy, "bucket of " + dependency, nil
}

// decider puts a policy and a fleet together; its floats are all one half.
func decider(p *decide.Policy, fleet decide.Fleet) *decide.Decider {
	return &decide.Decider{
		Policies: onePolicy{p},
		Fleet:    fleet,
		Now:      func() time.Time { return noon },
		Random:   always(0.5),
		NewID:    func() string { return "made-by-the-server" },
	}
}

// mustDecide decides where no error can be.
func mustDecide(t *testing.T, d *decide.Decider, a *decide.Attempt) decide.Decision {
	t.Helper()
	decision, err := d.Decide(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func (o onePolicy) Peek(dependency string) (*decide.Policy, string, error) { return o.Find(dependency) }
