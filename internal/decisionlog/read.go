package decisionlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/handlers"
)

// Line is one line of a log: a decision, or an outcome.
type Line struct {
	Time   time.Time
	Config string
	// Attempt and Decision are of a decision.
	Attempt  decide.Attempt
	Decision Decision
	// Outcome is of a dependency, without its rule; nil on a decision.
	Outcome    *decide.Outcome
	Dependency string
}

// Decision is what a replay must know of what was answered.
type Decision struct {
	// Word is "retry" or "give_up".
	Word         string `json:"decision"`
	DecisionID   string `json:"decision_id"`
	Reason       string `json:"reason"`
	ShadowReason string `json:"shadow_reason"`
}

// maxLine bounds a line in bytes; a decision of the contract is far below.
const maxLine = 1 << 20

// Reader reads a log line by line in constant memory.
type Reader struct {
	name string
	in   *bufio.Reader
	line int
	text []byte
}

// NewReader reads from in; name is what its mistakes are told under.
func NewReader(name string, in io.Reader) *Reader {
	return &Reader{name: name, in: bufio.NewReaderSize(in, 256<<10)}
}

// ErrTorn says that the last line has no end, as after a crash; it was not read.
var ErrTorn = errors.New("the last line is torn, and left out")

// Next reads one line, skipping empty ones. Its error is io.EOF at the end,
// [ErrTorn] where the last line is not whole, and else says file:line.
func (r *Reader) Next() (Line, error) {
	for {
		err := r.read()
		switch {
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(r.text)) == 0:
			return Line{}, io.EOF
		case errors.Is(err, io.EOF) && !json.Valid(r.text):
			return Line{}, fmt.Errorf("%s:%d: %w", r.name, r.line, ErrTorn)
		case err != nil && !errors.Is(err, io.EOF):
			return Line{}, fmt.Errorf("%s:%d: %w", r.name, r.line, err)
		case len(bytes.TrimSpace(r.text)) == 0:
			continue
		}
		line, err := parse(r.text)
		if err != nil {
			return Line{}, fmt.Errorf("%s:%d: %w", r.name, r.line, err)
		}
		return line, nil
	}
}

// read reads the text of the next line. Its error is io.EOF where the file ends
// behind it.
func (r *Reader) read() error {
	r.line++
	r.text = r.text[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.text = append(r.text, part...)
		switch {
		case len(r.text) > maxLine:
			return fmt.Errorf("the line is longer than %d bytes", maxLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

func parse(text []byte) (Line, error) {
	var frame struct {
		Time     time.Time       `json:"time"`
		Config   string          `json:"config"`
		Caller   string          `json:"caller"`
		ReportID string          `json:"report_id"`
		Attempt  json.RawMessage `json:"attempt"`
		Decision *Decision       `json:"decision"`
		Outcome  json.RawMessage `json:"outcome"`
	}
	if err := json.Unmarshal(text, &frame); err != nil {
		return Line{}, fmt.Errorf("this is no line of a decision log: %w", err)
	}
	line := Line{Time: frame.Time, Config: frame.Config}
	switch {
	case frame.Time.IsZero():
		return Line{}, errors.New("this is no line of a decision log: it has no time")
	case frame.Outcome != nil:
		dependency, o, err := handlers.ReadOutcome(frame.Outcome)
		if err != nil {
			return Line{}, fmt.Errorf("the outcome: %w", err)
		}
		o.Caller, o.ReportID = frame.Caller, frame.ReportID
		line.Outcome, line.Dependency = &o, dependency
		return line, nil
	case frame.Attempt == nil, frame.Decision == nil:
		return Line{}, errors.New("this is no line of a decision log: it has neither an attempt and its decision nor an outcome")
	}
	var err error
	if line.Attempt, err = handlers.ReadAttempt(frame.Attempt); err != nil {
		return Line{}, fmt.Errorf("the attempt: %w", err)
	}
	line.Decision, line.Dependency = *frame.Decision, line.Attempt.Dependency
	return line, nil
}

func appendOutcome(b []byte, dependency string, o *decide.Outcome) []byte {
	b = appendText(b, "caller", o.Caller)
	b = appendText(b, "report_id", o.ReportID)
	b = append(b, `,"outcome":{"dependency":"`...)
	b = append(append(b, dependency...), '"')
	b = appendCount(b, "first_try_successes", o.FirstTrySuccesses)
	b = appendCount(b, "retry_successes", o.RetrySuccesses)
	b = appendCount(b, "final_failures", o.FinalFailures)
	return append(b, '}')
}

// appendText writes a name or an id: its letters need no escape.
func appendText(b []byte, member, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(append(b, `,"`...), member...), `":"`...)
	return append(append(b, text...), '"')
}

func appendCount(b []byte, member string, n int64) []byte {
	if n == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), member...), `":`...)
	return strconv.AppendInt(b, n, 10)
}
