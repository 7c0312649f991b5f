package handlers

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// everyDecision calls f with a decision of every reason, with and without each
// member that may be absent.
func everyDecision(f func(d *decide.Decision)) {
	for _, reason := range decide.Reasons() {
		for variant := range 1 << 5 {
			d := &decide.Decision{Reason: reason, DecisionID: "id-1", Dependency: "payments", Policy: `svc-"*`, Hints: decide.Hints(variant) & 15,
				ServerDelayUse: decide.ServerDelayUse(variant % 6), Breaker: decide.BreakerState(variant % 4), Degraded: variant&1 != 0}
			if reason.Retry() {
				d.Delay, d.NextAttempt = decide.MaxDelayMillis, decide.MaxAttempt+1
				if variant&1 != 0 {
					d.Remaining = decide.Some(decide.MaxMillis)
				}
			} else if variant&1 != 0 {
				d.AskAgain = decide.Some(0)
			}
			if variant&2 != 0 {
				d.ServerDelay = decide.Some(decide.MaxMillis)
			}
			if variant&4 != 0 {
				d.Budget = decide.Budget{Asked: true, Tokens: 9_100_000, Capacity: 10_000_000, Cost: 1, Local: variant&8 != 0}
			}
			f(d)
		}
	}
}

// What the encoder writes is what the contract says, for every reason.
func TestDecisionsValidate(t *testing.T) {
	t.Parallel()
	schema := contract.Components.Schemas["Decision"].Value
	everyDecision(func(d *decide.Decision) {
		text := appendDecision(nil, d)
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := schema.VisitJSON(value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		var got gen.Decision
		decodeWhole(t, text, &got)
		switch {
		case got.Reason != d.Reason.String(), string(got.Decision) != d.Word(), got.DelayMs != d.Delay, got.Message != d.Message(), got.DecisionId != d.DecisionID,
			got.Dependency != d.Dependency, got.Policy != d.Policy, got.RetryAfter != d.ServerDelayUse.String(), got.Breaker != d.Breaker.String(), got.Degraded != d.Degraded:
			t.Fatalf("wrote %s of %+v", text, d)
		case (got.NextAttempt != nil) != d.Retry(), (got.RemainingMs != nil) != d.Remaining.Present, (got.ServerDelayMs != nil) != d.ServerDelay.Present,
			(got.AskAgainInMs != nil) != d.AskAgain.Present, (got.Budget != nil) != d.Budget.Asked, !slices.Equal(got.Hints, append([]string{}, d.Hints.Names()...)):
			t.Fatalf("a member too many or too few in %s of %+v", text, d)
		}
		if got.Budget != nil && (got.Budget.Tokens != 9.1 || *got.Budget.Cost != 0.000001 || got.Budget.Source != d.Budget.Source()) {
			t.Fatalf("budget in %s", text)
		}
	})
}

// The members come in the order of the contract's table.
func TestDecisionOrder(t *testing.T) {
	t.Parallel()
	d := decide.Decision{Reason: decide.ReasonRetryAfter, Delay: 2070, NextAttempt: 2, DecisionID: "id-1", Dependency: "payments", Policy: "payments",
		Remaining: decide.Some(5930), ServerDelay: decide.Some(2000), ServerDelayUse: decide.DelayUsed, AskAgain: decide.Some(1),
		Budget: decide.Budget{Asked: true, Tokens: 9_100_000, Capacity: 10_000_000, Cost: 1_000_000}, Breaker: decide.BreakerOff,
		Hints: decide.SameIdempotencyKey | decide.NewConnection}
	text := string(appendDecision(nil, &d))
	text = strings.Replace(text, `"message":"`+d.Message()+`",`, "", 1)
	const want = `{"decision":"retry","delay_ms":2070,"reason":"retry_after","decision_id":"id-1","dependency":"payments","policy":"payments","next_attempt":2,` +
		`"remaining_ms":5930,"server_delay_ms":2000,"retry_after":"used","ask_again_in_ms":1,"budget":{"tokens":9.1,"capacity":10,"cost":1,"source":"fleet"},` +
		`"breaker":"off","degraded":false,"hints":["same_idempotency_key","new_connection"]}`
	if text != want {
		t.Errorf("wrote\n%s\nwant\n%s", text, want)
	}
}

func TestExplanationsValidate(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	for _, failure := range []string{`"status":503`, `"status":404`, `"status":200`, `"outcome":"breaker_open"`, `"grpc_status":"UNAVAILABLE"`} {
		got := c.post("/v1/explain", `{"dependency":"payments","method":"GET",`+failure+`}`)
		steps, _ := got.member(t, "trace").([]any)
		if got.status != 200 || len(steps) < 2 {
			t.Errorf("%s: %d %s", failure, got.status, got.body)
		}
	}
	if counts := c.get("/v1/dependencies/payments").member(t, "counts"); len(counts.(map[string]any)) != 0 {
		t.Errorf("explanations were counted: %v", counts)
	}
}

func BenchmarkAppendDecision(b *testing.B) {
	d := decide.Decision{Reason: decide.ReasonBackoff, Delay: 70, NextAttempt: 2, DecisionID: "id-1", Dependency: "payments", Policy: "payments",
		Budget: decide.Budget{Asked: true, Tokens: 9_100_000, Capacity: 10_000_000, Cost: 1_000_000}}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = appendDecision(out[:0], &d)
	}
}
