package budget

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

func onStoreFailure(o decide.OnStoreFailure) func(p *decide.Policy) {
	return func(p *decide.Policy) {
		p.Budget.NanoPerSecond, p.OnStoreFailure = 1_000_000, o
	}
}

// within says how long f takes, in virtual time.
func within(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

// Every fault is answered within the timeout to the millisecond, and charges a
// decision once at most.
func TestEveryFaultIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	for which := well; which < lastFault; which++ {
		t.Run(fmt.Sprint("fault ", which), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				memory := NewMemory(time.Now)
				store := &faulty{store: memory}
				store.is(which)
				f, p := bubbleFleet(t, store, 2), testRule(nil)
				var a decide.Answer
				took := within(func() { a = f.Ask(t.Context(), asked(p)) })
				want := map[fault]struct {
					answer string
					took   time.Duration
					left   string
				}{
					well:    {"granted 9/10", 0, "9/10"},
					refuses: {"granted 4/5 degraded", 0, "10/10"},
					loses:   {"granted 4/5 degraded", 0, "9/10"},
					stalls:  {"granted 4/5 degraded", inBubble, "10/10"},
					isLate:  {"granted 4/5 degraded", inBubble, "9/10"},
					isSlow:  {"granted 9/10", slowFor, "9/10"},
				}[which]
				if got := said(a); got != want.answer || took != want.took {
					t.Errorf("got %q after %s, want %q after %s", got, took, want.answer, want.took)
				}
				time.Sleep(time.Second)
				if got := shown(lookAt(t, memory, p, "")); got != want.left {
					t.Errorf("the store holds %s, want %s", got, want.left)
				}
			})
		})
	}
}

// re-slow-when-down: after a few failures nobody waits any more; a probe does,
// and when it succeeds everybody asks again.
func TestHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		f, p := bubbleFleet(t, store, 1), testRule(holds(1000*token, 0))
		ask := func() (took time.Duration, degraded bool) {
			took = within(func() { degraded = f.Ask(t.Context(), asked(p)).Degraded })
			return took, degraded
		}
		if h := f.Health(); h.Degraded || !h.Since.IsZero() || h.Error != nil {
			t.Errorf("at first %+v", h)
		}
		for range 3 { // a few failures with successes between are no outage
			store.is(refuses)
			for range fewFailures - 1 {
				ask()
			}
			store.is(well)
			if _, degraded := ask(); degraded || f.Health().Degraded {
				t.Fatal("given up after", fewFailures-1, "failures")
			}
		}
		store.is(stalls)
		for i := range 100 {
			want := inBubble
			if i >= fewFailures {
				want = 0
			}
			took, degraded := ask()
			synctest.Wait() // the call is over as well
			if took != want || !degraded {
				t.Fatalf("decision %d took %s, want %s", i+1, took, want)
			}
		}
		down := time.Now()
		if h := f.Health(); !h.Degraded || !h.Since.Equal(down) || !errors.Is(h.Error, context.DeadlineExceeded) {
			t.Errorf("down: %+v", h)
		}
		before := store.callsSoFar()
		time.Sleep(10 * time.Second)
		// A probe takes the timeout, and the next begins at the next tick.
		if probes := store.callsSoFar() - before; probes < 90 || probes > 101 {
			t.Errorf("%d probes in 10 s", probes)
		}
		store.is(well)
		back := time.Now()
		for f.Health().Degraded {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(back); took > time.Second {
			t.Errorf("noticed after %s", took)
		}
		if took, degraded := ask(); took != 0 || degraded {
			t.Errorf("afterwards a decision takes %s, degraded %t", took, degraded)
		}
		if h := f.Health(); h.Degraded || h.Error != nil || h.Since.Before(back) {
			t.Errorf("back: %+v", h)
		}
	})
}

// One call that fails is one failure, however many wait for it.
func TestOneLostCallIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		store := &faulty{store: memory}
		open := make(chan struct{})
		f, p := bubbleFleet(t, gate{store, open}, 1), testRule(holds(1000*token, 0))
		var done sync.WaitGroup
		for range 65 {
			done.Go(func() { f.Ask(t.Context(), asked(p)) })
			synctest.Wait()
		}
		store.is(refuses)
		close(open)
		done.Wait()
		if s := f.Stats(); s.Calls != 2 || s.Degraded != 65 || f.Health().Degraded {
			t.Errorf("%+v, %+v", s, f.Health())
		}
		store.is(well)
		if got := said(f.Ask(t.Context(), asked(p))); got != "granted 999/1000" {
			t.Errorf("the next: %q", got)
		}
	})
}

// re-all-429-when-down: what answers while the store is away is the policy's choice.
func TestOnStoreFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on         decide.OnStoreFailure
		first, end string
	}{
		{decide.StoreFailureLocal, "granted 9/10 degraded", "no tokens 0.0099/10 again 990100 degraded"},
		{decide.StoreFailureGiveUp, "unavailable degraded", "unavailable degraded"},
		{decide.StoreFailureAllow, "granted degraded", "granted degraded"},
	} {
		t.Run(c.on.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &faulty{store: NewMemory(time.Now)}
				f, p := bubbleFleet(t, store, 1), testRule(onStoreFailure(c.on))
				ctx := t.Context()
				for range 20 {
					f.Ask(ctx, asked(p)) // the store's bucket is empty
				}
				store.is(refuses)
				if got := said(f.Ask(ctx, asked(p))); got != c.first {
					t.Errorf("the first: got %q, want %q", got, c.first)
				}
				for range 98 {
					time.Sleep(100 * time.Millisecond)
					f.Ask(ctx, asked(p))
				}
				time.Sleep(100 * time.Millisecond)
				if got := said(f.Ask(ctx, asked(p))); got != c.end {
					t.Errorf("the last: got %q, want %q", got, c.end)
				}
				store.is(well)
				time.Sleep(time.Second)
				if got := said(f.Ask(ctx, asked(p))); !strings.HasPrefix(got, "no tokens 0.0109/10") || strings.Contains(got, "degraded") {
					t.Errorf("afterwards: %q", got)
				}
			})
		})
	}
}

