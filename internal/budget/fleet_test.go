package budget

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// patientFleet is a fleet on a real server that waits longer than a busy machine takes.
func patientFleet(t testing.TB, client redis.UniversalClient, now func() time.Time) *Fleet {
	t.Helper()
	f := NewSharedFleet(Shared{Store: NewRedis(client, now), Timeout: time.Minute, ProbeEvery: 50 * time.Millisecond,
		Now: time.Now, Replicas: func() int { return 1 }})
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// gate is a store whose calls wait for their turn.
type gate struct {
	Backend
	open chan struct{}
}

func (g gate) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	<-g.open
	return g.Backend.Run(ctx, bucket, p, ops)
}

// While a call is under way the others wait; they are then answered as one by
// one, in order of arrival.
func TestGroupCommitKeepsTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := gate{NewMemory(time.Now), make(chan struct{})}
		f, p := bubbleFleet(t, store, 1), testRule(nil)
		answers := make([]decide.Answer, 30)
		var done sync.WaitGroup
		for i := range answers {
			done.Go(func() { answers[i] = f.Ask(t.Context(), asked(p)) })
			synctest.Wait() // it waits
		}
		close(store.open)
		done.Wait()
		for i, a := range answers {
			want := "no tokens 0/10"
			if i < 10 {
				want = fmt.Sprintf("granted %d/10", 9-i)
			}
			if got := said(a); got != want {
				t.Errorf("arrival %d: got %q, want %q", i+1, got, want)
			}
		}
		if s := f.Stats(); s != (Stats{Calls: 2, Operations: 30}) {
			t.Errorf("%+v; want one call for the first and one for the rest", s)
		}
	})
}

// A call holds one rule and so many operations at most; buckets do not wait for
// each other.
func TestGroupCommitKeepsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := gate{NewMemory(time.Now), make(chan struct{})}
		f := bubbleFleet(t, store, 1)
		one, other := testRule(holds(1000*token, 0)), testRule(holds(5*token, 0))
		var done sync.WaitGroup
		ask := func(p *decide.Policy, bucket, want string) {
			done.Go(func() {
				q := asked(p)
				q.Bucket = bucket
				if got := said(f.Ask(t.Context(), q)); want != "" && got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
			synctest.Wait()
		}
		ask(one, "a", "granted 999/1000")
		for range 2 {
			ask(one, "a", "")
		}
		ask(other, "a", "granted 4/5") // the rule was lowered
		ask(one, "a", "granted 3/1000")
		for range maxMerged + 1 {
			ask(one, "b", "")
		}
		for range maxMerged {
			ask(one, "b", "")
		}
		close(store.open)
		done.Wait()
		if s := f.Stats(); s.Calls != 4+3 || s.Operations != 5+1+2*maxMerged {
			t.Errorf("%+v; want four calls for a and three for b", s)
		}
	})
}

// Who leaves while waiting is not charged; who leaves during the call is
// charged once at most, and both are still answered.
func TestWithdrawnAreNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		store := gate{memory, make(chan struct{})}
		f, p := bubbleFleet(t, store, 1), testRule(nil)
		var done sync.WaitGroup
		ask := func(ctx context.Context, want string) {
			done.Go(func() {
				if got := said(f.Ask(ctx, asked(p))); !strings.HasSuffix(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			})
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		ask(t.Context(), "granted 9/10")
		for range 5 {
			ask(leaving, "degraded")
		}
		ask(t.Context(), "granted 8/10")
		leave()
		synctest.Wait()
		close(store.open)
		done.Wait()
		if got := shown(lookAt(t, memory, p, "")); got != "8/10" {
			t.Errorf("the store holds %s, want 8/10", got)
		}
		if s := f.Stats(); s.Operations != 2 || s.Errors != 0 || s.Degraded != 5 {
			t.Errorf("%+v; who leaves says nothing of the store", s)
		}
	})
}

// Two deciders on one Redis, 64 callers, a bucket of 100 without refill.
func TestTwoFleetsGrantWhatOneBucketHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fleets := [2]*Fleet{patientFleet(t, newClient(t, server.URL), nil), patientFleet(t, newClient(t, server.URL), nil)}
	for i := range 10 {
		p := testRule(named(fmt.Sprint("run", i), holds(100*token, 0)))
		if got := stampede(t, fleets[:], p, 64, 5); got != 100 {
			t.Errorf("run %d: %d granted, want 100", i+1, got)
		}
	}
}

// stampede lets so many callers ask so many times each, and counts the grants.
func stampede(t *testing.T, fleets []*Fleet, p *decide.Policy, callers, times int) int {
	t.Helper()
	var granted atomic.Int64
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			for range times {
				a := fleets[i%len(fleets)].Ask(t.Context(), asked(p))
				if a.Degraded {
					t.Error("degraded:", said(a))
				}
				if a.Verdict == decide.Granted {
					granted.Add(1)
				}
			}
		})
	}
	done.Wait()
	return int(granted.Load())
}

