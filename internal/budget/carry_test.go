package budget

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

type traceKey struct{}

func withTrace(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

func traceOf(ctx context.Context) string {
	text, _ := ctx.Value(traceKey{}).(string)
	return text
}

// carryTraces is a Carry that takes over the traces of all.
func carryTraces(call context.Context, waiting []context.Context) context.Context {
	var all []string
	for _, ctx := range waiting {
		all = append(all, traceOf(ctx))
	}
	return withTrace(call, strings.Join(all, "+"))
}

// overheard tells the context of each of its calls, which then waits.
type overheard struct {
	gate
	calls chan context.Context
}

func (h overheard) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	h.calls <- ctx
	return h.gate.Run(ctx, bucket, p, ops)
}

// A call carries over something of everybody who waits for it, and nobody's end.
func TestCallsCarryOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, p := overheard{gate{NewMemory(time.Now), make(chan struct{})}, make(chan context.Context)}, testRule(nil)
		f := NewSharedFleet(Shared{Store: store, Timeout: time.Minute, ProbeEvery: time.Second,
			Now: time.Now, Replicas: func() int { return 1 }, Carry: carryTraces})
		defer f.Close(context.Background())
		ask := func(trace string) (leave context.CancelFunc) {
			ctx, leave := context.WithCancel(withTrace(context.Background(), trace))
			go f.Ask(ctx, asked(p))
			synctest.Wait() // it waits
			return leave
		}
		leaves := []context.CancelFunc{ask("a"), ask("b"), ask("c"), ask("d")}
		leaves[1]() // while the call of a is under way
		synctest.Wait()
		if got := traceOf(<-store.calls); got != "a" {
			t.Errorf("the first call carries %q", got)
		}
		store.open <- struct{}{}
		second := <-store.calls
		for _, leave := range leaves {
			leave()
		}
		if got := traceOf(second); got != "c+d" || second.Err() != nil {
			t.Errorf("the second call carries %q, and ends by %v", got, second.Err())
		}
		close(store.open)
	})
}

// hold is a client's hook that holds commands until they are let go, and tells
// their contexts.
type hold struct {
	letGo chan struct{}
	sent  chan context.Context
}

// isScript is false for what is sent over a new connection first.
func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

func (hold) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hold) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isScript(cmd) {
			h.sent <- ctx
			<-h.letGo
		}
		return next(ctx, cmd)
	}
}

func (h hold) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if isScript(cmds[0]) {
			h.sent <- ctx
		}
		return next(ctx, cmds)
	}
}

// What goes together over one connection carries over something of each, whether
// in one call or in several.
func TestFlightsCarryOver(t *testing.T) {
	t.Parallel()
	for _, isWhole := range []bool{true, false} {
		t.Run(fmt.Sprintf("whole=%v", isWhole), func(t *testing.T) {
			t.Parallel()
			client := newClient(t, redistest.Start(t).URL)
			store := NewRedis(client, nil)
			askOnce(t, store, testRule(nil), nil) // sends the script
			store.together.whole.saw(isWhole, time.Hour)
			carrying(t, store)
			h := hold{make(chan struct{}), make(chan context.Context, 100)}
			client.AddHook(h)
			var done sync.WaitGroup
			for i, trace := range []string{"a", "b", "c", "d"} {
				done.Go(func() {
					rule := testRule(named("bucket-"+trace, nil))
					if err := store.Run(withTrace(t.Context(), trace), rule.Name, rule, []op{{tell: &failures{}}}); err != nil {
						t.Error(err)
					}
				})
				if i < maxFlights {
					if got := traceOf(<-h.sent); got != trace {
						t.Errorf("alone it carries %q", got)
					}
					continue
				}
				for waiting := 0; waiting <= i-maxFlights; time.Sleep(time.Millisecond) {
					store.together.mu.Lock()
					waiting = len(store.together.waiting)
					store.together.mu.Unlock()
				}
			}
			close(h.letGo)
			if got := traceOf(<-h.sent); got != "c+d" {
				t.Errorf("together they carry %q", got)
			}
			done.Wait()
		})
	}
}

// carrying makes a fleet on a store, which then carries over.
func carrying(t *testing.T, store Backend) {
	t.Helper()
	f := NewSharedFleet(Shared{Store: store, Timeout: 10 * time.Second, ProbeEvery: time.Second, Now: time.Now,
		Replicas: func() int { return 1 }, Carry: carryTraces})
	t.Cleanup(func() { f.Close(context.Background()) })
}
