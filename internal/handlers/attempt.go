package handlers

import (
	"unicode/utf8"

	"github.com/retrydecider/decider/internal/decide"
)

// Bounds of an attempt's members, as the contract has them.
const (
	maxMethod       = 64
	maxRetryAfter   = 4096
	maxResponseDate = 64
	maxHeaders      = 32
)

// keptHeader is how many bytes of a header's value are kept. A longer value is
// malformed however it goes on, and decisions are kept for a while.
const keptHeader = 257

// cutMark ends a value that was cut. No header that is read can end so.
const cutMark = "…"

// draft is an attempt that is being read, with what must be known of it until
// its last member.
type draft struct {
	attempt                decide.Attempt
	hasDependency          bool
	hasMethod              bool
	endings                int // how many of status, outcome and grpc_status were given
	ownRetryAfter, ownDate bool
	names                  [][]byte // of headers
	nameText               []byte   // what names points into
}

// attemptMembers is the contract's table of an Attempt, a rule for each member.
// A rule reads the member's value, keeps it where it is valid and notes it where not.
var attemptMembers = map[string]func(r *reader, d *draft) error{
	"dependency": func(r *reader, d *draft) error {
		d.hasDependency = true
		return r.name("/dependency", &d.attempt.Dependency)
	},
	"method": func(r *reader, d *draft) error {
		d.hasMethod = true
		return r.method("/method", &d.attempt.Method)
	},
	"status": func(r *reader, d *draft) error {
		d.endings++
		n, ok, err := r.integer("/status", 100, 999)
		if ok {
			d.attempt.Failure, _ = decide.Status(int(n))
		}
		return err
	},
	"outcome": func(r *reader, d *draft) error {
		return r.ending("/outcome", d, decide.ParseOutcome, "is not one of the outcomes")
	},
	"grpc_status": func(r *reader, d *draft) error {
		return r.ending("/grpc_status", d, decide.ParseGRPC, "is not the name of a gRPC code")
	},
	"idempotent": func(r *reader, d *draft) error {
		yes, ok, err := r.boolean("/idempotent")
		switch {
		case ok && yes:
			d.attempt.Idempotent = decide.Yes
		case ok:
			d.attempt.Idempotent = decide.No
		}
		return err
	},
	"has_idempotency_key": func(r *reader, d *draft) (err error) {
		d.attempt.HasIdempotencyKey, _, err = r.boolean("/has_idempotency_key")
		return err
	},
	"retried_below": func(r *reader, d *draft) (err error) {
		d.attempt.RetriedBelow, _, err = r.boolean("/retried_below")
		return err
	},
	"retry_after": func(r *reader, d *draft) error {
		d.ownRetryAfter = true
		return r.ownHeader("/retry_after", d, decide.RetryAfterHeader, maxRetryAfter, "must be at most 4096 characters")
	},
	"response_date": func(r *reader, d *draft) error {
		d.ownDate = true
		return r.ownHeader("/response_date", d, decide.DateHeader, maxResponseDate, "must be at most 64 characters")
	},
	"headers": (*reader).headers,
	"attempt": func(r *reader, d *draft) (err error) {
		d.attempt.Number, _, err = r.integer("/attempt", 1, decide.MaxAttempt)
		return err
	},
	"remaining_ms": func(r *reader, d *draft) error {
		return r.millis("/remaining_ms", -decide.MaxMillis, &d.attempt.Remaining)
	},
	"min_attempt_ms": func(r *reader, d *draft) error {
		return r.millis("/min_attempt_ms", 0, &d.attempt.MinAttempt)
	},
	"previous_delay_ms": func(r *reader, d *draft) (err error) {
		d.attempt.PreviousDelay, _, err = r.integer("/previous_delay_ms", 0, decide.MaxMillis)
		return err
	},
	"caller": func(r *reader, d *draft) error {
		return r.name("/caller", &d.attempt.Caller)
	},
	"inbound_attempt": func(r *reader, d *draft) (err error) {
		d.attempt.InboundAttempt, _, err = r.integer("/inbound_attempt", 1, decide.MaxMillis)
		return err
	},
	"decision_id": func(r *reader, d *draft) error {
		return r.id("/decision_id", &d.attempt.DecisionID)
	},
}

