package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/handlers"
	"github.com/retrydecider/decider/internal/policy"
)

// status is what this replica tells of itself and of the others.
func (a *app) status() handlers.Status {
	return handlers.Status{
		StartedAt: a.started,
		Policies:  policiesStatus(a.policies),
		Store:     a.storeStatus(),
		Replicas:  a.replicas(),
	}
}

func policiesStatus(live *policy.Live) handlers.PoliciesStatus {
	s := handlers.PoliciesStatus{Hash: live.Set().Hash(), AppliedAt: live.AppliedAt(), Source: live.Set().Source()}
	last := live.LastReload()
	s.ReloadedAt, s.Taken, s.Refusals, s.Warnings = last.At, last.Good, last.Bad, len(live.Set().Warnings())
	if last.Err == nil {
		return s
	}
	s.RefusedAt = last.RefusedAt
	s.Refused, _, _ = strings.Cut(last.Err.Error(), "\n")
	var wrong *policy.Error
	if errors.As(last.Err, &wrong) && len(wrong.Mistakes) > 1 {
		s.Refused += fmt.Sprintf(" (and %d more)", len(wrong.Mistakes)-1)
	}
	return s
}

// What the state of the store means for decisions.
const (
	meansShared   = "Every decision asks the one budget that the whole fleet shares."
	meansAlone    = "State is kept in this process: every decision asks the one budget of all callers of this decider."
	meansDegraded = "Redis is out of reach (%s): each replica decides from its own share of every budget, as the policy's on_store_failure says."
	meansEviction = " Its maxmemory-policy is %s, so Redis may drop budgets, which then start full again: set it to noeviction."
)

func (a *app) storeStatus() handlers.StoreStatus {
	h := a.fleet.Health()
	s := handlers.StoreStatus{Kind: "redis", Degraded: h.Degraded, Since: h.Since, Means: meansShared}
	if s.Since.IsZero() {
		s.Since = a.started
	}
	if a.client == nil {
		s.Kind, s.Means = "memory", meansAlone
		return s
	}
	if h.Degraded {
		s.Means = fmt.Sprintf(meansDegraded, h.Error)
	}
	s.MaxmemoryPolicy = a.settings.MaxmemoryPolicy()
	if evicts(s.MaxmemoryPolicy) {
		s.Means += fmt.Sprintf(meansEviction, s.MaxmemoryPolicy)
	}
	return s
}

func evicts(maxmemoryPolicy string) bool {
	return maxmemoryPolicy != "" && maxmemoryPolicy != budget.NoEviction
}

// replicas are those that the roster knows, and this one as it is now.
func (a *app) replicas() []handlers.Replica {
	self := a.self()
	list := []handlers.Replica{{ID: self.ID, Version: self.Version, Config: self.Config, Since: self.Since, Self: true}}
	if a.roster == nil {
		return list
	}
	for _, r := range a.roster.Alive() {
		if r.ID != self.ID {
			list = append(list, handlers.Replica{ID: r.ID, Version: r.Version, Config: r.Config, Since: r.Since})
		}
	}
	slices.SortFunc(list, func(a, b handlers.Replica) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// logTurns logs when the store goes out of reach and when it is back.
func logTurns(log *slog.Logger) func(budget.Health) {
	return func(h budget.Health) {
		if h.Degraded {
			log.Warn("the store is out of reach; local rules answer", "error", h.Error)
			return
		}
		log.Info("the store is back")
	}
}

// logEviction warns of a Redis that may drop budgets.
func logEviction(log *slog.Logger) func(maxmemoryPolicy string) {
	return func(maxmemoryPolicy string) {
		if evicts(maxmemoryPolicy) {
			log.Warn("Redis may drop budgets, which then start full again: set its maxmemory-policy to noeviction", "maxmemory_policy", maxmemoryPolicy)
		}
	}
}
