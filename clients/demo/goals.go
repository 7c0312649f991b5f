package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// What decider simulate goals shows beside its own numbers: the same goals, at a
// smaller scale, from real processes and a real Redis.

// measured is a goal's value, as decider simulate goals reads it.
type measured struct {
	Value string `json:"value"`
	Met   bool   `json:"met"`
	At    string `json:"at"`
}

var goalsPlan = plan{
	Rate: 100, PerFleet: 2, Healthy: 25 * time.Second, Outage: 40 * time.Second, Recovery: 3 * time.Second, AskTimeout: 2 * time.Second,
}

// patience is how long the goals' deciders wait for Redis: what is measured is
// the rule, and not what becomes of it on a machine too busy to run Redis.
const patience = time.Second

// The fleets of the goals, in the order of their dependencies in goalsPolicies.
const (
	fewClients = iota
	someClients
	manyClients
	wholeSecond
	halfSecond
	fewFailures
	exactly
)

// goalsPolicies are the words that the simulator compares under the name
// decider, each fleet's floor 1 % of its rate; and a bucket that nothing fills.
const goalsPolicies = `version: 1
dependencies:
  demo-0: {max_attempts: 4, budget: {ratio: 10%, capacity: 10, capacity_seconds: 1, min_per_second: 1, caller_share: 10%}}
  demo-1: {max_attempts: 4, budget: {ratio: 10%, capacity: 10, capacity_seconds: 1, min_per_second: 1, caller_share: 10%}}
  demo-2: {max_attempts: 4, budget: {ratio: 10%, capacity: 10, capacity_seconds: 1, min_per_second: 1, caller_share: 10%}}
  demo-3: {max_attempts: 4, budget: {ratio: 10%, capacity: 10, capacity_seconds: 1, min_per_second: 3, caller_share: 10%}}
  demo-4: {max_attempts: 4, budget: {ratio: 10%, capacity: 10, capacity_seconds: 0.5, min_per_second: 3, caller_share: 10%}}
  demo-5: {max_attempts: 4, budget: {ratio: 10%, capacity: 10, capacity_seconds: 1, min_per_second: 3, caller_share: 10%}}
  demo-6: {max_attempts: 4, budget: {ratio: 10%, capacity: 100, capacity_seconds: 0, min_per_second: 0}}
`

func goalsFleets() []fleet {
	return []fleet{
		fewClients:  {Name: "10 clients", Rule: asking, Named: true, Clients: 10},
		someClients: {Name: "100 clients", Rule: asking, Named: true, Clients: 100},
		manyClients: {Name: "400 clients", Rule: asking, Named: true, Clients: 400},
		wholeSecond: {Name: "a bucket of a second", Rule: asking, Named: true, Clients: 75, Rate: 300},
		halfSecond:  {Name: "a bucket of half a second", Rule: asking, Named: true, Clients: 75, Rate: 300},
		fewFailures: {Name: "1 of 20 fails", Rule: asking, Named: true, Clients: 50, Rate: 300, Fails: 0.05},
	}
}

// writeGoals measures, and writes what came of it.
func (d *demo) writeGoals(ctx context.Context, path string) error {
	goals, err := d.measureGoals(ctx)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(goals, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // a table's numbers, for everybody
}

// startForGoals starts a Redis, and two deciders under the goals' policies.
func (d *demo) startForGoals(ctx context.Context) ([]*decidingProcess, error) {
	if err := d.startRedis(ctx); err != nil {
		return nil, err
	}
	d.policies = filepath.Join(d.directory, "policies.yaml")
	if err := os.WriteFile(d.policies, []byte(goalsPolicies), 0o600); err != nil {
		return nil, err
	}
	return d.startDeciders(ctx, nil)
}

func (d *demo) measureGoals(ctx context.Context) (map[string]measured, error) {
	deciders, err := d.startForGoals(ctx)
	if err != nil {
		return nil, err
	}
	exact, err := askAtOnce(ctx, deciders)
	if err != nil {
		return nil, err
	}
	results, err := d.runFleets(ctx, goalsFleets(), deciders)
	if err != nil {
		return nil, err
	}
	for _, each := range results {
		fmt.Fprintf(d.progress, "%s: %d decisions of decider, %d of them without Redis, %d alone\n", each.fleet.Name, len(each.report.Asked), each.report.Degraded, len(each.report.Alone))
	}
	goals := readGoals(&d.plan, results)
	goals["G14"] = exact
	return goals, nil
}

// readGoals reads the goals' values off the fleets.
func readGoals(p *plan, results []*result) map[string]measured {
	begin, end := p.Healthy, p.Healthy+p.Outage
	least, most := 10.0, 0.0
	for _, each := range results[fewClients : manyClients+1] {
		load := each.load(begin, end)
		least, most = min(least, load), max(most, load)
	}
	whole, half := results[wholeSecond].load(begin, begin+time.Second), results[halfSecond].load(begin, begin+time.Second)
	few := results[fewFailures]
	load, success := few.load(settled, p.total()), 100*few.success(settled, p.total()-time.Second/10)
	return map[string]measured{
		"G1": {fmt.Sprintf("%.3f to %.3f", least, most), most <= 1.02 && most-least <= 0.005,
			fmt.Sprintf("10, 100 and 400 clients, 100 calls/s each, %.0f s", p.Outage.Seconds())},
		"G2":  {fmt.Sprintf("load %.3f", whole), whole <= 1.12, "300 calls/s, one second"},
		"G2b": {fmt.Sprintf("load %.3f", half), half <= 1.12, "300 calls/s, one second"},
		"G3": {fmt.Sprintf("%.2f %%, %.3f", success, load), success >= 99.95 && load <= 1.06,
			fmt.Sprintf("300 calls/s, p = 5 %%, %.0f s", (p.total() - settled).Seconds())},
	}
}

// settled is when a fleet's beginning is over.
const settled = 3 * time.Second

// How many ask at once, and how often in all, for how many tokens.
const (
	askers = 64
	asks   = 10 * askers
	held   = 100
)

// askAtOnce asks two deciders for one bucket's tokens.
func askAtOnce(ctx context.Context, deciders []*decidingProcess) (measured, error) {
	var clients []*decider.Client
	for _, each := range deciders {
		client, err := decider.NewClient(each.url(), decider.WithTimeout(10*time.Second), decider.WithReportInterval(0))
		if err != nil {
			return measured{}, err
		}
		clients = append(clients, client)
	}
	var granted, alone atomic.Int64
	var all sync.WaitGroup
	for i := range askers {
		all.Go(func() {
			for range asks / askers {
				d := clients[i%len(clients)].Ask(ctx, decider.Attempt{
					Dependency: dependencyName(exactly), Caller: "demo", Method: "GET", Status: 503})
				if d.Retry {
					granted.Add(1)
				}
				if d.Local {
					alone.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := alone.Load(); n > 0 {
		return measured{}, fmt.Errorf("%d of %d questions had no answer", n, asks)
	}
	return measured{fmt.Sprintf("%d of %d asks on %d tokens", granted.Load(), asks, held), granted.Load() == held,
		fmt.Sprintf("%d at once, two deciders", askers)}, nil
}
