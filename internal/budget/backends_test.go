package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// clock is a clock that a test moves.
type clock struct {
	ms atomic.Int64
	// moved lets a store's own expiry follow the clock.
	moved func(ms int64)
}

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_800_000_000_123)
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func (c *clock) advance(ms int64) {
	c.ms.Add(ms)
	if c.moved != nil {
		c.moved(ms)
	}
}

// testRule is the rule that the tests change: ten tokens, nothing by time.
func testRule(change func(p *decide.Policy)) *decide.Policy {
	p := &decide.Policy{
		Name: "payments", MaxAttempts: 1_000_000, Classes: decide.StandardClasses,
		RetryAfter: decide.RetryAfter{Max: 60_000, Spread: 0.1, Headers: []decide.Header{decide.RetryAfterHeader}},
		Budget: decide.BudgetRule{Ratio: 100_000, Capacity: 10 * decide.MicroPerToken,
			Cost: [3]decide.Micro{decide.MicroPerToken, decide.MicroPerToken / 2, 2 * decide.MicroPerToken}},
		Breaker: decide.BreakerRule{FailureRatio: 500_000, MinAttempts: 6, Window: 10_000, OpenFor: 500, Probes: 1},
	}
	for i := range p.Backoff {
		p.Backoff[i] = decide.Backoff{Strategy: decide.Constant, Base: 100, Cap: 1000, Multiplier: 2}
	}
	if change != nil {
		change(p)
	}
	return p
}

// eachBackend runs a test on every backend, all with the test's clock, which
// their expiry follows.
func eachBackend(t *testing.T, test func(t *testing.T, b Backend, c *clock)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := newClock()
		test(t, NewMemory(c.now), c)
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		c := newClock()
		m := miniredis.RunT(t)
		c.moved = func(ms int64) { follow(m, c, ms) }
		test(t, NewRedis(newClient(t, "redis://"+m.Addr()), c.now), c)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		c := newClock()
		client := newClient(t, redistest.Start(t).URL)
		c.moved = func(ms int64) { age(t, client, ms) }
		test(t, NewRedis(client, c.now), c)
	})
	t.Run("redis, one of several in a call", func(t *testing.T) {
		t.Parallel()
		c := newClock()
		client := newClient(t, redistest.Start(t).URL)
		c.moved = func(ms int64) { age(t, client, ms) }
		test(t, between(t, client, c.now), c)
	})
	for name, server := range sharedServers {
		t.Run(name, func(t *testing.T) {
			c, client := newClock(), server.client(t)
			c.moved = func(ms int64) { age(t, client, ms) }
			test(t, NewRedis(client, c.now), c)
		})
	}
}

// between is a backend whose every call stands between those of two other buckets,
// which have keys of their own, as many callers as one may have, and an override.
func between(t testing.TB, client redis.UniversalClient, now func() time.Time) *Redis {
	t.Helper()
	r, shared := NewRedis(client, now), newTogether(client.(*redis.Client))
	p := testRule(func(p *decide.Policy) { p.Budget.CallerShare = 100_000 })
	for _, bucket := range []string{"before", "behind"} {
		run(t, r, bucket, p, op{override: &override{mode: decide.OverrideAllow, until: 1e12, author: bucket, words: bucket}})
		for i := range maxCallers {
			run(t, r, bucket, p, op{report: &report{caller: fmt.Sprint(bucket, i), firstTries: 1}})
		}
	}
	idle := func(bucket string) *flight {
		c := newCall(bucket, 1)
		c.rule(p, now)
		c.add(p, &op{ask: &question{failures: failures{count: 1, caller: bucket}, cost: token, id: "id", dryRun: true}})
		c.end()
		return &flight{call: c}
	}
	r.send = func(ctx context.Context, c *call) ([]any, error) {
		mine := &flight{call: c}
		if !shared.inOneCall(ctx, []*flight{idle("before"), mine, idle("behind")}) {
			return nil, errors.New("this is one server")
		}
		return mine.replies, mine.err
	}
	return r
}

// follow sets a miniredis to the clock: SetTime moves its TIME alone and
// FastForward its expiry alone.
func follow(m *miniredis.Miniredis, c *clock, ms int64) {
	m.SetTime(c.now())
	if ms > 0 {
		m.FastForward(time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
	}
}

// age makes every key of a real server so many ms older, as its own clock
// cannot be moved.
func age(t testing.TB, client redis.UniversalClient, ms int64) {
	t.Helper()
	if ms <= 0 {
		return
	}
	for _, key := range keys(t, client) {
		left := client.PTTL(t.Context(), key).Val() - time.Duration(min(ms, longestTTL*2))*time.Millisecond
		if err := client.PExpire(t.Context(), key, left).Err(); err != nil { // not above zero: gone
			t.Fatal(err)
		}
	}
}

func keys(t testing.TB, client redis.UniversalClient) (found []string) {
	t.Helper()
	var mu sync.Mutex
	err := eachServer(t, client, func(ctx context.Context, server redis.Cmdable) error {
		here, err := server.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		found = append(found, here...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// eachServer does something on each server that holds keys.
func eachServer(t testing.TB, client redis.UniversalClient, do func(ctx context.Context, server redis.Cmdable) error) error {
	t.Helper()
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return do(t.Context(), client)
	}
	return cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
}

// newClient makes a client as serve does, but patient: the machine may be slow.
func newClient(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := NewClient(url, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func run(t testing.TB, b Backend, bucket string, p *decide.Policy, ops ...op) []op {
	t.Helper()
	if err := b.Run(context.Background(), bucket, p, ops); err != nil {
		t.Fatal(err)
	}
	return ops
}

// askOnce asks for one retry of a plain failure that is not the first attempt.
func askOnce(t testing.TB, b Backend, p *decide.Policy, change func(q *question)) decide.Answer {
	t.Helper()
	q := &question{failures: failures{count: 1}, cost: p.Budget.Cost[decide.Plain], own: 100, delay: 100}
	if change != nil {
		change(q)
	}
	return run(t, b, p.Name, p, op{ask: q})[0].answer
}

func lookAt(t testing.TB, b Backend, p *decide.Policy, caller string) decide.State {
	t.Helper()
	return run(t, b, p.Name, p, op{look: &look{caller: caller}})[0].state
}

// askMany asks so many times and counts the grants.
func askMany(t testing.TB, b Backend, p *decide.Policy, times int, change func(q *question)) (granted int) {
	t.Helper()
	for range times {
		if askOnce(t, b, p, change).Verdict == decide.Granted {
			granted++
		}
	}
	return granted
}

func succeed(t testing.TB, b Backend, p *decide.Policy, successes int64) {
	t.Helper()
	run(t, b, p.Name, p, op{report: &report{firstTries: successes}})
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
