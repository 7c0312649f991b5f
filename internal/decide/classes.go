package decide

// Class says who may repeat an attempt that failed so.
type Class uint8

// The classes of failures (DESIGN §4).
const (
	// Final: it will fail the same way again; nobody repeats it.
	Final Class = iota
	// NeverSent: never sent or never processed; any method may repeat it.
	NeverSent
	// Ambiguous: it may have been acted on; an idempotent method or a key may repeat it.
	Ambiguous
	// NotAFailure: nothing to repeat.
	NotAFailure
	// Canceled: the caller left.
	Canceled
	// CallerBreaker: the caller's own breaker refused the call.
	CallerBreaker
)

var classNames = [...]string{"final", "never_sent", "ambiguous", "not_a_failure", "canceled", "breaker_open"}

// String is the class's word.
func (c Class) String() string { return classNames[c] }

// Kind is a trait of a failure apart from its class: the budget's cost and the
// backoff may differ by it.
type Kind uint8

// The kinds. No failure has two.
const (
	Plain Kind = iota
	Throttle
	Timing
	kindCount
)

var kindNames = [...]string{"default", "throttle", "timeout"}

// String is the kind's word in a policy.
func (k Kind) String() string { return kindNames[k] }

// Kind is the failure's: 429, 529 and RESOURCE_EXHAUSTED throttle; timeouts of
// any sort, 504, 524 and DEADLINE_EXCEEDED time out.
func (f Failure) Kind() Kind {
	switch f {
	case 429, 529, grpcResourceExhausted:
		return Throttle
	case Timeout, ConnectTimeout, 504, 524, grpcDeadlineExceeded:
		return Timing
	}
	return Plain
}

// OneShot says whether the failure is worth one retry and no more: 421 on
// another connection (RFC 9110 §15.5.20), 425 without early data (RFC 8470 §5.2).
func (f Failure) OneShot() bool { return f == 421 || f == 425 }

// hint is what the retry after this failure must heed.
func (f Failure) hint() Hints {
	switch f {
	case 421, ConnectionRefused, ConnectionReset, ConnectionClosed:
		return NewConnection
	case 425:
		return NoEarlyData
	}
	return 0
}

// finalServerErrors are the 5xx that will fail the same way again. 525, 526 and
// 530 are an edge network's words for bad certificates and wrapped errors.
var finalServerErrors = [...]Failure{501, 505, 506, 507, 508, 510, 511, 525, 526, 530}

// ambiguousServerErrors are the 5xx of the contract's table; the rest are
// unlisted and follow what is said of 500.
var ambiguousServerErrors = [...]Failure{500, 502, 503, 504, 520, 521, 522, 523, 524, 527, 529}

func listed(f Failure) bool {
	for _, each := range finalServerErrors {
		if f == each {
			return true
		}
	}
	for _, each := range ambiguousServerErrors {
		if f == each {
			return true
		}
	}
	return f < 500 || f > 999
}

// followed is the failure whose class f has where nothing is said of f itself:
// 500 for unlisted 5xx and 600 to 999 (RFC 9110 §15), the HTTP status of
// google/rpc/code.proto for the gRPC codes that can be retried, else f.
func followed(f Failure) Failure {
	switch {
	case f == grpcUnavailable:
		return 503
	case f == grpcResourceExhausted:
		return 429
	case f == grpcDeadlineExceeded:
		return 504
	case !listed(f):
		return 500
	}
	return f
}

// builtIn is the class of a failure before any policy edits it.
func builtIn(f Failure) Class {
	switch f = followed(f); {
	case f == CanceledByCaller, f == grpcCancelled:
		return Canceled
	case f == CallerBreakerOpen:
		return CallerBreaker
	case f < 400, f == grpcOK:
		return NotAFailure
	case f == ConnectionRefused, f == ConnectTimeout, f == DNSFailure, f == NotProcessed, f == 421, f == 425:
		return NeverSent
	case f == Timeout, f == ConnectionReset, f == ConnectionClosed, f == 408, f == 429:
		return Ambiguous
	case f >= 500 && f <= 999 && !isFinalServerError(f):
		return Ambiguous
	}
	return Final
}

func isFinalServerError(f Failure) bool {
	for _, each := range finalServerErrors {
		if f == each {
			return true
		}
	}
	return false
}

// Editable says whether a policy may name the failure: statuses from 400 and
// outcomes that are the dependency's own.
func (f Failure) Editable() bool {
	return f >= 400 && f <= 999 || f >= Timeout && f < CanceledByCaller
}

