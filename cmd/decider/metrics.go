package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry makes a registry with the metrics of the process and of the store;
// package handlers adds those of decisions.
func newRegistry(a *app) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("decider_replicas", "Deciders that share the store, as far as this one knows.", func() float64 { return float64(len(a.replicas())) }),
		gauge("decider_identity_files_refused", "Auth file and certificates (0 to 2) that are not in force as they are now, because they were refused when they were read again.", a.guard.refused),
		policiesMetrics{a.policies}, trialMetrics{a.trials}, decisionLogMetrics{a},
		counter("decider_candidate_dropped_total", "Questions and reports to candidates that were too many.", func() int64 { return a.fleet.Dropped() }))
	if a.client == nil {
		return r
	}
	r.MustRegister(a.storeLatency,
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

// newStoreLatency makes the histogram of calls to the store. Its bounds are about
// --store-timeout, whose default is 50 ms.
func newStoreLatency() *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "decider_store_call_duration_seconds",
		Help:    "Time of each call to the store, by whether it was answered (ok) or not (error).",
		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25}}, []string{"result"})
	for _, result := range []string{"ok", "error"} {
		h.WithLabelValues(result) // begins at 0
	}
	return h
}

// called hears of each call to the store.
func (a *app) called(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	a.storeLatency.WithLabelValues(result).Observe(took.Seconds())
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func counter(name, help string, value func() int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
}
