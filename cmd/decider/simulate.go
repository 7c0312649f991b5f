package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/simulate"
)

// simulateCommand plays fleets and dependencies in virtual time.
type simulateCommand struct {
	Run  simulateRun  `cmd:"" default:"withargs" help:"Play scenarios: built-in ones by name, or scenario files."`
	List simulateList `cmd:"" help:"List the built-in scenarios and the policies that they compare."`
}

// simulateRun plays scenarios.
type simulateRun struct {
	Scenarios  []string `arg:"" name:"scenario" help:"Names of built-in scenarios (decider simulate list), or scenario files."`
	Policies   string   `type:"path" placeholder:"FILE" help:"Policy file: its rule for --dependency is compared too."`
	Dependency string   `placeholder:"NAME" help:"The dependency of the policy file; needed with --policies."`
	Compare    []string `placeholder:"A,B" help:"Policies to compare instead of the scenario's own."`
	Clients    int      `placeholder:"N" help:"Clients, instead of the scenario's."`
	Rate       float64  `placeholder:"R" help:"New calls per second, instead of the scenario's."`
	Seeds      int      `placeholder:"N" help:"Average over seeds 1 to N, instead of the scenario's."`
	Output     string   `enum:"text,json,csv,svg,html" default:"text" help:"text, json, csv, svg or html."`
}

// Run plays.
func (c *simulateRun) Run(ctx context.Context, io streams) error {
	own, err := c.own()
	if err != nil {
		return err
	}
	var tables []*simulate.Table
	for _, name := range c.Scenarios {
		scenario, contenders, err := c.scenario(name, own)
		if err != nil {
			return err
		}
		result, err := simulate.Play(ctx, scenario, contenders, progress(io.err, scenario.Name))
		if err != nil {
			return err
		}
		tables = append(tables, result.Table())
	}
	return c.write(io.out, tables)
}

// own is the policy file's contender, if one was given.
func (c *simulateRun) own() ([]simulate.Contender, error) {
	switch {
	case c.Policies == "" && c.Dependency == "":
		return nil, nil
	case c.Policies == "" || c.Dependency == "":
		return nil, misuse{errors.New("--policies and --dependency go together: the file, and whose rule in it is played")}
	}
	set, err := policy.Load(c.Policies)
	if err != nil {
		return nil, err
	}
	rule, _, err := set.Find(c.Dependency)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dependency, err)
	}
	return []simulate.Contender{simulate.Decider(c.Dependency, rule)}, nil
}

// scenario is one that was named, as the flags change it, with its contenders.
func (c *simulateRun) scenario(name string, own []simulate.Contender) (*simulate.Scenario, []simulate.Contender, error) {
	scenario, ok := simulate.Named(name)
	if !ok {
		return nil, nil, misuse{fmt.Errorf("no scenario is called %q; decider simulate list lists them", name)}
	}
	if err := scenario.Change(simulate.Changes{Clients: c.Clients, Rate: c.Rate, Seeds: c.Seeds}); err != nil {
		return nil, nil, misuse{err}
	}
	names := scenario.Compared
	if len(c.Compare) > 0 {
		names = c.Compare
	}
	contenders, err := simulate.ByName(names...)
	if err != nil {
		return nil, nil, misuse{err}
	}
	return scenario, append(contenders, own...), nil
}

func (c *simulateRun) write(w io.Writer, tables []*simulate.Table) error {
	for i, t := range tables {
		if i > 0 && c.Output != "json" {
			fmt.Fprintln(w)
		}
		var err error
		switch c.Output {
		case "json":
			err = writeJSON(w, t)
		case "csv":
			err = t.WriteCSV(w)
		default:
			err = t.WriteText(w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// patience is how long nothing is said of a run's progress, and how long between two words of it.
	patience = 2 * time.Second
)

// progress tells of a long run on standard error.
func progress(w io.Writer, name string) simulate.Progress {
	start := time.Now()
	said := start
	return func(done, all int, events float64) {
		now := time.Now()
		if now.Sub(said) < patience || done == all {
			return
		}
		said = now
		fmt.Fprintf(w, "%s: %d of %d runs, %.1f million events in %.0f s\n", name, done, all, events/1e6, now.Sub(start).Seconds())
	}
}

// simulateList lists.
type simulateList struct{}

// Run lists.
func (c *simulateList) Run(io streams) error {
	fmt.Fprintln(io.out, "Scenarios:")
	for _, s := range simulate.Builtin() {
		fmt.Fprintf(io.out, "  %-22s %s\n", s.Name, s.Title)
	}
	fmt.Fprintln(io.out, "\nPolicies, for --compare:")
	for _, c := range simulate.Contenders() {
		fmt.Fprintf(io.out, "  %-24s %s\n", c.Name, c.About)
	}
	return nil
}
