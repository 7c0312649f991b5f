package decide_test

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// usualPaths are the decisions that a fleet asks for most.
var usualPaths = []struct {
	name    string
	attempt *decide.Attempt
}{
	{"503", got503()},
	{"503 with Retry-After 2", got503(retryAfter("2"))},
	{"503 with a date", got503(retryAfter("Mon, 30 Nov 2026 12:00:30 GMT"), header(decide.DateHeader, "Mon, 30 Nov 2026 12:00:00 GMT"))},
	{"404", got503(func(a *decide.Attempt) { a.Failure = 404 })},
	{"POST timeout", got503(func(a *decide.Attempt) { a.Failure, a.Method = decide.Timeout, "POST" })},
}

func BenchmarkPlan(b *testing.B) {
	p, random := standard(), always(0.5)
	for _, path := range usualPaths {
		b.Run(path.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide.NewPlan(p, path.attempt, noon, random)
			}
		})
	}
}

func TestPlanAllocatesNothing(t *testing.T) { // not parallel: other tests allocate
	p, random := standard(), always(0.5)
	for _, path := range usualPaths {
		if got := testing.AllocsPerRun(100, func() { decide.NewPlan(p, path.attempt, noon, random) }); got != 0 {
			t.Errorf("%s: %v allocations", path.name, got)
		}
	}
}
