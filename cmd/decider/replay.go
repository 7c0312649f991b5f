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
	files, err := openLogs(c.Logs, streams.in)
	defer closeAll(files)
	if err != nil {
		return err
	}
	logs := make([]replay.Source, 0, len(files))
	for i, in := range files {
		logs = append(logs, decisionlog.NewReader(c.Logs[i], in))
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

// openLogs opens every log, as far as it comes.
func openLogs(names []string, standard io.Reader) (files []io.ReadCloser, err error) {
	for _, name := range names {
		if name == decisionlog.Standard {
			files = append(files, io.NopCloser(standard))
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

// closeAll closes what was only read, which can fail in no way that matters.
func closeAll(files []io.ReadCloser) {
	for _, file := range files {
		_ = file.Close()
	}
}