// attempt reads one Attempt into d. Its error is only that the body is not
// JSON; what is not valid is noted.
func (r *reader) attempt(d *draft) error {
	*d = draft{names: d.names[:0], nameText: d.nameText[:0]}
	entered, err := r.object("", func(name []byte) error {
		if read, known := attemptMembers[string(name)]; known {
			return read(r, d)
		}
		return r.unknown(name)
	})
	if !entered || err != nil {
		return err
	}
	if !d.hasDependency {
		r.fail("/dependency", "is required")
	}
	if !d.hasMethod {
		r.fail("/method", "is required")
	}
	if d.endings != 1 {
		r.fail("/status", "exactly one of status, outcome and grpc_status is needed")
	}
	return nil
}

// name reads the name of a dependency or caller.
func (r *reader) name(suffix string, into *string) error {
	text, err := r.string(suffix)
	switch {
	case text == nil || err != nil:
	case !validName(text):
		r.fail(suffix, nameRule)
	default:
		*into = string(text)
	}
	return err
}

// id reads a decision_id or report_id.
func (r *reader) id(suffix string, into *string) error {
	text, err := r.string(suffix)
	switch {
	case text == nil || err != nil:
	case !validID(text):
		r.fail(suffix, "must be 1 to 64 characters of A-Z a-z 0-9 _ -")
	default:
		*into = string(text)
	}
	return err
}

// commonMethods are given out without a copy of their own.
var commonMethods = [...]string{"GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"}

func (r *reader) method(suffix string, into *string) error {
	text, err := r.string(suffix)
	if text == nil || err != nil {
		return err
	}
	if !validToken(text) || len(text) > maxMethod {
		r.fail(suffix, "must be an HTTP method of at most 64 characters")
		return nil
	}
	for _, method := range commonMethods {
		if string(text) == method {
			*into = method
			return nil
		}
	}
	*into = string(text)
	return nil
}

// ending reads an outcome or a gRPC code.
func (r *reader) ending(suffix string, d *draft, parse func(string) (decide.Failure, bool), detail string) error {
	d.endings++
	text, err := r.string(suffix)
	if text == nil || err != nil {
		return err
	}
	failure, ok := parse(string(text))
	if !ok {
		r.fail(suffix, detail)
		return nil
	}
	d.attempt.Failure = failure
	return nil
}

func (r *reader) millis(suffix string, low int64, into *decide.Millis) error {
	n, ok, err := r.integer(suffix, low, decide.MaxMillis)
	if ok {
		*into = decide.Some(n)
	}
	return err
}

// ownHeader reads a member that stands for a header and wins over it.
func (r *reader) ownHeader(suffix string, d *draft, header decide.Header, longest int, detail string) error {
	text, err := r.string(suffix)
	switch {
	case text == nil || err != nil:
	case utf8.RuneCount(text) > longest:
		r.fail(suffix, detail)
	default:
		d.attempt.Headers.Set(header, headerValue(text))
	}
	return err
}

// headerValue is what is kept of a header's value.
func headerValue(text []byte) string {
	if len(text) <= keptHeader {
		return string(text)
	}
	end := keptHeader - len(cutMark)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + cutMark
}

// headers reads the raw headers of the response, and keeps those that some
// policy can honour.
func (r *reader) headers(d *draft) error {
	count := 0
	_, err := r.object("/headers", func(name []byte) error {
		count++
		return r.header(d, name, count)
	})
	if count > maxHeaders {
		r.fail("/headers", "must have at most 32 entries")
	}
	return err
}

// header reads one entry. Two names that are equal but for case are one header
// given twice; which of them the server meant nobody can say.
func (r *reader) header(d *draft, name []byte, count int) error {
	name = d.remember(name)
	if count <= maxHeaders {
		if d.sawHeader(name) {
			r.fail("/headers/"+escapePointer(string(name)), "is given twice, differing in case")
		}
		d.names = append(d.names, name)
	}
	if r.dec.PeekKind() != '"' {
		r.fail("/headers/"+escapePointer(string(name)), "must be a string")
		return r.skip()
	}
	text, err := r.string("")
	if err != nil {
		return err
	}
	header, known := decide.ParseHeader(string(name))
	if known && !d.overrides(header) {
		d.attempt.Headers.Set(header, headerValue(text))
	}
	return nil
}

// remember keeps a name beyond the next reading.
func (d *draft) remember(name []byte) []byte {
	start := len(d.nameText)
	d.nameText = append(d.nameText, name...)
	return d.nameText[start:len(d.nameText):len(d.nameText)]
}

func (d *draft) sawHeader(name []byte) bool {
	for _, seen := range d.names {
		if equalFoldASCII(seen, name) {
			return true
		}
	}
	return false
}

// overrides says whether a member of the attempt stands for the header.
func (d *draft) overrides(header decide.Header) bool {
	return header == decide.RetryAfterHeader && d.ownRetryAfter || header == decide.DateHeader && d.ownDate
}
