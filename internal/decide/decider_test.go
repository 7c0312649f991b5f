package decide_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

func TestDecideUnknownDependency(t *testing.T) {
	t.Parallel()
	d := decider(standard(), fakeFleet{})
	a := got503(func(a *decide.Attempt) { a.Dependency = "unknown" })
	if _, err := d.Decide(context.Background(), a); !errors.Is(err, decide.ErrUnknownDependency) {
		t.Errorf("the error is %v", err)
	}
	if _, err := d.Explain(context.Background(), a, &decide.Trace{}); !errors.Is(err, decide.ErrUnknownDependency) {
		t.Errorf("the error of explain is %v", err)
	}
}

func TestDecisionIDIsMadeWhereTheCallerChoseNone(t *testing.T) {
	t.Parallel()
	d := decider(standard(), fakeFleet{ask: func(q *decide.Question) decide.Answer {
		if q.ID == "made-by-the-server" {
			t.Error("the fleet keeps an id that the server made")
		}
		return decide.Answer{}
	}})
	for chosen, want := range map[string]string{"": "made-by-the-server", "mine": "mine"} {
		a := got503(func(a *decide.Attempt) { a.DecisionID = chosen })
		if got := mustDecide(t, d, a).DecisionID; got != want {
			t.Errorf("id %q comes back as %q", chosen, got)
		}
		a.Failure = 404
		if got := mustDecide(t, d, a).DecisionID; got != want {
			t.Errorf("id %q comes back from a give-up as %q", chosen, got)
		}
	}
}

// The fleet is asked with everything that the plan has come to.
func TestQuestion(t *testing.T) {
	t.Parallel()
	p := standard(constant(200), func(p *decide.Policy) { p.Budget.Cost[decide.Throttle] = 5 * decide.MicroPerToken })
	var got decide.Question
	d := decider(p, fakeFleet{ask: func(q *decide.Question) decide.Answer { got = *q; return decide.Answer{} }})
	mustDecide(t, d, got503(retryAfter("2"), remaining(5000), func(a *decide.Attempt) {
		a.Failure, a.Caller, a.DecisionID, a.MinAttempt = 429, "checkout", "id-1", decide.Some(500)
	}))
	want := decide.Question{
		Failed: decide.Failed{Bucket: "bucket of payments", Policy: p, Caller: "checkout", Kind: decide.Throttle, First: true, ServerDelay: 2000},
		ID:     "id-1", Attempt: 1, Fit: decide.Some(4500), Own: 200, Delay: 2000,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked\n%+v, want\n%+v", got, want)
	}
	if got.Cost() != 5*decide.MicroPerToken {
		t.Errorf("the cost is %d", got.Cost())
	}
	mustDecide(t, d, got503(func(a *decide.Attempt) { a.Number = 2 }))
	want = decide.Question{Failed: decide.Failed{Bucket: "bucket of payments", Policy: p}, Attempt: 2, Own: 200, Delay: 200}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked\n%+v, want\n%+v", got, want)
	}
}

