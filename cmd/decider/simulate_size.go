package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/simulate"
)

// simulateSize proposes a budget.
type simulateSize struct {
	Rate        float64       `required:"" placeholder:"R" help:"New calls per second of the whole fleet."`
	Capacity    float64       `placeholder:"K" help:"Attempts per second that the dependency takes; or --headroom."`
	Headroom    string        `placeholder:"X" help:"Spare capacity as a share of the rate, such as 40% or 0.4; or --capacity."`
	FailureRate string        `required:"" placeholder:"P" help:"Share of attempts that may fail without callers noticing, such as 5% or 0.05."`
	Attempts    int           `default:"4" help:"Attempts at most per call, the first included."`
	Clients     int           `default:"100" help:"Clients of the run that supports the proposal."`
	Service     time.Duration `default:"10ms" help:"The mean time of an attempt in that run."`
	Output      string        `enum:"text,json,html" default:"text" help:"text, json or html."`
}

// Run proposes.
func (c *simulateSize) Run(ctx context.Context, io streams) error {
	need, err := c.need()
	if err != nil {
		return misuse{err}
	}
	proposal, err := simulate.Size(need)
	if err != nil {
		return misuse{err}
	}
	scenario := proposal.Scenario()
	contenders, err := simulate.ByName(scenario.Compared...)
	if err != nil {
		return err
	}
	result, err := simulate.Play(ctx, scenario, append(contenders, proposal.Contender()), progress(io.err, "size"))
	if err != nil {
		return err
	}
	table := result.Table()
	switch c.Output {
	case "json":
		return writeJSON(io.out, map[string]any{
			"policy": proposal.Words(), "ratio": proposal.Ratio, "tokens": proposal.Tokens, "min_per_second": proposal.Floor, "says": proposal.Says(), "run": table,
		})
	case "html":
		table.Notes = append([]string{proposal.Words()}, append(proposal.Says(), table.Notes...)...)
		return simulate.WritePage(io.out, []simulate.Outcome{{Tables: []*simulate.Table{table}, Charts: result.Charts()}})
	}
	fmt.Fprintln(io.out, proposal.String())
	return table.WriteText(io.out)
}

func (c *simulateSize) need() (simulate.Need, error) {
	failures, err := readShare(c.FailureRate)
	if err != nil {
		return simulate.Need{}, fmt.Errorf("--failure-rate: %w", err)
	}
	capacity := c.Capacity
	switch {
	case (c.Capacity != 0) == (c.Headroom != ""):
		return simulate.Need{}, errors.New("say one of --capacity and --headroom")
	case c.Headroom != "":
		room, err := readShare(c.Headroom)
		if err != nil {
			return simulate.Need{}, fmt.Errorf("--headroom: %w", err)
		}
		capacity = c.Rate * (1 + room)
	}
	return simulate.Need{Rate: c.Rate, Capacity: capacity, FailureRate: failures, Attempts: c.Attempts, Clients: c.Clients, Service: c.Service}, nil
}

// readShare reads 40% or 0.4.
func readShare(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no share such as 40%% or 0.4", s)
	}
	if percent {
		x /= 100
	}
	return x, nil
}
