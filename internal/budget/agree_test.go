package budget

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// plain is the Go arithmetic with nothing around it: no locks, nothing expires.
type plain struct {
	c *clock
	k kept
}

func (p *plain) run(rule *decide.Policy, ops []op) {
	for i := range ops {
		p.k.run(p.c.ms.Load(), rule, &ops[i])
	}
}

// long says whether the long variants of the tests are asked for.
var long = os.Getenv("DECIDER_LONG") != ""

// agreeOperations is how many random operations Go and Lua must agree on, by
// the server that runs Lua. miniredis, with its Lua in Go, is slow.
func agreeOperations() map[string]int {
	if long {
		return map[string]int{"redis": 200_000, "miniredis": 20_000}
	}
	return map[string]int{"redis": 20_000, "miniredis": 2_000}
}

// Go and Lua must come to the same answer for any order of operations, clock
// steps back and forth, idle years, and limits that are lowered and raised.
func TestGoAndLuaAgree(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"redis":     func(t *testing.T) string { return redistest.Start(t).URL },
		"miniredis": func(t *testing.T) string { return "redis://" + miniredis.RunT(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			agree(t, NewRedis(newClient(t, url(t)), c.now), c, "b", agreeOperations()[name])
		})
	}
}

// Buckets that go by one script call have their rules, clocks and answers for
// themselves.
func TestGoAndLuaAgreeOnSeveralAtOnce(t *testing.T) {
	t.Parallel()
	const crowd = 12
	client := newClient(t, redistest.Start(t).URL)
	shared := newTogether(client.(*redis.Client))
	if shared.whole.look(); !shared.whole.holds() {
		t.Fatal("one server is not taken for one")
	}
	var sent atomic.Int64
	before := scriptCalls(t, client)
	var done sync.WaitGroup
	for i := range crowd {
		done.Go(func() {
			c := newClock()
			lua := NewRedis(client, c.now)
			lua.send = func(ctx context.Context, call *call) ([]any, error) {
				sent.Add(1)
				return shared.send(ctx, call)
			}
			agree(t, lua, c, fmt.Sprintf("%d-", i), agreeOperations()["redis"]/crowd)
		})
	}
	done.Wait()
	if calls := int64(scriptCalls(t, client) - before); calls > sent.Load()*3/4 {
		t.Errorf("%d script calls for %d of a bucket", calls, sent.Load())
	}
}

// agree ends at the first difference.
func agree(t *testing.T, lua *Redis, c *clock, prefix string, operations int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := newRandom(seed)
	var golang *plain
	var rule *decide.Policy
	bucket := ""
	crowd, fresh := 0, 0
	for n := 0; n < operations; {
		if n >= fresh {
			golang, bucket, rule = &plain{c: c}, fmt.Sprintf("%s%d", prefix, n), randomRule(r)
			crowd, fresh = pick(r, 2, 2, 2, 150), n+500
		}
		if r.IntN(20) == 0 {
			rule = randomRule(r)
		}
		c.advance(randomStep(r))
		mine := randomOps(r, n, crowd)
		theirs := copyOps(mine)
		golang.run(rule, mine)
		if err := lua.Run(t.Context(), bucket, rule, theirs); err != nil {
			t.Errorf("operation %d: %v", n, err)
			return
		}
		if diff := cmp.Diff(answers(mine), answers(theirs)); diff != "" {
			t.Errorf("operation %d under %+v %+v, Go and then Lua:\n%s", n, rule.Budget, rule.Breaker, diff)
			return
		}
		n += len(mine)
	}
}

