package replay

import (
	"errors"
	"io"

	"github.com/retrydecider/decider/internal/decisionlog"
)

// Source gives lines in the order of their times; io.EOF ends it.
type Source interface {
	Next() (decisionlog.Line, error)
}

// Merge gives the lines of several logs, those of a fleet's replicas, in the
// order of their times; of lines of one instant the earlier log's come first.
func Merge(logs []Source) Source {
	if len(logs) == 1 {
		return logs[0]
	}
	m := &merged{}
	for _, log := range logs {
		m.heads = append(m.heads, &head{from: log})
	}
	return m
}

type merged struct{ heads []*head }

// head is a log and its next line.
type head struct {
	from Source
	line decisionlog.Line
	full bool
}

func (m *merged) Next() (decisionlog.Line, error) {
	var first *head
	for i := 0; i < len(m.heads); {
		h := m.heads[i]
		if err := h.fill(); err != nil {
			m.heads = append(m.heads[:i], m.heads[i+1:]...)
			if errors.Is(err, io.EOF) {
				continue
			}
			return decisionlog.Line{}, err
		}
		if first == nil || h.line.Time.Before(first.line.Time) {
			first = h
		}
		i++
	}
	if first == nil {
		return decisionlog.Line{}, io.EOF
	}
	first.full = false
	return first.line, nil
}

func (h *head) fill() (err error) {
	if !h.full {
		h.line, err = h.from.Next()
		h.full = err == nil
	}
	return err
}
