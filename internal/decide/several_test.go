package decide_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/retrydecider/decider/internal/decide"
)

// severalFleet is a fleet that can be asked much at once.
type severalFleet struct {
	fakeFleet
	asked *[]string // the buckets of each list
}

func (f severalFleet) AskAll(ctx context.Context, questions []decide.Question, answers []decide.Answer) {
	for i := range questions {
		*f.asked = append(*f.asked, questions[i].Bucket)
		answers[i] = f.Ask(ctx, &questions[i])
	}
}

// Each attempt of a list is decided as it would be by itself, whether or not the
// fleet can be asked for all of them at once.
func TestDecideAll(t *testing.T) {
	t.Parallel()
	list := []*decide.Attempt{
		got503(),
		got503(func(a *decide.Attempt) { a.Failure = 404 }),
		got503(func(a *decide.Attempt) { a.Dependency = "unknown" }),
		got503(func(a *decide.Attempt) { a.Dependency = "stock" }, retryAfter("2")),
		got503(remaining(1)),
		got503(func(a *decide.Attempt) { a.Dependency, a.DecisionID = "spent", "chosen-by-the-caller" }),
	}
	fake := fakeFleet{ask: func(q *decide.Question) decide.Answer {
		if q.Bucket == "bucket of spent" {
			return decide.Answer{Verdict: decide.NoTokens, AskAgain: decide.Some(70)}
		}
		return decide.Answer{CoolDown: 300}
	}}
	var asked []string
	for name, fleet := range map[string]decide.Fleet{"one by one": fake, "at once": severalFleet{fake, &asked}} {
		d := decider(standard(), fleet)
		heard := 0
		d.DecideAll(t.Context(), list, func(i int, got decide.Decision, err error) {
			heard++
			want, wantErr := d.Decide(t.Context(), list[i])
			if !errors.Is(err, wantErr) {
				t.Errorf("%s, attempt %d: %v, want %v", name, i, err, wantErr)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(decide.Decision{})); diff != "" || got.Message() != want.Message() {
				t.Errorf("%s, attempt %d: %q, want %q: %s", name, i, got.Message(), want.Message(), diff)
			}
		})
		if heard != len(list) {
			t.Errorf("%s: %d of %d were answered", name, heard, len(list))
		}
	}
	if diff := cmp.Diff([]string{"bucket of payments", "bucket of stock", "bucket of spent"}, asked); diff != "" {
		t.Errorf("asked at once:%s", diff)
	}
	decider(standard(), fake).DecideAll(t.Context(), nil, nil)
}

// A rule's candidate changes neither how often the fleet is asked nor what is
// answered, and is judged as beside single attempts.
func TestDecideAllWithCandidates(t *testing.T) {
	t.Parallel()
	list := []*decide.Attempt{got503(), got503(func(a *decide.Attempt) { a.Failure = 404 }), got503(remaining(1)), got503()}
	for name, edit := range map[string]func(*decide.Policy){
		"the same": candidate(),
		"stricter": candidate(func(p *decide.Policy) { p.MaxAttempts = 1 }),
	} {
		var asked []string
		policy := standard(edit)
		together, single := &fakeTrials{}, &fakeTrials{}
		d := decider(policy, severalFleet{fakeFleet{}, &asked})
		d.Trials = together
		d.DecideAll(t.Context(), list, func(i int, got decide.Decision, err error) {
			one := *d
			one.Trials = single
			want, wantErr := one.Decide(t.Context(), list[i])
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(decide.Decision{})); diff != "" || err != wantErr { //nolint:errorlint // both are nil
				t.Errorf("%s, attempt %d: %s, %v", name, i, diff, err)
			}
		})
		if diff := cmp.Diff([]string{"bucket of payments", "bucket of payments"}, asked); diff != "" {
			t.Errorf("%s: asked at once:%s", name, diff)
		}
		got, want := together.pairs(), single.pairs()
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" || len(got) != len(list) {
			t.Errorf("%s: compared%s", name, diff)
		}
	}
}
