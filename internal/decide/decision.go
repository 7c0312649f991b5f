package decide

import (
	"fmt"
	"strconv"
	"strings"
)

// Reason is why a decision fell as it did. The set is closed here and open to
// growth in the contract: clients treat an unknown one by the decision alone.
type Reason uint8

// Reasons to retry, then reasons to give up, in the order in which the
// questions are asked.
const (
	// ReasonBackoff: the policy's own wait.
	ReasonBackoff Reason = iota
	// ReasonRetryAfter: the wait that the server asked for, longer than the own.
	ReasonRetryAfter
	// ReasonCoolDown: a wait that the server gave to somebody else of the fleet.
	ReasonCoolDown

	// ReasonNotAFailure: 1xx, 2xx, 3xx or gRPC OK.
	ReasonNotAFailure
	// ReasonCanceled: the caller left.
	ReasonCanceled
	// ReasonServerRefused: a header of the response forbids the retry.
	ReasonServerRefused
	// ReasonNotRetryable: it will fail the same way again.
	ReasonNotRetryable
	// ReasonNotSafeToRepeat: it may have been acted on.
	ReasonNotSafeToRepeat
	// ReasonRetriedBelow: the dependency has already retried.
	ReasonRetriedBelow
	// ReasonNotTheRetryLayer: somebody above or beside this caller retries.
	ReasonNotTheRetryLayer
	// ReasonAttemptsExhausted: no attempt is left.
	ReasonAttemptsExhausted
	// ReasonServerDelayTooLong: the server's wait is above the policy's bound.
	ReasonServerDelayTooLong
	// ReasonDeadline: the wait and another attempt do not fit what is left.
	ReasonDeadline
	// ReasonPaused: an operator has paused retries.
	ReasonPaused
	// ReasonBreakerOpen: the breaker of the fleet, or the caller's own, is open.
	ReasonBreakerOpen
	// ReasonBudgetExhausted: the fleet's retry budget is spent.
	ReasonBudgetExhausted
	// ReasonStoreUnavailable: the fleet's state is out of reach and the policy says give_up.
	ReasonStoreUnavailable

	reasonCount
)

var reasonNames = [reasonCount]string{
	"backoff", "retry_after", "cool_down",
	"not_a_failure", "canceled", "server_refused", "not_retryable", "not_safe_to_repeat", "retried_below",
	"not_the_retry_layer", "attempts_exhausted", "server_delay_too_long", "deadline", "paused", "breaker_open",
	"budget_exhausted", "store_unavailable",
}

// String is the reason's word in the contract.
func (r Reason) String() string { return reasonNames[r] }

// Retry says whether the reason is one to retry.
func (r Reason) Retry() bool { return r <= ReasonCoolDown }

