package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/trial"
)

// policiesMetrics tell of the policies in force and of the last reload.
type policiesMetrics struct{ live *policy.Live }

var (
	policiesInfo = prometheus.NewDesc("decider_policies_info",
		"Always 1; the labels tell the policies in force, as /v1/status does.", []string{"config", "source"}, nil)
	policiesApplied = prometheus.NewDesc("decider_policies_applied_timestamp_seconds",
		"Since when the policies are in force.", nil, nil)
	policiesSuccessful = prometheus.NewDesc("decider_policies_last_reload_successful",
		"Whether the policy file was taken when it was read last; 0: it was refused and the one in force stays.", nil, nil)
	policiesReloaded = prometheus.NewDesc("decider_policies_last_reload_timestamp_seconds",
		"When the policy file was read last.", nil, nil)
	policiesReloads = prometheus.NewDesc("decider_policies_reloads_total",
		"Changes of the policy file after the start, by what became of them.", []string{"result"}, nil)
	policiesWarnings = prometheus.NewDesc("decider_policies_warnings",
		"What the policies in force say that is legal and unwise; decider check names it.", nil, nil)
)

// Describe is for [prometheus.Collector].
func (policiesMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{policiesInfo, policiesApplied, policiesSuccessful, policiesReloaded, policiesReloads, policiesWarnings} {
		out <- d
	}
}

// Collect is for [prometheus.Collector].
func (m policiesMetrics) Collect(out chan<- prometheus.Metric) {
	set, last := m.live.Set(), m.live.LastReload()
	read := last.At
	if read.IsZero() {
		read = m.live.AppliedAt() // at the start
	}
	successful := 1.0
	if last.Err != nil {
		successful = 0
	}
	out <- value(policiesInfo, 1, set.Hash(), set.Source())
	out <- value(policiesApplied, float64(m.live.AppliedAt().UnixMilli())/1000)
	out <- value(policiesSuccessful, successful)
	out <- value(policiesReloaded, float64(read.UnixMilli())/1000)
	out <- total(policiesReloads, last.Good, "taken")
	out <- total(policiesReloads, last.Bad, "refused")
	out <- value(policiesWarnings, float64(len(set.Warnings())))
}

// trialMetrics tell what candidates and rules in shadow would have done. Only
// dependencies that the policy file names have a label of their own.
type trialMetrics struct{ book *trial.Book }

var (
	shadowRefusals = prometheus.NewDesc("decider_shadow_refusals_total",
		"Retries that a rule in shadow granted and would have refused, by the reason.", []string{"dependency", "reason"}, nil)
	candidateJudged = prometheus.NewDesc("decider_candidate_judged_total",
		"Attempts that were judged by a rule and its candidate; begins anew with another candidate.", []string{"dependency"}, nil)
	candidateDifferences = prometheus.NewDesc("decider_candidate_differences_total",
		"Attempts on which a rule and its candidate differ, by both reasons.", []string{"dependency", "enforced", "candidate"}, nil)
	candidateRetries = prometheus.NewDesc("decider_candidate_retries_total",
		"Retries that only one of a rule and its candidate grants: saved, the rule; added, the candidate.", []string{"dependency", "effect"}, nil)
	candidateCalls = prometheus.NewDesc("decider_candidate_calls_total",
		"Original calls while the candidate was judged; what is saved and added is a share of them.", []string{"dependency"}, nil)
)

// Describe is for [prometheus.Collector].
func (trialMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{shadowRefusals, candidateJudged, candidateDifferences, candidateRetries, candidateCalls} {
		out <- d
	}
}

// Collect is for [prometheus.Collector].
func (m trialMetrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range byLabel(m.book.All()) {
		for reason, n := range c.Shadow {
			out <- total(shadowRefusals, n, c.Dependency, reason.String())
		}
		if c.Since.IsZero() {
			continue
		}
		out <- total(candidateJudged, c.Judged, c.Dependency)
		for pair, n := range c.Pairs {
			out <- total(candidateDifferences, n, c.Dependency, pair.Enforced.String(), pair.Candidate.String())
		}
		out <- total(candidateRetries, c.Saved, c.Dependency, "saved")
		out <- total(candidateRetries, c.Added, c.Dependency, "added")
		out <- total(candidateCalls, c.Calls, c.Dependency)
	}
}

// byLabel adds up what has no label of its own.
func byLabel(all []trial.Counts) []trial.Counts {
	list := make([]trial.Counts, 0, len(all))
	var rest trial.Counts
	for _, c := range all {
		if c.Exact {
			list = append(list, c)
			continue
		}
		rest.Add(&c)
	}
	if rest.Dependency = trial.Other; !rest.Since.IsZero() || len(rest.Shadow) > 0 {
		list = append(list, rest)
	}
	return list
}

func value(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func total(d *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
