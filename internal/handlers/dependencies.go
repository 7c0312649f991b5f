package handlers

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/sidebyside"
)

// GetDependency answers GET /v1/dependencies/{dependency}.
func (s *server) GetDependency(c echo.Context, dependency gen.DependencyName, params gen.GetDependencyParams) error {
	var wrong []gen.FieldError
	if !validName(dependency) {
		wrong = append(wrong, gen.FieldError{Field: "/dependency", Detail: nameRule})
	}
	caller, err := callerName(params.Caller, wrong)
	if err != nil {
		return err
	}
	ctx, cancel := s.Fleet.Bounded(untilAnswered(c))
	defer cancel()
	one, err := s.dependency(ctx, dependency, caller)
	if err != nil {
		return err
	}
	return writeModel(c, one)
}

// ListDependencies answers GET /v1/dependencies: what the policy file names
// exactly, and what this replica was asked about.
func (s *server) ListDependencies(c echo.Context, params gen.ListDependenciesParams) error {
	caller, err := callerName(params.Caller, nil)
	if err != nil {
		return err
	}
	names := s.tally.with(exactNames(s.Policies.Rules()))
	found := make([]*gen.Dependency, len(names))
	ctx, cancel := s.Fleet.Bounded(untilAnswered(c))
	defer cancel()
	sidebyside.Do(sidebyside.All, len(names), func(i int) {
		if one, err := s.dependency(ctx, names[i], caller); err == nil {
			found[i] = &one // else it was asked about, and the file refuses it by now
		}
	})
	list := gen.DependencyList{Dependencies: make([]gen.Dependency, 0, len(found))}
	for _, one := range found {
		if one != nil {
			list.Dependencies = append(list.Dependencies, *one)
		}
	}
	return writeModel(c, list)
}

func (s *server) dependency(ctx context.Context, name, caller string) (gen.Dependency, error) {
	p, bucket, err := s.Policies.Peek(name)
	if err != nil {
		return gen.Dependency{}, err
	}
	state := s.Fleet.State(ctx, bucket, p, caller)
	model := gen.Dependency{
		Dependency: name,
		Policy:     policy(p),
		Budget:     budget(&state.Budget),
		Breaker:    state.Breaker.String(),
		CoolDownMs: state.CoolDown,
		Override:   override(&state.Override),
		Degraded:   state.Degraded,
		Counts:     s.tally.of(name),
	}
	if s.Trials != nil {
		counts, _ := s.Trials.Of(name)
		model.Shadow = shadowCounts(counts.Shadow)
		if p.Candidate != nil {
			own := s.Fleet.State(ctx, decide.CandidateBucket(bucket), p.Candidate, caller)
			model.Candidate = trialModel(&counts, &own)
		}
	}
	return model, nil
}

// asTyped serves names with a slash that is not percent-encoded, as people type
// them. What ends in /override is never taken for a name.
func (r withHead) asTyped(s *server) {
	const path, order = "/v1/dependencies/*", "/override"
	calls := gen.ServerInterfaceWrapper{Handler: s}
	r.GET(path, func(c echo.Context) error {
		if strings.HasSuffix(c.Param("*"), order) {
			c.Response().Header().Set(echo.HeaderAllow, "DELETE, PUT")
			return echo.ErrMethodNotAllowed
		}
		return named(c, "", calls.GetDependency)
	})
	r.PUT(path, func(c echo.Context) error { return named(c, order, calls.SetOverride) })
	r.DELETE(path, func(c echo.Context) error { return named(c, order, calls.LiftOverride) })
}

// named makes the call for the dependency that stands before the end of the path.
func named(c echo.Context, end string, call echo.HandlerFunc) error {
	name, ok := strings.CutSuffix(c.Param("*"), end)
	if !ok || name == "" {
		return echo.ErrNotFound
	}
	c.SetParamNames("dependency")
	c.SetParamValues(name)
	return call(c)
}

// exactNames are the rules that stand for one dependency: no pattern, and not
// the rule of those that have none.
func exactNames(rules []*decide.Policy) map[string]bool {
	names := make(map[string]bool, len(rules))
	for _, rule := range rules {
		if rule.Name != "default" && !strings.Contains(rule.Name, "*") {
			names[rule.Name] = true
		}
	}
	return names
}

// callerName checks the parameter, and adds its mistake to those before it.
func callerName(caller *gen.CallerName, wrong []gen.FieldError) (string, error) {
	name := ""
	if caller != nil {
		name = *caller
		if !validName(name) {
			wrong = append(wrong, gen.FieldError{Field: "/caller", Detail: nameRule})
		}
	}
	if wrong != nil {
		return "", &notValidError{errors: wrong}
	}
	return name, nil
}
