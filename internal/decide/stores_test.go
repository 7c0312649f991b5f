package decide_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// localFleets are the fleets that need nothing outside this process.
var localFleets = map[string]newVectorFleet{
	"plain arithmetic": newPlainFleet,
	"memory": func(_ *testing.T, now func() time.Time) vectorFleet {
		return newStoreFleet(budget.NewFleet(budget.NewMemory(now)))
	},
}

// vectorFleets are the fleets that every vector runs over.
func vectorFleets(t *testing.T) map[string]newVectorFleet {
	fleets := maps.Clone(localFleets)
	fleets["miniredis"] = onRedis(t, "redis://"+miniredis.RunT(t).Addr())
	fleets["redis"] = onRedis(t, redistest.Start(t).URL)
	return fleets
}

// patient is a bound that a slow machine keeps.
const patient = time.Minute

func onRedis(t *testing.T, url string) newVectorFleet {
	client, err := budget.NewClient(url, patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return func(t *testing.T, now func() time.Time) vectorFleet { return newRedisFleet(t, client, now) }
}

func newRedisFleet(t *testing.T, client redis.UniversalClient, now func() time.Time) vectorFleet {
	fleet := budget.NewSharedFleet(budget.Shared{Store: budget.NewRedis(client, now), Timeout: patient, ProbeEvery: patient,
		Replicas: func() int { return 1 }, Now: now})
	t.Cleanup(func() { fleet.Close(context.Background()) })
	return newStoreFleet(fleet)
}

// storeFleet is a real fleet whose buckets have names of this fleet alone, so
// that many share a server.
type storeFleet struct {
	fleet *budget.Fleet
	mark  string
}

var storeFleets atomic.Int64

func newStoreFleet(fleet *budget.Fleet) *storeFleet {
	return &storeFleet{fleet, fmt.Sprintf("%d ", storeFleets.Add(1))}
}

func (f *storeFleet) Ask(ctx context.Context, q *decide.Question) decide.Answer {
	mine := *q
	mine.Bucket = f.mark + q.Bucket
	return f.fleet.Ask(ctx, &mine)
}

func (f *storeFleet) Tell(x *decide.Failed) {
	mine := *x
	mine.Bucket = f.mark + x.Bucket
	f.fleet.Tell(&mine)
}

func (f *storeFleet) Report(o *decide.Outcome) {
	mine := *o
	mine.Bucket = f.mark + o.Bucket
	f.fleet.Report(context.Background(), &mine)
}

// SetTokens spends what is too much, by a retry that costs exactly that.
func (f *storeFleet) SetTokens(bucket string, p *decide.Policy, tokens decide.Micro) {
	rule := *p
	rule.Budget.DepositOnRequest, rule.Budget.CallerShare = false, 0
	for i := range rule.Budget.Cost {
		rule.Budget.Cost[i] = f.Tokens(bucket, p) - tokens
	}
	f.Ask(context.Background(), &decide.Question{Failed: decide.Failed{Bucket: bucket, Policy: &rule}, Attempt: 1})
}

func (f *storeFleet) Tokens(bucket string, p *decide.Policy) decide.Micro {
	return f.fleet.State(context.Background(), f.mark+bucket, p, "").Budget.Tokens
}
