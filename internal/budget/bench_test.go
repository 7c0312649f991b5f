package budget

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// benchmarkAsk asks a fleet, one after the other or by 64 at once, and says how
// many commands a decision took where there is a server.
func benchmarkAsk(b *testing.B, f *Fleet) {
	p := testRule(func(p *decide.Policy) {
		p.Budget.Capacity, p.Budget.NanoPerSecond = decide.MaxCapacity, decide.MaxNanoPerSecond
	})
	for _, at := range []int{1, 64} {
		b.Run(fmt.Sprintf("at=%d", at), func(b *testing.B) {
			b.ReportAllocs()
			before := f.Stats()
			per := b.N/at + 1
			var done sync.WaitGroup
			for range at {
				done.Go(func() {
					q := asked(p)
					for range per {
						if a := f.Ask(context.Background(), q); a.Degraded {
							b.Error(said(a))
						}
					}
				})
			}
			done.Wait()
			if calls := f.Stats().Calls - before.Calls; calls > 0 {
				b.ReportMetric(float64(calls)/float64(at*per), "calls/op")
			}
		})
	}
}

func BenchmarkMemoryAsk(b *testing.B) { benchmarkAsk(b, NewFleet(NewMemory(time.Now))) }

func BenchmarkRedisAsk(b *testing.B) {
	benchmarkAsk(b, patientFleet(b, newClient(b, redistest.Start(b).URL), nil))
}
