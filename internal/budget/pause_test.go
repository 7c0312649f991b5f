package budget

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// A pause that a replica has seen holds to its end, also while the store is
// away, whatever the policy says for that time.
func TestPauseOutlivesTheStore(t *testing.T) {
	t.Parallel()
	for _, on := range []decide.OnStoreFailure{decide.StoreFailureLocal, decide.StoreFailureGiveUp, decide.StoreFailureAllow} {
		t.Run(on.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &faulty{store: NewMemory(time.Now)}
				setter, f := bubbleFleet(t, store, 2), bubbleFleet(t, store, 2)
				p := testRule(onStoreFailure(on))
				pauseFor(t, setter, p, decide.OverridePause, 10_000)
				f.Ask(t.Context(), asked(p)) // it sees the pause, not who set it
				store.is(refuses)
				time.Sleep(4 * time.Second)
				if got := said(f.Ask(t.Context(), asked(p))); got != "paused again 6000 degraded" {
					t.Errorf("without the store: %q", got)
				}
				if s := setter.State(t.Context(), p.Name, p, ""); shown(s) != "5/5 pause for 6000 by ann: the moon" || !s.Override.Since.Equal(time.Now().Add(-4*time.Second)) {
					t.Errorf("the one who set it: %q since %s", shown(s), s.Override.Since)
				}
				time.Sleep(6 * time.Second)
				if got := f.Ask(t.Context(), asked(p)); got.Verdict == decide.Paused || !got.Degraded {
					t.Errorf("at its end: %q", said(got))
				}
			})
		})
	}
}

func pauseFor(t *testing.T, f *Fleet, p *decide.Policy, mode decide.OverrideMode, ms int64) {
	t.Helper()
	if _, err := f.SetOverride(t.Context(), p.Name, p, decide.Override{Mode: mode, ExpiresIn: ms, Author: "ann", Reason: "the moon"}); err != nil {
		t.Fatal(err)
	}
}

// What the store says later takes the place of what was seen before.
func TestPauseThatChanged(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		name   string
		change func(t *testing.T, setter *Fleet, p *decide.Policy)
		see    func(t *testing.T, f *Fleet, p *decide.Policy)
		want   string
	}{
		{"lifted", func(t *testing.T, setter *Fleet, p *decide.Policy) { pauseFor(t, setter, p, decide.OverrideNone, 0) }, seeByAsking, "granted 4/5 degraded"},
		{"lifted, and looked at", func(t *testing.T, setter *Fleet, p *decide.Policy) { pauseFor(t, setter, p, decide.OverrideNone, 0) }, seeByLooking, "granted 4/5 degraded"},
		{"longer", func(t *testing.T, setter *Fleet, p *decide.Policy) {
			pauseFor(t, setter, p, decide.OverridePause, 60_000)
		}, seeByAsking, "paused again 60000 degraded"},
		{"shorter", func(t *testing.T, setter *Fleet, p *decide.Policy) { pauseFor(t, setter, p, decide.OverridePause, 500) }, seeByAsking, "paused again 500 degraded"},
		{"allowed", func(t *testing.T, setter *Fleet, p *decide.Policy) {
			pauseFor(t, setter, p, decide.OverrideAllow, 60_000)
		}, seeByAsking, "granted 4/5 degraded"},
		{"changed, but unseen", func(t *testing.T, setter *Fleet, p *decide.Policy) { pauseFor(t, setter, p, decide.OverrideNone, 0) }, func(*testing.T, *Fleet, *decide.Policy) {}, "paused again 10000 degraded"},
		{"changed, and asked by an id that was granted before", func(t *testing.T, setter *Fleet, p *decide.Policy) { pauseFor(t, setter, p, decide.OverrideNone, 0) },
			func(t *testing.T, f *Fleet, p *decide.Policy) {
				f.Ask(t.Context(), asked(p, func(q *decide.Question) { q.ID = "before" }))
			}, "paused again 10000 degraded"},
	} {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &faulty{store: NewMemory(time.Now)}
				setter, f, p := bubbleFleet(t, store, 2), bubbleFleet(t, store, 2), testRule(nil)
				f.Ask(t.Context(), asked(p, func(q *decide.Question) { q.ID = "before" }))
				pauseFor(t, setter, p, decide.OverridePause, 10_000)
				seeByAsking(t, f, p)
				each.change(t, setter, p)
				each.see(t, f, p)
				store.is(refuses)
				if got := said(f.Ask(t.Context(), asked(p))); got != each.want {
					t.Errorf("got %q, want %q", got, each.want)
				}
			})
		})
	}
}

func seeByAsking(t *testing.T, f *Fleet, p *decide.Policy)  { f.Ask(t.Context(), asked(p)) }
func seeByLooking(t *testing.T, f *Fleet, p *decide.Policy) { f.State(t.Context(), p.Name, p, "") }

// The state that another answer shows is the same however often it is seen.
func TestPauseSeenOftenIsKeptOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		f, p := bubbleFleet(t, store, 1), testRule(nil)
		pauseFor(t, f, p, decide.OverridePause, 10_000)
		for range 9 {
			time.Sleep(time.Second)
			seeByAsking(t, f, p)
			seeByLooking(t, f, p)
		}
		store.is(refuses)
		if got := shown(f.State(t.Context(), p.Name, p, "")); got != "10/10 pause for 1000 by ann: the moon" {
			t.Error(got)
		}
	})
}
