package handlers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
)

// GetStatus answers GET /v1/status.
func (s *server) GetStatus(c echo.Context) error {
	now := s.Status()
	model := s.statusModel(&now)
	roles := who(c).Roles()
	model.Roles = &roles
	return writeModel(c, model)
}

func (s *server) statusModel(now *Status) gen.Status {
	return gen.Status{
		Version:   s.Version,
		StartedAt: now.StartedAt.UTC(),
		Policies:  policiesModel(&now.Policies),
		Store: gen.StoreStatus{Kind: now.Store.Kind, State: now.Store.state(), Since: now.Store.Since.UTC(), Means: now.Store.Means,
			MaxmemoryPolicy: said(now.Store.MaxmemoryPolicy)},
		Replicas: replicas(now.Replicas),
		Drift:    now.drift(),
	}
}

func policiesModel(p *PoliciesStatus) gen.PoliciesStatus {
	return gen.PoliciesStatus{
		Hash: p.Hash, AppliedAt: p.AppliedAt.UTC(), Source: p.Source,
		ReloadedAt: instant(p.ReloadedAt), Taken: p.Taken, Refusals: p.Refusals,
		Refused: said(p.Refused), RefusedAt: instant(p.RefusedAt), Warnings: int64(p.Warnings),
	}
}

// instant is a time that may be zero, and then is absent.
func instant(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func replicas(all []Replica) []gen.Replica {
	out := make([]gen.Replica, len(all))
	for i, r := range all {
		out[i] = gen.Replica{Id: r.ID, Version: r.Version, Config: r.Config, Since: r.Since.UTC(), Self: r.Self}
	}
	return out
}

// drift says whether the replicas decide by different policies.
func (s *Status) drift() bool {
	for _, r := range s.Replicas {
		if r.Config != s.Replicas[0].Config {
			return true
		}
	}
	return false
}

// components are the parts that the process stands on.
func (s *Status) components() []gen.Component {
	return []gen.Component{s.Policies.component(), {Name: "store", State: s.Store.state(), Since: s.Store.Since.UTC(), Means: s.Store.Means}, s.replicas()}
}

func (p *PoliciesStatus) component() gen.Component {
	if p.Refused != "" {
		return gen.Component{Name: "policies", State: "degraded", Since: p.RefusedAt.UTC(),
			Means: "The policy file as it is now was refused, and the one before it stays in force: " + p.Refused}
	}
	return gen.Component{Name: "policies", State: "ok", Since: p.AppliedAt.UTC(), Means: "The policies in force come from: " + p.Source + "."}
}

// replicas is degraded while replicas decide differently.
func (s *Status) replicas() gen.Component {
	c := gen.Component{Name: "replicas", State: "ok", Since: s.StartedAt.UTC()}
	if n := len(s.Replicas); n > 1 {
		c.Means = strconv.Itoa(n) + " replicas decide by the same policies."
	} else {
		c.Means = "This replica knows of no other."
	}
	if s.drift() {
		c.State, c.Means = "degraded", "The replicas decide by different policies; /v1/status lists the hash of each."
	}
	return c
}

func (s *StoreStatus) state() string {
	if s.Degraded {
		return "degraded"
	}
	return "ok"
}

// GetLiveness answers GET /livez. It looks at nothing: a process that answers
// is alive, and one whose store is out of reach must not be killed for it.
func (s *server) GetLiveness(c echo.Context) error {
	return writeModel(c, gen.Liveness{State: "alive"})
}

// GetReadiness answers GET /readyz. A degraded store leaves it ready, because a
// local rule answers then.
func (s *server) GetReadiness(c echo.Context) error {
	now := s.Status()
	parts := now.components()
	if s.Ready() {
		return writeModel(c, gen.Readiness{State: "ready", Components: parts})
	}
	s.answerProblem(c, &problem{Type: problemURN + "not-ready", Title: "Not ready", Status: http.StatusServiceUnavailable,
		Detail: "decider is starting or shutting down; ask another replica.", Components: parts})
	return nil
}
