package decide_test

import (
	"math"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// TestOrder starts from an attempt of which everything is wrong and rights one
// thing after the other: the reason is that of the first question that is left.
func TestOrder(t *testing.T) {
	t.Parallel()
	p := standard(constant(200), honours(decide.XShouldRetryHeader, decide.RetryAfterHeader), func(p *decide.Policy) {
		p.RetryLayer, p.OnlyFirstInbound = []string{"checkout", "search"}, true
	})
	a := got503(header(decide.XShouldRetryHeader, "false"), retryAfter("3600"), remaining(0), func(a *decide.Attempt) {
		a.Failure, a.Method, a.Number, a.Caller, a.InboundAttempt, a.RetriedBelow = 200, "POST", 9, "cart", 2, true
	})
	answer := decide.Answer{Verdict: decide.Paused}
	var asked, told int
	d := decider(p, fakeFleet{
		ask:  func(*decide.Question) decide.Answer { asked++; return answer },
		tell: func(*decide.Failed) { told++ },
	})
	noVerdict := decide.Headers{}
	noVerdict.Set(decide.RetryAfterHeader, "3600")
	steps := []struct {
		step  int
		right func()
		want  decide.Reason
	}{
		{2, func() {}, decide.ReasonNotAFailure},
		{2, func() { a.Failure = decide.CanceledByCaller }, decide.ReasonCanceled},
		{3, func() { a.Failure = decide.CallerBreakerOpen }, decide.ReasonServerRefused},
		{3, func() { a.Headers = noVerdict }, decide.ReasonBreakerOpen},
		{4, func() { a.Failure = 404 }, decide.ReasonNotRetryable},
		{5, func() { a.Failure = 503 }, decide.ReasonNotSafeToRepeat},
		{6, func() { a.Method = "GET" }, decide.ReasonRetriedBelow},
		{6, func() { a.RetriedBelow = false }, decide.ReasonNotTheRetryLayer},
		{6, func() { a.Caller = "search" }, decide.ReasonNotTheRetryLayer},
		{7, func() { a.InboundAttempt = 1 }, decide.ReasonAttemptsExhausted},
		{8, func() { a.Number = 1 }, decide.ReasonServerDelayTooLong},
		{8, func() { a.Headers.Set(decide.RetryAfterHeader, "5") }, decide.ReasonDeadline},
		{9, func() { a.Remaining.Value = 60_000 }, decide.ReasonPaused},
		{9, func() { answer.Verdict = decide.OpenBreaker }, decide.ReasonBreakerOpen},
		{9, func() { answer.Verdict = decide.CoolDownTooLong }, decide.ReasonDeadline},
		{9, func() { answer.Verdict = decide.NoTokens }, decide.ReasonBudgetExhausted},
		{9, func() { answer.Verdict = decide.Unavailable }, decide.ReasonStoreUnavailable},
		{9, func() { answer.Verdict, answer.CoolDown = decide.Granted, 10_000 }, decide.ReasonCoolDown},
		{9, func() { answer.CoolDown = 0 }, decide.ReasonRetryAfter},
		{9, func() { a.Headers = decide.Headers{} }, decide.ReasonBackoff},
	}
	for i, step := range steps {
		step.right()
		asked, told = 0, 0
		got := mustDecide(t, d, a)
		if got.Reason != step.want || got.Retry() != step.want.Retry() {
			t.Fatalf("line %d: %s, want %s", i, got.Reason, step.want)
		}
		wantAsked, wantTold := 0, 0
		switch {
		case step.step == 9:
			wantAsked = 1
		case step.step >= 5:
			wantTold = 1
		}
		if asked != wantAsked || told != wantTold {
			t.Errorf("line %d, %s: asked %d times and told %d, want %d and %d", i, got.Reason, asked, told, wantAsked, wantTold)
		}
		if !got.Retry() && (got.Delay != 0 || got.NextAttempt != 0 || got.Remaining.Present || got.Hints != 0) {
			t.Errorf("line %d: a give-up says how to retry: %+v", i, got)
		}
	}
}

func TestSafeToRepeat(t *testing.T) {
	t.Parallel()
	type edit = func(*decide.Attempt)
	method := func(m string) edit { return func(a *decide.Attempt) { a.Method = m } }
	key := func(a *decide.Attempt) { a.HasIdempotencyKey = true }
	knows := func(k decide.Knowledge) edit { return func(a *decide.Attempt) { a.Idempotent = k } }
	fails := func(f decide.Failure) edit { return func(a *decide.Attempt) { a.Failure = f } }
	tests := []struct {
		name   string
		repeat decide.Repeat
		edits  []edit
		want   bool
	}{
		{"GET", decide.Repeat{}, []edit{}, true},
		{"POST", decide.Repeat{}, []edit{method("POST")}, false},
		{"POST with a key", decide.Repeat{}, []edit{method("POST"), key}, true},
		{"POST that is guarded", decide.Repeat{}, []edit{method("POST"), knows(decide.Yes)}, true},
		{"GET with effects", decide.Repeat{}, []edit{knows(decide.No)}, false},
		{"GET with effects and a key", decide.Repeat{}, []edit{knows(decide.No), key}, true},
		{"GET with effects where any may", decide.Repeat{Any: true}, []edit{knows(decide.No)}, false},
		{"POST where any may", decide.Repeat{Any: true}, []edit{method("POST")}, true},
		{"PUT where GET alone may", decide.Repeat{Methods: []string{"GET"}}, []edit{method("PUT")}, false},
		{"PUT with a key where GET alone may", decide.Repeat{Methods: []string{"GET"}}, []edit{method("PUT"), key}, true},
		{"POST never sent", decide.Repeat{}, []edit{method("POST"), fails(decide.ConnectionRefused)}, true},
		{"GET with effects, never sent", decide.Repeat{}, []edit{knows(decide.No), fails(decide.NotProcessed)}, true},
		{"an unknown method", decide.Repeat{}, []edit{method("FROB")}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(func(p *decide.Policy) { p.Repeat = test.repeat })
			plan := decide.NewPlan(p, got503(test.edits...), noon, always(0.5))
			if got := plan.Decision.Reason != decide.ReasonNotSafeToRepeat; got != test.want {
				t.Errorf("safe: %t, want %t", got, test.want)
			}
		})
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	const retries = decide.ReasonBackoff
	tests := []struct {
		name      string
		layer     []string
		onlyFirst bool
		attempt   func(*decide.Attempt)
		want      decide.Reason
	}{
		{"no layer named", nil, false, func(*decide.Attempt) {}, retries},
		{"the layer", []string{"search", "checkout"}, false, func(a *decide.Attempt) { a.Caller = "checkout" }, retries},
		{"another", []string{"search", "checkout"}, false, func(a *decide.Attempt) { a.Caller = "cart" }, decide.ReasonNotTheRetryLayer},
		{"nobody", []string{"checkout"}, false, func(*decide.Attempt) {}, decide.ReasonNotTheRetryLayer},
		{"inbound, not heeded", nil, false, func(a *decide.Attempt) { a.InboundAttempt = 2 }, retries},
		{"inbound, the first", nil, true, func(a *decide.Attempt) { a.InboundAttempt = 1 }, retries},
		{"inbound, not given", nil, true, func(*decide.Attempt) {}, retries},
		{"inbound, the second", nil, true, func(a *decide.Attempt) { a.InboundAttempt = 2 }, decide.ReasonNotTheRetryLayer},
		{"retried below", nil, false, func(a *decide.Attempt) { a.RetriedBelow = true }, decide.ReasonRetriedBelow},
		{"retried below beats the layer", []string{"checkout"}, false, func(a *decide.Attempt) { a.RetriedBelow = true }, decide.ReasonRetriedBelow},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(func(p *decide.Policy) { p.RetryLayer, p.OnlyFirstInbound = test.layer, test.onlyFirst })
			plan := decide.NewPlan(p, got503(test.attempt), noon, always(0.5))
			if got := plan.Decision.Reason; got != test.want {
				t.Errorf("the reason is %s, want %s", got, test.want)
			}
		})
	}
}

