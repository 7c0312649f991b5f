package decider

import "time"

// OutcomeReport counts the calls since the last report that needed no
// decision. Send one every second or so; up to 10 s late does no harm.
type OutcomeReport struct {
	// Caller is who reports; "", the client's (WithCaller).
	Caller string
	// ReportID makes a report that is sent again count once.
	ReportID string
	// Outcomes has each dependency once, at most 256 of them.
	Outcomes []Outcomes
}

// Outcomes counts calls to one dependency. All of them 0 asks for its state alone.
type Outcomes struct {
	// Dependency is what was called.
	Dependency string
	// FirstTrySuccesses are calls that succeeded at the first attempt.
	FirstTrySuccesses int
	// RetrySuccesses are calls that succeeded at a later attempt.
	RetrySuccesses int
	// FinalFailures are calls that failed and were never brought to a decision.
	FinalFailures int
}

// DependencyState is what a client needs to know of a dependency until its
// next report.
type DependencyState struct {
	// Dependency is the one that was reported.
	Dependency string
	// Breaker is "closed", "open", "half_open", "off", or a word to come.
	Breaker string
	// Admit is the share of calls to make at all: 1, but 0 while a breaker that
	// stops first attempts too is open, and a little while it is half open.
	Admit float64
	// Budget is the fleet's bucket; nil where the policy has none.
	Budget *Budget
	// CoolDown is how long the server's wait still holds for this caller's retries.
	CoolDown time.Duration
	// Override is what an operator has set; nil where nobody has.
	Override *Override
	// Degraded: the fleet's state was out of reach and a local rule answered.
	Degraded bool
	// Fallback is the rule to act by alone while decider is out of reach.
	Fallback Fallback
	// Problem is why this dependency was refused, where it was; the others of
	// the report count all the same.
	Problem *Problem
}

// Override is an operator's word on all retries of a dependency.
type Override struct {
	// Mode is "pause", "allow", or a word to come.
	Mode string
	// ExpiresIn is when it ends by itself.
	ExpiresIn time.Duration
	// Reason and Author say why and who.
	Reason, Author string
	// Since is when it was set; zero where that is not known.
	Since time.Time
}

// Fallback is the rule by which a client acts alone while decider is out of
// reach: a bucket of its own that starts full, holds Burst tokens and gains
// Ratio with each of its own successes; a retry takes one.
type Fallback struct {
	// OnFailure is "local", "give_up" or "allow" (retry without a bucket);
	// treat an unknown word as "give_up".
	OnFailure string
	// MaxAttempts counts calls, the first included.
	MaxAttempts int64
	// Ratio and Burst are in tokens; nil where the policy has no budget.
	Ratio, Burst *float64
	// RetryAfterMax is the longest wait of a server that is honored.
	RetryAfterMax time.Duration
	// MinAttempt is the least time in which an attempt can succeed.
	MinAttempt time.Duration
	// Backoff is the own wait.
	Backoff Backoff
}

// Backoff is a policy's own wait before a retry. The window before retry n is
// min(Cap, Base times Multiplier to the power n-1).
type Backoff struct {
	// Strategy is how the wait is drawn from the window; treat an unknown one
	// as "full_jitter".
	Strategy string
	// Base is the first window, Cap the largest, Min the least wait.
	Base, Cap, Min time.Duration
	// Multiplier is the window's growth per retry.
	Multiplier float64
	// Jitter is the share of the window by which "proportional_jitter" moves the wait.
	Jitter float64
}