// re-failopen-unbounded: in an outage the replicas together grant what one
// bucket holds, and errors refill nothing, whatever deposits otherwise.
func TestOutageIsBounded(t *testing.T) {
	t.Parallel()
	for _, onRequest := range []bool{false, true} {
		t.Run(fmt.Sprintf("deposit on request %t", onRequest), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &faulty{store: NewMemory(time.Now)}
				store.is(refuses)
				p := testRule(func(p *decide.Policy) {
					p.Budget.Capacity, p.Budget.NanoPerSecond, p.Budget.DepositOnRequest = 40*token, 1_000_000, onRequest
				})
				for replica := range 4 {
					f, granted := bubbleFleet(t, store, 4), 0
					for range 250 * 20 {
						time.Sleep(4 * time.Millisecond)
						a := f.Ask(t.Context(), asked(p, func(q *decide.Question) { q.First = true }))
						if !a.Degraded || a.ReportOutcomes {
							t.Fatal(said(a))
						}
						if a.Verdict == decide.Granted {
							granted++
						}
						if granted == 10 {
							f.Tell(&decide.Failed{Bucket: p.Name, Policy: p, First: true})
						}
					}
					if granted != 10 {
						t.Errorf("replica %d granted %d, want its share, 10", replica+1, granted)
					}
					f.Report(t.Context(), &decide.Outcome{Bucket: p.Name, Policy: p, FirstTrySuccesses: 10, FinalFailures: 100})
					if got := said(f.Ask(t.Context(), asked(p))); !strings.HasPrefix(got, "granted 0.") {
						t.Errorf("successes that were reported refill: %q", got)
					}
				}
			})
		})
	}
}

func TestShareOfAReplica(t *testing.T) {
	t.Parallel()
	p := testRule(func(p *decide.Policy) {
		p.Budget.Capacity, p.Budget.NanoPerSecond, p.Budget.CapacityMillis = 10*token, perSecond, 1000
	})
	for replicas, want := range map[int]string{-1: "10/10 1000000000", 0: "10/10 1000000000", 1: "10/10 1000000000", 3: "3.333333/3.333333 333333333",
		4: "2.5/2.5 250000000", 20: "0.5/2 50000000"} { // room for the dearest retry
		mine := share(p, replicas).Budget
		if got := fmt.Sprint(decide.FormatMicro(mine.Initial), "/", decide.FormatMicro(mine.Capacity), " ", mine.NanoPerSecond); got != want || mine.CapacityMillis != 0 || mine.Ratio != p.Budget.Ratio {
			t.Errorf("of %d: got %s, want %s", replicas, got, want)
		}
	}
	if share(p, 1<<40).Budget.Initial != 1 || p.Budget.Initial != 0 || p.Budget.Capacity != 10*token {
		t.Error("a share is never nothing, and the rule stays as it is")
	}
}

// Where there are more replicas than tokens none can pay for a retry at first; what
// successes deposit pays for one all the same.
func TestMoreReplicasThanTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		store.is(refuses)
		f, p := bubbleFleet(t, store, 20), testRule(nil)
		if got := said(f.Ask(t.Context(), asked(p))); got != "no tokens 0.5/2 degraded" {
			t.Errorf("at first: %q", got)
		}
		f.Report(t.Context(), &decide.Outcome{Bucket: p.Name, Policy: p, FirstTrySuccesses: 5})
		if got := said(f.Ask(t.Context(), asked(p))); got != "granted 0/2 degraded" {
			t.Errorf("after five successes: %q", got)
		}
	})
}

// An override is never set on one replica alone.
func TestOverrideNeedsTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		store := &faulty{store: memory}
		one, other, p := bubbleFleet(t, store, 2), bubbleFleet(t, store, 2), testRule(nil)
		pause := decide.Override{Mode: decide.OverridePause, ExpiresIn: 10_000, Author: "ann", Reason: "the moon"}
		store.is(stalls)
		if _, err := one.SetOverride(t.Context(), p.Name, p, pause); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := said(one.Ask(t.Context(), asked(p))); got != "granted 4/5 degraded" {
			t.Errorf("it holds nowhere: %q", got)
		}
		store.is(well)
		if _, err := one.SetOverride(t.Context(), p.Name, p, pause); err != nil {
			t.Fatal(err)
		}
		if got := said(other.Ask(t.Context(), asked(p))); got != "paused again 10000" {
			t.Errorf("on another replica: %q", got)
		}
	})
}

// An id that is asked again after its reply was lost spends once.
func TestLostReplyIsNotChargedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		store := &faulty{store: memory}
		f, p := bubbleFleet(t, store, 1), testRule(nil)
		id := func(q *decide.Question) { q.ID = "r1" }
		store.is(loses)
		if got := said(f.Ask(t.Context(), asked(p, id))); got != "granted 9/10 degraded" {
			t.Error(got)
		}
		store.is(well)
		if got := said(f.Ask(t.Context(), asked(p, id))); got != "granted 9/10 replayed 100 100 0" {
			t.Error(got)
		}
		if got := shown(lookAt(t, memory, p, "")); got != "9/10" {
			t.Error(got)
		}
	})
}
