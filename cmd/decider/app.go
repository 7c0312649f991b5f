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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/console"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/decisionlog"
	"github.com/retrydecider/decider/internal/handlers"
	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/trial"
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

// appConfig is what only a decider that serves needs.
type appConfig struct {
	guard   guard
	tracing tracing
	// records takes what is kept whatever the level of the log.
	records *slog.Logger
	// maxConcurrent, accessLog and hideMetrics are those of [handlers.Config].
	maxConcurrent int64
	accessLog     int
	hideMetrics   bool
}

// app is everything between the policy file and the HTTP handler.
type app struct {
	handler  http.Handler
	api      *handlers.API // without the traces
	policies *policy.Live
	started  time.Time
	// self is this decider as it tells the others of itself.
	self  func() budget.Replica
	fleet *budget.Fleet
	guard guard
	// metrics are all that this decider tells Prometheus.
	metrics      *prometheus.Registry
	storeLatency *prometheus.HistogramVec
	// trials are what candidates and rules in shadow would have done.
	trials *trial.Book
	// decisions is the decision log, nil without one.
	decisions *decisionlog.Log
	// What follows is nil without Redis.
	client   redis.UniversalClient
	roster   *budget.Roster
	settings *budget.Settings
	// stopping: no longer ready, about to end.
	stopping atomic.Bool
	// draining is closed when what would never end by itself must end.
	draining chan struct{}
}

// probeEvery is the pause between probes of a store that is out of reach.
const probeEvery = 200 * time.Millisecond

// newApp wires one decider.
func newApp(policies *policy.Live, store storeConfig, chance chance, log *slog.Logger, more appConfig) (*app, error) {
	a := &app{policies: policies, started: time.Now(), draining: make(chan struct{}), guard: more.guard, storeLatency: newStoreLatency()}
	a.self = replica(policies, a.started)
	if store.redisURL == "" {
		a.fleet = budget.NewFleet(budget.NewMemory(time.Now))
	} else if err := a.openRedis(store, log, more.tracing); err != nil {
		return nil, err
	}
	a.trials = trial.NewBook(a.fleet, time.Now)
	a.metrics = newRegistry(a)
	api, err := handlers.New(handlers.Config{
		Decider: &decide.Decider{Policies: policies, Fleet: more.tracing.fleet(a.fleet), Now: time.Now, Random: chance.float, NewID: chance.id, Trials: a.trials},
		Trials:  a.trials, Decided: a.decided, Reported: a.reported,
		Policies: policies, Fleet: a.fleet, Version: version, PolicySchema: policy.Schema(), Log: log, Records: more.records, Metrics: a.metrics,
		Console: console.Page, Stopping: a.draining,
		Ready:  func() bool { return !a.stopping.Load() },
		Status: a.status,
		Door:   more.guard.door, LoopbackOnly: more.guard.loopbackOnly, MaxConcurrent: more.maxConcurrent, AccessLog: more.accessLog, HideMetrics: more.hideMetrics,
	})
	if err != nil {
		return nil, err
	}
	a.api, a.handler = api, more.tracing.handler(api)
	return a, nil
}

func (a *app) openRedis(store storeConfig, log *slog.Logger, t tracing) error {
	redis.SetLogger(redisLog{log})
	client, err := budget.NewClient(store.redisURL, store.timeout)
	if err != nil {
		return misuse{fmt.Errorf("--redis-url: %w", err)}
	}
	if err := t.redis(client); err != nil {
		return err
	}
	var clock func() time.Time
	if store.localClock {
		clock = time.Now
	}
	backend := budget.NewRedis(client, clock)
	a.client = client
	a.roster = budget.NewRoster(backend, store.timeout, a.self)
	a.settings = budget.NewSettings(backend, store.timeout, logEviction(log))
	a.fleet = budget.NewSharedFleet(budget.Shared{
		Store: backend, Timeout: store.timeout, ProbeEvery: probeEvery, Now: time.Now, Changed: logTurns(log), Called: a.called, Carry: t.carry(),
		Replicas: func() int { return a.roster.Count(store.replicas) },
	})
	return nil
}

// replica is what this decider tells the others of itself.
func replica(policies *policy.Live, started time.Time) func() budget.Replica {
	host, _ := os.Hostname() // a replica without a host's name is still one
	id := host + "-" + randomID(rand.Uint64(), rand.Uint64())[:8]
	return func() budget.Replica {
		return budget.Replica{ID: id, Version: version, Config: policies.Set().Hash(), Since: started}
	}
}

// redisLog keeps the Redis client, which by itself writes every failed dial to
// standard error, to the program's log and its form. What matters of it is told
// by the turns of the store.
type redisLog struct{ log *slog.Logger }

// Printf logs what the client says.
func (r redisLog) Printf(ctx context.Context, format string, values ...any) {
	if r.log.Enabled(ctx, slog.LevelDebug) {
		r.log.DebugContext(ctx, fmt.Sprintf(format, values...))
	}
}

// close tells what is still to be told and lets go of the store.
func (a *app) close(ctx context.Context) {
	a.fleet.Close(ctx)
	if a.decisions != nil {
		a.decisions.Close(ctx)
	}
	if a.client != nil {
		a.roster.Close()
		a.settings.Close()
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
