package decide_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrydecider/decider/internal/decide"
)

// anyFailure draws a failure of any sort.
func anyFailure(t *rapid.T) decide.Failure {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(100, 999), func(n int) decide.Failure { return must(decide.Status(n)) }),
		rapid.Map(rapid.SampledFrom(decide.Outcomes()), outcome),
		rapid.Map(rapid.SampledFrom(decide.GRPCCodes()), code),
		rapid.SampledFrom([]decide.Failure{429, 503, 503, 503, decide.Timeout}),
	).Draw(t, "failure")
}

// anyAttempt draws an attempt that is right about as often as it is wrong.
func anyAttempt(t *rapid.T) *decide.Attempt {
	millis := func(label string) decide.Millis {
		return decide.Millis{Value: rapid.Int64Range(-10, 100_000).Draw(t, label), Present: rapid.Bool().Draw(t, label+" given")}
	}
	a := &decide.Attempt{
		Dependency:        "payments",
		Method:            rapid.SampledFrom([]string{"GET", "get", "POST", "FROB"}).Draw(t, "method"),
		Failure:           anyFailure(t),
		Idempotent:        rapid.SampledFrom([]decide.Knowledge{decide.Unsaid, decide.No, decide.Yes}).Draw(t, "idempotent"),
		HasIdempotencyKey: rapid.Bool().Draw(t, "key"),
		Number:            rapid.Int64Range(1, 6).Draw(t, "attempt"),
		Remaining:         millis("remaining"),
		MinAttempt:        millis("least attempt"),
		PreviousDelay:     rapid.Int64Range(0, 10_000).Draw(t, "previous"),
		Caller:            rapid.SampledFrom([]string{"", "checkout", "cart"}).Draw(t, "caller"),
		InboundAttempt:    rapid.Int64Range(0, 2).Draw(t, "inbound"),
		RetriedBelow:      rapid.IntRange(0, 4).Draw(t, "below") == 0,
		DecisionID:        rapid.SampledFrom([]string{"", "id"}).Draw(t, "id"),
	}
	values := rapid.SampledFrom([]string{"", "0", "2", "0.15", "61", "soon", "true", "false", "-1", "Mon, 30 Nov 2026 12:00:30 GMT"})
	for _, h := range rapid.SliceOfN(rapid.SampledFrom(decide.HonourableHeaders()), 0, 3).Draw(t, "headers") {
		a.Headers.Set(h, values.Draw(t, "value"))
	}
	return a
}

func anyPolicy(t *rapid.T) *decide.Policy {
	return standard(func(p *decide.Policy) {
		waits(decide.Backoff{
			Strategy: decide.Strategy(rapid.IntRange(0, len(decide.Strategies())-1).Draw(t, "strategy")),
			Base:     rapid.Int64Range(0, 1000).Draw(t, "base"), Cap: rapid.Int64Range(1, 10_000).Draw(t, "cap"),
			Min: rapid.Int64Range(0, 100).Draw(t, "min"), Multiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		})(p)
		p.MaxAttempts = rapid.Int64Range(1, 6).Draw(t, "max attempts")
		p.RetryAfter.Spread = rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "spread")
		p.RetryAfter.Headers = rapid.SliceOf(rapid.SampledFrom(decide.HonourableHeaders())).Draw(t, "honoured")
		p.RetryLayer = rapid.SampledFrom([][]string{nil, nil, {"checkout"}}).Draw(t, "layer")
		p.OnlyFirstInbound = rapid.Bool().Draw(t, "only first inbound")
		p.Repeat.Any = rapid.Bool().Draw(t, "any method")
	})
}

