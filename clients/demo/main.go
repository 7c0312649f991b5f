// Command demo shows a retry storm on one machine, and what becomes of it with
// decider: real processes, a real redis-server, two deciders, and a dependency
// over HTTP that is well, goes down for a minute, and comes back.
//
// The same fleet runs side by side under several rules, each against a
// dependency of its own, so that all see the same minute:
//
//   - three retries a call, as most libraries do;
//   - one token bucket for each client, as the better ones do, for fleets of
//     different sizes and the same traffic;
//   - decider's default policy;
//   - the same with the deciders stalled and then killed in the middle of the
//     outage, and started again.
//
// It prints a table beside the formulas of retry budgets, writes one picture of
// the load over time, and exits 1 where a number is not what it should be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the demo, or one process of its fleets.
func run(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) == 2 && args[0] == "fleet" {
		return runFleet(ctx, args[1], in, out)
	}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(progress)
	short := flags.Bool("short", false, "an outage of 6 s instead of 60, less exact")
	path := flags.String("decider", "bin/decider", "the decider to run")
	redis := flags.String("redis", "redis-server", "the redis-server to run")
	picture := flags.String("out", "demo.svg", "where to write the picture")
	goals := flags.String("goals", "", "play instead what decider simulate goals wants measured, and write it to this JSON file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plan := fullPlan
	if *short {
		plan = shortPlan
	}
	d := &demo{plan: plan, deciderPath: *path, redisPath: *redis, progress: &together{to: progress}}
	defer d.stop()
	if *goals != "" {
		d.plan = goalsPlan
		return d.writeGoals(ctx, *goals)
	}
	results, err := d.run(ctx, d.plan.fleets())
	if err != nil {
		return err
	}
	printTable(out, plan, results)
	if err := os.WriteFile(*picture, drawSVG(plan, results), 0o644); err != nil { //nolint:gosec // a picture for everybody
		return err
	}
	fmt.Fprintf(out, "\nThe load over time is drawn in %s.\n", *picture)
	if wrong := check(plan, results); len(wrong) > 0 {
		for _, each := range wrong {
			fmt.Fprintln(out, "NOT AS IT SHOULD BE:", each)
		}
		return errors.New("the numbers are not what they should be")
	}
	return nil
}

// together lets several processes write to one place.
type together struct {
	mu sync.Mutex
	to io.Writer
}

// Write writes.
func (w *together) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// plan is how long and how much.
type plan struct {
	// Rate is the calls a second of each fleet, PerFleet its processes.
	Rate     float64
	PerFleet int
	// Healthy, Outage and Recovery follow each other.
	Healthy, Outage, Recovery time.Duration
	// StallAt, KillAt and ReturnAt count from the begin of the outage.
	StallAt, KillAt, ReturnAt time.Duration
	// Small, Middle and Large are numbers of clients.
	Small, Middle, Large int
	// AskTimeout bounds a question, and Noise is what a busy machine may add to a
	// time. The short demo is for busy ones.
	AskTimeout, Noise time.Duration
	// MaxDecider is the most load that decider may let through, its floor apart:
	// a bucket weighs more in a shorter outage.
	MaxDecider float64
	// MinRetries is the least load that three retries bring; more of them fall
	// behind the end of a shorter outage.
	MinRetries float64
}

var (
	fullPlan = plan{
		Rate: 100, PerFleet: 4, Healthy: 15 * time.Second, Outage: time.Minute, Recovery: 15 * time.Second,
		StallAt: 15 * time.Second, KillAt: 25 * time.Second, ReturnAt: 40 * time.Second, Small: 40, Middle: 200, Large: 1000, AskTimeout: decider.DefaultTimeout, Noise: 50 * time.Millisecond, MaxDecider: 1.02, MinRetries: 3.9,
	}
	shortPlan = plan{
		Rate: 150, PerFleet: 2, Healthy: 2 * time.Second, Outage: 6 * time.Second, Recovery: 2 * time.Second,
		StallAt: time.Second, KillAt: 2 * time.Second, ReturnAt: 3 * time.Second, Small: 10, Middle: 40, Large: 160, AskTimeout: 300 * time.Millisecond, Noise: 300 * time.Millisecond, MaxDecider: 1.1, MinRetries: 3.7,
	}
)

func (p *plan) total() time.Duration { return p.Healthy + p.Outage + p.Recovery }

// fleet is one fleet and its rule.
type fleet struct {
	Name    string
	Rule    string // of the calls: retries, bucket or decider
	Clients int
	Killed  bool // its deciders are stalled, killed and started again
	Color   string
	Named   bool    // each client has a name of its own
	Rate    float64 // calls a second; 0: the plan's
	Fails   float64 // the share of requests that its dependency fails, instead of the outage
}

// The rules.
const (
	retries = "retries"
	bucket  = "bucket"
	asking  = "decider"
)

func (p *plan) fleets() []fleet {
	return []fleet{
		{Name: "three retries", Rule: retries, Clients: p.Large, Color: "#c0392b"},
		{Name: "a bucket per client", Rule: bucket, Clients: p.Large, Color: "#d35400"},
		{Name: "a bucket per client", Rule: bucket, Clients: p.Middle, Color: "#e08e0b"},
		{Name: "a bucket per client", Rule: bucket, Clients: p.Small, Color: "#b7950b"},
		{Name: "decider", Rule: asking, Clients: p.Large, Color: "#1e8449"},
		{Name: "decider, killed and back", Rule: asking, Clients: p.Middle, Killed: true, Color: "#2471a3"},
	}
}
