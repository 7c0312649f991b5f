package decider

import "time"

// Attempt is one failed attempt of a call. Dependency, Method and exactly one
// of Status, Outcome and GRPCStatus must be set; a zero value, or nil, of
// anything else means that it is not known.
type Attempt struct {
	// Dependency is what was called. All who use the same name share its budget.
	Dependency string
	// Method is the HTTP method.
	Method string

	// Status is the HTTP status of the answer.
	Status int
	// Outcome says how the attempt ended where no answer came.
	Outcome Outcome
	// GRPCStatus is a gRPC code by its name, such as "UNAVAILABLE"; send Method
	// POST with it.
	GRPCStatus string

	// Idempotent is your own knowledge, which overrides the method's default:
	// true for a guarded write, false for a GET with effects.
	Idempotent *bool
	// HasIdempotencyKey: every attempt of this call carries the same key. The
	// key itself is never sent.
	HasIdempotencyKey bool

	// RetryAfter is the raw text of the answer's Retry-After header.
	RetryAfter string
	// ResponseDate is the raw text of the answer's Date header, from which an
	// HTTP-date in Retry-After counts.
	ResponseDate string
	// Headers are other raw headers of the answer that a policy can honor, by
	// their names, such as "Retry-After-Ms".
	Headers map[string]string

	// Number of the attempt that has just failed; 0 and 1 are the first call.
	Number int
	// Remaining is what is left of your deadline; nil, the deadline of the
	// context of Decide, if that has one.
	Remaining *time.Duration
	// MinAttempt is the least time in which another attempt can succeed; nil,
	// the policy's.
	MinAttempt *time.Duration
	// PreviousDelay is the wait before this attempt (decorrelated jitter).
	PreviousDelay time.Duration

	// Caller is who is asking; "", the client's (WithCaller).
	Caller string
	// InboundAttempt is the attempt number that came with the request that you
	// are serving; above 1, somebody above is already retrying.
	InboundAttempt int
	// RetriedBelow: the dependency says that it has already retried by itself.
	RetriedBelow bool
	// DecisionID makes asking twice spend once: the same id, dependency and
	// number are answered alike for 60 s.
	DecisionID string
}

// Outcome is how an attempt ended where no answer came.
type Outcome string

// The outcomes.
const (
	Timeout           Outcome = "timeout"            // no answer in time; it may have been acted on
	ConnectTimeout    Outcome = "connect_timeout"    // no connection or handshake in time
	ConnectionRefused Outcome = "connection_refused" // nothing listens there
	ConnectionReset   Outcome = "connection_reset"   // it may have been acted on
	ConnectionClosed  Outcome = "connection_closed"  // closed without an answer; it may have been acted on
	DNSFailure        Outcome = "dns_failure"        // only where asking again can help
	TLSFailure        Outcome = "tls_failure"        // a refused certificate or version
	NotProcessed      Outcome = "not_processed"      // HTTP/2 REFUSED_STREAM, or GOAWAY below this stream
	Canceled          Outcome = "canceled"           // nobody waits for the answer any more
	BreakerOpen       Outcome = "breaker_open"       // your own breaker refused the call
)