// The fleet is told of give-ups on failures of the dependency's own, with a
// wait that is bounded by the policy's.
func TestTell(t *testing.T) {
	t.Parallel()
	p := standard(constant(200))
	var got []decide.Failed
	d := decider(p, fakeFleet{tell: func(f *decide.Failed) { got = append(got, *f) }})
	mustDecide(t, d, got503(retryAfter("3600"), func(a *decide.Attempt) { a.Caller = "cart" }))
	mustDecide(t, d, got503(retryAfter("5"), func(a *decide.Attempt) { a.Failure, a.Number = 429, 4 }))
	mustDecide(t, d, got503(func(a *decide.Attempt) { a.Failure, a.Method = decide.Timeout, "POST" }))
	mustDecide(t, d, got503(retryAfter("5"), func(a *decide.Attempt) { a.Failure = 404 }))
	want := []decide.Failed{
		{Bucket: "bucket of payments", Policy: p, Caller: "cart", First: true, ServerDelay: 60_000},
		{Bucket: "bucket of payments", Policy: p, Kind: decide.Throttle, ServerDelay: 5000},
		{Bucket: "bucket of payments", Policy: p, Kind: decide.Timing, First: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("told\n%+v, want\n%+v", got, want)
	}
}

func TestAnswersOfTheFleet(t *testing.T) {
	t.Parallel()
	budget := decide.Budget{Asked: true, Tokens: 9_100_000, Capacity: 10_000_000, Cost: 1_000_000}
	tests := []struct {
		name    string
		answer  decide.Answer
		attempt []func(*decide.Attempt)
		floats  []float64
		reason  decide.Reason
		delay   int64
		use     decide.ServerDelayUse
	}{
		{"granted", decide.Answer{}, nil, nil, decide.ReasonBackoff, 200, decide.DelayAbsent},
		{"granted with the server's wait", decide.Answer{}, []func(*decide.Attempt){retryAfter("2")}, []float64{0.5}, decide.ReasonRetryAfter, 2100, decide.DelayUsed},
		{"a cool-down", decide.Answer{CoolDown: 5000}, nil, []float64{0.5}, decide.ReasonCoolDown, 5250, decide.DelayAbsent},
		{"a cool-down shorter than own", decide.Answer{CoolDown: 100}, nil, []float64{0.5}, decide.ReasonBackoff, 200, decide.DelayAbsent},
		{"a cool-down that the spread lifts above own", decide.Answer{CoolDown: 195}, nil, []float64{0.5}, decide.ReasonCoolDown, 204, decide.DelayAbsent},
		{"a cool-down as long as the server's wait", decide.Answer{CoolDown: 2000}, []func(*decide.Attempt){retryAfter("2")}, []float64{0.5}, decide.ReasonRetryAfter, 2100, decide.DelayUsed},
		{"a cool-down shorter than the server's wait", decide.Answer{CoolDown: 1000}, []func(*decide.Attempt){retryAfter("2")}, []float64{0.5}, decide.ReasonRetryAfter, 2100, decide.DelayUsed},
		{"a cool-down longer than the server's wait spreads by the same float", decide.Answer{CoolDown: 5000}, []func(*decide.Attempt){retryAfter("2")}, []float64{0.5}, decide.ReasonCoolDown, 5250, decide.DelayUsed},
		{"a cool-down does not make a short wait used", decide.Answer{CoolDown: 5000}, []func(*decide.Attempt){retryAfter("0.1")}, []float64{0.5}, decide.ReasonCoolDown, 5250, decide.DelayShorterThanBackoff},
		{"a cool-down beside a malformed wait", decide.Answer{CoolDown: 5000}, []func(*decide.Attempt){retryAfter("soon")}, []float64{0.5}, decide.ReasonCoolDown, 5250, decide.DelayMalformed},
		{"a cool-down beside a wait of nought", decide.Answer{CoolDown: 5000}, []func(*decide.Attempt){retryAfter("0")}, []float64{0.5}, decide.ReasonCoolDown, 5250, decide.DelayShorterThanBackoff},
		{"a cool-down whose spread the deadline cuts", decide.Answer{CoolDown: 5000}, []func(*decide.Attempt){remaining(5011)}, []float64{0.5}, decide.ReasonCoolDown, 5005, decide.DelayAbsent},
		{"a cool-down above every timer", decide.Answer{CoolDown: 1 << 40}, nil, []float64{0.5}, decide.ReasonCoolDown, decide.MaxDelayMillis, decide.DelayAbsent},
		{"a cool-down that does not fit", decide.Answer{CoolDown: 5000}, []func(*decide.Attempt){remaining(5000)}, nil, decide.ReasonDeadline, 0, decide.DelayAbsent},
		{"a cool-down that the fleet knows not to fit", decide.Answer{Verdict: decide.CoolDownTooLong, CoolDown: 5000}, nil, nil, decide.ReasonDeadline, 0, decide.DelayAbsent},
		{"paused", decide.Answer{Verdict: decide.Paused}, nil, nil, decide.ReasonPaused, 0, decide.DelayAbsent},
		{"breaker", decide.Answer{Verdict: decide.OpenBreaker, Breaker: decide.BreakerOpen}, nil, nil, decide.ReasonBreakerOpen, 0, decide.DelayAbsent},
		{"budget", decide.Answer{Verdict: decide.NoTokens, Budget: budget}, nil, nil, decide.ReasonBudgetExhausted, 0, decide.DelayAbsent},
		{"budget with a wait", decide.Answer{Verdict: decide.NoTokens}, []func(*decide.Attempt){retryAfter("2")}, []float64{0.5}, decide.ReasonBudgetExhausted, 0, decide.DelayUsed},
		{"unavailable", decide.Answer{Verdict: decide.Unavailable, Degraded: true}, nil, nil, decide.ReasonStoreUnavailable, 0, decide.DelayAbsent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(constant(200), func(p *decide.Policy) { p.RetryAfter.Spread = 0.1 })
			test.answer.AskAgain, test.answer.ReportOutcomes = decide.Some(700), true
			d := decider(p, answers(test.answer))
			d.Random = script(t, test.floats...)
			got := mustDecide(t, d, got503(append(test.attempt, func(a *decide.Attempt) { a.HasIdempotencyKey = true })...))
			if got.Reason != test.reason || got.Delay != test.delay || got.ServerDelayUse != test.use {
				t.Errorf("%s after %d ms, server's wait %s; want %s after %d, %s",
					got.Reason, got.Delay, got.ServerDelayUse, test.reason, test.delay, test.use)
			}
			if got.Budget != test.answer.Budget || got.Breaker != test.answer.Breaker || got.Degraded != test.answer.Degraded {
				t.Errorf("the state is not the fleet's: %+v", got)
			}
			again, hints := decide.Millis{}, decide.ReportOutcomes|decide.SameIdempotencyKey
			if !got.Retry() {
				hints = decide.ReportOutcomes
				if got.Reason != decide.ReasonDeadline {
					again = decide.Some(700)
				}
			}
			if got.Hints != hints {
				t.Errorf("hints %v, want %v", got.Hints.Names(), hints.Names())
			}
			if got.Retry() && (got.NextAttempt != 2) || !got.Retry() && (got.NextAttempt != 0 || got.Remaining.Present || got.AskAgain != again) {
				t.Errorf("%+v", got)
			}
			if got.Remaining.Present && got.Remaining.Value != 5011-got.Delay {
				t.Errorf("%d ms are left", got.Remaining.Value)
			}
		})
	}
}