// Classes holds the class of every failure under one policy. It is made by
// [ClassesBuilder] and does not change afterwards.
type Classes struct {
	of [failureCount]classEntry
}

// classEntry packs a class with the condition that a readable wait came along.
type classEntry uint8

const onlyWithWait classEntry = 0x80

// StandardClasses is the contract's own table: 413 is ambiguous with a readable
// Retry-After (RFC 9110 §15.5.14) and final without.
var StandardClasses = NewClassesBuilder().Build()

// Of is the class of a failure; withWait says whether the server's wait was
// readable. A nil Classes is [StandardClasses].
func (c *Classes) Of(f Failure, withWait bool) Class {
	if c == nil {
		c = StandardClasses
	}
	if f >= failureCount {
		return Final
	}
	e := c.of[f]
	if e&onlyWithWait != 0 && !withWait {
		return Final
	}
	return Class(e &^ onlyWithWait)
}

// OnlyWithWait says whether the failure is retried only with a readable wait.
func (c *Classes) OnlyWithWait(f Failure) bool {
	return f < failureCount && c.of[f]&onlyWithWait != 0
}

// ClassesBuilder applies the edits of policies in layers: built-in, preset,
// rule. In every layer call the methods in the order Only, Add, Remove,
// WithWait, Unprocessed; the last word on a failure wins.
type ClassesBuilder struct {
	said        map[Failure]Class // what the layers say of exactly this failure
	exact       bool              // nothing is retried that was not named
	withWait    map[Failure]bool
	unprocessed map[Failure]bool
}

// NewClassesBuilder starts from the contract's own table.
func NewClassesBuilder() *ClassesBuilder {
	return &ClassesBuilder{said: map[Failure]Class{}, withWait: map[Failure]bool{413: true}, unprocessed: map[Failure]bool{}}
}

// Only forgets the layers below: exactly these failures are retried, each in
// its built-in class, and ambiguous where that is final.
func (b *ClassesBuilder) Only(failures []Failure) {
	b.said, b.withWait, b.exact = map[Failure]Class{}, map[Failure]bool{}, true
	for _, f := range failures {
		b.said[f] = Ambiguous
		if builtIn(f) == NeverSent {
			b.said[f] = NeverSent
		}
	}
}

// Add makes failures ambiguous.
func (b *ClassesBuilder) Add(failures []Failure) { b.say(failures, Ambiguous) }

// Remove makes failures final, with or without a wait.
func (b *ClassesBuilder) Remove(failures []Failure) { b.say(failures, Final) }

func (b *ClassesBuilder) say(failures []Failure, c Class) {
	for _, f := range failures {
		b.said[f] = c
		delete(b.withWait, f)
	}
}

// WithWait replaces the list of failures that are retried only where a readable
// wait came along.
func (b *ClassesBuilder) WithWait(failures []Failure) {
	b.withWait = map[Failure]bool{}
	for _, f := range failures {
		b.withWait[f] = true
	}
}

// Unprocessed replaces the list of failures that the dependency answers before
// it acts, so that any method may repeat them.
func (b *ClassesBuilder) Unprocessed(failures []Failure) {
	b.unprocessed = map[Failure]bool{}
	for _, f := range failures {
		b.unprocessed[f] = true
	}
}

// Retryable says whether the failure is retried at all as the layers stand.
func (b *ClassesBuilder) Retryable(f Failure) bool {
	c := Class(b.entry(f) &^ onlyWithWait)
	return c == Ambiguous || c == NeverSent
}

// Build makes the table.
func (b *ClassesBuilder) Build() *Classes {
	c := new(Classes)
	for f := Failure(0); f < failureCount; f++ {
		c.of[f] = b.entry(f)
	}
	return c
}

func (b *ClassesBuilder) entry(f Failure) classEntry {
	class, wait, subject := b.class(f)
	if wait && class == Final {
		class = Ambiguous
	}
	if class == Ambiguous && (b.unprocessed[f] || b.unprocessed[subject]) {
		class = NeverSent
	}
	if wait && (class == Ambiguous || class == NeverSent) {
		return classEntry(class) | onlyWithWait
	}
	return classEntry(class)
}

// class is what is said of f, or of the failure that f follows.
func (b *ClassesBuilder) class(f Failure) (c Class, wait bool, subject Failure) {
	subject = f
	if _, ok := b.said[f]; !ok && !b.withWait[f] && !(b.exact && f.IsStatus()) {
		subject = followed(f)
	}
	if c, ok := b.said[subject]; ok {
		return c, b.withWait[subject], subject
	}
	if c = builtIn(subject); b.exact && subject.Editable() {
		c = Final
	}
	return c, b.withWait[subject], subject
}
