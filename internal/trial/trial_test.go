package trial_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/trial"
)

func rule(maxAttempts, candidate int64) *decide.Policy {
	return &decide.Policy{Name: "payments", MaxAttempts: maxAttempts, Candidate: &decide.Policy{Name: "payments", MaxAttempts: candidate}}
}

func compared(b *trial.Book, p *decide.Policy, times int, enforced, candidate decide.Reason) {
	for i := range times {
		b.Compared(&decide.Comparison{Dependency: "payments", Policy: p, Enforced: enforced, Candidate: candidate, First: i%2 == 0})
	}
}

func TestOnlyDifferencesAreCountedByReasons(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b, p := trial.NewBook(nil, func() time.Time { return noon }), rule(4, 2)
	compared(b, p, 10, decide.ReasonBackoff, decide.ReasonBackoff)
	compared(b, p, 6, decide.ReasonBackoff, decide.ReasonBudgetExhausted)
	compared(b, p, 2, decide.ReasonNotRetryable, decide.ReasonRetryAfter)
	compared(b, p, 4, decide.ReasonDeadline, decide.ReasonAttemptsExhausted)
	b.Reported("payments", &decide.Outcome{Policy: p, FirstTrySuccesses: 28, RetrySuccesses: 100, FinalFailures: 1})
	got, ok := b.Of("payments")
	if !ok || got.Judged != 22 || got.Different != 12 || got.EnforcedRetries != 16 || got.CandidateRetries != 12 || got.Saved != 6 || got.Added != 2 ||
		got.Calls != 40 || !got.Since.Equal(noon) || !got.Exact {
		t.Errorf("%+v", got)
	}
	if share, ok := got.LoadChange(); !ok || share != -0.1 {
		t.Errorf("the load changes by %v", share)
	}
	want := []trial.Pair{{Enforced: decide.ReasonBackoff, Candidate: decide.ReasonBudgetExhausted}, {Enforced: decide.ReasonDeadline, Candidate: decide.ReasonAttemptsExhausted},
		{Enforced: decide.ReasonNotRetryable, Candidate: decide.ReasonRetryAfter}}
	if diff := cmp.Diff(want, got.Differences()); diff != "" {
		t.Error(diff)
	}
	if _, ok := (&trial.Counts{}).LoadChange(); ok {
		t.Error("a change of nothing")
	}
}

func TestAnotherCandidateBeginsAnew(t *testing.T) {
	t.Parallel()
	b := trial.NewBook(nil, time.Now)
	compared(b, rule(4, 2), 3, decide.ReasonBackoff, decide.ReasonDeadline)
	b.Shadowed(&decide.Decision{Dependency: "payments", Policy: "payments", ShadowReason: decide.ReasonBudgetExhausted})
	b.Shadowed(&decide.Decision{Dependency: "payments", Policy: "payments"})
	compared(b, rule(4, 2), 3, decide.ReasonBackoff, decide.ReasonDeadline)
	if got, _ := b.Of("payments"); got.Judged != 6 {
		t.Errorf("a reload of the same words begins anew: %d", got.Judged)
	}
	compared(b, rule(4, 3), 1, decide.ReasonBackoff, decide.ReasonBackoff)
	if got, _ := b.Of("payments"); got.Judged != 1 || len(got.Pairs) != 0 || got.Shadow[decide.ReasonBudgetExhausted] != 1 {
		t.Errorf("another candidate goes on: %+v", got)
	}
	b.Reported("stock", &decide.Outcome{Policy: &decide.Policy{Name: "stock"}, FirstTrySuccesses: 1})
	if _, ok := b.Of("stock"); ok {
		t.Error("a rule without a candidate is on trial")
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	b := trial.NewBook(nil, time.Now)
	p := rule(4, 2)
	p.Name = "svc-*"
	for i := range 1500 {
		b.Compared(&decide.Comparison{Dependency: fmt.Sprint("svc-", i), Policy: p})
	}
	compared(b, rule(4, 2), 1, decide.ReasonBackoff, decide.ReasonBackoff)
	all := b.All()
	if len(all) != 1002 || all[0].Dependency != trial.Other || all[0].Judged != 500 || all[1].Dependency != "payments" {
		t.Errorf("%d names, the first %s", len(all), all[0].Dependency)
	}
}