// Reasons lists every reason, those to retry first.
func Reasons() []Reason {
	all := make([]Reason, reasonCount)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// ServerDelayUse says what became of the server's Retry-After.
type ServerDelayUse uint8

// What can become of it.
const (
	DelayAbsent             ServerDelayUse = iota // none of the honoured headers was there
	DelayUnused                                   // readable, but the decision fell before it mattered
	DelayUsed                                     // the wait is longer than the policy's own because of it
	DelayShorterThanBackoff                       // the policy's own wait is at least as long
	DelayTooLong                                  // above the policy's bound
	DelayMalformed                                // there, and unreadable
)

var useNames = [...]string{"absent", "unused", "used", "shorter_than_backoff", "too_long", "malformed"}

// String is the word in the contract.
func (u ServerDelayUse) String() string { return useNames[u] }

// BreakerState is the state of a dependency's breaker.
type BreakerState uint8

// The states of a breaker; off where the policy has none.
const (
	BreakerOff BreakerState = iota
	BreakerClosed
	BreakerOpen
	BreakerHalfOpen
)

var breakerNames = [...]string{"off", "closed", "open", "half_open"}

// String is the word in the contract.
func (b BreakerState) String() string { return breakerNames[b] }

// Hints is a set of things that the caller should know or do.
type Hints uint8

// The hints.
const (
	SameIdempotencyKey Hints = 1 << iota // send the key of the first attempt again
	NewConnection                        // not on the connection that failed
	NoEarlyData                          // not in TLS early data (RFC 8470)
	ReportOutcomes                       // nobody has reported a success for a minute, so the budget is not fed
)

var hintNames = [...]string{"same_idempotency_key", "new_connection", "no_early_data", "report_outcomes"}

// Names lists the words of the hints in the set.
func (h Hints) Names() []string {
	var names []string
	for i, name := range hintNames {
		if h&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Micro is a number of tokens in millionths.
type Micro = int64

// MicroPerToken is how many millionths a token has.
const MicroPerToken Micro = 1_000_000

// Budget is what a decision tells of the bucket it asked.
type Budget struct {
	// Asked: false where no budget was asked, and the rest says nothing.
	Asked bool
	// Tokens are left after the decision; Capacity is what the bucket holds now.
	Tokens, Capacity Micro
	// Cost is what this retry cost, or would have cost.
	Cost Micro
	// Local: a bucket of this replica alone answered, not the fleet's.
	Local bool
}

// Source is "fleet", or "local" where the fleet's state was out of reach.
func (b Budget) Source() string {
	if b.Local {
		return "local"
	}
	return "fleet"
}

// Decision is the answer to one failed attempt.
type Decision struct {
	// Reason says why, and with it whether to retry.
	Reason Reason
	// Delay is how long to wait before the retry, in ms; 0 on a give-up.
	Delay int64
	// DecisionID and Dependency are the attempt's; Policy names the rule that matched.
	DecisionID, Dependency, Policy string
	// NextAttempt is the retry's number; 0 on a give-up.
	NextAttempt int64
	// Remaining is the deadline left in ms when the retry starts; absent on a
	// give-up and where no deadline was given.
	Remaining Millis
	// ServerDelay is what the server asked for, in ms, where it was readable.
	ServerDelay Millis
	// ServerDelayUse says what became of it.
	ServerDelayUse ServerDelayUse
	// AskAgain is, in ms, when asking again makes sense, on a give-up that time can cure.
	AskAgain Millis
	// Budget is the bucket's state after the decision, where one was asked.
	Budget Budget
	// Breaker is the state of the fleet's breaker.
	Breaker BreakerState
	// Degraded: the fleet's state was out of reach and a local rule answered.
	Degraded bool
	// Replayed: the retry was granted before, under this DecisionID, and is neither
	// another one nor paid for again.
	Replayed bool
	// Hints for the caller.
	Hints Hints
	// ShadowReason is, on a retry under a rule in shadow, what an enforced rule
	// would have given up for; its zero value, a reason to retry, says nothing.
	ShadowReason Reason

	// For the message alone.
	failure     Failure
	attempt     int64
	maxAttempts int64
	own         int64 // the policy's own wait in ms
	coolDown    int64
	remaining   Millis
	minAttempt  int64
	maxServer   int64
	inbound     int64 // the inbound attempt, where the policy heeds it
	method      string
	caller      string
}

// Retry says whether to retry.
func (d *Decision) Retry() bool { return d.Reason.Retry() }

// Word is "retry" or "give_up".
func (d *Decision) Word() string {
	if d.Retry() {
		return "retry"
	}
	return "give_up"
}

// Enforced is the reason that the rule by itself came to: in shadow, what would
// have been refused was.
func (d *Decision) Enforced() Reason {
	if !d.ShadowReason.Retry() {
		return d.ShadowReason
	}
	return d.Reason
}

// Message is one English sentence with the numbers in it. It is made when it
// is asked for, not with the decision.
func (d *Decision) Message() string {
	if !d.ShadowReason.Retry() {
		return strings.TrimSuffix(d.sentence(), ".") + "; the rule is in shadow, enforced it would have given up: " + d.ShadowReason.String() + "."
	}
	return d.sentence()
}

func (d *Decision) sentence() string {
	switch d.Reason {
	case ReasonBackoff:
		return fmt.Sprintf("Retry in %d ms as attempt %d of at most %d, after the policy's own backoff.", d.Delay, d.NextAttempt, d.maxAttempts)
	case ReasonRetryAfter:
		return fmt.Sprintf("Retry in %d ms as attempt %d of at most %d: the server asked for %d ms.", d.Delay, d.NextAttempt, d.maxAttempts, d.ServerDelay.Value)
	case ReasonCoolDown:
		return fmt.Sprintf("Retry in %d ms as attempt %d of at most %d: %s is cooling down for %d ms more.", d.Delay, d.NextAttempt, d.maxAttempts, d.Dependency, d.coolDown)
	case ReasonNotAFailure:
		return fmt.Sprintf("Give up: %s is not a failure.", d.failure)
	case ReasonCanceled:
		return "Give up: the caller has canceled the call, so nobody waits for a retry."
	case ReasonServerRefused:
		return fmt.Sprintf("Give up: with %s the server said not to retry.", d.failure)
	case ReasonNotRetryable:
		return fmt.Sprintf("Give up: %s will fail the same way again.", d.failure)
	case ReasonNotSafeToRepeat:
		return fmt.Sprintf("Give up: after %s the call may have been acted on, and %s without an idempotency key is not safe to repeat.", d.failure, d.method)
	case ReasonRetriedBelow:
		return fmt.Sprintf("Give up: %s has already retried by itself, and retries would multiply.", d.Dependency)
	case ReasonNotTheRetryLayer:
		return d.layerMessage()
	case ReasonAttemptsExhausted:
		return d.attemptsMessage()
	case ReasonServerDelayTooLong:
		return fmt.Sprintf("Give up: the server asked for a wait of %d ms, and the policy allows %d ms at most.", d.ServerDelay.Value, d.maxServer)
	case ReasonDeadline:
		return d.deadlineMessage()
	case ReasonPaused:
		return fmt.Sprintf("Give up: an operator has paused retries to %s%s.", d.Dependency, d.askAgain())
	case ReasonBreakerOpen:
		return d.breakerMessage()
	case ReasonBudgetExhausted:
		return d.budgetMessage()
	case ReasonStoreUnavailable:
		return fmt.Sprintf("Give up: the fleet's state of %s is out of reach, and its policy says to give up then%s.", d.Dependency, d.askAgain())
	}
	return d.Word()
}

func (d *Decision) attemptsMessage() string {
	if d.attempt < d.maxAttempts {
		return fmt.Sprintf("Give up: %s is worth one retry, and attempt %d has failed.", d.failure, d.attempt)
	}
	return fmt.Sprintf("Give up: attempt %d has failed, and the policy stops at %d.", d.attempt, d.maxAttempts)
}

func (d *Decision) layerMessage() string {
	switch {
	case d.inbound > 1:
		return fmt.Sprintf("Give up: this call serves attempt %d of a call that is retried above, and below that %s is called once.", d.inbound, d.Dependency)
	case d.caller == "":
		return fmt.Sprintf("Give up: calls to %s are retried by callers that the policy names, and this one gave no name.", d.Dependency)
	}
	return fmt.Sprintf("Give up: calls to %s are retried by other callers, not by %s.", d.Dependency, d.caller)
}

func (d *Decision) deadlineMessage() string {
	if d.remaining.Value <= 0 {
		return fmt.Sprintf("Give up: nothing is left of the caller's deadline (%d ms).", d.remaining.Value)
	}
	what, wait := "the backoff", d.own
	if d.ServerDelay.Value > wait {
		what, wait = "the server's wait", d.ServerDelay.Value
	}
	if d.coolDown > wait {
		what, wait = "the cool-down", d.coolDown
	}
	return fmt.Sprintf("Give up: %s of %d ms and at least %d ms for another attempt do not fit the %d ms that are left of the deadline.",
		what, wait, max(d.minAttempt, 1), d.remaining.Value)
}

func (d *Decision) breakerMessage() string {
	switch {
	case d.failure == CallerBreakerOpen:
		return "Give up: the caller's own breaker is open."
	case d.Breaker == BreakerHalfOpen:
		return fmt.Sprintf("Give up: the breaker of %s is half open and its probes are out%s.", d.Dependency, d.askAgain())
	}
	return fmt.Sprintf("Give up: the breaker of %s is open%s.", d.Dependency, d.askAgain())
}

func (d *Decision) budgetMessage() string {
	if !d.Budget.Asked {
		return fmt.Sprintf("Give up: the retry budget of %s is spent%s.", d.Dependency, d.askAgain())
	}
	return fmt.Sprintf("Give up: the %s retry budget of %s has %s of %s tokens left, and a retry costs %s%s.", d.Budget.Source(), d.Dependency,
		FormatMicro(d.Budget.Tokens), FormatMicro(d.Budget.Capacity), FormatMicro(d.Budget.Cost), d.askAgain())
}

func (d *Decision) askAgain() string {
	if !d.AskAgain.Present {
		return ""
	}
	return fmt.Sprintf("; ask again in %d ms", d.AskAgain.Value)
}

// FormatMicro writes millionths as a decimal without needless zeros.
func FormatMicro(m Micro) string { return string(AppendMicro(nil, m)) }

// AppendMicro appends millionths as a decimal without needless zeros, a valid JSON number.
func AppendMicro(b []byte, m Micro) []byte {
	left := uint64(m)
	if m < 0 {
		b, left = append(b, '-'), -left
	}
	b = strconv.AppendUint(b, left/uint64(MicroPerToken), 10)
	frac := left % uint64(MicroPerToken)
	if frac == 0 {
		return b
	}
	b = append(b, '.')
	for unit := uint64(MicroPerToken / 10); frac > 0; unit /= 10 {
		b = append(b, '0'+byte(frac/unit))
		frac %= unit
	}
	return b
}
