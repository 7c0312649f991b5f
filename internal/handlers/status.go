package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
)

// GetStatus answers GET /v1/status.
func (s *server) GetStatus(c echo.Context) error {
	now := s.Status()
	return writeModel(c, gen.Status{
		Version:   s.Version,
		StartedAt: now.StartedAt.UTC(),
		Policies:  gen.PoliciesStatus{Hash: now.Policies.Hash, AppliedAt: now.Policies.AppliedAt.UTC(), Source: now.Policies.Source},
		Store:     gen.StoreStatus{Kind: now.Store.Kind, State: now.Store.state(), Since: now.Store.Since.UTC(), Means: now.Store.Means},
	})
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
	parts := []gen.Component{
		{Name: "policies", State: "ok", Since: now.Policies.AppliedAt.UTC(), Means: "The policies in force come from: " + now.Policies.Source + "."},
		{Name: "store", State: now.Store.state(), Since: now.Store.Since.UTC(), Means: now.Store.Means},
	}
	if s.Ready() {
		return writeModel(c, gen.Readiness{State: "ready", Components: parts})
	}
	s.answerProblem(c, &problem{Type: problemURN + "not-ready", Title: "Not ready", Status: http.StatusServiceUnavailable,
		Detail: "decider is starting or shutting down; ask another replica.", Components: parts})
	return nil
}