func TestAttemptsLeft(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		failure     decide.Failure
		number, max int64
		want        bool
	}{
		{"first of four", 503, 1, 4, true},
		{"third of four", 503, 3, 4, true},
		{"fourth of four", 503, 4, 4, false},
		{"beyond", 503, 5, 4, false},
		{"one never retries", 503, 1, 1, false},
		{"no policy at all", 503, 1, 0, false},
		{"an attempt without a number is the first", 503, 0, 2, true},
		{"an attempt below nought is the first", 503, math.MinInt64, 2, true},
		{"421 once", 421, 1, 4, true},
		{"421 not twice", 421, 2, 4, false},
		{"425 not twice", 425, 2, 4, false},
		{"the largest attempt", 503, decide.MaxAttempt, decide.MaxAttempt + 1, true},
		{"the largest number", 503, math.MaxInt64 - 1, math.MaxInt64, true},
		{"beyond the largest number", 503, math.MaxInt64, math.MaxInt64, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(func(p *decide.Policy) { p.MaxAttempts = test.max })
			a := got503(func(a *decide.Attempt) { a.Failure, a.Number = test.failure, test.number })
			d := decide.NewPlan(p, a, noon, always(0.5)).Decision
			if got := d.Reason != decide.ReasonAttemptsExhausted; got != test.want {
				t.Fatalf("attempts left: %t, want %t", got, test.want)
			}
			if want := max(test.number, 1) + 1; test.want && d.NextAttempt != want {
				t.Errorf("the next attempt is %d, want %d", d.NextAttempt, want)
			}
		})
	}
}

