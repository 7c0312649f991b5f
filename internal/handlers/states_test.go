package handlers

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// The state of each dependency that the policy file names is told, and however
// often it is scraped the store is asked once in five seconds.
func TestStatesAreTold(t *testing.T) {
	t.Parallel()
	var asked, seconds atomic.Int64
	config := testConfig(&fakeFleet{state: func(bucket string, _ *decide.Policy, caller string) decide.State {
		asked.Add(1)
		if bucket != "payments" || caller != "" {
			t.Errorf("asked for %q, caller %q", bucket, caller)
		}
		return decide.State{
			Budget:  decide.Budget{Asked: true, Tokens: 2_500_000, Capacity: 10_000_000},
			Breaker: decide.BreakerOpen, CoolDown: 1500, Override: decide.Override{Mode: decide.OverridePause},
		}
	}})
	config.Now = func() time.Time { return epoch.Add(time.Duration(seconds.Load()) * time.Second) }
	c := newCaller(t, newHandler(t, config))
	for range 10 {
		c.get("/metrics")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times within five seconds", n)
	}
	seconds.Store(5)
	text := string(c.get("/metrics").body)
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times after five seconds", n)
	}
	for _, line := range []string{
		`decider_budget_tokens{dependency="payments"} 2.5`,
		`decider_budget_capacity_tokens{dependency="payments"} 10`,
		`decider_breaker_state{dependency="payments",state="open"} 1`,
		`decider_breaker_state{dependency="payments",state="closed"} 0`,
		`decider_breaker_state{dependency="payments",state="half_open"} 0`,
		`decider_cool_down_seconds{dependency="payments"} 1.5`,
		`decider_override{dependency="payments",mode="pause"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// What a dependency gets, against what it would get without decider.
func TestLoadIsCounted(t *testing.T) {
	t.Parallel()
	c := newCaller(t, newHandler(t, testConfig(&fakeFleet{ask: func(q *decide.Question) decide.Answer {
		if q.Attempt > 1 {
			return decide.Answer{Verdict: decide.NoTokens}
		}
		return decide.Answer{Budget: decide.Budget{Asked: true, Cost: 1_500_000}}
	}})))
	for _, body := range []string{
		`{"dependency":"payments","method":"GET","status":503}`,
		`{"dependency":"payments","method":"GET","status":503,"attempt":2}`,
		`{"dependency":"payments","method":"POST","outcome":"timeout","attempt":1}`,
		`{"dependency":"payments","method":"GET","status":404}`,
		`{"dependency":"payments","method":"GET","status":200,"attempt":3}`,
		`{"dependency":"payments","method":"GET","outcome":"canceled","attempt":3}`,
	} {
		c.post("/v1/decide", body)
	}
	c.post("/v1/outcomes", `{"outcomes":[{"dependency":"payments","first_try_successes":100,"retry_successes":2,"final_failures":7}]}`)
	text := string(c.get("/metrics").body)
	for _, line := range []string{
		`decider_first_attempts_total{dependency="payments"} 110`,
		`decider_retries_asked_total{dependency="payments"} 3`,
		`decider_retries_granted_total{dependency="payments"} 1`,
		`decider_budget_spent_tokens_total{dependency="payments"} 1.5`,
		`decider_budget_deposits_total{dependency="payments"} 102`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestHiddenMetrics(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	config.HideMetrics = true
	if got := newCaller(t, newHandler(t, config)).get("/metrics"); got.status != 404 {
		t.Errorf("%d", got.status)
	}
}
