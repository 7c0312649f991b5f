package decider

import (
	"math"
	"time"

	"github.com/retrydecider/decider/clients/go/internal/api"
)

// document is the attempt as the contract has it.
func (a *Attempt) document() *api.Attempt {
	return &api.Attempt{
		Dependency:        a.Dependency,
		Method:            a.Method,
		Status:            optional(int64(a.Status)),
		Outcome:           optional(api.AttemptOutcome(a.Outcome)),
		GrpcStatus:        optional(api.AttemptGrpcStatus(a.GRPCStatus)),
		Idempotent:        a.Idempotent,
		HasIdempotencyKey: optional(a.HasIdempotencyKey),
		RetryAfter:        optional(a.RetryAfter),
		ResponseDate:      optional(a.ResponseDate),
		Headers:           optionalMap(a.Headers),
		Attempt:           optional(int64(a.Number)),
		RemainingMs:       millis(a.Remaining, down),
		MinAttemptMs:      millis(a.MinAttempt, up),
		PreviousDelayMs:   optional(up(a.PreviousDelay)),
		Caller:            optional(a.Caller),
		InboundAttempt:    optional(int64(a.InboundAttempt)),
		RetriedBelow:      optional(a.RetriedBelow),
		DecisionId:        optional(a.DecisionID),
	}
}

func newDecision(d *api.Decision) Decision {
	return Decision{
		Retry:       d.Decision == api.DecisionWordRetry,
		Delay:       duration(d.DelayMs),
		Reason:      Reason(d.Reason),
		Message:     d.Message,
		DecisionID:  d.DecisionId,
		Dependency:  d.Dependency,
		Policy:      d.Policy,
		NextAttempt: int(value(d.NextAttempt)),
		Remaining:   durationIf(d.RemainingMs),
		ServerDelay: durationIf(d.ServerDelayMs),
		RetryAfter:  d.RetryAfter,
		AskAgainIn:  durationIf(d.AskAgainInMs),
		Budget:      newBudget(d.Budget),
		Breaker:     d.Breaker,
		Degraded:    d.Degraded,
		Hints:       newHints(d.Hints),

		ShadowReason: Reason(value(d.ShadowReason)),
	}
}

func newHints(words []string) (hints []Hint) {
	for _, word := range words {
		hints = append(hints, Hint(word))
	}
	return hints
}

func newBudget(b *api.Budget) *Budget {
	if b == nil {
		return nil
	}
	return &Budget{Tokens: b.Tokens, Capacity: b.Capacity, Cost: value(b.Cost), Source: b.Source}
}

func (r *OutcomeReport) document() *api.OutcomeReport {
	outcomes := make([]api.Outcomes, len(r.Outcomes)) // [] where there are none, never null
	for i, each := range r.Outcomes {
		outcomes[i] = api.Outcomes{
			Dependency:        each.Dependency,
			FirstTrySuccesses: optional(int64(each.FirstTrySuccesses)),
			RetrySuccesses:    optional(int64(each.RetrySuccesses)),
			FinalFailures:     optional(int64(each.FinalFailures)),
		}
	}
	return &api.OutcomeReport{Caller: optional(r.Caller), ReportId: optional(r.ReportID), Outcomes: outcomes}
}

func newDependencyStates(documents []api.DependencyState) []DependencyState {
	states := make([]DependencyState, len(documents))
	for i := range documents {
		d := &documents[i]
		states[i] = DependencyState{
			Dependency: d.Dependency,
			Breaker:    d.Breaker,
			Admit:      admit(d.Admit),
			Budget:     newBudget(d.Budget),
			CoolDown:   duration(d.CoolDownMs),
			Override:   newOverride(d.Override),
			Degraded:   d.Degraded,
			Fallback:   newFallback(&d.Fallback),
			Problem:    problemOf(d.Problem),
		}
	}
	return states
}

// admit is all calls where nothing is said.
func admit(share *float64) float64 {
	if share == nil {
		return 1
	}
	return *share
}

func newOverride(o *api.Override) *Override {
	if o == nil {
		return nil
	}
	return &Override{
		Mode: o.Mode, ExpiresIn: duration(o.ExpiresInMs), Reason: value(o.Reason), Author: value(o.Author), Since: value(o.Since),
	}
}

func newFallback(f *api.Fallback) Fallback {
	return Fallback{
		OnFailure:     f.OnFailure,
		MaxAttempts:   f.MaxAttempts,
		Ratio:         f.Ratio,
		Burst:         f.Burst,
		RetryAfterMax: duration(f.RetryAfterMaxMs),
		MinAttempt:    duration(f.MinAttemptMs),
		Backoff: Backoff{
			Strategy:   f.Backoff.Strategy,
			Base:       duration(f.Backoff.BaseMs),
			Cap:        duration(f.Backoff.CapMs),
			Min:        duration(f.Backoff.MinMs),
			Multiplier: f.Backoff.Multiplier,
			Jitter:     f.Backoff.Jitter,
		},
	}
}

func problemOf(p *api.Problem) *Problem {
	if p == nil {
		return nil
	}
	var fields []FieldError
	for _, each := range value(p.Errors) {
		fields = append(fields, FieldError{Field: each.Field, Detail: each.Detail})
	}
	return &Problem{Type: p.Type, Title: p.Title, Status: int(p.Status), Detail: p.Detail, Errors: fields}
}

// optional leaves a zero value out of a document.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func optionalMap(m map[string]string) *map[string]string {
	if len(m) == 0 {
		return nil
	}
	return &m
}

// value is what a member says, or zero where it is absent.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func millis(d *time.Duration, round func(time.Duration) int64) *int64 {
	if d == nil {
		return nil
	}
	ms := round(*d)
	return &ms
}

// down is d in whole ms, never more than there is: a deadline's rounding.
func down(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond < 0 {
		ms--
	}
	return ms
}

// up is d in whole ms, never less than is needed; below 0 it is 0.
func up(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return -down(-d)
}

// maxMillis is the longest duration in ms: an answer's 2^53 - 1 ms are more.
const maxMillis = int64(math.MaxInt64 / time.Millisecond)

func duration(ms int64) time.Duration {
	return time.Duration(min(max(ms, -maxMillis), maxMillis)) * time.Millisecond
}

func durationIf(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := duration(*ms)
	return &d
}