// bu-tps-ignored-and-racy
func TestEightFleetsShareARefill(t *testing.T) {
	t.Parallel()
	server, c := redistest.Start(t), newClock()
	var fleets []*Fleet
	for range 8 {
		fleets = append(fleets, patientFleet(t, newClient(t, server.URL), c.now))
	}
	p := testRule(holds(100*token, 50*perSecond))
	if got := stampede(t, fleets, p, 100, 3); got != 100 {
		t.Errorf("at first %d granted of 300, want 100", got)
	}
	c.advance(1000)
	if got := stampede(t, fleets, p, 200, 1); got != 50 {
		t.Errorf("a second later %d granted of 200, want 50", got)
	}
}

// Redis's work grows with round trips, not with decisions.
func TestCommandsPerDecision(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).URL)
	f, p := patientFleet(t, client, nil), testRule(holds(1000*token, 0))
	f.Ask(t.Context(), asked(p)) // sends the script
	before, commands := f.Stats(), scriptCalls(t, client)
	if got := stampede(t, []*Fleet{f}, p, 64, 50); got != 999 {
		t.Errorf("%d granted, want 999", got)
	}
	after, decisions := f.Stats(), float64(64*50)
	if after.Operations-before.Operations != 64*50 {
		t.Errorf("%d operations for %g decisions", after.Operations-before.Operations, decisions)
	}
	perDecision := float64(scriptCalls(t, client)-commands) / decisions
	t.Logf("%.4f commands per decision", perDecision)
	if perDecision > 0.1 || float64(after.Calls-before.Calls)/decisions > 0.1 {
		t.Errorf("%.3f commands and %.3f calls per decision, want 0.1 at most", perDecision, float64(after.Calls-before.Calls)/decisions)
	}
}

// scriptCalls is how many scripts a server has been asked to run.
func scriptCalls(t testing.TB, client redis.UniversalClient) (calls int) {
	t.Helper()
	info, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		for _, name := range []string{"cmdstat_evalsha:", "cmdstat_eval:"} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				n := 0
				if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err != nil {
					t.Fatal(err)
				}
				calls += n
			}
		}
	}
	return calls
}

// What a fleet makes of decisions, outcomes and overrides, with memory and on a store.
func TestFleet(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, c *clock) *Fleet{
		"memory": func(_ *testing.T, c *clock) *Fleet { return NewFleet(NewMemory(c.now)) },
		"store": func(t *testing.T, c *clock) *Fleet {
			return patientFleet(t, newClient(t, redistest.Start(t).URL), c.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			f, p, ctx := open(t, c), testRule(nil), t.Context()
			check := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: got %q, want %q", what, got, want)
				}
			}
			check("ask", said(f.Ask(ctx, asked(p))), "granted 9/10")
			check("cost of a throttle", said(f.Ask(ctx, asked(p, func(q *decide.Question) { q.Kind = decide.Throttle }))), "granted 8.5/10")
			check("cost of a timeout", said(f.Ask(ctx, asked(p, func(q *decide.Question) { q.Kind = decide.Timing }))), "granted 6.5/10")
			check("report", shown(f.Report(ctx, &decide.Outcome{Bucket: p.Name, Policy: p, FirstTrySuccesses: 4, RetrySuccesses: 1})), "7/10")
			check("wait of a throttle", said(f.Ask(ctx, asked(p, func(q *decide.Question) { q.Kind, q.Caller, q.ServerDelay = decide.Throttle, "checkout", 900 }))), "granted 6.5/10 cool 900")
			check("state of its caller", shown(f.State(ctx, p.Name, p, "checkout")), "6.5/10 cool 900")
			check("state of another", shown(f.State(ctx, p.Name, p, "search")), "6.5/10")
			id := func(q *decide.Question) { q.ID = "r1" }
			check("id", said(f.Ask(ctx, asked(p, id))), "granted 5.5/10")
			check("id again", said(f.Ask(ctx, asked(p, id))), "granted 5.5/10 replayed 100 100 0")
			check("id of another attempt", said(f.Ask(ctx, asked(p, id, func(q *decide.Question) { q.Attempt = 3 }))), "granted 4.5/10")
			check("dry run", said(f.Ask(ctx, asked(p, func(q *decide.Question) { q.DryRun = true }))), "granted 3.5/10")
			s, err := f.SetOverride(ctx, p.Name, p, decide.Override{Mode: decide.OverridePause, ExpiresIn: 1000, Author: "ann", Reason: "the moon"})
			check("override", fmt.Sprint(shown(s), err), "4.5/10 pause for 1000 by ann: the moon<nil>")
			check("paused", said(f.Ask(ctx, asked(p))), "paused again 1000")
			s, err = f.SetOverride(ctx, p.Name, p, decide.Override{})
			check("lifted", fmt.Sprint(shown(s), err), "4.5/10<nil>")
			check("health", fmt.Sprint(f.Health()), fmt.Sprint(Health{}))
		})
	}
}