// TestGiveUpNeverCosts: the fleet is asked at most once, only where steps 1 to
// 8 have all said yes, and told only of give-ups of steps 5 to 8, for free.
func TestGiveUpNeverCosts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, a := anyPolicy(t), anyAttempt(t)
		var spent, told int
		d := decider(p, fakeFleet{
			ask: func(q *decide.Question) decide.Answer {
				spent++
				if q.Fit.Present && (q.Delay > q.Fit.Value || q.Own > q.Fit.Value) {
					t.Errorf("asked for a wait of %d ms where %d fit", q.Delay, q.Fit.Value)
				}
				return decide.Answer{}
			},
			tell: func(*decide.Failed) { told++ },
		})
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		d.Random = always(random)
		got, err := d.Decide(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		plan := decide.NewPlan(p, a, noon, always(random))
		wantSpent := 0
		if got.Retry() {
			wantSpent = 1
		}
		if spent != wantSpent || plan.Asks != got.Retry() {
			t.Fatalf("%s: asked %d times", got.Reason, spent)
		}
		wantTold := 0
		switch got.Reason {
		case decide.ReasonNotSafeToRepeat, decide.ReasonRetriedBelow, decide.ReasonNotTheRetryLayer, decide.ReasonAttemptsExhausted,
			decide.ReasonServerDelayTooLong, decide.ReasonDeadline:
			wantTold = 1
		}
		if told != wantTold || plan.Tells != (told == 1) {
			t.Fatalf("%s: told %d times", got.Reason, told)
		}
		checkDecision(t, p, a, &got)
	})
}

// checkDecision holds what is true of every decision.
func checkDecision(t *rapid.T, p *decide.Policy, a *decide.Attempt, d *decide.Decision) {
	if d.Message() == "" || d.Dependency != a.Dependency || d.Policy != p.Name {
		t.Fatalf("no echo: %+v", d)
	}
	if !d.Retry() {
		if d.Delay != 0 || d.NextAttempt != 0 || d.Remaining.Present || d.Hints != 0 {
			t.Fatalf("a give-up says how to retry: %+v", d)
		}
		return
	}
	if d.Delay < 0 || d.Delay > decide.MaxDelayMillis || d.Delay < d.ServerDelay.Value {
		t.Fatalf("the wait is %d ms, the server asked for %+v", d.Delay, d.ServerDelay)
	}
	if d.NextAttempt != a.Number+1 || d.NextAttempt > p.MaxAttempts {
		t.Fatalf("the next attempt is %d of %d", d.NextAttempt, p.MaxAttempts)
	}
	if d.Remaining.Present != a.Remaining.Present || d.Remaining.Present && d.Remaining.Value < max(1, a.MinAttempt.Value*boolInt(a.MinAttempt.Present)) {
		t.Fatalf("%+v are left for the next attempt", d.Remaining)
	}
	used := d.ServerDelayUse == decide.DelayUsed
	if used != (d.Reason == decide.ReasonRetryAfter) || d.ServerDelay.Present != (used || d.ServerDelayUse == decide.DelayShorterThanBackoff) {
		t.Fatalf("%s with a server's delay of %+v that is %s", d.Reason, d.ServerDelay, d.ServerDelayUse)
	}
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// TestFloatsAreDrawnWhereUsed: one for a strategy with jitter, then one for the
// spread where the server's wait and the spread are positive and it fits.
func TestFloatsAreDrawnWhereUsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, a := anyPolicy(t), anyAttempt(t)
		drawn := 0
		plan := decide.NewPlan(p, a, noon, func() float64 { drawn++; return 0.5 })
		want := 0
		reason := plan.Decision.Reason
		if reason.Retry() || reason == decide.ReasonDeadline {
			if p.Backoff[0].Strategy <= decide.ProportionalJitter {
				want++
			}
			server := plan.Decision.ServerDelay.Value
			fits := !a.Remaining.Present || server <= a.Remaining.Value-max(1, a.MinAttempt.Value*boolInt(a.MinAttempt.Present))
			if server > 0 && p.RetryAfter.Spread > 0 && fits {
				want++
			}
		}
		if drawn != want {
			t.Fatalf("%s: drew %d floats, want %d", reason, drawn, want)
		}
	})
}
