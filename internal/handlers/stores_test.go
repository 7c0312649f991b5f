package handlers

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// ownBuckets gives every handler its own buckets on a store that it shares, so
// that no row of a table sees what another one spent.
type ownBuckets struct {
	*fakePolicies
	prefix string
}

func (o ownBuckets) Find(dependency string) (*decide.Policy, string, error) {
	p, bucket, err := o.fakePolicies.Find(dependency)
	return p, o.prefix + bucket, err
}

// TestEveryCallOnEveryStore runs the table of every call, which TestEveryCall
// runs on a fake, with budgets in memory and in Redis.
func TestEveryCallOnEveryStore(t *testing.T) {
	t.Parallel()
	for store, newFleet := range map[string]func(t testing.TB) func(testing.TB) *budget.Fleet{
		"memory": func(testing.TB) func(testing.TB) *budget.Fleet {
			return func(testing.TB) *budget.Fleet { return budget.NewFleet(budget.NewMemory(time.Now)) }
		},
		"miniredis": func(t testing.TB) func(testing.TB) *budget.Fleet {
			server := miniredis.NewMiniRedis()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			return fleetsOn(t, "redis://"+server.Addr())
		},
		"redis": func(t testing.TB) func(testing.TB) *budget.Fleet { return fleetsOn(t, redistest.Start(t).URL) },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			var rows atomic.Int64
			fleet := newFleet(t)
			runContractCalls(t, func(t testing.TB) http.Handler {
				return onFleet(t, fleet(t), "row-"+strconv.FormatInt(rows.Add(1), 10)+":")
			})
		})
	}
}

// onFleet is onFakes with a real fleet.
func onFleet(t testing.TB, fleet *budget.Fleet, prefix string) http.Handler {
	t.Helper()
	t.Cleanup(func() { fleet.Close(context.Background()) })
	config := testConfig(new(fakeFleet))
	policies := ownBuckets{newFakePolicies(), prefix}
	config.Policies, config.Fleet = policies, fleet
	config.Decider = &decide.Decider{
		Policies: policies, Fleet: fleet, Now: time.Now,
		Random: func() float64 { return 0.5 },
		NewID:  func() string { return "made-by-the-server" },
	}
	return newHandler(t, config)
}

// fleetsOn makes fleets that share a Redis. No local rule answers where the
// machine is only busy.
func fleetsOn(t testing.TB, url string) func(testing.TB) *budget.Fleet {
	t.Helper()
	const timeout = 20 * time.Second
	client, err := budget.NewClient(url, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return func(testing.TB) *budget.Fleet {
		return budget.NewSharedFleet(budget.Shared{
			Store: budget.NewRedis(client, nil), Timeout: timeout, ProbeEvery: time.Second, Now: time.Now,
			Replicas: func() int { return 1 },
		})
	}
}
