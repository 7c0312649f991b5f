package budget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/programtest"
)

// Many buckets share their way to the server and nothing else: each grants what
// it holds, though the server has forgotten the script when they come, and though
// what has the address is not one server.
func TestTogetherEachBucketIsItsOwn(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url string, isWhole bool){
		"one server": func(t *testing.T) (string, bool) { return redistest.Start(t).URL, true },
		"shards": func(t *testing.T) (string, bool) {
			return "redis://" + redistest.StartShards(t, redistest.Start(t), redistest.Start(t)), false
		},
		"a cluster that is not called one": func(t *testing.T) (string, bool) {
			node := redistest.Start(t, "--cluster-enabled", "yes")
			node.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
			for node.Do(t, "CLUSTER", "INFO").(string)[:16] != "cluster_state:ok" {
				time.Sleep(10 * time.Millisecond)
			}
			return node.URL, false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, isWhole := start(t)
			client := newClient(t, url)
			store := NewRedis(client, nil)
			shared := newTogether(client.(*redis.Client))
			store.send = shared.send
			for range 2 { // when nobody has looked yet, and then
				eachGrantsWhatItHolds(t, store)
				shared.whole.look()
			}
			if shared.whole.holds() != isWhole {
				t.Errorf("taken for one server: %v", !isWhole)
			}
			if !isWhole && name != "shards" { // those refuse nothing
				shared.whole.saw(true, time.Hour) // as it was before
				eachGrantsWhatItHolds(t, store)
				if shared.whole.holds() {
					t.Error("a server's word that it is not one is not taken")
				}
			}
		})
	}
}

// A refusal is a no; silence changes nothing of what was seen before.
func TestWholeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		refuses := newTogether(newClient(t, "redis://"+redistest.StartStub(t, "-NOPERM no\r\n")).(*redis.Client))
		refuses.whole.saw(before, time.Hour)
		if refuses.whole.look(); refuses.whole.holds() {
			t.Errorf("refused, and taken for one server (before: %v)", before)
		}
		silent := newTogether(newClient(t, "redis://127.0.0.1:1").(*redis.Client))
		silent.whole.saw(before, time.Hour)
		if silent.whole.look(); silent.whole.holds() != before {
			t.Errorf("nobody answered, and %v became %v", before, !before)
		}
	}
}

var rounds atomic.Int64

func eachGrantsWhatItHolds(t *testing.T, store *Redis) {
	t.Helper()
	const buckets, holding, questions = 100, 3, 5
	f := NewSharedFleet(Shared{Store: store, Timeout: 10 * time.Second, ProbeEvery: 50 * time.Millisecond,
		Now: time.Now, Replicas: func() int { return 1 }})
	defer f.Close(context.Background())
	round := rounds.Add(1)
	var granted [buckets]atomic.Int64
	var done sync.WaitGroup
	for i := range buckets {
		done.Go(func() {
			p := testRule(func(p *decide.Policy) {
				p.Name = fmt.Sprintf("bucket-%d-%d", round, i)
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

// One bucket's error is no other's: those before and behind it in the same call
// are answered, and charged once.
func TestTogetherOneBadBucket(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).URL)
	shared := newTogether(client.(*redis.Client))
	store := NewRedis(client, nil)
	rule := func(i int) *decide.Policy { return testRule(named(fmt.Sprintf("bucket-%d", i), nil)) }
	const bad, crowd = 1, 3
	client.Set(t.Context(), stateKey(rule(bad)), "somebody else's", 0)
	batch := make([]*flight, crowd)
	for i := range batch {
		c := newCall(rule(i).Name, 1)
		c.rule(rule(i), nil)
		c.add(rule(i), &op{ask: &question{failures: failures{count: 1}, cost: token}})
		c.end()
		batch[i] = &flight{call: c}
	}
	if !shared.inOneCall(t.Context(), batch) {
		t.Fatal("this is one server")
	}
	for i, f := range batch {
		if isBad := i == bad; isBad != redis.HasErrorPrefix(f.err, "WRONGTYPE") || isBad != (f.replies == nil) {
			t.Errorf("bucket %d: %v, %v", i, f.replies, f.err)
		}
		if i == bad {
			continue
		}
		if got := lookAt(t, store, rule(i), "").Budget.Tokens; got != 9*token {
			t.Errorf("bucket %d holds %d, want %d", i, got, 9*token)
		}
	}
}

// What waits behind flights that do not come back is withdrawn, and never sent.
func TestTogetherWithdrawsWhatWaits(t *testing.T) {
	t.Parallel()
	const crowd = 50
	server := redistest.Start(t)
	client := newClient(t, server.URL)
	b := NewRedis(client, nil)
	rule := func(i int) *decide.Policy { return testRule(named(fmt.Sprintf("bucket-%d", i), nil)) }
	askOnce(t, b, rule(0), nil) // sends the script
	before := scriptCalls(t, client)
	server.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var done sync.WaitGroup
	var counted atomic.Int64
	for i := range crowd {
		done.Go(func() {
			err := b.Run(ctx, rule(i).Name, rule(i), []op{{tell: &failures{count: 1}}})
			if err == nil {
				t.Errorf("bucket %d: a stopped server has answered", i)
			}
			if isFailure(err) {
				counted.Add(1)
			}
		})
	}
	done.Wait()
	server.Resume(t)
	// What goes with its last microsecond left may be one more.
	if n := counted.Load(); n < 1 || n > maxFlights+1 {
		t.Errorf("%d failures of the server, want %d: it was not asked the rest", n, maxFlights)
	}
	if got := said(askOnce(t, b, rule(crowd), nil)); got != "granted 9/10" {
		t.Errorf("afterwards: %s", got)
	}
	if sent := scriptCalls(t, client) - before - 1; sent > maxFlights {
		t.Errorf("%d calls were sent, more than %d", sent, maxFlights)
	}
}

// A connection that dies once is one failure of the server, however many buckets
// wait for its reply: the others are answered by the next.
func TestTogetherOneLostReplyIsNoOutage(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr)
	client := newClient(t, proxy.URL)
	store := NewRedis(client, nil)
	shared := newTogether(client.(*redis.Client))
	store.send = shared.send
	shared.whole.saw(true, time.Hour)
	var turns atomic.Int64
	f := NewSharedFleet(Shared{Store: store, Timeout: 20 * time.Second, ProbeEvery: 50 * time.Millisecond,
		Now: time.Now, Replicas: func() int { return 1 }, Changed: func(Health) { turns.Add(1) }})
	t.Cleanup(func() { f.Close(context.Background()) })
	const buckets = 60
	askAll := func() (degraded int64) {
		var done sync.WaitGroup
		var count atomic.Int64
		for i := range buckets {
			done.Go(func() {
				p := testRule(named(fmt.Sprintf("bucket-%d", i), nil))
				if f.Ask(context.Background(), asked(p)).Degraded {
					count.Add(1)
				}
			})
		}
		done.Wait()
		return count.Load()
	}
	askAll()
	proxy.Delay(500 * time.Millisecond)
	programtest.InTime(t, func() (late []string) {
		cut := time.AfterFunc(750*time.Millisecond, proxy.Cut) // those who go alone are back, and the rest is under way
		defer cut.Stop()
		degraded := askAll()
		if n := turns.Load(); n > 0 {
			t.Errorf("%d of %d answers were lost with one connection, and the store was taken for lost", degraded, buckets)
		}
		if degraded == 0 {
			late = append(late, "no reply was lost")
		}
		return late
	})
}
