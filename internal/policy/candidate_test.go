package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrydecider/decider/internal/decide"
)

func TestACandidateIsLaidOverItsRule(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `
version: 1
defaults: {max_attempts: 5, candidate: {max_attempts: 2}, mode: shadow}
presets: {patient: {max_attempts: 9}}
dependencies:
  own: {budget: {capacity: 20}, retryable: {add: [409]}, candidate: {budget: {ratio: 5%}, retryable: {add: [423]}}}
  inherits: {budget: {capacity: 30}}
  named: {preset: patient, mode: enforce, candidate: {preset: aws-2026, max_attempts: 7}}
  plain: {preset: patient}
  enforced: {mode: enforce}
`)
	own, _, _ := set.Find("own")
	if c := own.Candidate; c == nil || c.Name != "own" || c.MaxAttempts != 5 || c.Budget.Capacity != 20_000_000 || c.Budget.Ratio != 50_000 || own.Budget.Ratio != 100_000 {
		t.Errorf("own: %+v", c)
	}
	for _, f := range []decide.Failure{409, 423} {
		if own.Candidate.Classes.Of(f, false) != decide.Ambiguous {
			t.Errorf("the candidate does not retry %s", f)
		}
	}
	if own.Classes.Of(423, false) != decide.Final {
		t.Error("the candidate has changed its rule")
	}
	if own.Candidate.Shadow || !own.Shadow || own.Candidate.Candidate != nil {
		t.Error("a candidate is neither a shadow nor has one")
	}
	inherits, _, _ := set.Find("inherits")
	if c := inherits.Candidate; c == nil || c.MaxAttempts != 2 || c.Budget.Capacity != 30_000_000 || inherits.MaxAttempts != 5 {
		t.Errorf("inherits: %+v", c)
	}
	named, _, _ := set.Find("named")
	if c := named.Candidate; c == nil || c.Preset != "aws-2026" || c.MaxAttempts != 7 || c.Budget.Cost[decide.Plain] != 14_000_000 || named.Shadow {
		t.Errorf("named: %+v", c)
	}
	if plain, _, _ := set.Find("plain"); plain.Candidate != nil || plain.Shadow {
		t.Error("a rule over a preset has the defaults' candidate")
	}
	if enforced, _, _ := set.Find("enforced"); enforced.Shadow || enforced.Candidate == nil {
		t.Error("enforce does not take back the defaults' shadow")
	}
	if other, _, _ := set.Find("other"); !other.Shadow || other.Candidate.MaxAttempts != 2 {
		t.Errorf("the defaults themselves: %+v", other)
	}
}

func TestACandidateIsDescribedByWhatItChanges(t *testing.T) {
	t.Parallel()
	p := rule1(t, "{description: cards, mode: shadow, headroom: 1.3, budget: {capacity: 20}, candidate: {budget: {ratio: 5%}, retryable: {add: [409]}}}")
	got := Describe(p)[len(Describe(rule1(t, "{description: cards}"))):]
	want := []Word{{"headroom", "1.3"}, {"mode", "shadow"}, {"candidate.retryable.add", "[409]"}, {"candidate.budget.ratio", "5%"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	before := mustParse(t, "{version: 1, dependencies: {payments: {}}}")
	after := mustParse(t, "{version: 1, dependencies: {payments: {candidate: {}}}}")
	if diff := cmp.Diff([]Difference{{"payments", "candidate", "", "{}"}}, Compare(before, after)); diff != "" {
		t.Error(diff)
	}
}
