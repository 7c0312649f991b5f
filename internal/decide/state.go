package decide

import "time"

// Outcome is what a caller reports of calls that needed no decision.
type Outcome struct {
	// Bucket and Policy are what [Policies] found for the dependency.
	Bucket string
	Policy *Policy
	Caller string
	// ReportID makes a report that is sent again count once; "": none.
	ReportID string
	// FirstTrySuccesses and RetrySuccesses are original calls that succeeded,
	// without and with a retry; FinalFailures were never brought to a decision.
	FirstTrySuccesses, RetrySuccesses, FinalFailures int64
}

// State is what the fleet's state of one dependency holds.
type State struct {
	// Budget is the bucket now; Asked is false where the policy has none.
	Budget Budget
	// CoolDown is what is left in ms for the caller who asks.
	CoolDown int64
	Breaker  BreakerState
	// Override is what an operator has set; its Mode is OverrideNone where nobody has.
	Override Override
	// Degraded: a local rule answered.
	Degraded bool
}

// OverrideMode is what an operator has set for a dependency.
type OverrideMode uint8

// The modes of an override.
const (
	OverrideNone  OverrideMode = iota
	OverridePause              // every retry is refused
	OverrideAllow              // step 9 says yes and spends nothing
)

var overrideNames = [...]string{"none", "pause", "allow"}

// String is the mode's word.
func (m OverrideMode) String() string { return overrideNames[m] }

// ParseOverride reads an override's word, "pause" or "allow".
func ParseOverride(word string) (m OverrideMode, ok bool) {
	switch word {
	case "pause":
		return OverridePause, true
	case "allow":
		return OverrideAllow, true
	}
	return OverrideNone, false
}

// Override stops or forces all retries of a dependency until it ends by itself.
type Override struct {
	Mode OverrideMode
	// ExpiresIn is what is left of it, in ms.
	ExpiresIn int64
	// Author and Reason are kept as they were given.
	Author, Reason string
	// Since is when it was set.
	Since time.Time
}
