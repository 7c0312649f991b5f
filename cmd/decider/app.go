package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/handlers"
	"github.com/retrydecider/decider/internal/policy"
)

// storeConfig says where the fleet's state is kept.
type storeConfig struct {
	// redisURL is "" for this process's memory.
	redisURL string
	// timeout bounds every question to Redis.
	timeout time.Duration
	// localClock: the deciders' clocks, where a host forbids TIME in scripts.
	localClock bool
	// replicas is how many deciders share the store, until they know each other.
	replicas int
}

// app is everything between the policy file and the HTTP handler.
type app struct {
	handler http.Handler
	fleet   *budget.Fleet
	client  redis.UniversalClient // nil without Redis
	roster  *budget.Roster        // nil without Redis
	// stopping: no longer ready, about to end.
	stopping atomic.Bool
}

// probeEvery is the pause between probes of a store that is out of reach.
const probeEvery = 200 * time.Millisecond

// newApp wires one decider.
func newApp(policies *policy.Live, store storeConfig, chance chance, log *slog.Logger) (*app, error) {
	a := &app{}
	started := time.Now()
	kind := "memory"
	if store.redisURL == "" {
		a.fleet = budget.NewFleet(budget.NewMemory(time.Now))
	} else {
		kind = "redis"
		redis.SetLogger(redisLog{log})
		if err := a.openRedis(store, replica(policies, started)); err != nil {
			return nil, err
		}
	}
	handler, err := handlers.New(handlers.Config{
		Decider:  &decide.Decider{Policies: policies, Fleet: a.fleet, Now: time.Now, Random: chance.float, NewID: chance.id},
		Policies: policies, Fleet: a.fleet, Version: version, PolicySchema: policy.Schema(), Log: log,
		Ready: func() bool { return !a.stopping.Load() },
		Status: func() handlers.Status {
			return handlers.Status{
				StartedAt: started,
				Policies:  handlers.PoliciesStatus{Hash: policies.Set().Hash(), AppliedAt: policies.AppliedAt(), Source: policies.Set().Source()},
				Store:     storeStatus(kind, started, a.fleet.Health()),
			}
		},
	})
	a.handler = handler
	return a, err
}

func (a *app) openRedis(store storeConfig, self func() budget.Replica) error {
	client, err := budget.NewClient(store.redisURL, store.timeout)
	if err != nil {
		return misuse{fmt.Errorf("--redis-url: %w", err)}
	}
	var clock func() time.Time
	if store.localClock {
		clock = time.Now
	}
	backend := budget.NewRedis(client, clock)
	a.client = client
	a.roster = budget.NewRoster(backend, store.timeout, self)
	a.fleet = budget.NewSharedFleet(budget.Shared{
		Store: backend, Timeout: store.timeout, ProbeEvery: probeEvery, Now: time.Now,
		Replicas: func() int { return a.roster.Count(store.replicas) },
	})
	return nil
}

// redisLog keeps the Redis client, which by itself writes every failed dial to
// standard error, to the program's log and its form. What matters of it is told
// by /readyz and by every degraded answer.
type redisLog struct{ log *slog.Logger }

// Printf logs what the client says.
func (r redisLog) Printf(ctx context.Context, format string, values ...any) {
	if r.log.Enabled(ctx, slog.LevelDebug) {
		r.log.DebugContext(ctx, fmt.Sprintf(format, values...))
	}
}

// replica is what this decider tells the others of itself.
func replica(policies *policy.Live, started time.Time) func() budget.Replica {
	host, _ := os.Hostname() // a replica without a host's name is still one
	id := host + "-" + randomID(rand.Uint64(), rand.Uint64())[:8]
	return func() budget.Replica {
		return budget.Replica{ID: id, Version: version, Config: policies.Set().Hash(), Since: started}
	}
}

func storeStatus(kind string, started time.Time, h budget.Health) handlers.StoreStatus {
	s := handlers.StoreStatus{Kind: kind, Degraded: h.Degraded, Since: h.Since, Means: "Every decision asks the one budget that the whole fleet shares."}
	if s.Since.IsZero() {
		s.Since = started
	}
	switch {
	case h.Degraded:
		s.Means = "Redis is out of reach (" + h.Error.Error() + "): each replica decides from its own share of every budget, as the policy's on_store_failure says."
	case kind == "memory":
		s.Means = "State is kept in this process: every decision asks the one budget of all callers of this decider."
	}
	return s
}

// close tells what is still to be told and lets go of the store.
func (a *app) close(ctx context.Context) {
	a.fleet.Close(ctx)
	if a.client != nil {
		a.roster.Close()
		_ = a.client.Close() // nothing is left to be done with it
	}
}

// chance is where floats and ids come from.
type chance struct {
	float func() float64
	id    func() string
}

// newChance draws from the operating system's randomness, or from a seed, under
// which every draw is reproducible.
func newChance(seed *uint32) chance {
	if seed == nil {
		return chance{float: rand.Float64, id: func() string { return randomID(rand.Uint64(), rand.Uint64()) }}
	}
	var mu sync.Mutex
	floats := decide.NewMulberry32(*seed)
	ids := rand.New(rand.NewPCG(uint64(*seed), 0))
	return chance{
		float: func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return floats.Float64()
		},
		id: func() string {
			mu.Lock()
			defer mu.Unlock()
			return randomID(ids.Uint64(), ids.Uint64())
		},
	}
}

// randomID writes 128 bits as 22 letters.
func randomID(high, low uint64) string {
	bits := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low)
	return base64.RawURLEncoding.EncodeToString(bits)
}
