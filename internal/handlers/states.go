package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/sidebyside"
)

// statesFor is how long the states are good for one scrape after another: however
// many scrape, the store is asked once in that time for each dependency.
const statesFor = 5 * time.Second

// states tells Prometheus of the state of those dependencies that the policy
// file names exactly. Nothing of it is kept between scrapes but the last answers.
type states struct {
	server *server

	mu    sync.Mutex
	taken time.Time
	last  []namedState
}

type namedState struct {
	name  string
	state decide.State
}

var (
	byDependency = []string{"dependency"}

	tokensDesc = prometheus.NewDesc("decider_budget_tokens",
		"Tokens in the budget, at most 5 s ago. While the store is out of reach those of this replica's own bucket.", byDependency, nil)
	capacityDesc = prometheus.NewDesc("decider_budget_capacity_tokens", "What the budget holds at most.", byDependency, nil)
	breakerDesc  = prometheus.NewDesc("decider_breaker_state",
		"1 at the state that the breaker has, 0 at the others; absent where the policy has no breaker.", []string{"dependency", "state"}, nil)
	coolDownDesc = prometheus.NewDesc("decider_cool_down_seconds",
		"What is left of the cool-down for the whole fleet, or for callers without a name; 0: none.", byDependency, nil)
	overrideDesc = prometheus.NewDesc("decider_override",
		"1 while an operator's override is in force, by its mode; absent without one.", []string{"dependency", "mode"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *states) Describe(out chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{tokensDesc, capacityDesc, breakerDesc, coolDownDesc, overrideDesc} {
		out <- each
	}
}

// Collect implements [prometheus.Collector].
func (s *states) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, each := range s.get() {
		if each.state.Budget.Asked {
			gauge(tokensDesc, tokens(each.state.Budget.Tokens), each.name)
			gauge(capacityDesc, tokens(each.state.Budget.Capacity), each.name)
		}
		if now := each.state.Breaker; now != decide.BreakerOff {
			for _, state := range []decide.BreakerState{decide.BreakerClosed, decide.BreakerOpen, decide.BreakerHalfOpen} {
				gauge(breakerDesc, oneIf(state == now), each.name, state.String())
			}
		}
		gauge(coolDownDesc, float64(each.state.CoolDown)/1e3, each.name)
		if mode := each.state.Override.Mode; mode != decide.OverrideNone {
			gauge(overrideDesc, 1, each.name, mode.String())
		}
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// get is the states by now, asked anew where the last are too old.
func (s *states) get() []namedState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.server.Now(); s.taken.IsZero() || now.Sub(s.taken) >= statesFor || now.Before(s.taken) {
		s.last, s.taken = s.server.exactStates(), now
	}
	return s.last
}

// exactStates asks the fleet's state of every dependency that the policy file
// names; the store's own timeout bounds each question.
func (s *server) exactStates() []namedState {
	names := exactNames(s.Policies.Rules())
	list := make([]namedState, 0, len(names))
	for name := range names {
		list = append(list, namedState{name: name})
	}
	sidebyside.Do(sidebyside.Few, len(list), func(i int) {
		if p, bucket, err := s.Policies.Peek(list[i].name); err == nil {
			list[i].state = s.Fleet.State(context.Background(), bucket, p, "")
		}
	})
	return list
}
