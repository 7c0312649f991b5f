package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/decisionlog"
)

// openDecisions begins the decision log; every SIGHUP opens its file anew, also
// one that comes while decisions are still made on the way to the end.
func (a *app) openDecisions(path string, log *slog.Logger) (err error) {
	if path == "" {
		return nil
	}
	a.decisions, err = decisionlog.Open(path, func() string { return a.policies.Set().Hash() }, log)
	if err != nil {
		return err
	}
	again := hangups(context.Background())
	go func() {
		for range again {
			a.decisions.Reopen()
		}
	}()
	return nil
}

func (a *app) decided(at time.Time, attempt *decide.Attempt, d *decide.Decision) {
	if a.decisions != nil {
		a.decisions.Decided(at, attempt, d)
	}
}

func (a *app) reported(at time.Time, dependency string, o *decide.Outcome) {
	if a.decisions != nil {
		a.decisions.Reported(at, dependency, o)
	}
}

// decisionLogMetrics tell of the decision log.
type decisionLogMetrics struct{ app *app }

var decisionLogLines = prometheus.NewDesc("decider_decision_log_lines_total",
	"Lines of the decision log: written; dropped, for the queue was full; failed, for the file could not be written.", []string{"result"}, nil)

// Describe is for [prometheus.Collector].
func (decisionLogMetrics) Describe(out chan<- *prometheus.Desc) { out <- decisionLogLines }

// Collect is for [prometheus.Collector].
func (m decisionLogMetrics) Collect(out chan<- prometheus.Metric) {
	if m.app.decisions == nil {
		return
	}
	c := m.app.decisions.Counts()
	out <- total(decisionLogLines, c.Written, "written")
	out <- total(decisionLogLines, c.Dropped, "dropped")
	out <- total(decisionLogLines, c.Failed, "failed")
}
