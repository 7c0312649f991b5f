package decide

import "strings"

// MaxMillis is the largest number of milliseconds that decider accepts or
// answers: 2^53 - 1, which every JSON reader holds exactly.
const MaxMillis = 1<<53 - 1

// MaxDelayMillis is the longest delay decider ever asks for: timers of several
// languages count milliseconds in 31 bits and fire at once beyond.
const MaxDelayMillis = 1<<31 - 1

// MaxAttempt is the largest number an attempt can have.
const MaxAttempt = 1<<31 - 1

// Attempt is one failed attempt as its caller reports it. The zero value of an
// optional member means that it was not given.
type Attempt struct {
	// Dependency is the name of what was called.
	Dependency string
	// Method is the HTTP method, registered ones in any case.
	Method string
	// Failure says how the attempt ended.
	Failure Failure
	// Idempotent is the caller's own knowledge, which overrides the method's default.
	Idempotent Knowledge
	// HasIdempotencyKey says that every attempt of this call carries the same key.
	HasIdempotencyKey bool
	// Headers are the response's headers that a policy can honour.
	Headers Headers
	// Number is the attempt that has just failed, the first call is 1; 0 reads as 1.
	Number int64
	// Remaining is what is left of the caller's deadline in ms; absent: no deadline.
	Remaining Millis
	// MinAttempt is the least time in ms in which another attempt can succeed;
	// where present it overrides the policy's.
	MinAttempt Millis
	// PreviousDelay is the wait in ms before this attempt (decorrelated jitter).
	PreviousDelay int64
	// Caller names who is asking; "" is the unnamed caller.
	Caller string
	// InboundAttempt is the attempt number that came with the request being
	// served; 0: not given.
	InboundAttempt int64
	// RetriedBelow: the dependency says that it has already retried by itself.
	RetriedBelow bool
	// DecisionID makes asking twice spend once; "" where the caller chose none.
	DecisionID string
}

// Millis is a number of milliseconds that may be absent.
type Millis struct {
	Value   int64
	Present bool
}

// Some is a number of milliseconds that is present.
func Some(ms int64) Millis { return Millis{Value: ms, Present: true} }

// Knowledge is what a caller says of itself, or nothing.
type Knowledge uint8

// The three things that a caller can say.
const (
	Unsaid Knowledge = iota
	No
	Yes
)

// Failure is how an attempt ended: an HTTP status, an outcome of the
// transport, or a gRPC code. The zero Failure stands for none given.
type Failure uint16

// Outcomes of the transport, where no response came.
const (
	Timeout           Failure = 1000 + iota // no answer in time; the call may have been acted on
	ConnectTimeout                          // no connection in time; never sent
	ConnectionRefused                       // never sent
	ConnectionReset                         // may have been acted on
	ConnectionClosed                        // closed without an answer; may have been acted on
	DNSFailure                              // the name did not resolve now; never sent
	TLSFailure                              // certificate or version refused
	NotProcessed                            // HTTP/2 REFUSED_STREAM, or GOAWAY below this stream (RFC 9113 §8.7)
	CanceledByCaller                        // nobody waits for the answer any more
	CallerBreakerOpen                       // the caller's own breaker refused the call
	grpcFirst
)

// gRPC codes, in the order of google/rpc/code.proto.
const (
	grpcOK Failure = grpcFirst + iota
	grpcCancelled
	grpcUnknown
	grpcInvalidArgument
	grpcDeadlineExceeded
	grpcNotFound
	grpcAlreadyExists
	grpcPermissionDenied
	grpcResourceExhausted
	grpcFailedPrecondition
	grpcAborted
	grpcOutOfRange
	grpcUnimplemented
	grpcInternal
	grpcUnavailable
	grpcDataLoss
	grpcUnauthenticated
	failureCount
)

var outcomeNames = [...]string{
	"timeout", "connect_timeout", "connection_refused", "connection_reset", "connection_closed",
	"dns_failure", "tls_failure", "not_processed", "canceled", "breaker_open",
}

var grpcNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// Status is the failure of an HTTP status, 100 to 999 (RFC 9110 §15);
// ok is false for any other number.
func Status(code int) (f Failure, ok bool) {
	if code < 100 || code > 999 {
		return 0, false
	}
	return Failure(code), true
}

// ParseOutcome reads an outcome of the transport by its word, such as "timeout".
func ParseOutcome(word string) (f Failure, ok bool) {
	return indexed(outcomeNames[:], word, Timeout)
}

// ParseGRPC reads a gRPC code by its name, such as "UNAVAILABLE".
func ParseGRPC(name string) (f Failure, ok bool) {
	return indexed(grpcNames[:], name, grpcFirst)
}

func indexed(names []string, word string, first Failure) (Failure, bool) {
	for i, name := range names {
		if name == word {
			return first + Failure(i), true
		}
	}
	return 0, false
}

// Outcomes lists the words of the transport's outcomes.
func Outcomes() []string { return append([]string(nil), outcomeNames[:]...) }

// GRPCCodes lists the names of the gRPC codes.
func GRPCCodes() []string { return append([]string(nil), grpcNames[:]...) }

// IsStatus says whether the failure is an HTTP status.
func (f Failure) IsStatus() bool { return f >= 100 && f <= 999 }

// String is the status in digits, or the outcome's or code's word.
func (f Failure) String() string {
	switch {
	case f.IsStatus():
		return string([]byte{'0' + byte(f/100), '0' + byte(f/10%10), '0' + byte(f%10)})
	case f >= Timeout && f < grpcFirst:
		return outcomeNames[f-Timeout]
	case f >= grpcFirst && f < failureCount:
		return grpcNames[f-grpcFirst]
	}
	return "none"
}

// idempotentMethods are those that RFC 9110 §9.2.2 defines as idempotent, and
// QUERY (draft-ietf-httpbis-safe-method-w-body). The list is closed.
var idempotentMethods = [...]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY"}

// IdempotentMethod says whether repeating the method has the effect of sending
// it once. Registered methods count in any case; an unknown one does not.
func IdempotentMethod(method string) bool {
	return containsFold(idempotentMethods[:], method)
}

func containsFold(list []string, word string) bool {
	for _, each := range list {
		if len(each) == len(word) && (each == word || strings.EqualFold(each, word)) {
			return true
		}
	}
	return false
}

// Failures lists every failure that can be reported: statuses 100 to 999, then
// outcomes, then gRPC codes.
func Failures() []Failure {
	var all []Failure
	for f := Failure(100); f < failureCount; f++ {
		all = append(all, f) // outcomes begin right behind the last status
	}
	return all
}
