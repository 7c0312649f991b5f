package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// scenario is one load and who is put under it, in this order.
type scenario struct {
	name    string
	load    load
	servers []string
}

// Names of servers in tables. The bare handler comes twice; what it differs from
// itself by is the machine's noise.
const (
	bare        = "bare echo handler"
	bareAgain   = "bare echo handler, again"
	onMemory    = "decider, memory"
	onRedis     = "decider, Redis"
	ratelimited = "ratelimit /json, Redis"
	gubernated  = "gubernator, memory"
)

// Names of scenarios.
const (
	hot8     = "one dependency, 8 connections"
	hot64    = "one dependency, 64 connections"
	spread1k = "1,000 dependencies, 64 connections"
	spread10 = "10,000 dependencies, 64 connections"
	batches  = "batches of 100, 8 connections"
	stalled  = "store stalled (SIGSTOP), 64 connections"
	killed   = "store killed, 64 connections"
)

func scenarios(seconds int) []scenario {
	everybody := []string{bare, onMemory, onRedis, ratelimited, gubernated, bareAgain}
	return []scenario{
		{hot8, load{connections: 8, seconds: seconds}, everybody},
		{hot64, load{connections: 64, seconds: seconds}, everybody},
		{spread1k, load{connections: 64, seconds: seconds, dependencies: 1000}, []string{onMemory, onRedis, ratelimited, gubernated}},
		{spread10, load{connections: 64, seconds: seconds, dependencies: 10_000}, []string{onMemory, onRedis}},
		{batches, load{connections: 8, seconds: seconds, items: 100}, []string{onMemory, onRedis}},
	}
}

// report is all that one run has measured.
type report struct {
	Machine machine `json:"machine"`
	// Samples are by scenario and server, one for each round.
	Samples map[string]map[string][]sample `json:"samples"`
	Process process                        `json:"process"`
	Goals   []goal                         `json:"goals"`
}

func (r *report) add(scenario, server string, s sample) {
	if r.Samples[scenario] == nil {
		r.Samples[scenario] = map[string][]sample{}
	}
	r.Samples[scenario][server] = append(r.Samples[scenario][server], s)
}

// peers measures everybody in turn and tells how decider does.
func peers(ctx context.Context, o *options, l *lab) error {
	r := &report{Machine: thisMachine(), Samples: map[string]map[string][]sample{}}
	store, servers, err := l.startPeers(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{bare, onMemory, onRedis, ratelimited, gubernated} { // connections, scripts, heaps
		if s := servers[name]; s != nil {
			if _, err := l.measure(ctx, s, load{connections: 8, seconds: 1}); err != nil {
				return err
			}
		}
	}
	all := scenarios(o.seconds)
	for round := range o.rounds {
		for _, each := range all {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, each.name)
			if err := l.measureAll(ctx, r, each, servers); err != nil {
				return err
			}
		}
	}
	if err := l.measureOutages(ctx, o, r, store, servers); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "start, memory, Plan")
	if r.Process, err = l.measureProcess(ctx, o); err != nil {
		return err
	}
	r.Goals = goals(r)
	return r.tell(o, append(all, scenario{name: stalled, servers: outageServers}, scenario{name: killed, servers: outageServers}))
}

func (l *lab) startPeers(ctx context.Context) (store *server, servers map[string]*server, err error) {
	if store, err = l.redis(ctx, "redis"); err != nil {
		return nil, nil, err
	}
	servers = map[string]*server{}
	start := func(name string, begin func() (*server, error)) {
		if err != nil {
			return
		}
		fmt.Fprintln(os.Stderr, "starting", name)
		servers[name], err = begin()
	}
	start(bare, func() (*server, error) { return l.echo(ctx) })
	start(onMemory, func() (*server, error) { return l.decider(ctx, "memory", nil) })
	start(onRedis, func() (*server, error) { return l.decider(ctx, "shared", store) })
	if l.options.ratelimit != "" {
		start(ratelimited, func() (*server, error) { return l.ratelimit(ctx, store) })
	}
	if l.options.gubernator != "" {
		start(gubernated, func() (*server, error) { return l.gubernatorServer(ctx) })
	}
	servers[bareAgain] = servers[bare]
	return store, servers, err
}

