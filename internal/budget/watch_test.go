package budget

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A store that is not there at the start is told so at once, without a decision;
// one that goes later within two seconds, and one that is back within one.
func TestWatchNeedsNoTraffic(t *testing.T) {
	t.Parallel()
	for _, which := range []fault{refuses, stalls} {
		synctest.Test(t, func(t *testing.T) {
			store := &faulty{store: NewMemory(time.Now)}
			store.is(which)
			f := bubbleFleet(t, store, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go f.Watch(ctx)
			expect := func(within time.Duration, degraded bool) {
				t.Helper()
				time.Sleep(within)
				synctest.Wait()
				if h := f.Health(); h.Degraded != degraded || degraded != (h.Error != nil) {
					t.Errorf("fault %v, %s later: %+v", which, within, h)
				}
			}
			expect(inBubble, true)
			store.is(well)
			expect(time.Second, false)
			expect(time.Hour, false)
			store.is(which)
			expect(2*time.Second, true)
			store.is(well)
			expect(time.Second, false)
		})
	}
}

// Where others ask the store, watching adds nothing to its work.
func TestWatchIsSilentUnderTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		h := newHealth(func(context.Context) error { probes++; return nil }, time.Second, 100*time.Millisecond, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go h.watch(ctx)
		for range 100 {
			time.Sleep(silence / 3)
			h.succeeded()
		}
		cancel()
		synctest.Wait()
		if probes != 1 {
			t.Errorf("%d probes, want the one at the start", probes)
		}
		h.close()
	})
}

// Every call of the store is heard of, with the time that it took.
func TestCalledHearsOfEveryCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		var took []time.Duration
		var errs int
		f := NewSharedFleet(Shared{Store: store, Timeout: inBubble, ProbeEvery: time.Second, Now: time.Now, Replicas: func() int { return 1 },
			Called: func(d time.Duration, err error) {
				took = append(took, d)
				if err != nil {
					errs++
				}
			}})
		defer f.Close(t.Context())
		for _, which := range []fault{well, isSlow, stalls} {
			store.is(which)
			f.Ask(t.Context(), asked(testRule(nil)))
			synctest.Wait()
		}
		if len(took) != 3 || took[0] != 0 || took[1] != slowFor || took[2] != inBubble || errs != 1 {
			t.Errorf("%v, %d errors", took, errs)
		}
	})
}
