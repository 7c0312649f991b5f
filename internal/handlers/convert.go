package handlers

import (
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/trial"
)

// fallbackBurst is what a client's own bucket holds in tokens while it acts
// alone. There is one bucket for each client, so more than one token each would
// add up to a storm.
const fallbackBurst = 1

func dependencyState(dependency string, p *decide.Policy, state *decide.State) gen.DependencyState {
	return gen.DependencyState{
		Dependency: dependency,
		Breaker:    state.Breaker.String(),
		Admit:      admit(p, state),
		Budget:     budget(&state.Budget),
		CoolDownMs: state.CoolDown,
		Override:   override(&state.Override),
		Degraded:   state.Degraded,
		Fallback:   fallback(p),
	}
}

// admitHalfOpen is the share of calls that find out whether a dependency is back.
const admitHalfOpen = 0.05

// admit is what share of calls clients make at all, absent for all of them: none
// while a breaker that stops first attempts too is open, a few while it is half
// open, unless an operator forces the dependency.
func admit(p *decide.Policy, state *decide.State) *float64 {
	if p.Breaker.Mode != decide.BreakerModeAll || state.Override.Mode == decide.OverrideAllow {
		return nil
	}
	share := 0.0
	switch state.Breaker {
	case decide.BreakerOpen:
	case decide.BreakerHalfOpen:
		share = admitHalfOpen
	default:
		return nil
	}
	return &share
}

// refusedState is the answer for a dependency without a rule: decider would
// answer it 404, so a client does not retry it alone either.
func refusedState(dependency string, p *problem) gen.DependencyState {
	return gen.DependencyState{
		Dependency: dependency,
		Breaker:    decide.BreakerOff.String(),
		Fallback: gen.Fallback{OnFailure: decide.StoreFailureGiveUp.String(), MaxAttempts: 1,
			Backoff: backoff(&decide.Backoff{Multiplier: 1})},
		Problem: &gen.Problem{Type: p.Type, Title: p.Title, Status: int64(p.Status), Detail: p.Detail, Errors: &p.Errors},
	}
}

func fallback(p *decide.Policy) gen.Fallback {
	f := gen.Fallback{
		OnFailure:       p.OnStoreFailure.String(),
		MaxAttempts:     p.MaxAttempts,
		RetryAfterMaxMs: p.RetryAfter.Max,
		MinAttemptMs:    p.MinAttempt,
		Backoff:         backoffAlone(&p.Backoff[decide.Plain]),
	}
	if !p.Budget.Off {
		ratio, burst := tokens(p.Budget.Ratio), min(fallbackBurst, tokens(p.Budget.Capacity))
		f.Ratio, f.Burst = &ratio, &burst
	}
	return f
}

func backoff(b *decide.Backoff) gen.Backoff {
	out := gen.Backoff{Strategy: b.Strategy.String(), BaseMs: b.Base, CapMs: b.Cap, MinMs: b.Min, Multiplier: b.Multiplier, Jitter: b.Jitter}
	if b.Strategy == decide.Paced {
		rate := 1e6 / float64(b.Gap)
		out.Rate = &rate
	}
	return out
}

// backoffAlone is the backoff of a client that cannot ask: nobody hands it a
// slot, so it spreads what would be paced.
func backoffAlone(b *decide.Backoff) gen.Backoff {
	alone := *b
	if alone.Strategy == decide.Paced {
		alone.Strategy = decide.FullJitter
	}
	return backoff(&alone)
}

// otherBackoff is the backoff of a kind, absent where it is the plain one.
func otherBackoff(p *decide.Policy, kind decide.Kind) *gen.Backoff {
	if p.Backoff[kind] == p.Backoff[decide.Plain] {
		return nil
	}
	b := backoff(&p.Backoff[kind])
	return &b
}

func budget(b *decide.Budget) *gen.Budget {
	if !b.Asked {
		return nil
	}
	return &gen.Budget{Tokens: tokens(b.Tokens), Capacity: tokens(b.Capacity), Source: b.Source()}
}

func override(o *decide.Override) *gen.Override {
	if o.Mode == decide.OverrideNone {
		return nil
	}
	out := &gen.Override{Mode: o.Mode.String(), ExpiresInMs: o.ExpiresIn, Reason: said(o.Reason), Author: said(o.Author)}
	if !o.Since.IsZero() {
		since := o.Since.UTC()
		out.Since = &since
	}
	return out
}