// randomStep is how far the clock goes: mostly forth by little.
func randomStep(r *rand.Rand) int64 {
	switch r.IntN(40) {
	case 0:
		return -r.Int64N(9_000)
	case 1:
		return -10_000 - r.Int64N(100_000_000)
	case 2:
		return r.Int64N(10 * 365 * 86_400_000)
	case 3, 4:
		return r.Int64N(120_000)
	case 5: // where something ends to the millisecond
		return pick[int64](r, 500, 5000, failOver, quiet, forgotten)
	case 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
		return 0
	}
	return r.Int64N(1500)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomRule(r *rand.Rand) *decide.Policy {
	return testRule(func(p *decide.Policy) {
		b := &p.Budget
		b.Off = r.IntN(15) == 0
		b.Ratio = pick[int64](r, 0, 1, 100_000, 333_333, 1_000_000, r.Int64N(1_000_001))
		b.RatioMax = pick[int64](r, 0, 0, b.Ratio, 500_000, 1_000_000)
		b.Capacity = pick(r, decide.MicroPerToken, 10*decide.MicroPerToken, 2_500_001, 1+r.Int64N(100_000_000), decide.MaxCapacity)
		b.CapacityMillis = pick[int64](r, 0, 1000, 1, 10_000, decide.MaxCapacityMillis)
		b.NanoPerSecond = pick(r, 0, 1, 999, 100_000_000, 1_111_111, r.Int64N(1_000_000_000_000), decide.MaxNanoPerSecond, 1_234_567_890_123_456%decide.MaxNanoPerSecond)
		b.DepositOnRequest = r.IntN(3) == 0
		b.CallerShare = pick[int64](r, 0, 0, 100_000, 1_000_000)
		b.Cost[decide.Plain] = pick[int64](r, 1, 500_000, 1_000_000, min(14_000_000, b.Capacity))
		p.Breaker = decide.BreakerRule{Mode: pick(r, decide.BreakerModeOff, decide.BreakerModeRetries, decide.BreakerModeAll),
			FailureRatio: pick[int64](r, 1, 500_000, 1_000_000), MinAttempts: pick[int64](r, 1, 6, 20), Window: pick[int64](r, 1000, 10_000, 60_005),
			OpenFor: pick[int64](r, 1, 500, 5000), Probes: pick[int64](r, 1, 2, 5)}
		if r.IntN(3) == 0 {
			p.Backoff[decide.Plain] = decide.Backoff{Strategy: decide.Paced, Cap: pick[int64](r, 1, 1000, 60_000), Gap: pick[int64](r, 1, 527, 1_000_000, 1_000_000_000)}
		}
		p.CoolDown = pick(r, decide.CoolDownAuto, decide.CoolDownFleet, decide.CoolDownCaller, decide.CoolDownOff)
		p.RetryAfter.Max = pick[int64](r, 1000, 60_000)
	})
}

func randomOps(r *rand.Rand, n, crowd int) []op {
	ops := make([]op, 1+r.IntN(6)*r.IntN(2))
	for i := range ops {
		ops[i] = randomOp(r, fmt.Sprintf("%d-%d", n, i), crowd)
		if i > 0 && ops[i].ask != nil && ops[i-1].ask != nil && ops[i-1].ask.id != "" {
			ops[i].ask.id = ops[i-1].ask.id // the same id again, before it can have expired
		}
		if i > 0 && ops[i].report != nil && ops[i-1].report != nil {
			ops[i].report.id, ops[i].report.caller = ops[i-1].report.id, ops[i-1].report.caller
		}
	}
	return ops
}

// randomCaller is one of a few, or of a crowd.
func randomCaller(r *rand.Rand, crowd int) string {
	return pick(r, "", "checkout", "search", fmt.Sprintf("c%d", r.IntN(crowd)))
}

func randomFailures(r *rand.Rand, crowd int) failures {
	return failures{caller: randomCaller(r, crowd), count: 1, firsts: r.Int64N(2), serverDelay: max(r.Int64N(90_000)-60_000, 0), forCaller: r.IntN(2) == 0}
}

func randomOp(r *rand.Rand, id string, crowd int) op {
	switch r.IntN(12) {
	case 0, 1:
		f := randomFailures(r, crowd)
		f.count = 1 + r.Int64N(30)
		f.firsts = r.Int64N(f.count + 1)
		return op{tell: &f}
	case 2, 3:
		rep := &report{caller: randomCaller(r, crowd), firstTries: pick(r, 0, r.Int64N(100), r.Int64N(10_000_000), decide.MaxDepositsPerOutcome),
			retries: r.Int64N(3), finals: max(r.Int64N(4)-2, 0)}
		if r.IntN(2) == 0 {
			rep.id = id
		}
		return op{report: rep}
	case 4:
		return op{look: &look{caller: randomCaller(r, crowd)}}
	case 5:
		return op{override: &override{mode: pick(r, decide.OverrideNone, decide.OverrideNone, decide.OverridePause, decide.OverrideAllow),
			until: 1 + r.Int64N(3000), author: "an operator, \"one\"", words: "why: ü"}}
	}
	q := &question{
		failures: randomFailures(r, crowd), kind: pick(r, decide.Plain, decide.Plain, decide.Throttle), cost: pick[int64](r, 1, 500_000, 1_000_000, 2_000_000), own: r.Int64N(1000), delay: r.Int64N(2000)}
	if r.IntN(2) == 0 {
		q.fit = decide.Some(r.Int64N(70_000) - 100)
	}
	if r.IntN(4) == 0 {
		q.id = idKey(id, 1)
	}
	q.dryRun = r.IntN(10) == 0
	return op{ask: q}
}

func copyOps(ops []op) []op {
	out := make([]op, len(ops))
	for i, o := range ops {
		if o.override != nil {
			v := *o.override
			o.override = &v
		}
		out[i] = o
	}
	return out
}

// seen is what an operation was answered.
type seen struct {
	Answer decide.Answer
	State  decide.State
}

func answers(ops []op) []seen {
	out := make([]seen, len(ops))
	for i, o := range ops {
		out[i] = seen{o.answer, o.state}
	}
	return out
}
