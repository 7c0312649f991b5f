package handlers

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// The contract's forms for those that write and read them elsewhere: the
// decision log, its replay, and the cases beside a policy file.

// ReadAttempt reads an Attempt in JSON as POST /v1/decide does. Of what is wrong
// with it [WrongFields] tells the places.
func ReadAttempt(body []byte) (decide.Attempt, error) {
	if len(body) > maxBody {
		return decide.Attempt{}, tooLargeError(maxBody)
	}
	x := exchanges.Get().(*exchange)
	defer x.release()
	x.body.Reset()
	x.body.Write(body)
	x.reader.reset(&x.body)
	if err := x.reader.attempt(&x.draft); err != nil {
		return decide.Attempt{}, err
	}
	if err := x.reader.end(); err != nil {
		return decide.Attempt{}, err
	}
	return x.draft.attempt, nil
}

// WrongFields are the fields that an error of [ReadAttempt] names, none where the
// attempt as a whole could not be read.
func WrongFields(err error) []gen.FieldError {
	var wrong *notValidError
	var broken *notJSONError
	switch {
	case errors.As(err, &wrong):
		return wrong.errors
	case errors.As(err, &broken):
		return broken.errors
	}
	return nil
}

// AppendDecision writes a Decision as POST /v1/decide answers it.
func AppendDecision(b []byte, d *decide.Decision) []byte { return appendDecision(b, d) }

// AppendAttempt writes an Attempt as POST /v1/decide takes it: what
// [ReadAttempt] reads of it is the same attempt.
func AppendAttempt(b []byte, a *decide.Attempt) []byte {
	b = appendString(append(b, `{"dependency":`...), a.Dependency)
	b = appendString(append(b, `,"method":`...), a.Method)
	b = appendFailure(b, a.Failure)
	if a.Idempotent != decide.Unsaid {
		b = strconv.AppendBool(append(b, `,"idempotent":`...), a.Idempotent == decide.Yes)
	}
	b = appendTrue(b, `,"has_idempotency_key":`, a.HasIdempotencyKey)
	b = appendHeaders(b, &a.Headers)
	b = appendPositive(b, `,"attempt":`, a.Number)
	b = appendMillis(b, `,"remaining_ms":`, a.Remaining)
	b = appendMillis(b, `,"min_attempt_ms":`, a.MinAttempt)
	b = appendPositive(b, `,"previous_delay_ms":`, a.PreviousDelay)
	b = appendText(b, `,"caller":`, a.Caller)
	b = appendPositive(b, `,"inbound_attempt":`, a.InboundAttempt)
	b = appendTrue(b, `,"retried_below":`, a.RetriedBelow)
	b = appendText(b, `,"decision_id":`, a.DecisionID)
	return append(b, '}')
}

func appendFailure(b []byte, f decide.Failure) []byte {
	if f.IsStatus() {
		return append(append(b, `,"status":`...), f.String()...)
	}
	if _, ok := decide.ParseOutcome(f.String()); ok {
		return appendText(b, `,"outcome":`, f.String())
	}
	return appendText(b, `,"grpc_status":`, f.String())
}

func appendHeaders(b []byte, h *decide.Headers) []byte {
	count := 0
	for _, header := range append(decide.HonourableHeaders(), decide.DateHeader) {
		value, ok := h.Get(header)
		if !ok {
			continue
		}
		if count++; count == 1 {
			b = append(b, `,"headers":{`...)
		} else {
			b = append(b, ',')
		}
		b = append(appendString(b, header.String()), ':')
		b = appendString(b, value)
	}
	if count > 0 {
		b = append(b, '}')
	}
	return b
}

func appendTrue(b []byte, member string, value bool) []byte {
	if !value {
		return b
	}
	return append(append(b, member...), "true"...)
}

func appendPositive(b []byte, member string, n int64) []byte {
	if n <= 0 {
		return b
	}
	return strconv.AppendInt(append(b, member...), n, 10)
}

func appendText(b []byte, member, text string) []byte {
	if text == "" {
		return b
	}
	return appendString(append(b, member...), text)
}

// ReadOutcome reads one outcome of a report in JSON, with its dependency.
func ReadOutcome(body []byte) (dependency string, o decide.Outcome, err error) {
	r := reader{}
	r.reset(bytes.NewBuffer(body))
	if err := r.outcome(&dependency, &o); err != nil {
		return "", o, err
	}
	return dependency, o, r.end()
}
