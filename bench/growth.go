package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// step is one measurement of how the cost grows.
type step struct {
	Of    string  `json:"of"`
	Who   string  `json:"who"`
	Count int     `json:"count"`
	RSS   int64   `json:"rss_bytes"`
	At    sample  `json:"sample"`
	Redis float64 `json:"redis_cpu_share,omitempty"`
}

// growth measures what decisions cost as each of five things grows, the others
// being small.
func growth(ctx context.Context, o *options, l *lab) error {
	g := &grower{lab: l, options: o, ctx: ctx}
	for _, n := range []int{1, 4, 16, 64, 256, 1024} {
		g.both("connections", n, policies, load{connections: n})
	}
	for _, n := range []int{1, 10, 100, 1000, 10_000, 100_000} {
		g.both("dependencies", n, policies, load{connections: 64, dependencies: n})
	}
	g.one("dependencies, max_unknown 1,000", 100_000, onMemory, policiesOf(0), load{connections: 64, dependencies: 100_000})
	for _, n := range []int{1, 100, 10_000} {
		g.both("callers", n, sharedPolicies, load{connections: 64, callers: n})
	}
	for _, n := range []int{1, 10, 100, 1000, 5000} {
		g.one("rules", n, onMemory, policiesOf(n), load{connections: 64, dependencies: 100})
	}
	for _, n := range []int{1, 2, 3, 4} {
		g.replicas(n)
	}
	if g.err != nil {
		return g.err
	}
	m := thisMachine()
	return publish(o, "growth", "Measured on "+m.String()+".", g.tables(), g.steps, curves(g.panels()))
}

type grower struct {
	lab     *lab
	options *options
	ctx     context.Context //nolint:containedctx // of one command, from its begin to its end
	steps   []step
	err     error
	begun   int
}

// both measures with memory and with Redis.
func (g *grower) both(of string, n int, policies string, w load) {
	g.one(of, n, onMemory, policies, w)
	g.one(of, n, onRedis, policies, w)
}

// one measures a decider of its own, so that its memory is of this step alone.
func (g *grower) one(of string, n int, who, policies string, w load) {
	if g.err != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %d, %s\n", of, n, who)
	g.begun++
	var store *server
	if who == onRedis {
		if store, g.err = g.lab.redis(g.ctx, fmt.Sprintf("redis-%d", g.begun)); g.err != nil {
			return
		}
		defer store.stop()
	}
	s, err := g.lab.deciderUnder(g.ctx, fmt.Sprintf("decider-%d", g.begun), policies, store)
	if err != nil {
		g.err = err
		return
	}
	defer s.stop()
	w.seconds = g.options.seconds
	at, err := g.lab.measure(g.ctx, s, w)
	g.err = err
	g.steps = append(g.steps, step{Of: of, Who: who, Count: n, RSS: s.rss(), At: at})
}

// replicas measures several deciders on one Redis at once, a wrk for each.
func (g *grower) replicas(n int) {
	if g.err != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "replicas: %d\n", n)
	store, err := g.lab.redis(g.ctx, fmt.Sprintf("redis-of-%d", n))
	if err != nil {
		g.err = err
		return
	}
	defer store.stop()
	servers := make([]*server, 0, n)
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	for i := range n {
		s, err := g.lab.decider(g.ctx, fmt.Sprintf("replica-%d-of-%d", i, n), store)
		if err != nil {
			g.err = err
			return
		}
		servers = append(servers, s)
	}
	before := store.cpu()
	samples, errs := make([]sample, n), make([]error, n)
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() {
			samples[i], errs[i] = g.lab.measure(g.ctx, s, load{connections: 64 / n, seconds: g.options.seconds})
		})
	}
	all.Wait()
	sum := step{Of: "replicas", Who: onRedis, Count: n, Redis: (store.cpu() - before).Seconds() / float64(g.options.seconds)}
	for i, at := range samples {
		if errs[i] != nil {
			g.err = errs[i]
			return
		}
		sum.RSS += servers[i].rss()
		sum.At.PerSecond += at.PerSecond
		sum.At.P50, sum.At.P99, sum.At.Max = max(sum.At.P50, at.P50), max(sum.At.P99, at.P99), max(sum.At.Max, at.Max)
		sum.At.CPU += at.CPU / float64(n)
		sum.At.Commands += at.Commands / float64(n)
		sum.At.Degraded += at.Degraded / float64(n)
	}
	g.steps = append(g.steps, sum)
}

// sharedPolicies reserve a share for each caller, which is kept in the fleet's state.
var sharedPolicies = policies[:len(policies)-2] + ", caller_share: 10%}\n"

// policiesOf is a file of so many rules besides those that are asked for, half of
// them patterns.
func policiesOf(rules int) string {
	var b strings.Builder
	b.WriteString("version: 1\ndefaults:\n  budget: {capacity: 1000000, min_per_second: 1000000}\n")
	if rules > 0 {
		b.WriteString("dependencies:\n")
	}
	for i := range rules {
		name := fmt.Sprintf("service-%d", i)
		if i%2 == 1 {
			name += "-*"
		}
		fmt.Fprintf(&b, "  %q: {max_attempts: %d}\n", name, 2+i%5)
	}
	return b.String()
}

// of are the steps of one kind and server, in their order.
func (g *grower) of(kind, who string) (list []step) {
	for _, s := range g.steps {
		if s.Of == kind && s.Who == who {
			list = append(list, s)
		}
	}
	return list
}

var kinds = []string{"connections", "dependencies", "dependencies, max_unknown 1,000", "callers", "rules", "replicas"}

func (g *grower) tables() (tables []table) {
	for _, kind := range kinds {
		t := table{title: "As " + kind + " grow", rows: [][]string{{kind, "who", "decisions/s", "p50", "p99", "CPU for a decision", "Redis commands for a decision", "degraded", "resident memory"}}}
		for _, who := range []string{onMemory, onRedis} {
			for _, s := range g.of(kind, who) {
				t.rows = append(t.rows, []string{
					fmt.Sprint(s.Count), s.Who, fmt.Sprintf("%.0f", s.At.PerSecond), fmt.Sprintf("%.2f ms", s.At.P50), fmt.Sprintf("%.2f ms", s.At.P99),
					fmt.Sprintf("%.1f µs", s.At.CPU), fmt.Sprintf("%.3f", s.At.Commands), fmt.Sprintf("%.1f %%", 100*s.At.Degraded), fmt.Sprintf("%.0f MiB", float64(s.RSS)/(1<<20)),
				})
			}
		}
		tables = append(tables, t)
	}
	return tables
}

func (g *grower) panels() (panels []panel) {
	for _, kind := range kinds {
		speed, memory := panel{title: "Decisions per second against " + kind}, panel{title: "Resident MiB against " + kind}
		for _, who := range []string{onMemory, onRedis} {
			list := g.of(kind, who)
			if len(list) < 2 {
				continue
			}
			fast, big := line{name: who}, line{name: who}
			for _, s := range list {
				fast.points = append(fast.points, point{float64(s.Count), s.At.PerSecond})
				big.points = append(big.points, point{float64(s.Count), float64(s.RSS) / (1 << 20)})
			}
			speed.lines, memory.lines = append(speed.lines, fast), append(memory.lines, big)
		}
		if len(speed.lines) > 0 {
			panels = append(panels, speed, memory)
		}
	}
	return panels
}
