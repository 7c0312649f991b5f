package budget

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// telling is a fleet in virtual time whose store keeps what it was told.
func telling(t *testing.T) (f *Fleet, store *faulty, told func() []string) {
	var all []failures
	store = &faulty{store: NewMemory(time.Now), applied: func(_ *decide.Policy, ops []op) {
		for _, o := range ops {
			if o.tell == nil {
				t.Error("more than telling")
				continue
			}
			all = append(all, *o.tell)
		}
	}}
	told = func() (words []string) {
		store.mu.Lock()
		defer store.mu.Unlock()
		for _, f := range all {
			words = append(words, fmt.Sprintf("%q %d/%d wait %d %t", f.caller, f.firsts, f.count, f.serverDelay, f.forCaller))
		}
		slices.Sort(words)
		return words
	}
	return bubbleFleet(t, store, 1), store, told
}

func failedOnce(p *decide.Policy, changes ...func(f *decide.Failed)) *decide.Failed {
	f := &decide.Failed{Bucket: p.Name, Policy: p}
	for _, change := range changes {
		change(f)
	}
	return f
}

// What was given up without a question is told merged, within a second, and
// spends nothing.
func TestTellMerges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, store, told := telling(t)
		p := testRule(nil)
		for i := range 100 {
			f.Tell(failedOnce(p, func(f *decide.Failed) {
				f.First, f.Caller, f.ServerDelay = i%4 == 0, fmt.Sprint("c", i), int64(i*10)
			}))
		}
		for range 2 { // the wait of a throttle holds for its caller alone
			f.Tell(failedOnce(p, func(f *decide.Failed) { f.Caller, f.Kind, f.ServerDelay = "checkout", decide.Throttle, 500 }))
			f.Tell(failedOnce(p, func(f *decide.Failed) { f.Caller, f.Kind = "search", decide.Throttle }))
		}
		if got := told(); len(got) > 0 {
			t.Error("told before others could join:", got)
		}
		time.Sleep(time.Second - inBubble)
		synctest.Wait()
		want := []string{`"" 25/102 wait 990 false`, `"checkout" 0/2 wait 500 true`}
		if got := told(); !slices.Equal(got, want) || store.callsSoFar() != 1 {
			t.Errorf("told %q in %d calls, want %q", got, store.callsSoFar(), want)
		}
		if got := shown(lookAt(t, store.store, p, "")); got != "10/10 cool 290" { // told after 250 ms, looked at after 950
			t.Errorf("the bucket is %s", got)
		}
	})
}

// Where callers have shares, each one's first attempts count for it.
func TestTellKeepsCallersApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _, told := telling(t)
		p, other := testRule(shared), testRule(shared)
		for range 3 {
			for _, caller := range []string{"a", "b"} {
				f.Tell(failedOnce(p, func(f *decide.Failed) { f.Caller, f.First = caller, true }))
			}
		}
		f.Tell(failedOnce(other, func(f *decide.Failed) { f.Caller = "a" })) // another rule, after a reload
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{`"a" 0/1 wait 0 false`, `"a" 3/3 wait 0 false`, `"b" 3/3 wait 0 false`}
		if got := told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestCloseTellsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		f := NewSharedFleet(Shared{Store: store, Timeout: inBubble, ProbeEvery: time.Second, Now: time.Now, Replicas: func() int { return 1 }})
		p := testRule(breaking())
		for range 6 {
			f.Tell(failedOnce(p))
		}
		if took := within(func() { f.Close(t.Context()) }); took != 0 {
			t.Errorf("took %s", took)
		}
		if got := shown(lookAt(t, store.store, p, "")); got != "1000/1000 open" {
			t.Errorf("the bucket is %s", got)
		}
	})
}

// Close does not wait for a store longer than it is told to.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		store.is(stalls)
		f := NewSharedFleet(Shared{Store: store, Timeout: time.Minute, ProbeEvery: time.Second, Now: time.Now, Replicas: func() int { return 1 }})
		f.Tell(failedOnce(testRule(nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if took := within(func() { f.Close(ctx) }); took != 3*time.Second {
			t.Errorf("took %s, want 3s", took)
		}
		time.Sleep(time.Minute) // the store's timeout ends the rest
	})
}

// Many different failures do not wait for their time.
func TestTellIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _, told := telling(t)
		p := testRule(shared)
		for i := range maxTold {
			f.Tell(failedOnce(p, func(f *decide.Failed) { f.Caller = fmt.Sprint("c", i) }))
		}
		synctest.Wait()
		if got := len(told()); got != maxTold {
			t.Errorf("told %d of %d", got, maxTold)
		}
	})
}

// Many dependencies that fail at once are told of side by side, within the second.
func TestTellManyBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, store, told := telling(t)
		store.is(isSlow)
		const buckets = 500
		for i := range buckets {
			f.Tell(failedOnce(testRule(named(fmt.Sprint("b", i), nil))))
		}
		time.Sleep(time.Second)
		if got := len(told()); got != buckets {
			t.Errorf("told of %d of %d within a second", got, buckets)
		}
	})
}

// Telling from many sides loses nothing, and telling while all is closed is no race.
func TestTellAtOnce(t *testing.T) {
	t.Parallel()
	store := NewMemory(newClock().now)
	f := NewSharedFleet(Shared{Store: store, Timeout: time.Minute, ProbeEvery: time.Second, Now: time.Now, Replicas: func() int { return 1 }})
	p := testRule(breaking(atLeast(1 << 30)))
	var done, late sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 500 {
				f.Tell(failedOnce(p))
			}
			late.Go(func() { f.Tell(failedOnce(testRule(named("late", nil)))) })
		})
	}
	done.Wait()
	f.Close(t.Context())
	late.Wait()
	failures := store.shards[0].failures(p.Name)
	for i := 1; i < shards && failures == 0; i++ {
		failures = store.shards[i].failures(p.Name)
	}
	if failures != 8*500 {
		t.Errorf("%d failures counted, want %d", failures, 8*500)
	}
}

// failures is how many a bucket's breaker has counted; 0 where it is not here.
func (s *shard) failures(bucket string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.buckets[bucket]
	if !ok {
		return 0
	}
	failures, _ := k.breaker.sum()
	return failures
}
