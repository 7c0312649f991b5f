package main

import (
	"math"
	"slices"
)

// median is the one in the middle, or between the two there.
func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(list))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// spreadOf is a value that was measured in each round: its median and its bounds.
type spreadOf struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadIn(list []float64) spreadOf {
	if len(list) == 0 {
		return spreadOf{math.NaN(), math.NaN(), math.NaN()}
	}
	return spreadOf{median(list), slices.Min(list), slices.Max(list)}
}

// each takes one number of every sample.
func each(samples []sample, of func(*sample) float64) []float64 {
	list := make([]float64, len(samples))
	for i := range samples {
		list[i] = of(&samples[i])
	}
	return list
}

// ratios divides what two servers did in the same round: what slowed the machine
// for one slowed it for the other.
func ratios(above, below []float64) []float64 {
	n := min(len(above), len(below))
	list := make([]float64, 0, n)
	for i := range n {
		if below[i] != 0 {
			list = append(list, above[i]/below[i])
		}
	}
	return list
}

func perSecond(s *sample) float64 { return s.PerSecond }
func p99(s *sample) float64       { return s.P99 }
