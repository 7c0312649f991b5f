package decider

import "time"

// Decision is what to do after a failed attempt.
type Decision struct {
	// Retry says whether to retry.
	Retry bool
	// Delay is how long to wait before the retry; 0 on a give-up.
	Delay time.Duration
	// Reason is why.
	Reason Reason
	// Message is one English sentence with the numbers in it, for people.
	Message string

	// DecisionID is the attempt's, or the one that decider made.
	DecisionID string
	// Dependency is the attempt's.
	Dependency string
	// Policy is the name of the rule that matched.
	Policy string

	// NextAttempt is the number of the retry; 0 on a give-up.
	NextAttempt int
	// Remaining is what is left of the deadline when the retry starts, to be
	// passed downstream; nil on a give-up and where there is no deadline.
	Remaining *time.Duration
	// ServerDelay is what the server asked for, where that was readable.
	ServerDelay *time.Duration
	// RetryAfter says what became of the server's wait: "absent", "unused",
	// "used", "shorter_than_backoff", "too_long", "malformed", or a word to come.
	RetryAfter string
	// AskAgainIn is when it makes sense to ask again, on a give-up that time can cure.
	AskAgainIn *time.Duration

	// Budget is the fleet's bucket after this answer; nil where none was asked.
	Budget *Budget
	// Breaker of the dependency: "closed", "open", "half_open", "off", or a word to come.
	Breaker string
	// Degraded: the fleet's state was out of reach and a local rule answered.
	Degraded bool
	// Local: decider was out of reach, or is not asked while it is, and this
	// client's own rule answered ([Client.Ask] alone). Degraded is then true too.
	Local bool
	// Hints say what to heed: see [Hint].
	Hints []Hint
	// ShadowReason is, on a retry under a policy in shadow, why an enforced one
	// would have given up; "" where it would not have.
	ShadowReason Reason
}

// Has says whether the decision carries the hint.
func (d *Decision) Has(h Hint) bool {
	for _, each := range d.Hints {
		if each == h {
			return true
		}
	}
	return false
}

// Reason is why a decision fell as it did. There may be more than are named
// here: go by [Decision.Retry] alone and treat the reason as a label.
type Reason string

// The reasons to retry.
const (
	ReasonBackoff    Reason = "backoff"     // the policy's own wait
	ReasonRetryAfter Reason = "retry_after" // the server asked for longer
	ReasonCoolDown   Reason = "cool_down"   // the server asked somebody else for longer
)

// The reasons to give up.
const (
	ReasonNotAFailure        Reason = "not_a_failure"
	ReasonCanceled           Reason = "canceled"
	ReasonServerRefused      Reason = "server_refused"
	ReasonNotRetryable       Reason = "not_retryable"
	ReasonNotSafeToRepeat    Reason = "not_safe_to_repeat"
	ReasonRetriedBelow       Reason = "retried_below"
	ReasonNotTheRetryLayer   Reason = "not_the_retry_layer"
	ReasonAttemptsExhausted  Reason = "attempts_exhausted"
	ReasonServerDelayTooLong Reason = "server_delay_too_long"
	ReasonDeadline           Reason = "deadline"
	ReasonPaused             Reason = "paused"
	ReasonBreakerOpen        Reason = "breaker_open"
	ReasonBudgetExhausted    Reason = "budget_exhausted"
	ReasonStoreUnavailable   Reason = "store_unavailable"
)

// ReasonBodyNotReplayable is a [Transport]'s own reason to give up without a
// question: the request has a body and no GetBody to make it anew.
const ReasonBodyNotReplayable Reason = "body_not_replayable"

// Hint is something to heed besides the decision. There may be more than are
// named here; an unknown one does no harm.
type Hint string

// The hints.
const (
	SameIdempotencyKey Hint = "same_idempotency_key" // send the key of the first attempt again
	NewConnection      Hint = "new_connection"       // not on the connection that failed
	NoEarlyData        Hint = "no_early_data"        // not in TLS early data
	ReportOutcomes     Hint = "report_outcomes"      // nobody reports successes, so the budget is not fed
)

// Budget is the fleet's bucket of retries of one dependency, in tokens.
type Budget struct {
	// Tokens are left, and Capacity is what the bucket holds now.
	Tokens, Capacity float64
	// Cost is what this retry costs; 0 where none was asked for.
	Cost float64
	// Source is "fleet", or "local" while the fleet's state is out of reach.
	Source string
}
