package simulate

import (
	"time"
)

// Model is a fleet, the dependency that it calls, and what happens to it.
type Model struct {
	// Clients that call, each an instance with its own state where a rule
	// keeps state per client.
	Clients int
	// Life is after how many calls a client is replaced by a new one; 0: never.
	Life int
	// Zipf: the busiest client calls n times as often as the n-th; else all
	// call alike.
	Zipf bool
	// FirstShare is the first client's share of all calls, 0: as all others.
	FirstShare float64
	// FirstFails: every attempt of the first client fails.
	FirstFails bool

	// Rate of new calls per second, open loop (Poisson), and later ones.
	Rate  float64
	Rates []RateStep
	// Burst of calls that start together, one by each client in turn.
	Burst   int
	BurstAt time.Duration

	// Timeout after which a client stops waiting for an attempt; 0: it does not.
	Timeout time.Duration
	// Latency of each way between client and dependency; LatencyVaries:
	// exponentially distributed.
	Latency       time.Duration
	LatencyVaries bool

	// Workers of the dependency; 0: as many as are needed. Service is the mean
	// time of one attempt, exponentially distributed.
	Workers int
	Service time.Duration
	// Queue is how many attempts wait for a worker before they are refused; 0: any number.
	Queue  int
	Faults []Fault

	// Layers of services between the caller and the dependency, each of which
	// retries; at least 1.
	Layers int
	// Scope says whose budget a retry of a layer spends.
	Scope Scope

	// Retries at most of each layer's call.
	Retries int
	// Tokens is how many a bucket holds where the scenario says; 0: as the
	// contender has it.
	Tokens int
	// Answer is how long decider takes to answer.
	Answer time.Duration
	// ReportEvery is how often a client reports its successes to decider, each
	// at its own time; 0: at once.
	ReportEvery time.Duration
	// Callers says under which names clients report to decider.
	Callers Callers

	// From and To bound the trigger, over which load, success and peak are
	// measured; recovery counts from To.
	From, To time.Duration
	// End of the run.
	End time.Duration
	// Slot is the width in which the run is counted; 0: 200 ms.
	Slot time.Duration
}

// RateStep is the rate from an instant on.
type RateStep struct {
	At   time.Duration
	Rate float64
}

// Scope says whose budget a retry of a layer spends.
type Scope uint8

// The scopes.
const (
	PerLayer Scope = iota // each layer has its own
	Shared                // all layers have one, fed by the outermost layer's calls
	Lowest                // only the layer next to the dependency retries
)

// Callers says under which names clients report to decider.
type Callers uint8

// How clients are named.
const (
	CallerEach  Callers = iota // each client has its own name
	CallerOne                  // all have one
	CallerFirst                // the first has its own, the rest have one
)

// FaultKind is what is wrong.
type FaultKind uint8

// The faults.
const (
	FaultRefuse FaultKind = iota // connections are refused within a ms
	FaultHang                    // nothing is answered
	FaultFail                    // an attempt is worked on and fails with probability P
	FaultSlow                    // the work takes Factor times as long
	FaultCut                     // only Factor of the workers work
	FaultHold                    // the network holds what is sent; what is still wanted lands together at the end
)

var faultNames = [...]string{"refuse", "hang", "fail", "slow", "cut", "hold"}

// String is the fault's word.
func (k FaultKind) String() string { return faultNames[k] }

// Fault is wrong from From until To.
type Fault struct {
	Kind     FaultKind
	From, To time.Duration
	// P is a probability, Factor a factor.
	P, Factor float64
}

const (
	maxLayers = 8
	// refusal is how long a refusal takes, in ns.
	refusal = int64(time.Millisecond)
	// defaultSlot is the width in which a run is counted.
	defaultSlot = 200 * time.Millisecond
)

func (m *Model) slot() int64 {
	if m.Slot > 0 {
		return int64(m.Slot)
	}
	return int64(defaultSlot)
}

// Capacity of the dependency in attempts per second; 0: no bound.
func (m *Model) Capacity() float64 {
	if m.Workers == 0 || m.Service == 0 {
		return 0
	}
	return float64(m.Workers) / m.Service.Seconds()
}

// nominal is the rate for which a budget is sized: the rate before anything
// happens.
func (m *Model) nominal() float64 { return m.Rate }

// rateAt is the rate at an instant, and when it next changes.
func (m *Model) rateAt(now int64) (rate float64, until int64) {
	rate, until = m.Rate, int64(m.End)
	for _, step := range m.Rates {
		if int64(step.At) <= now {
			rate = step.Rate
		} else {
			return rate, min(until, int64(step.At))
		}
	}
	return rate, until
}
