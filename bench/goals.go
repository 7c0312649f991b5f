package main

import (
	"fmt"
	"math"
)

// goal is one number that decider must reach.
type goal struct {
	What    string   `json:"what"`
	Least   float64  `json:"at_least,omitempty"`
	Most    float64  `json:"at_most,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Reached spreadOf `json:"reached"`
	// Verdict is met, missed, or too noisy to judge where the machine is.
	Verdict string `json:"verdict"`
}

// tooDegraded is the part of decisions that may have been made without Redis while
// nothing was wrong with it: the machine, not Redis, was out of breath.
const tooDegraded = 0.001

// degraded is the largest such part.
func (r *report) degraded() float64 {
	worst := 0.0
	for _, name := range []string{hot8, hot64, spread1k, spread10, batches} {
		for _, s := range r.Samples[name][onRedis] {
			worst = max(worst, s.Degraded)
		}
	}
	return worst
}

// tooNoisy is how far the bare handler may be from itself within a round.
const tooNoisy = 1.25

// noise is the worst factor between the two turns of the bare handler in one round.
func (r *report) noise() float64 {
	worst := 1.0
	for _, name := range []string{hot8, hot64} {
		for _, ratio := range ratios(each(r.Samples[name][bare], perSecond), each(r.Samples[name][bareAgain], perSecond)) {
			worst = max(worst, ratio, 1/ratio)
		}
	}
	return worst
}

// goals compares what was measured with what is asked for.
func goals(r *report) []goal {
	of := func(scenario, server string, number func(*sample) float64) []float64 {
		return each(r.Samples[scenario][server], number)
	}
	throughput := func(scenario, server, otherScenario, other string) spreadOf {
		return spreadIn(ratios(of(scenario, server, perSecond), of(otherScenario, other, perSecond)))
	}
	one := func(value float64) spreadOf { return spreadOf{value, value, value} }
	const mib = 1 << 20
	list := []goal{
		{What: "Redis, one dependency, 64 connections: throughput against the bare handler", Least: 0.80, Reached: throughput(hot64, onRedis, hot64, bare)},
		{What: "the same, 8 connections", Least: 0.70, Reached: throughput(hot8, onRedis, hot8, bare)},
		{What: "against ratelimit `/json` on the same Redis, 64 connections", Least: 2.5, Reached: throughput(hot64, onRedis, hot64, ratelimited)},
		{What: "the same, 8 connections", Least: 2, Reached: throughput(hot8, onRedis, hot8, ratelimited)},
		{What: "Redis, 64 connections: p99 against the bare handler's", Most: 1.5, Reached: spreadIn(ratios(of(hot64, onRedis, p99), of(hot64, bare, p99)))},
		{What: "Redis commands for a decision, one dependency, 64 connections", Most: 0.1, Reached: spreadIn(of(hot64, onRedis, func(s *sample) float64 { return s.Commands }))},
		{What: "batches of 100 against single decides, 8 connections, memory: decisions/s", Least: 8, Reached: throughput(batches, onMemory, hot8, onMemory)},
		{What: "the same, Redis", Least: 8, Reached: throughput(batches, onRedis, hot8, onRedis)},
		{What: "store stalled: answered", Least: 100, Unit: "%", Reached: spreadIn(of(stalled, onRedis, func(s *sample) float64 { return 100 * s.Answered }))},
		{What: "store stalled: p99", Most: 55, Unit: "ms", Reached: spreadIn(of(stalled, onRedis, p99))},
		{What: "store stalled: the longest", Most: 55, Unit: "ms", Reached: spreadIn(of(stalled, onRedis, func(s *sample) float64 { return s.Max }))},
		{What: "`Plan`: time of the dearest usual path", Most: 200, Unit: "ns", Reached: one(r.Process.PlanNanos)},
		{What: "`Plan`: allocations", Most: 0, Reached: one(r.Process.PlanAllocs)},
		{What: "10,000 dependencies against one, memory: throughput", Least: 0.6, Reached: throughput(spread10, onMemory, hot64, onMemory)},
		{What: "the same, Redis", Least: 0.6, Reached: throughput(spread10, onRedis, hot64, onRedis)},
		{What: "start to first answer", Most: 100, Unit: "ms", Reached: one(r.Process.Start)},
		{What: "resident memory, idle", Most: 30, Unit: "MiB", Reached: one(float64(r.Process.Idle) / mib)},
		{What: "resident memory, 10,000 dependencies", Most: 60, Unit: "MiB", Reached: one(float64(r.Process.Spread) / mib)},
		{What: "binary", Most: 30, Unit: "MB", Reached: one(float64(r.Process.Binary) / 1e6)},
	}
	noisy := r.noise() > tooNoisy || r.degraded() > tooDegraded
	for i := range list {
		list[i].judge(noisy)
	}
	return list
}

// judge says whether the median reaches what is needed. On a noisy machine only
// what every round agrees on is said.
func (g *goal) judge(noisy bool) {
	met := func(value float64) bool {
		if g.Least > 0 {
			return value >= g.Least
		}
		return value <= g.Most
	}
	switch {
	case math.IsNaN(g.Reached.Median):
		g.Verdict = "not measured"
		g.Reached = spreadOf{}
	case noisy && met(g.Reached.Least) != met(g.Reached.Most):
		g.Verdict = "too noisy to judge"
	case met(g.Reached.Median):
		g.Verdict = "met"
	default:
		g.Verdict = "missed"
	}
}

// needed is the bound in words.
func (g *goal) needed() string {
	if g.Least > 0 {
		return "≥ " + number(g.Least, g.Unit)
	}
	return "≤ " + number(g.Most, g.Unit)
}

func (g *goal) reached() string {
	if g.Verdict == "not measured" {
		return ""
	}
	text := number(g.Reached.Median, g.Unit)
	if g.Reached.Least != g.Reached.Most {
		text += fmt.Sprintf(" (%s to %s)", number(g.Reached.Least, ""), number(g.Reached.Most, ""))
	}
	return text
}

// number writes three digits or so, and the unit.
func number(n float64, unit string) string {
	digits := 0
	switch {
	case math.Abs(n) < 1 && n != 0:
		digits = 3
	case math.Abs(n) < 10:
		digits = 2
	case math.Abs(n) < 100:
		digits = 1
	}
	if n == math.Trunc(n) {
		digits = 0
	}
	text := fmt.Sprintf("%.*f", digits, n)
	if unit != "" {
		text += " " + unit
	}
	return text
}
