package handlers

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/identity"
	"github.com/retrydecider/decider/internal/sidebyside"
)

const maxOutcomes = 256

// report is an OutcomeReport. The outcomes hold counts alone until the rule of
// each dependency is found.
type report struct {
	caller, id   string
	dependencies []string
	outcomes     []decide.Outcome
}

// ReportOutcomes answers POST /v1/outcomes.
func (s *server) ReportOutcomes(c echo.Context) error {
	x := exchanges.Get().(*exchange)
	defer x.release()
	in, err := x.receiveReport(c.Request())
	if err != nil {
		return err
	}
	ctx, cancel := s.Fleet.Bounded(untilAnswered(c))
	defer cancel()
	asks := who(c)
	states := make([]gen.DependencyState, len(in.outcomes))
	sidebyside.Do(sidebyside.All, len(states), func(i int) { states[i] = s.report(ctx, asks, in, i) })
	return writeModel(c, gen.OutcomeAnswer{Dependencies: states})
}

// report counts one outcome. A dependency that the policy file refuses, or that
// is not one of the identity's, has no state, and spoils no other.
func (s *server) report(ctx context.Context, asks *identity.Identity, in *report, i int) gen.DependencyState {
	dependency, o := in.dependencies[i], in.outcomes[i]
	if err := mayTouch(asks, dependency); err != nil {
		return refusedState(dependency, problemAt(err, itemPlace("/outcomes", i)))
	}
	policy, bucket, err := s.Policies.Find(dependency)
	if err != nil {
		return refusedState(dependency, problemAt(err, itemPlace("/outcomes", i)))
	}
	o.Policy, o.Bucket, o.Caller, o.ReportID = policy, bucket, in.caller, in.id
	state := s.Fleet.Report(ctx, &o)
	s.counters.reported(labelOf(dependency, policy.Name), &o)
	if s.Trials != nil {
		s.Trials.Reported(dependency, &o)
	}
	if s.Reported != nil {
		s.Reported(s.Now(), dependency, &o)
	}
	if policy.Shadow { // nobody may stop a call for what is not enforced
		state.Breaker = min(state.Breaker, decide.BreakerClosed)
	}
	return dependencyState(dependency, policy, &state)
}

// receiveReport reads a body that is an OutcomeReport.
func (x *exchange) receiveReport(r *http.Request) (*report, error) {
	if err := x.receive(r, maxListBody); err != nil {
		return nil, err
	}
	in, rd := new(report), &x.reader
	hasOutcomes := false
	entered, err := rd.object("", func(name []byte) error {
		switch string(name) {
		case "caller":
			return rd.name("/caller", &in.caller)
		case "report_id":
			return rd.id("/report_id", &in.id)
		case "outcomes":
			hasOutcomes = true
			return rd.outcomes(in)
		}
		return rd.unknown(name)
	})
	if err != nil {
		return nil, err
	}
	if entered && !hasOutcomes {
		rd.fail("/outcomes", "is required")
	}
	return in, rd.end()
}

func (r *reader) outcomes(in *report) error {
	seen := make(map[string]bool)
	return r.items("outcomes", maxOutcomes, func() error {
		var dependency string
		var o decide.Outcome
		if err := r.outcome(&dependency, &o); err != nil {
			return err
		}
		if seen[dependency] {
			r.fail("/dependency", "is in the report twice")
		}
		if dependency != "" {
			seen[dependency] = true
		}
		in.dependencies, in.outcomes = append(in.dependencies, dependency), append(in.outcomes, o)
		return nil
	})
}

func (r *reader) outcome(dependency *string, o *decide.Outcome) error {
	hasDependency := false
	entered, err := r.object("", func(name []byte) (err error) {
		switch string(name) {
		case "dependency":
			hasDependency = true
			return r.name("/dependency", dependency)
		case "first_try_successes":
			o.FirstTrySuccesses, _, err = r.integer("/first_try_successes", 0, decide.MaxDepositsPerOutcome)
		case "retry_successes":
			o.RetrySuccesses, _, err = r.integer("/retry_successes", 0, decide.MaxDepositsPerOutcome)
		case "final_failures":
			o.FinalFailures, _, err = r.integer("/final_failures", 0, decide.MaxDepositsPerOutcome)
		default:
			return r.unknown(name)
		}
		return err
	})
	if entered && err == nil && !hasDependency {
		r.fail("/dependency", "is required")
	}
	return err
}