// replaying is a fleet that keeps what it granted by id and attempt, as the
// real ones do, with a cool-down that has not run down meanwhile.
func replaying(coolDown int64) fakeFleet {
	type key struct {
		id      string
		attempt int64
	}
	kept := map[key]decide.Answer{}
	return fakeFleet{ask: func(q *decide.Question) decide.Answer {
		k := key{q.ID, q.Attempt}
		if answer, ok := kept[k]; ok {
			answer.Replayed = true
			return answer
		}
		kept[k] = decide.Answer{CoolDown: coolDown, Own: q.Own, Delay: q.Delay, ReplayedServerDelay: q.ServerDelay}
		return kept[k]
	}}
}

func TestReplayedIDGivesTheSameWait(t *testing.T) {
	t.Parallel()
	const inTen = "Mon, 30 Nov 2026 12:00:10 GMT"
	tests := []struct {
		name     string
		coolDown int64
		again    []func(*decide.Attempt)
		attempt  []func(*decide.Attempt)
	}{
		{name: "own wait"},
		{name: "server's wait", attempt: []func(*decide.Attempt){retryAfter("2")}},
		{name: "server's date", attempt: []func(*decide.Attempt){retryAfter(inTen)}},
		{name: "cool-down", coolDown: 30_000},
		{name: "cool-down above the server's wait", coolDown: 30_000, attempt: []func(*decide.Attempt){retryAfter("2")}},
		{name: "a wait that the first report alone tells of", attempt: []func(*decide.Attempt){retryAfter("2")},
			again: []func(*decide.Attempt){func(a *decide.Attempt) { a.Headers = decide.Headers{} }}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			random := decide.NewMulberry32(11)
			now := noon
			d := decider(standard(), replaying(test.coolDown))
			d.Random, d.Now = random.Float64, func() time.Time { return now }
			a := got503(append(test.attempt, func(a *decide.Attempt) { a.DecisionID = "id-1" })...)
			first := mustDecide(t, d, a)
			now = now.Add(3 * time.Second)
			for _, edit := range test.again {
				edit(a)
			}
			for range 3 {
				second := mustDecide(t, d, a)
				if second.Delay != first.Delay || second.Reason != first.Reason || second.ServerDelay != first.ServerDelay || second.ServerDelayUse != first.ServerDelayUse {
					t.Errorf("again %+v\nat first %+v", second, first)
				}
			}
			a.Number = 2
			if later := mustDecide(t, d, a); later.NextAttempt != 3 {
				t.Errorf("a later attempt is answered by the first: %+v", later)
			}
		})
	}
}

