package decide

import "context"

// Fleet holds the state that all callers of a dependency share. Package budget
// has three: in this process, in Redis, and the local one that answers while
// Redis is out of reach. A Fleet never fails: where the shared state is out of
// reach it answers by a local rule and says so.
type Fleet interface {
	// Ask puts step 9 to the fleet's state, atomically, and spends where it grants.
	Ask(ctx context.Context, q *Question) Answer
	// Tell reports a failure that was given up without a question. It returns
	// at once; the state knows within a second.
	Tell(f *Failed)
}

// Failed is a failure of the dependency's own, as the fleet's state counts it.
type Failed struct {
	// Bucket is the name under which the state is kept: the dependency's, or a
	// shared one for names beyond the policy file's bound.
	Bucket string
	Policy *Policy
	Caller string
	// Kind of the failure; it says whom a cool-down concerns.
	Kind Kind
	// First: attempt 1, which deposits under deposit_on: request.
	First bool
	// ServerDelay is the server's wait in ms, bounded by the policy's; 0: none.
	ServerDelay int64
}

// Question is step 9 for one planned retry.
type Question struct {
	Failed
	// ID makes asking twice spend once, per bucket and attempt; "": none.
	ID string
	// Attempt is the attempt that failed.
	Attempt int64
	// Fit is the longest wait in ms that the deadline allows.
	Fit Millis
	// Own and Delay are the planned waits in ms; they are kept with ID and come
	// back when it is asked again.
	Own, Delay int64
	// DryRun evaluates and changes nothing.
	DryRun bool
}

// Cost of the retry that is asked for.
func (q *Question) Cost() Micro { return q.Policy.Budget.Cost[q.Kind] }

// Verdict is the fleet's word on a planned retry.
type Verdict uint8

// The verdicts, in the order in which step 9 asks.
const (
	Granted Verdict = iota
	Paused
	OpenBreaker
	CoolDownTooLong
	NoTokens
	Unavailable
)

var verdictReasons = [...]Reason{0, ReasonPaused, ReasonBreakerOpen, ReasonDeadline, ReasonBudgetExhausted, ReasonStoreUnavailable}

// Answer is what the fleet's state says.
type Answer struct {
	Verdict Verdict
	// Budget is the bucket after the answer; its Asked is false where none was asked.
	Budget Budget
	// CoolDown is what is left in ms of a wait that the server gave.
	CoolDown int64
	// Slot is, in ms, when the slot begins that a paced retry was handed.
	Slot int64
	// AskAgain is, in ms, when asking again makes sense.
	AskAgain Millis
	Breaker  BreakerState
	// ReportOutcomes: nobody has reported a success for a minute.
	ReportOutcomes bool
	// Degraded: a local rule answered.
	Degraded bool
	// Replayed: this ID was granted before, with these waits and the server's.
	Replayed            bool
	Own, Delay          int64
	ReplayedServerDelay int64
}