func (l *lab) measureAll(ctx context.Context, r *report, each scenario, servers map[string]*server) error {
	for _, name := range each.servers {
		s := servers[name]
		if s == nil {
			continue
		}
		measured, err := l.measure(ctx, s, each.load)
		if err != nil && ctx.Err() == nil { // one failed run must not cost all the others
			fmt.Fprintln(os.Stderr, "once more:", err)
			measured, err = l.measure(ctx, s, each.load)
		}
		if err != nil {
			return err
		}
		r.add(each.name, name, measured)
	}
	return nil
}

var outageServers = []string{onRedis, ratelimited}

// measureOutages asks while the store is stopped, and once it is dead.
func (l *lab) measureOutages(ctx context.Context, o *options, r *report, store *server, servers map[string]*server) error {
	alone := map[string]*server{} // without their store, which would have to be asked how busy it is
	for name, s := range servers {
		copied := *s
		copied.store = nil
		alone[name] = &copied
	}
	under := load{connections: 64, seconds: o.seconds}
	fmt.Fprintln(os.Stderr, stalled)
	if err := store.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := l.measureAll(ctx, r, scenario{stalled, under, outageServers}, alone)
	if err := errors.Join(err, store.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	// All is well again before the next outage: one begins with all asking.
	if err := store.await(ctx, ""); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	fmt.Fprintln(os.Stderr, killed)
	store.stop()
	return l.measureAll(ctx, r, scenario{killed, under, outageServers}, alone)
}

// process is what a decider takes by itself.
type process struct {
	// Start is from the command to the first answer, in ms: the median of some.
	Start float64 `json:"start_to_first_answer_ms"`
	// Idle and Spread are resident bytes, after the first answer and with 10,000
	// dependencies.
	Idle   int64 `json:"idle_rss_bytes"`
	Spread int64 `json:"rss_bytes_with_10000_dependencies"`
	Binary int64 `json:"binary_bytes"`
	// Plan is the dearest of the usual paths of decide.NewPlan.
	PlanNanos  float64 `json:"plan_ns"`
	PlanAllocs float64 `json:"plan_allocations"`
}

const starts = 7

func (l *lab) measureProcess(ctx context.Context, o *options) (p process, err error) {
	file, err := os.Stat(o.decider)
	if err != nil {
		return p, err
	}
	p.Binary = file.Size()
	var took, idle []float64
	for i := range starts {
		begun := time.Now()
		s, err := l.deciderUnder(ctx, fmt.Sprintf("start-%d", i), "", nil)
		if err != nil {
			return p, err
		}
		if err := s.ask(ctx); err != nil {
			return p, err
		}
		took = append(took, float64(time.Since(begun).Microseconds())/1000)
		time.Sleep(100 * time.Millisecond)
		idle = append(idle, float64(s.rss()))
		s.stop()
	}
	p.Start, p.Idle = median(took), int64(median(idle))
	s, err := l.decider(ctx, "spread", nil)
	if err != nil {
		return p, err
	}
	defer s.stop()
	if _, err = l.measure(ctx, s, load{connections: 64, seconds: o.seconds, dependencies: 10_000}); err != nil {
		return p, err
	}
	p.Spread = s.rss()
	p.PlanNanos, p.PlanAllocs, err = measurePlan(ctx)
	return p, err
}

// measurePlan runs the benchmark of Plan and takes its dearest path.
func measurePlan(ctx context.Context) (nanos, allocs float64, err error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkPlan$", "-benchtime", "100ms", "-count", "5", "./internal/decide").CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("benchmark of Plan: %w: %s", err, out)
	}
	for _, b := range medians(readBenchmarks(string(out))) {
		nanos, allocs = max(nanos, b.nanos), max(allocs, b.allocs)
	}
	return nanos, allocs, nil
}
