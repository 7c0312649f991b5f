package budget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// Many buckets share their way to the server and nothing else: each grants what
// it holds, by one script call for each question, though the server has
// forgotten the script when they come.
func TestTogetherEachBucketIsItsOwn(t *testing.T) {
	t.Parallel()
	const buckets, holding, questions = 100, 3, 5
	client := newClient(t, redistest.Start(t).URL)
	f := patientFleet(t, client, nil)
	var granted [buckets]atomic.Int64
	var done sync.WaitGroup
	for i := range buckets {
		done.Go(func() {
			p := testRule(func(p *decide.Policy) {
				p.Name = fmt.Sprintf("bucket-%d", i)
				p.Budget.Capacity, p.Budget.NanoPerSecond = holding*token, 0
			})
			for range questions {
				switch a := f.Ask(context.Background(), asked(p)); {
				case a.Degraded:
					t.Errorf("bucket %d: %s", i, said(a))
				case a.Verdict == decide.Granted:
					granted[i].Add(1)
				}
			}
		})
	}
	done.Wait()
	for i := range granted {
		if got := granted[i].Load(); got != holding {
			t.Errorf("bucket %d granted %d, want %d", i, got, holding)
		}
	}
	if got := f.Stats(); got.Calls != buckets*questions || got.Errors != 0 {
		t.Errorf("%+v, want %d calls", got, buckets*questions)
	}
}

// What waits behind flights that do not come back is withdrawn, and never sent.
func TestTogetherWithdrawsWhatWaits(t *testing.T) {
	t.Parallel()
	const crowd = 50
	client := newClient(t, redistest.Start(t).URL)
	b := NewRedis(client, nil)
	rule := func(i int) *decide.Policy { return testRule(named(fmt.Sprintf("bucket-%d", i), nil)) }
	askOnce(t, b, rule(0), nil) // sends the script
	before := scriptCalls(t, client)
	if err := client.Do(t.Context(), "client", "pause", 1000, "all").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var done sync.WaitGroup
	for i := range crowd {
		done.Go(func() {
			if err := b.Run(ctx, rule(i).Name, rule(i), []op{{tell: &failures{count: 1}}}); err == nil {
				t.Errorf("bucket %d: a stopped server has answered", i)
			}
		})
	}
	done.Wait()
	if sent := scriptCalls(t, client) - before; sent > maxFlights { // it waits for the pause to end
		t.Errorf("%d calls were sent, more than %d", sent, maxFlights)
	}
	if got := said(askOnce(t, b, rule(crowd), nil)); got != "granted 9/10" {
		t.Errorf("afterwards: %s", got)
	}
}
