package decide_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrydecider/decider/internal/decide"
)

// fakeTrials answers a candidate's question by its function, a nil one grants,
// and keeps what was compared.
type fakeTrials struct {
	ask      func(*decide.Question) decide.Answer
	later    []func()
	compared []decide.Comparison
}

func (f *fakeTrials) AskLater(q *decide.Question, answered func(decide.Answer)) {
	f.later = append(f.later, func() {
		if f.ask == nil {
			answered(decide.Answer{Budget: decide.Budget{Asked: true}})
			return
		}
		answered(f.ask(q))
	})
}

func (f *fakeTrials) Compared(c *decide.Comparison) { f.compared = append(f.compared, *c) }

// pairs are the compared reasons, enforced and candidate, after what was asked
// for later has been answered.
func (f *fakeTrials) pairs() (list []string) {
	for _, answer := range f.later {
		answer()
	}
	f.later = nil
	for _, c := range f.compared {
		list = append(list, c.Enforced.String()+"|"+c.Candidate.String())
	}
	return list
}

func shadow(p *decide.Policy) { p.Shadow = true }

// candidate is the tests' rule with a second one, edited.
func candidate(edits ...func(*decide.Policy)) func(*decide.Policy) {
	return func(p *decide.Policy) {
		second := *p
		second.Candidate, second.Shadow = nil, false
		for _, edit := range edits {
			edit(&second)
		}
		p.Candidate = &second
	}
}

func TestAShadowGrantsWhatTheFleetRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answer  decide.Answer
		attempt []func(*decide.Attempt)
		reason  decide.Reason
		would   decide.Reason
		delay   int64
	}{
		{"granted", decide.Answer{}, nil, decide.ReasonBackoff, 0, 200},
		{"no tokens", decide.Answer{Verdict: decide.NoTokens, AskAgain: decide.Some(5)}, nil, decide.ReasonBackoff, decide.ReasonBudgetExhausted, 200},
		{"an open breaker", decide.Answer{Verdict: decide.OpenBreaker, Breaker: decide.BreakerOpen}, nil, decide.ReasonBackoff, decide.ReasonBreakerOpen, 200},
		{"a store out of reach", decide.Answer{Verdict: decide.Unavailable, Degraded: true}, nil, decide.ReasonBackoff, decide.ReasonStoreUnavailable, 200},
		{"a cool-down beyond the deadline", decide.Answer{Verdict: decide.CoolDownTooLong, CoolDown: 9000}, []func(*decide.Attempt){remaining(5000)}, decide.ReasonBackoff, decide.ReasonDeadline, 200},
		{"a cool-down that was granted and does not fit", decide.Answer{CoolDown: 9000}, []func(*decide.Attempt){remaining(5000), retryAfter("1")}, decide.ReasonRetryAfter, decide.ReasonDeadline, 1000},
		{"a cool-down that fits", decide.Answer{CoolDown: 900}, nil, decide.ReasonCoolDown, 0, 900},
		{"an operator's pause", decide.Answer{Verdict: decide.Paused}, nil, decide.ReasonPaused, 0, 0},
		{"not the fleet's word", decide.Answer{}, []func(*decide.Attempt){func(a *decide.Attempt) { a.Number = 4 }}, decide.ReasonAttemptsExhausted, 0, 0},
	} {
		d := mustDecide(t, decider(standard(constant(200), shadow), answers(c.answer)), got503(c.attempt...))
		if d.Reason != c.reason || d.ShadowReason != c.would || d.Delay != c.delay || d.AskAgain.Present {
			t.Errorf("%s: %s, shadow %s, %d ms, ask again %v", c.name, d.Reason, d.ShadowReason, d.Delay, d.AskAgain)
		}
		if c.would != 0 && (!strings.Contains(d.Message(), "in shadow, enforced it would have given up: "+c.would.String()) || d.Enforced() != c.would || d.NextAttempt != 2) {
			t.Errorf("%s: %q, enforced %s, next %d", c.name, d.Message(), d.Enforced(), d.NextAttempt)
		}
	}
}