func TestReplayedIDIsHeldAgainstTheDeadline(t *testing.T) {
	t.Parallel()
	for name, coolDown := range map[string]int64{"own wait": 0, "cool-down": 5000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := standard(constant(200))
			d := decider(p, replaying(coolDown))
			a := got503(remaining(9000), func(a *decide.Attempt) { a.DecisionID = "id-1" })
			first := mustDecide(t, d, a)
			if !first.Retry() {
				t.Fatalf("at first %s", first.Reason)
			}
			a.Remaining.Value = max(200, coolDown)
			if got := mustDecide(t, d, a); got.Reason != decide.ReasonDeadline || got.Delay != 0 || got.AskAgain.Present {
				t.Errorf("with %d ms left: %+v", a.Remaining.Value, got)
			}
			a.Remaining.Value++
			if got := mustDecide(t, d, a); got.Delay != first.Delay || got.Remaining != decide.Some(1) {
				t.Errorf("with %d ms left: %+v", a.Remaining.Value, got)
			}
		})
	}
}

// A wait that was granted longer than what is left now, though the own wait of
// today would fit.
func TestReplayedWaitThatNoLongerFits(t *testing.T) {
	t.Parallel()
	d := decider(standard(constant(200)), answers(decide.Answer{Replayed: true, Own: 900, Delay: 900}))
	if got := mustDecide(t, d, got503(remaining(500))); got.Reason != decide.ReasonDeadline {
		t.Errorf("%s after %d ms", got.Reason, got.Delay)
	}
}

// What was added to a server's wait gives way to a deadline that has shrunk since;
// the wait itself does not.
func TestReplayedSpreadGivesWay(t *testing.T) {
	t.Parallel()
	d := decider(standard(constant(200)), answers(decide.Answer{Replayed: true, Own: 200, Delay: 2052, ReplayedServerDelay: 2000}))
	for left, want := range map[int64]int64{2100: 2052, 2053: 2052, 2040: 2039, 2001: 2000} {
		if got := mustDecide(t, d, got503(retryAfter("2"), remaining(left))); got.Reason != decide.ReasonRetryAfter || got.Delay != want {
			t.Errorf("with %d ms left: %s after %d ms, want %d", left, got.Reason, got.Delay, want)
		}
	}
	if got := mustDecide(t, d, got503(retryAfter("2"), remaining(2000))); got.Reason != decide.ReasonDeadline {
		t.Errorf("with 2000 ms left: %s after %d ms", got.Reason, got.Delay)
	}
}

// A cool-down that is just the server's own wait changes nothing, id or not.
func TestCoolDownOfTheOwnServerDelay(t *testing.T) {
	t.Parallel()
	d := decider(standard(constant(200), func(p *decide.Policy) { p.RetryAfter.Spread = 0.1 }), answers(decide.Answer{CoolDown: 2000}))
	got := mustDecide(t, d, got503(retryAfter("2"), func(a *decide.Attempt) { a.DecisionID = "id-1" }))
	if got.Reason != decide.ReasonRetryAfter || got.Delay != 2100 {
		t.Errorf("%s after %d ms, want retry_after after 2100", got.Reason, got.Delay)
	}
}