func policy(p *decide.Policy) gen.Policy {
	model := gen.Policy{
		Name: p.Name, Preset: said(p.Preset), Description: said(p.Description), Owner: said(p.Owner),
		MaxAttempts:      p.MaxAttempts,
		Backoff:          backoff(&p.Backoff[decide.Plain]),
		BackoffThrottle:  otherBackoff(p, decide.Throttle),
		BackoffTimeout:   otherBackoff(p, decide.Timing),
		RetryAfter:       retryAfterRule(&p.RetryAfter),
		Repeat:           repeat(&p.Repeat),
		MinAttemptMs:     p.MinAttempt,
		RetryLayer:       append([]string{}, p.RetryLayer...),
		OnlyFirstInbound: p.OnlyFirstInbound,
		Budget:           budgetRule(&p.Budget),
		Breaker:          breakerRule(&p.Breaker),
		CoolDown:         p.CoolDown.String(),
		OnStoreFailure:   p.OnStoreFailure.String(),
		Mode:             "enforce",
	}
	if p.Shadow {
		model.Mode = "shadow"
	}
	if p.Headroom > 0 {
		headroom := tokens(p.Headroom)
		model.Headroom = &headroom
	}
	if p.Candidate != nil {
		candidate := policy(p.Candidate)
		model.Candidate = &candidate
	}
	return model
}

// shadowCounts are counts by reason, absent where there are none.
func shadowCounts(counts map[decide.Reason]int64) *map[string]int64 {
	if len(counts) == 0 {
		return nil
	}
	words := make(map[string]int64, len(counts))
	for reason, n := range counts {
		words[reason.String()] = n
	}
	return &words
}

// trialModel is what a candidate would have done, and the state of its own bucket.
func trialModel(c *trial.Counts, state *decide.State) *gen.Trial {
	model := &gen.Trial{
		Judged: c.Judged, Different: c.Different, EnforcedRetries: c.EnforcedRetries, CandidateRetries: c.CandidateRetries,
		Calls: c.Calls, Saved: c.Saved, Added: c.Added, Differences: []gen.TrialDifference{},
		Budget: budget(&state.Budget), Breaker: state.Breaker.String(),
	}
	if !c.Since.IsZero() {
		since := c.Since.UTC()
		model.Since = &since
	}
	if share, ok := c.LoadChange(); ok {
		model.LoadChange = &share
	}
	for _, pair := range c.Differences() {
		model.Differences = append(model.Differences, gen.TrialDifference{Enforced: pair.Enforced.String(), Candidate: pair.Candidate.String(), Attempts: c.Pairs[pair]})
	}
	return model
}

func retryAfterRule(r *decide.RetryAfter) gen.RetryAfterRule {
	headers := make([]string, len(r.Headers))
	for i, header := range r.Headers {
		headers[i] = header.String()
	}
	return gen.RetryAfterRule{MaxMs: r.Max, Spread: r.Spread, Headers: headers}
}

func repeat(r *decide.Repeat) []string {
	switch {
	case r.Any:
		return []string{"any"}
	case len(r.Methods) > 0:
		return append([]string(nil), r.Methods...)
	}
	return []string{"idempotent"}
}

func budgetRule(b *decide.BudgetRule) *gen.BudgetRule {
	if b.Off {
		return nil
	}
	on := "success"
	if b.DepositOnRequest {
		on = "request"
	}
	cost := make(map[string]float64, len(b.Cost))
	for kind, each := range b.Cost {
		cost[decide.Kind(kind).String()] = tokens(each)
	}
	return &gen.BudgetRule{
		Ratio:           tokens(b.Ratio),
		Capacity:        tokens(b.Capacity),
		CapacitySeconds: float64(b.CapacityMillis) / 1e3,
		MinPerSecond:    float64(b.NanoPerSecond) / 1e9,
		DepositOn:       on,
		Cost:            cost,
		CallerShare:     tokens(b.CallerShare),
	}
}

func breakerRule(b *decide.BreakerRule) gen.BreakerRule {
	rule := gen.BreakerRule{Mode: b.Mode.String()}
	if b.Mode == decide.BreakerModeOff {
		return rule
	}
	ratio := tokens(b.FailureRatio)
	rule.FailureRatio, rule.MinAttempts = &ratio, &b.MinAttempts
	rule.WindowMs, rule.OpenForMs, rule.Probes = &b.Window, &b.OpenFor, &b.Probes
	return rule
}

// tokens turns millionths into a number of at most six decimals.
func tokens(m decide.Micro) float64 { return float64(m) / float64(decide.MicroPerToken) }

// said is a text that may be absent.
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