func TestACandidateIsJudgedOnTheSameAttempt(t *testing.T) {
	t.Parallel()
	noTokens := func(*decide.Question) decide.Answer { return decide.Answer{Verdict: decide.NoTokens} }
	for _, c := range []struct {
		name      string
		policy    []func(*decide.Policy)
		fleet     decide.Answer
		candidate func(*decide.Question) decide.Answer
		attempt   func(*decide.Attempt)
		want      string
		told      string
	}{
		{name: "both grant", want: "backoff|backoff"},
		{name: "its bucket is empty", candidate: noTokens, want: "backoff|budget_exhausted"},
		{name: "the rule's bucket is empty", fleet: decide.Answer{Verdict: decide.NoTokens}, want: "budget_exhausted|backoff"},
		{name: "it has fewer attempts", policy: []func(*decide.Policy){candidate(func(p *decide.Policy) { p.MaxAttempts = 1 })}, want: "backoff|attempts_exhausted", told: "bucket of payments#candidate"},
		{name: "it has more attempts", policy: []func(*decide.Policy){candidate(func(p *decide.Policy) { p.MaxAttempts = 9 })}, attempt: func(a *decide.Attempt) { a.Number = 5 }, want: "attempts_exhausted|backoff", told: "bucket of payments"},
		{name: "a pause holds for both", fleet: decide.Answer{Verdict: decide.Paused}, candidate: noTokens, want: "paused|paused", told: "bucket of payments#candidate"},
		{name: "so does an allow", fleet: decide.Answer{}, candidate: noTokens, want: "backoff|backoff", told: "bucket of payments#candidate"},
		{name: "asked again", fleet: decide.Answer{Replayed: true, Budget: decide.Budget{Asked: true}}, want: ""},
		{name: "of a shadow, by what it would have said", policy: []func(*decide.Policy){shadow, candidate()}, fleet: decide.Answer{Verdict: decide.NoTokens}, candidate: noTokens, want: "budget_exhausted|budget_exhausted"},
		{name: "not a failure", attempt: func(a *decide.Attempt) { a.Failure = 200 }, want: "not_a_failure|not_a_failure"},
	} {
		trials := &fakeTrials{ask: c.candidate}
		fleet := answers(c.fleet)
		if c.fleet == (decide.Answer{}) && c.name != "so does an allow" {
			fleet = answers(decide.Answer{Budget: decide.Budget{Asked: true}})
		}
		var told []string
		fleet.tell = func(f *decide.Failed) { told = append(told, f.Bucket) }
		p := standard(constant(200), candidate())
		for _, edit := range c.policy {
			edit(p)
		}
		d := decider(p, fleet)
		alone := mustDecide(t, d, attemptOf(c.attempt))
		told = nil
		d.Trials = trials
		if diff := cmp.Diff(alone.Message(), mustMessage(t, d, attemptOf(c.attempt))); diff != "" {
			t.Errorf("%s: the candidate has changed the answer: %s", c.name, diff)
		}
		if got := strings.Join(trials.pairs(), " "); got != c.want {
			t.Errorf("%s: compared %q, want %q", c.name, got, c.want)
		}
		if got := strings.Join(told, " "); got != c.told {
			t.Errorf("%s: told %q, want %q", c.name, got, c.told)
		}
	}
}

func attemptOf(edit func(*decide.Attempt)) *decide.Attempt {
	if edit == nil {
		return got503()
	}
	return got503(edit)
}

func mustMessage(t *testing.T, d *decide.Decider, a *decide.Attempt) string {
	t.Helper()
	decision := mustDecide(t, d, a)
	return decision.Message()
}

// A seeded decider draws the same floats with a candidate and without one, and
// the candidate has the same floats too.
func TestACandidateDrawsNothing(t *testing.T) {
	t.Parallel()
	p := standard(candidate(func(p *decide.Policy) { p.RetryAfter.Spread = 0.5 }))
	seen := &fakeTrials{}
	var waits []int64
	seen.ask = func(q *decide.Question) decide.Answer {
		waits = append(waits, q.Own, q.Delay)
		return decide.Answer{CoolDown: 1000}
	}
	d := decider(p, answers(decide.Answer{Budget: decide.Budget{Asked: true}}))
	d.Random, d.Trials = script(t, 0.25), seen
	if got := mustDecide(t, d, got503()); got.Delay != 25 {
		t.Errorf("%d ms", got.Delay)
	}
	seen.pairs()
	if diff := cmp.Diff([]int64{25, 25}, waits); diff != "" {
		t.Error(diff)
	}
	d.Random = script(t, 0.25)
	mustDecide(t, d, got503())
	seen.pairs()
}

func TestExplainTellsOfTheCandidateAndChangesNothing(t *testing.T) {
	t.Parallel()
	trials := &fakeTrials{}
	var asked []string
	fleet := fakeFleet{ask: func(q *decide.Question) decide.Answer {
		asked = append(asked, q.Bucket)
		if !q.DryRun {
			t.Error("it was no dry run")
		}
		if strings.HasSuffix(q.Bucket, "#candidate") {
			return decide.Answer{Verdict: decide.NoTokens}
		}
		return decide.Answer{Budget: decide.Budget{Asked: true}}
	}, tell: func(*decide.Failed) { t.Error("the fleet was told") }}
	d := decider(standard(constant(200), candidate()), fleet)
	d.Trials = trials
	var trace decide.Trace
	if _, err := d.Explain(context.Background(), got503(), &trace); err != nil {
		t.Fatal(err)
	}
	last := trace.Steps[len(trace.Steps)-1]
	if last.Step != 10 || !strings.HasPrefix(last.Answer, "something else: Give up: the retry budget of payments is spent") {
		t.Errorf("%+v", last)
	}
	if len(trials.pairs()) > 0 || cmp.Diff([]string{"bucket of payments", "bucket of payments#candidate"}, asked) != "" {
		t.Errorf("compared %v, asked %v", trials.pairs(), asked)
	}
	p := standard(constant(200), candidate(func(p *decide.Policy) { p.MaxAttempts = 1 }))
	d.Policies = onePolicy{p}
	trace.Steps = nil
	if _, err := d.Explain(context.Background(), got503(), &trace); err != nil || trace.Steps[len(trace.Steps)-1].Step != 10 {
		t.Errorf("%v, %+v", err, trace)
	}
}