// The spread above a cool-down differs from id to id, and from attempt to attempt.
func TestIDsSpread(t *testing.T) {
	t.Parallel()
	d := decider(standard(constant(200), func(p *decide.Policy) { p.RetryAfter.Spread = 1; p.MaxAttempts = 100 }), answers(decide.Answer{CoolDown: 10_000}))
	seen := map[int64]bool{}
	const ids, attempts = 40, 5
	for id := range ids {
		for n := range attempts {
			got := mustDecide(t, d, got503(func(a *decide.Attempt) {
				a.DecisionID, a.Number = strings.Repeat("x", id+1), int64(n+1)
			}))
			if got.Delay < 10_000 || got.Delay >= 20_000 {
				t.Fatalf("the wait is %d ms", got.Delay)
			}
			seen[got.Delay/1000] = true
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d ids and attempts fall into %d of 10 seconds", ids*attempts, len(seen))
	}
}

func TestBreakerOfDecisionsThatAskNothing(t *testing.T) {
	t.Parallel()
	for mode, want := range map[decide.BreakerMode]decide.BreakerState{
		decide.BreakerModeOff: decide.BreakerOff, decide.BreakerModeRetries: decide.BreakerClosed, decide.BreakerModeAll: decide.BreakerClosed,
	} {
		p := standard(func(p *decide.Policy) { p.Breaker.Mode = mode })
		got := mustDecide(t, decider(p, fakeFleet{}), got503(func(a *decide.Attempt) { a.Failure = 404 }))
		if got.Breaker != want {
			t.Errorf("with mode %s the breaker is %s, want %s", mode, got.Breaker, want)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	budget := decide.Budget{Asked: true, Tokens: 9_100_000, Capacity: 10_000_000, Cost: 1_000_000}
	fleet := fakeFleet{
		ask: func(q *decide.Question) decide.Answer {
			if !q.DryRun {
				t.Error("explain spends")
			}
			return decide.Answer{Budget: budget, Replayed: true, Own: q.Own, Delay: q.Delay}
		},
		tell: func(*decide.Failed) { t.Error("explain tells") },
	}
	tests := []struct {
		name  string
		edits []func(*decide.Attempt)
		steps int
		want  decide.Reason
	}{
		{"all steps", nil, 9, decide.ReasonBackoff},
		{"deadline", []func(*decide.Attempt){remaining(0)}, 8, decide.ReasonDeadline},
		{"too long", []func(*decide.Attempt){retryAfter("61")}, 8, decide.ReasonServerDelayTooLong},
		{"exhausted", []func(*decide.Attempt){func(a *decide.Attempt) { a.Number = 4 }}, 7, decide.ReasonAttemptsExhausted},
		{"layer", []func(*decide.Attempt){func(a *decide.Attempt) { a.RetriedBelow = true }}, 6, decide.ReasonRetriedBelow},
		{"unsafe", []func(*decide.Attempt){func(a *decide.Attempt) { a.Method = "POST" }}, 5, decide.ReasonNotSafeToRepeat},
		{"final", []func(*decide.Attempt){func(a *decide.Attempt) { a.Failure = 404 }}, 4, decide.ReasonNotRetryable},
		{"verdict", []func(*decide.Attempt){header(decide.XShouldRetryHeader, "false")}, 3, decide.ReasonServerRefused},
		{"verdict yes", []func(*decide.Attempt){header(decide.XShouldRetryHeader, "true")}, 9, decide.ReasonBackoff},
		{"no failure", []func(*decide.Attempt){func(a *decide.Attempt) { a.Failure = 200 }}, 2, decide.ReasonNotAFailure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(constant(200), honours(decide.RetryAfterHeader, decide.XShouldRetryHeader))
			d := decider(p, fleet)
			var trace decide.Trace
			got, err := d.Explain(context.Background(), got503(test.edits...), &trace)
			if err != nil || got.Reason != test.want {
				t.Fatalf("%s, %v; want %s", got.Reason, err, test.want)
			}
			if len(trace.Steps) != test.steps {
				t.Fatalf("%d steps, want %d: %+v", len(trace.Steps), test.steps, trace.Steps)
			}
			for i, step := range trace.Steps {
				if step.Step != i+1 || !strings.HasSuffix(step.Question, "?") || step.Answer == "" {
					t.Errorf("step %d is %+v", i+1, step)
				}
			}
			if last := trace.Steps[len(trace.Steps)-1]; test.steps == 9 &&
				(!strings.Contains(last.Answer, "9.1 of 10 tokens") || !strings.Contains(last.Answer, "granted before")) {
				t.Errorf("step 9 answers %q", last.Answer)
			}
			decided, err := decider(p, fakeFleet{ask: func(q *decide.Question) decide.Answer {
				return decide.Answer{Budget: budget, Replayed: true, Own: q.Own, Delay: q.Delay}
			}}).Decide(context.Background(), got503(test.edits...))
			if err != nil || decided != got {
				t.Errorf("explained %+v\ndecided %+v", got, decided)
			}
		})
	}
}
