package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry makes a registry with the metrics of the process and of the store;
// package handlers adds those of decisions.
func newRegistry(a *app) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("decider_replicas", "Deciders that share the store, as far as this one knows.", func() float64 { return float64(len(a.replicas())) }),
		policiesMetrics{a.policies}, trialMetrics{a.trials}, decisionLogMetrics{a},
		counter("decider_candidate_dropped_total", "Questions and reports to candidates that were too many.", func() int64 { return a.fleet.Dropped() }))
	if a.client == nil {
		return r
	}
	r.MustRegister(
		gauge("decider_store_up", "Whether the store is in reach; 0: local rules answer.", func() float64 {
			if a.fleet.Health().Degraded {
				return 0
			}
			return 1
		}),
		gauge("decider_store_connections", "Connections to the store.", func() float64 { return float64(a.client.PoolStats().TotalConns) }),
		counter("decider_store_calls_total", "Calls to the store.", func() int64 { return a.fleet.Stats().Calls }),
		counter("decider_store_operations_total", "Decisions and reports that went to the store; many share a call.", func() int64 { return a.fleet.Stats().Operations }),
		counter("decider_store_errors_total", "Decisions and reports that the store did not answer.", func() int64 { return a.fleet.Stats().Errors }),
		counter("decider_store_degraded_operations_total", "Decisions and reports that a local rule answered.", func() int64 { return a.fleet.Stats().Degraded }))
	return r
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func counter(name, help string, value func() int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
}
