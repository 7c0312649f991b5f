package decider

import (
	"fmt"
	"strings"
)

// Problem is an answer other than 200: a problem document (RFC 9457) where
// decider wrote it, and the status alone where something before it did. Get at
// it with errors.As.
type Problem struct { //nolint:errname // RFC 9457's word, and the contract's
	// Type is what kind of problem it is, such as
	// "urn:decider:problem:not-valid"; "" where the answer was no problem document.
	Type string
	// Title is the kind in words.
	Title string
	// Status is the HTTP status of the answer.
	Status int
	// Detail is one English sentence on this occurrence.
	Detail string
	// Errors name every wrong field.
	Errors []FieldError
}

// FieldError is one field of a question that is wrong, missing or unknown.
type FieldError struct {
	// Field is its JSON pointer (RFC 6901); "" is the whole body.
	Field string
	// Detail is what is wrong with it.
	Detail string
}

// Error is the status, the title and what is wrong, in one line.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "decider: %d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for i, each := range p.Errors {
		sep := "; "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(&b, "%s%s %s", sep, each.Field, each.Detail)
	}
	if len(p.Errors) > 0 {
		b.WriteString(")")
	}
	return b.String()
}
