package main

import (
	"io"
	"os"

	"github.com/retrydecider/decider/internal/decisionlog"
	"github.com/retrydecider/decider/internal/replay"
)

// replayCommand puts decision logs to another policy.
type replayCommand struct {
	Logs       []string `arg:"" name:"log" help:"Decision logs as serve writes them, - is standard input. Several, of a fleet's replicas, are merged by their times."`
	Policies   string   `required:"" placeholder:"FILE" help:"The policy file to decide by."`
	Dependency string   `placeholder:"NAME" help:"Look at this dependency alone."`
	Output     string   `enum:"text,json" default:"text" help:"text or json."`
}

// Run replays and prints what differs.
func (c *replayCommand) Run(streams streams) error {
	policies, err := openPolicies(c.Policies, streams.err)
	if err != nil {
		return err
	}
	logs := make([]replay.Source, 0, len(c.Logs))
	for _, name := range c.Logs {
		in, err := openLog(name, streams.in)
		if err != nil {
			return err
		}
		defer in.Close()
		logs = append(logs, decisionlog.NewReader(name, in))
	}
	set := policies.Set()
	report, err := replay.Run(replay.Merge(logs), set, c.Dependency)
	if err != nil {
		return err
	}
	report.Policies, report.Config = set.Source(), set.Hash()
	if c.Output == "json" {
		return writeJSON(streams.out, report)
	}
	return report.Print(streams.out)
}

func openLog(name string, standard io.Reader) (io.ReadCloser, error) {
	if name == decisionlog.Standard {
		return io.NopCloser(standard), nil
	}
	return os.Open(name)
}
