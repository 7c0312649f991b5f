package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/retrydecider/decider/internal/simulate"
)

// simulateGoals shows whether decider keeps what it promises.
type simulateGoals struct {
	Seeds    int    `placeholder:"N" help:"Average over seeds 1 to N, instead of each scenario's."`
	Measured string `type:"path" placeholder:"FILE" help:"JSON of values measured with real processes: {\"G1\": {\"value\": \"1.01\", \"met\": true, \"at\": \"20 processes\"}}; a file that is not there is none."`
	Output   string `enum:"text,markdown,json,csv,html" default:"text" help:"text, markdown, json, csv or html."`
}

// Run plays every goal and shows the table. A goal that is not met is no error.
func (c *simulateGoals) Run(ctx context.Context, io streams) error {
	measured := map[string]simulate.Measured{}
	if c.Measured != "" {
		src, err := os.ReadFile(c.Measured)
		if err == nil {
			err = json.Unmarshal(src, &measured)
		}
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("%s: %w", c.Measured, err)
		}
	}
	table, err := simulate.CheckGoals(ctx, c.Seeds, measured, progress(io.err, "goals"))
	if err != nil {
		return err
	}
	run := simulateRun{Output: c.Output}
	return run.write(io.out, []simulate.Outcome{{Tables: []*simulate.Table{table}}})
}