func TestDelayAndDeadline(t *testing.T) {
	t.Parallel()
	type edit = func(*decide.Attempt)
	least := func(ms int64) edit { return func(a *decide.Attempt) { a.MinAttempt = decide.Some(ms) } }
	const (
		byBackoff = decide.ReasonBackoff
		byServer  = decide.ReasonRetryAfter
		tooLong   = decide.ReasonServerDelayTooLong
		deadline  = decide.ReasonDeadline
	)
	spread := func(share float64) func(*decide.Policy) {
		return func(p *decide.Policy) { p.RetryAfter.Spread = share }
	}
	bound := func(ms int64) func(*decide.Policy) { return func(p *decide.Policy) { p.RetryAfter.Max = ms } }
	jitter := waits(decide.Backoff{Strategy: decide.FullJitter, Base: 200, Cap: 1000, Multiplier: 2})
	tests := []struct {
		name   string
		policy []func(*decide.Policy)
		edits  []edit
		floats []float64
		reason decide.Reason
		delay  int64
		left   decide.Millis
		use    decide.ServerDelayUse
	}{
		{"own wait", nil, nil, nil, byBackoff, 200, decide.Millis{}, decide.DelayAbsent},
		{"own wait fits", nil, []edit{remaining(201)}, nil, byBackoff, 200, decide.Some(1), decide.DelayAbsent},
		{"equality does not fit", nil, []edit{remaining(200)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},
		{"nothing left", nil, []edit{remaining(0)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},
		{"less than nothing left", nil, []edit{remaining(math.MinInt64)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},
		{"all of time left", nil, []edit{remaining(math.MaxInt64)}, nil, byBackoff, 200, decide.Some(decide.MaxMillis - 200), decide.DelayAbsent},
		{"least attempt fits", nil, []edit{remaining(300), least(100)}, nil, byBackoff, 200, decide.Some(100), decide.DelayAbsent},
		{"least attempt does not fit", nil, []edit{remaining(299), least(100)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},
		{"least attempt of the policy", []func(*decide.Policy){func(p *decide.Policy) { p.MinAttempt = 100 }}, []edit{remaining(299)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},
		{"the attempt's least overrides", []func(*decide.Policy){func(p *decide.Policy) { p.MinAttempt = 100 }}, []edit{remaining(299), least(0)}, nil, byBackoff, 200, decide.Some(99), decide.DelayAbsent},
		{"no overflow", nil, []edit{remaining(math.MinInt64), least(math.MaxInt64)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},
		{"no overflow the other way", nil, []edit{remaining(math.MaxInt64), least(math.MinInt64)}, nil, byBackoff, 200, decide.Some(decide.MaxMillis - 200), decide.DelayAbsent},
		{"least attempt without a deadline", nil, []edit{least(math.MaxInt64)}, nil, byBackoff, 200, decide.Millis{}, decide.DelayAbsent},
		{"no wait at all with nothing left", []func(*decide.Policy){constant(0)}, []edit{remaining(0)}, nil, deadline, 0, decide.Millis{}, decide.DelayAbsent},

		{"server's wait", nil, []edit{retryAfter("2")}, nil, byServer, 2000, decide.Millis{}, decide.DelayUsed},
		{"server's wait is shorter", nil, []edit{retryAfter("0.1")}, nil, byBackoff, 200, decide.Millis{}, decide.DelayShorterThanBackoff},
		{"server's wait is the same", nil, []edit{retryAfter("0.2")}, nil, byBackoff, 200, decide.Millis{}, decide.DelayShorterThanBackoff},
		{"server's wait is nought", []func(*decide.Policy){constant(0)}, []edit{retryAfter("0")}, nil, byBackoff, 0, decide.Millis{}, decide.DelayShorterThanBackoff},
		{"server's wait at the bound", nil, []edit{retryAfter("60")}, nil, byServer, 60_000, decide.Millis{}, decide.DelayUsed},
		{"server's wait above it draws nothing", []func(*decide.Policy){jitter, spread(0.1)}, []edit{retryAfter("60.001")}, nil, tooLong, 0, decide.Millis{}, decide.DelayTooLong},
		{"too long comes before the deadline", nil, []edit{retryAfter("61"), remaining(0)}, nil, tooLong, 0, decide.Millis{}, decide.DelayTooLong},
		{"saturated", nil, []edit{retryAfter("99999999999999999999")}, nil, tooLong, 0, decide.Millis{}, decide.DelayTooLong},
		{"above every timer whatever the policy says", []func(*decide.Policy){bound(math.MaxInt64)}, []edit{retryAfter("2147483.648")}, nil, tooLong, 0, decide.Millis{}, decide.DelayTooLong},
		{"at the end of every timer", []func(*decide.Policy){bound(math.MaxInt64), spread(0.1)}, []edit{retryAfter("2147483.647")}, []float64{0.9}, byServer, decide.MaxDelayMillis, decide.Millis{}, decide.DelayUsed},
		{"server's wait fits", nil, []edit{retryAfter("2"), remaining(2001)}, nil, byServer, 2000, decide.Some(1), decide.DelayUsed},
		{"server's wait does not fit", nil, []edit{retryAfter("2"), remaining(2000)}, nil, deadline, 0, decide.Millis{}, decide.DelayUsed},
		{"malformed", nil, []edit{retryAfter("soon")}, nil, byBackoff, 200, decide.Millis{}, decide.DelayMalformed},
		{"malformed and late", nil, []edit{retryAfter("soon"), remaining(0)}, nil, deadline, 0, decide.Millis{}, decide.DelayMalformed},

		{"jitter draws one", []func(*decide.Policy){jitter}, nil, []float64{0.5}, byBackoff, 100, decide.Millis{}, decide.DelayAbsent},
		{"jitter and spread draw two", []func(*decide.Policy){jitter, spread(0.1)}, []edit{retryAfter("2")}, []float64{0.5, 0.35}, byServer, 2070, decide.Millis{}, decide.DelayUsed},
		{"a wait of nought draws no spread", []func(*decide.Policy){jitter, spread(0.1)}, []edit{retryAfter("0")}, []float64{0.5}, byBackoff, 100, decide.Millis{}, decide.DelayShorterThanBackoff},
		{"a spread that lifts above own", []func(*decide.Policy){spread(0.1)}, []edit{retryAfter("0.195")}, []float64{0.5}, byServer, 204, decide.Millis{}, decide.DelayUsed},
		{"a spread that stays below own", []func(*decide.Policy){spread(0.1)}, []edit{retryAfter("0.1")}, []float64{0.9}, byBackoff, 200, decide.Millis{}, decide.DelayShorterThanBackoff},
		{"spread cut by the deadline", []func(*decide.Policy){spread(0.1)}, []edit{retryAfter("2"), remaining(2050)}, []float64{0.5}, byServer, 2024, decide.Some(26), decide.DelayUsed},
		{"spread cut by the least attempt", []func(*decide.Policy){spread(0.1)}, []edit{retryAfter("2"), remaining(2150), least(100)}, []float64{0.999}, byServer, 2049, decide.Some(101), decide.DelayUsed},
		{"spread cut to nothing", []func(*decide.Policy){spread(0.1)}, []edit{retryAfter("2"), remaining(2001)}, []float64{0.999}, byServer, 2000, decide.Some(1), decide.DelayUsed},
		{"a floor that does not fit draws no spread", []func(*decide.Policy){spread(0.1)}, []edit{retryAfter("2"), remaining(2000)}, nil, deadline, 0, decide.Millis{}, decide.DelayUsed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(append([]func(*decide.Policy){constant(200)}, test.policy...)...)
			d := decide.NewPlan(p, got503(test.edits...), noon, script(t, test.floats...)).Decision
			if d.Reason != test.reason || d.Delay != test.delay {
				t.Errorf("%s after %d ms, want %s after %d", d.Reason, d.Delay, test.reason, test.delay)
			}
			if d.Remaining != test.left || d.ServerDelayUse != test.use {
				t.Errorf("left %+v, server's wait %s; want %+v, %s", d.Remaining, d.ServerDelayUse, test.left, test.use)
			}
		})
	}
}

func TestBackoffByKind(t *testing.T) {
	t.Parallel()
	p := standard(constant(100))
	p.Backoff[decide.Throttle].Base, p.Backoff[decide.Timing].Base = 1000, 500
	for f, want := range map[decide.Failure]int64{503: 100, 429: 1000, 529: 1000, 504: 500, decide.Timeout: 500, decide.ConnectionReset: 100} {
		a := got503(func(a *decide.Attempt) { a.Failure = f })
		if got := decide.NewPlan(p, a, noon, script(t)).Decision.Delay; got != want {
			t.Errorf("after %s the wait is %d ms, want %d", f, got, want)
		}
	}
}

// What became of a Retry-After where the decision fell before it mattered.
func TestServerDelayUseOfEarlyGiveUps(t *testing.T) {
	t.Parallel()
	fails := map[string]func(*decide.Attempt){
		"not a failure":  func(a *decide.Attempt) { a.Failure = 200 },
		"final":          func(a *decide.Attempt) { a.Failure = 404 },
		"unsafe":         func(a *decide.Attempt) { a.Method = "POST" },
		"retried below":  func(a *decide.Attempt) { a.RetriedBelow = true },
		"last attempt":   func(a *decide.Attempt) { a.Number = 4 },
		"caller's break": func(a *decide.Attempt) { a.Failure = decide.CallerBreakerOpen },
	}
	for name, fail := range fails {
		for value, want := range map[string]decide.ServerDelayUse{"5": decide.DelayUnused, "soon": decide.DelayMalformed, "0": decide.DelayUnused, "99999": decide.DelayUnused} {
			d := decide.NewPlan(standard(), got503(fail, retryAfter(value)), noon, script(t)).Decision
			if d.ServerDelayUse != want {
				t.Errorf("%s: %q is %s, want %s", name, value, d.ServerDelayUse, want)
			}
			if d.ServerDelay.Present != (value != "soon") {
				t.Errorf("%s: the server's delay of %q is %+v", name, value, d.ServerDelay)
			}
		}
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	tests := map[decide.Failure]decide.Hints{
		421: decide.NewConnection, 425: decide.NoEarlyData, 503: 0,
		decide.ConnectionRefused: decide.NewConnection, decide.ConnectionReset: decide.NewConnection,
		decide.ConnectionClosed: decide.NewConnection, decide.ConnectTimeout: 0, decide.Timeout: 0, decide.DNSFailure: 0,
	}
	for f, want := range tests {
		a := got503(func(a *decide.Attempt) { a.Failure = f })
		if got := decide.NewPlan(standard(), a, noon, always(0)).Decision.Hints; got != want {
			t.Errorf("after %s: %v, want %v", f, got.Names(), want.Names())
		}
		a.HasIdempotencyKey = true
		if got := decide.NewPlan(standard(), a, noon, always(0)).Decision.Hints; got != want|decide.SameIdempotencyKey {
			t.Errorf("after %s with a key: %v", f, got.Names())
		}
		a.Number = 4
		if got := decide.NewPlan(standard(), a, noon, always(0)).Decision.Hints; got != 0 {
			t.Errorf("a give-up after %s hints %v", f, got.Names())
		}
	}
}

func TestPlanIsTotalForZeroValues(t *testing.T) {
	t.Parallel()
	d := decide.NewPlan(&decide.Policy{}, &decide.Attempt{}, time.Time{}, always(0)).Decision
	if d.Reason != decide.ReasonNotAFailure {
		t.Errorf("nothing at all is %s", d.Reason)
	}
	p := &decide.Policy{MaxAttempts: 2}
	if d := decide.NewPlan(p, got503(), time.Time{}, always(0)).Decision; d.Reason != decide.ReasonBackoff || d.Delay != 0 {
		t.Errorf("a policy of nothing says %s in %d ms", d.Reason, d.Delay)
	}
}
