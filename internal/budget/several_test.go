package budget

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// A list of questions is answered as the questions by themselves would be, each
// bucket by one call and in order.
func TestAskAll(t *testing.T) {
	t.Parallel()
	for name, fleet := range map[string]func(t *testing.T) *Fleet{
		"memory": func(*testing.T) *Fleet { return NewFleet(NewMemory(time.Now)) },
		"redis":  func(t *testing.T) *Fleet { return patientFleet(t, newClient(t, redistest.Start(t).URL), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const many, others = maxMerged + 44, 70
			f := fleet(t)
			rule := func(name string) *decide.Policy {
				return testRule(named(name, func(p *decide.Policy) { p.Budget.Capacity = 10 * token }))
			}
			busy := rule("busy")
			var list []decide.Question
			for i := range many {
				list = append(list, *asked(busy))
				if i < others {
					list = append(list, *asked(rule(fmt.Sprintf("bucket-%d", i))))
				}
			}
			answers := make([]decide.Answer, len(list))
			f.AskAll(context.Background(), list, answers)
			left := 10
			for i, a := range answers {
				want := "granted 9/10"
				if list[i].Bucket == "busy" {
					left--
					want = fmt.Sprintf("granted %d/10", left)
					if left < 0 {
						want = "no tokens 0/10"
					}
				}
				if got := said(a); got != want {
					t.Fatalf("answer %d, of %s, is %q, want %q", i, list[i].Bucket, got, want)
				}
			}
			if s := f.Stats(); name == "redis" && (s.Calls != 1+others || s.Operations != int64(len(list))) {
				t.Errorf("%+v, want %d calls for %d operations", s, 1+others, len(list))
			}
		})
	}
}

func TestAskAllOfNothing(t *testing.T) {
	t.Parallel()
	NewFleet(NewMemory(time.Now)).AskAll(context.Background(), nil, nil)
}
