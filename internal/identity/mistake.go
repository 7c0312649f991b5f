package identity

import (
	"fmt"
	"strings"
)

// Mistake is one thing that is wrong in an auth file. It has no excerpt of the
// file: a key that was pasted into it would be in the log.
type Mistake struct {
	File         string
	Line, Column int
	// Message is one English sentence without its full stop.
	Message string
}

// String is the mistake in one line, file:line:column: message.
func (m Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Message)
}

// Error is a refused auth file.
type Error struct {
	// Mistakes are all that were found, in the order of the file.
	Mistakes []Mistake
}

// Error tells every mistake, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// quoted is a short text of the file for a message; a long one, or one with a
// key's mark in it, may be a secret.
func quoted(text string) string {
	if len(text) > 40 || strings.Contains(text, keyPrefix) {
		return "a text that may be a secret"
	}
	return fmt.Sprintf("%q", text)
}
