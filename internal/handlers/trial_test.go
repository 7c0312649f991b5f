package handlers

import (
	"strings"
	"testing"
	"time"

	store "github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/trial"
)

// TestShadowAndCandidateAreTold asks a rule in shadow, whose candidate has half
// its tokens, more often than it has tokens.
func TestShadowAndCandidateAreTold(t *testing.T) {
	t.Parallel()
	fleet := store.NewFleet(store.NewMemory(time.Now))
	config := testConfig(new(fakeFleet))
	policies := newFakePolicies()
	policies.payments.Budget.NanoPerSecond = 0
	candidate := *policies.payments
	candidate.Budget.Capacity = 5 * decide.MicroPerToken
	policies.payments.Candidate, policies.payments.Shadow, policies.payments.Headroom = &candidate, true, 1_300_000
	config.Policies, config.Fleet = policies, fleet
	config.Trials = trial.NewBook(fleet, func() time.Time { return epoch })
	decider := *config.Decider.(*decide.Decider)
	decider.Policies, decider.Fleet, decider.Trials = policies, fleet, config.Trials
	config.Decider = &decider
	heard := 0
	config.Decided = func(at time.Time, a *decide.Attempt, d *decide.Decision) {
		if heard++; a.Dependency != "payments" || d.Dependency != "payments" || at.IsZero() {
			t.Errorf("heard of %+v at %s", a, at)
		}
	}
	c := newCaller(t, newHandler(t, config))
	const failed = `{"dependency":"payments","method":"GET","status":503}`
	for range 11 {
		c.post("/v1/decide", failed)
	}
	last := c.post("/v1/decide", failed)
	if last.member(t, "decision") != "retry" || last.member(t, "shadow_reason") != "budget_exhausted" {
		t.Errorf("the twelfth: %s", last.body)
	}
	c.post("/v1/outcomes", `{"outcomes":[{"dependency":"payments","first_try_successes":3,"retry_successes":5,"final_failures":1}]}`)
	got := c.get("/v1/dependencies/payments")
	for path, want := range map[string]any{
		"shadow.budget_exhausted": 2.0, "policy.mode": "shadow", "policy.headroom": 1.3, "policy.candidate.budget.capacity": 5.0,
		"candidate.judged": 12.0, "candidate.different": 5.0, "candidate.enforced_retries": 10.0, "candidate.candidate_retries": 5.0,
		"candidate.saved": 5.0, "candidate.added": 0.0, "candidate.calls": 16.0, "candidate.load_change": -0.3125,
		"candidate.budget.tokens": 0.8, "budget.tokens": 0.8, "candidate.since": "2026-11-30T15:04:05Z",
	} {
		if value := got.member(t, path); value != want {
			t.Errorf("%s is %v, want %v", path, value, want)
		}
	}
	if !strings.Contains(string(got.body), `"differences":[{"attempts":5,"candidate":"budget_exhausted","enforced":"backoff"}]`) {
		t.Errorf("%s", got.body)
	}
	if heard != 12 {
		t.Errorf("heard of %d decisions", heard)
	}
	if trace := c.post("/v1/explain", failed); !strings.Contains(string(trace.body), `{"step":10,"question":"what does the candidate say?","answer":"the same: Give up`) {
		t.Errorf("%s", trace.body)
	}
}

// A breaker that is not enforced stops no client's calls.
func TestAShadowsBreakerStopsNobody(t *testing.T) {
	t.Parallel()
	config := testConfig(&fakeFleet{report: func(*decide.Outcome) decide.State { return decide.State{Breaker: decide.BreakerOpen} }})
	policies := config.Policies.(*fakePolicies)
	policies.services.Shadow = true
	c := newCaller(t, newHandler(t, config))
	got := c.post("/v1/outcomes", `{"outcomes":[{"dependency":"payments"},{"dependency":"svc-1"}]}`)
	if body := string(got.body); !strings.Contains(body, `"breaker":"open"`) || !strings.Contains(body, `"breaker":"closed"`) {
		t.Errorf("%s", body)
	}
}
