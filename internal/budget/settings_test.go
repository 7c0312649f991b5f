package budget

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

func watchSettings(t *testing.T, url string) <-chan string {
	t.Helper()
	heard := make(chan string, 1)
	s := NewSettings(NewRedis(newClient(t, url), nil), 5*time.Second, func(policy string) { heard <- policy })
	t.Cleanup(s.Close)
	return heard
}

// re-eviction-resets: a Redis that may evict buckets is noticed.
func TestMaxmemoryPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{NoEviction, "volatile-lru", "allkeys-random"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			if got := <-watchSettings(t, redistest.Start(t, "--maxmemory-policy", policy).URL); got != policy {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("of any node of a cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		c.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		if got := <-watchSettings(t, c.URL); got != "allkeys-lru" {
			t.Errorf("got %q", got)
		}
	})
}

// A user who may not ask for settings is as good as any other; nothing is known then.
func TestMaxmemoryPolicyMayNotBeAsked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--user", "default", "on", "nopass", "~*", "+@all", "-config")
	r := NewRedis(newClient(t, server.URL), nil)
	s := NewSettings(r, 5*time.Second, func(policy string) { t.Errorf("heard %q", policy) })
	if policy, err := s.ask(); policy != "" || err == nil {
		t.Errorf("asked: %q, %v", policy, err)
	}
	s.Close()
	if got := s.MaxmemoryPolicy(); got != "" {
		t.Errorf("known: %q", got)
	}
}

// Turns of the store are told once each.
func TestTurnsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{store: NewMemory(time.Now)}
		var turns []Health
		f := NewSharedFleet(Shared{Store: store, Timeout: inBubble, ProbeEvery: 100 * time.Millisecond, Now: time.Now,
			Replicas: func() int { return 1 }, Changed: func(h Health) { turns = append(turns, h) }})
		defer f.Close(t.Context())
		p := testRule(nil)
		for range 2 {
			store.is(refuses)
			for range 20 {
				f.Ask(t.Context(), asked(p))
				time.Sleep(10 * time.Millisecond)
			}
			store.is(well)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(turns) != 4 {
			t.Fatalf("%d turns: %+v", len(turns), turns)
		}
		for i, turn := range turns {
			if down := i%2 == 0; turn.Degraded != down || (turn.Error != nil) != down || turn.Since.IsZero() {
				t.Errorf("turn %d: %+v", i+1, turn)
			}
		}
	})
}
