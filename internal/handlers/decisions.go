package handlers

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
)

// Bounds of a limit, as the contract has them.
const (
	defaultLimit = 100
	maxLimit     = ringSize
)

// ListDecisions answers GET /v1/decisions.
func (s *server) ListDecisions(c echo.Context, params gen.ListDecisionsParams) error {
	f, err := filterOf(params.Dependency, params.Decision, params.Limit)
	if err != nil {
		return err
	}
	found, _, _ := s.ring.since(0, f)
	b := append(make([]byte, 0, 512*(len(found)+1)), `{"decisions":[`...)
	for i := range found {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPast(b, &found[i])
	}
	return write(c, http.StatusOK, jsonType, append(b, `]}`...))
}

// filterOf checks the parameters that list and stream share.
func filterOf(dependency *gen.OfDependency, decision *gen.OfDecision, limit *gen.Limit) (filter, error) {
	f := filter{limit: defaultLimit}
	var wrong []gen.FieldError
	if dependency != nil {
		if f.dependency = *dependency; !validName(f.dependency) {
			wrong = append(wrong, gen.FieldError{Field: "/dependency", Detail: nameRule})
		}
	}
	if decision != nil {
		if f.decision = string(*decision); f.decision != "retry" && f.decision != "give_up" {
			wrong = append(wrong, gen.FieldError{Field: "/decision", Detail: "must be retry or give_up"})
		}
	}
	if limit != nil {
		if *limit < 1 || *limit > maxLimit {
			wrong = append(wrong, gen.FieldError{Field: "/limit", Detail: "must be 1 to " + strconv.Itoa(maxLimit)})
		}
		f.limit = int(*limit)
	}
	if wrong != nil {
		return filter{}, &notValidError{errors: wrong}
	}
	return f, nil
}
