package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/simulate"
)

// simulateCommand plays fleets and dependencies in virtual time.
type simulateCommand struct {
	Run   simulateRun   `cmd:"" default:"withargs" help:"Play scenarios: built-in ones by name, or scenario files."`
	List  simulateList  `cmd:"" help:"List the built-in scenarios and the policies that they compare."`
	Size  simulateSize  `cmd:"" help:"Propose a budget for a fleet, with what it trades and the run that supports it."`
	Goals simulateGoals `cmd:"" help:"Play every goal that decider promises and show which are met, and why others are not."`
}

// simulateRun plays scenarios.
type simulateRun struct {
	Scenarios  []string `arg:"" name:"scenario" help:"Names of built-in scenarios (decider simulate list), or scenario files (*.yaml)."`
	Policies   string   `type:"path" placeholder:"FILE" help:"Policy file: its rule for --dependency is compared too."`
	Dependency string   `placeholder:"NAME" help:"The dependency of the policy file; needed with --policies."`
	Compare    []string `placeholder:"A,B" help:"Policies to compare instead of the scenario's own."`
	Clients    int      `placeholder:"N" help:"Clients, instead of the scenario's."`
	Rate       float64  `placeholder:"R" help:"New calls per second at the scenario's first point; the others' change with it."`
	Seeds      int      `placeholder:"N" help:"Average over seeds 1 to N, instead of the scenario's."`
	Output     string   `enum:"text,markdown,json,csv,svg,html" default:"text" help:"text, markdown, json, csv, svg or html."`
	Chart      int      `placeholder:"N" help:"With svg: the N-th picture alone."`
}

// Run plays.
func (c *simulateRun) Run(ctx context.Context, io streams) error {
	var outcomes []simulate.Outcome
	for _, name := range c.Scenarios {
		outcome, err := c.play(ctx, name, io.err)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, outcome)
	}
	return c.write(io.out, outcomes)
}

// play plays one scenario or study.
func (c *simulateRun) play(ctx context.Context, name string, err io.Writer) (simulate.Outcome, error) {
	tell := progress(err, name)
	if study, ok := simulate.StudyNamed(name); ok {
		return simulate.Outcome{Tables: study.Tables(tell)}, nil
	}
	scenario, contenders, wrong := c.scenario(name)
	if wrong != nil {
		return simulate.Outcome{}, wrong
	}
	result, wrong := simulate.Play(ctx, scenario, contenders, tell)
	if wrong != nil {
		return simulate.Outcome{}, wrong
	}
	return simulate.Outcome{Tables: []*simulate.Table{result.Table()}, Charts: result.Charts()}, nil
}

// scenario is one that was named, as the flags change it, with its contenders.
func (c *simulateRun) scenario(name string) (*simulate.Scenario, []simulate.Contender, error) {
	policies, dependency := c.Policies, c.Dependency
	scenario, ok := simulate.Named(name)
	if !ok {
		file, err := readScenario(name)
		if err != nil {
			return nil, nil, err
		}
		scenario = file.Scenario
		if policies == "" && file.Policies != "" {
			policies, dependency = file.Policies, file.Dependency
			if !filepath.IsAbs(policies) {
				policies = filepath.Join(filepath.Dir(name), policies)
			}
		}
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
	own, err := ownContender(policies, dependency)
	return scenario, append(contenders, own...), err
}

// readScenario reads a scenario file, for which a name that is none is taken
// where it looks like a file's.
func readScenario(name string) (*simulate.File, error) {
	src, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, `./\`) {
		return nil, misuse{fmt.Errorf("no scenario is called %q; decider simulate list lists them", name)}
	}
	if err != nil {
		return nil, err
	}
	return simulate.ParseFile(name, src)
}

// ownContender is the policy file's, if one was given.
func ownContender(policies, dependency string) ([]simulate.Contender, error) {
	switch {
	case policies == "" && dependency == "":
		return nil, nil
	case policies == "" || dependency == "":
		return nil, misuse{errors.New("--policies and --dependency go together: the file, and whose rule in it is played")}
	}
	set, err := policy.Load(policies)
	if err != nil {
		return nil, err
	}
	rule, _, err := set.Find(dependency)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dependency, err)
	}
	return []simulate.Contender{simulate.Decider(dependency, rule)}, nil
}

func (c *simulateRun) write(w io.Writer, outcomes []simulate.Outcome) error {
	var tables []*simulate.Table
	var charts []*simulate.Chart
	for _, o := range outcomes {
		tables, charts = append(tables, o.Tables...), append(charts, o.Charts...)
	}
	switch c.Output {
	case "json":
		return writeJSON(w, tables)
	case "html":
		return simulate.WritePage(w, outcomes)
	case "svg":
		return c.writeSVG(w, charts)
	}
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		write := t.WriteText
		switch c.Output {
		case "csv":
			write = t.WriteCSV
		case "markdown":
			write = t.WriteMarkdown
		}
		if err := write(w); err != nil {
			return err
		}
	}
	return nil
}

func (c *simulateRun) writeSVG(w io.Writer, charts []*simulate.Chart) error {
	switch {
	case len(charts) == 0:
		return misuse{errors.New("these scenarios have tables alone, no picture")}
	case c.Chart < 0 || c.Chart > len(charts):
		return misuse{fmt.Errorf("there are %d pictures, none is number %d", len(charts), c.Chart)}
	case c.Chart > 0:
		charts = charts[c.Chart-1 : c.Chart]
	}
	return simulate.WriteSVG(w, charts)
}

// patience is how long nothing is said of a run's progress, and between two words of it.
const patience = 2 * time.Second

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
		fmt.Fprintf(w, "%s: %d of %d runs", name, done, all)
		if events > 0 {
			fmt.Fprintf(w, ", %.1f million events", events/1e6)
		}
		fmt.Fprintf(w, " in %.0f s\n", now.Sub(start).Seconds())
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
	fmt.Fprintln(io.out, "\nStudies, which are tables alone:")
	for _, s := range simulate.Studies() {
		fmt.Fprintf(io.out, "  %-22s %s\n", s.Name, s.Title)
	}
	fmt.Fprintln(io.out, "\nPolicies, for --compare:")
	for _, c := range simulate.Contenders() {
		fmt.Fprintf(io.out, "  %-24s %s\n", c.Name, c.About)
	}
	return nil
}
