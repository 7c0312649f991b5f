package decide

// Policy is the rule of one dependency, checked and complete. Package policy
// makes it from the policy file; what it holds does not change afterwards, so
// one Policy serves any number of decisions at once.
type Policy struct {
	// Name of the rule: a dependency's name, a pattern, or "default".
	Name string
	// Description and Owner are the operator's own words.
	Description, Owner string
	// Preset is the preset it was written over.
	Preset string
	// MaxAttempts counts calls, the first included: 1 never retries.
	MaxAttempts int64
	// Backoff is the own wait by the kind of the failure.
	Backoff [kindCount]Backoff
	// RetryAfter says how the server's wait is honoured.
	RetryAfter RetryAfter
	// Classes says which failures are retried.
	Classes *Classes
	// Repeat says which methods may repeat an ambiguous failure without a key.
	Repeat Repeat
	// MinAttempt is the least time in ms in which another attempt can succeed.
	MinAttempt int64
	// RetryLayer names the callers that retry; empty: all.
	RetryLayer []string
	// OnlyFirstInbound: below somebody else's second attempt nobody retries.
	OnlyFirstInbound bool
	// Budget is the shared bucket of retries.
	Budget BudgetRule
	// Breaker stops retries, or all attempts, while the dependency is down.
	Breaker BreakerRule
	// CoolDown says for whom a server's wait holds.
	CoolDown CoolDown
	// OnStoreFailure says what answers while the fleet's state is out of reach.
	OnStoreFailure OnStoreFailure
	// Shadow: what the fleet's state refuses is granted, and counted as refused.
	Shadow bool
	// Candidate is judged beside this rule, with state of its own, and nobody is
	// told its answers; nil: none. It has no candidate itself.
	Candidate *Policy
	// Headroom is what the dependency can serve, in millionths of its normal
	// load; 0: not said. No decision depends on it.
	Headroom Micro
}

// RetryAfter is how a policy honours the server's wait.
type RetryAfter struct {
	// Max is the longest wait in ms that is honoured.
	Max int64
	// Spread is the share of the wait by which a crowd is spread above it.
	Spread float64
	// Headers are read in this order.
	Headers []Header
}

// Repeat says which methods may repeat an ambiguous failure without a key.
type Repeat struct {
	// Any method may.
	Any bool
	// Methods may, where the list is not empty; else the idempotent ones.
	Methods []string
}

// Allows says whether the method may be repeated.
func (r *Repeat) Allows(method string) bool {
	switch {
	case r.Any:
		return true
	case len(r.Methods) > 0:
		return containsFold(r.Methods, method)
	}
	return IdempotentMethod(method)
}

// BudgetRule is the token bucket of a dependency (DESIGN §6). Its numbers are
// integers, so that Go and Lua agree on every one.
type BudgetRule struct {
	// Off: no budget is asked.
	Off bool
	// Ratio is what each deposit adds.
	Ratio Micro
	// RatioMax is what it adds at most, where retries are seen to help; 0: Ratio
	// whatever they do. What is above Ratio pays for plain failures alone.
	RatioMax Micro
	// Capacity is what the bucket holds at least.
	Capacity Micro
	// Initial is what a new bucket holds; 0: Capacity. A policy file has no word for
	// it: it is for a replica's share of a bucket.
	Initial Micro
	// CapacityMillis: it holds what so many ms of the measured deposit rate
	// bring, where that is more; 0 switches it off.
	CapacityMillis int64
	// NanoPerSecond is the refill by time, in billionths of a token per second.
	NanoPerSecond int64
	// DepositOnRequest: each original call deposits; else each success does.
	DepositOnRequest bool
	// Cost of a retry by the kind of the failure.
	Cost [kindCount]Micro
	// CallerShare is what a caller's own success adds to its own share; 0: no shares.
	CallerShare Micro
}

// Bounds of a budget's numbers, so that every product stays below 2^53.
const (
	MaxCapacity                 = 1_000_000 * MicroPerToken
	MaxCost                     = 1_000 * MicroPerToken
	MaxRatio                    = MicroPerToken
	MaxNanoPerSecond      int64 = 1_000_000_000_000_000
	MaxCapacityMillis     int64 = 3_600_000
	MaxDepositsPerOutcome       = 1<<31 - 1
)

// BreakerMode says what an open breaker stops.
type BreakerMode uint8

// The modes of a breaker.
const (
	BreakerModeOff     BreakerMode = iota
	BreakerModeRetries             // retries alone
	BreakerModeAll                 // first attempts too, obeyed by the clients
)

var breakerModeNames = [...]string{"off", "retries", "all"}

// String is the mode's word in a policy.
func (m BreakerMode) String() string { return breakerModeNames[m] }

// BreakerRule is when a breaker opens and how it closes (DESIGN §7).
type BreakerRule struct {
	Mode BreakerMode
	// FailureRatio, in millionths, opens it over at least MinAttempts attempts.
	FailureRatio int64
	MinAttempts  int64
	// Window and OpenFor are in ms: what is counted, and how long it stays open.
	Window, OpenFor int64
	// Probes are let through at once when it is half open.
	Probes int64
}

// CoolDown says for whom a server's wait holds.
type CoolDown uint8

// The scopes of a cool-down.
const (
	CoolDownAuto   CoolDown = iota // a throttle's for the same caller, every other for the fleet
	CoolDownFleet                  // for all
	CoolDownCaller                 // for the same caller
	CoolDownOff                    // for this attempt alone
)

var coolDownNames = [...]string{"auto", "fleet", "caller", "off"}

// String is the scope's word in a policy.
func (c CoolDown) String() string { return coolDownNames[c] }

// ForCaller says whether a wait after a failure of this kind holds for its
// caller alone.
func (c CoolDown) ForCaller(kind Kind) bool {
	return c == CoolDownCaller || c == CoolDownAuto && kind == Throttle
}

// OnStoreFailure says what answers while the fleet's state is out of reach.
type OnStoreFailure uint8

// What can answer.
const (
	StoreFailureLocal  OnStoreFailure = iota // a local bucket, this replica's share
	StoreFailureGiveUp                       // every retry is refused
	StoreFailureAllow                        // every retry is granted
)

var onStoreFailureNames = [...]string{"local", "give_up", "allow"}

// String is the word in a policy.
func (o OnStoreFailure) String() string { return onStoreFailureNames[o] }
