package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrydecider/decider/internal/monitoring"
	"github.com/retrydecider/decider/internal/policy"
)

// genCommand writes what others need to watch decider.
type genCommand struct {
	Dashboard genDashboardCommand `cmd:"" help:"Write a Grafana dashboard with a panel for each dependency of a policy file."`
	Alerts    genAlertsCommand    `cmd:"" help:"Write recording rules and alerts for Prometheus, with a burn-rate alert for each dependency of a policy file."`
}

// genDashboardCommand writes the dashboard.
type genDashboardCommand struct {
	Policies string `type:"path" placeholder:"FILE" help:"Policy file whose dependencies have a panel each; without one, one panel is repeated for those that the metrics name."`
}

// Run writes it.
func (c *genDashboardCommand) Run(io streams) error {
	dependencies, err := namedIn(c.Policies, io)
	if err != nil {
		return err
	}
	text, err := monitoring.Dashboard(dependencies)
	if err != nil {
		return err
	}
	_, err = io.out.Write(text)
	return err
}

// genAlertsCommand writes the rules.
type genAlertsCommand struct {
	Policies  string `type:"path" placeholder:"FILE" help:"Policy file whose dependencies have an alert each, with their name and owner as labels; without one, one alert serves all."`
	Objective string `default:"99%" help:"Share of calls that should not fail in the end, as 99.9% or 0.999. The alert fires where what may fail in 30 days is used up 14.4 times as fast over an hour, or 6 times over six hours."`
	Runbook   string `default:"https://github.com/retrydecider/decider/blob/main/docs/runbook.md" placeholder:"URL" help:"Page that the alerts point into: ${default}"`
}

// Run writes them.
func (c *genAlertsCommand) Run(io streams) error {
	objective, err := parseObjective(c.Objective)
	if err != nil {
		return misuse{err}
	}
	dependencies, err := namedIn(c.Policies, io)
	if err != nil {
		return err
	}
	text, err := monitoring.Rules(monitoring.RulesConfig{Dependencies: dependencies, Objective: objective, Runbook: c.Runbook})
	if err != nil {
		return err
	}
	_, err = io.out.Write(text)
	return err
}

// parseObjective reads 99.9% or 0.999. Below 94 % of calls, 14.4 times what may
// fail is more than all of them, and the alert could not fire.
func parseObjective(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if percent {
		value /= 100
	}
	if err != nil || !(value >= 0.94 && value < 1) {
		return 0, fmt.Errorf("--objective must be at least 94%% and below 100%%, not %s", text)
	}
	return value, nil
}

// namedIn are the dependencies that a policy file names exactly; of a refused
// file every mistake is printed.
func namedIn(file string, io streams) ([]monitoring.Dependency, error) {
	if file == "" {
		return nil, nil
	}
	set, err := policy.Load(file)
	var wrong *policy.Error
	if errors.As(err, &wrong) {
		fmt.Fprint(io.err, wrong.Excerpts())
		fmt.Fprintf(io.err, "%s: refused, %s\n", file, plural(len(wrong.Mistakes), "mistake"))
		return nil, errFailed
	}
	if err != nil {
		return nil, err
	}
	return monitoring.Dependencies(set.Rules()), nil
}
