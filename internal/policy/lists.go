package policy

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/retrydecider/decider/internal/decide"
)

type (
	repeat   struct{ decide.Repeat } // which methods may repeat
	names    []string                // of callers
	headers  []decide.Header         // in the order in which they are read
	failures []failure
)

// failure is a failure that a rule names, and where.
type failure struct {
	decide.Failure
	node *node
}

// candidate is a rule's second rule. It is laid over the rule that it stands in,
// wherever the word was said, so it is read like a rule and kept whole.
type candidate struct{ *rule }

func (v *candidate) read(s *source, n *node, w spec) {
	before := len(s.mistakes)
	r := &rule{name: w.name, key: n, node: n}
	s.group(n, reflect.ValueOf(&r.words.judgedWords).Elem(), w.name)
	if r.words.Retryable != nil {
		s.checkEdits(r.words.Retryable)
	}
	r.sound = len(s.mistakes) == before
	v.rule = r
}

// methodText is an HTTP token (RFC 9110 §5.6.2).
var methodText = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$")

func (v *repeat) read(s *source, n *node, w spec) {
	switch {
	case n.kind == list && len(n.items) == 0:
		s.wrongAt(n, "%s names no method; write max_attempts: 1 for no retries, or take the word out", w.name)
	case n.kind == list:
		s.each(n, w, strings.ToUpper, func(item *node) {
			if !methodText.MatchString(item.text) {
				s.wrongAt(item, "%s: %s is not an HTTP method", w.name, item.describe())
			}
			v.Methods = append(v.Methods, strings.ToUpper(item.text))
		})
	case n.text == "any" && n.kind != mapping:
		v.Any = true
	case n.text != "idempotent":
		s.wrongAt(n, "%s must be idempotent, any, or a list of methods, not %s", w.name, n.describe())
	}
}

// nameText is how a dependency and a caller are named.
var nameText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

func (v *names) read(s *source, n *node, w spec) {
	*v = names{}
	s.each(n, w, asIs, func(item *node) {
		if !nameText.MatchString(item.text) {
			s.wrongAt(item, "%s: %s is not a name; a name is 1 to 128 of A-Z a-z 0-9 . _ : / - and starts with a letter or digit", w.name, item.describe())
		}
		*v = append(*v, item.text)
	})
}

func asIs(text string) string { return text }

// each reads the members of a list of scalars, none of which may stand twice;
// same makes those alike that mean the same.
func (s *source) each(n *node, w spec, same func(string) string, read func(*node)) {
	if n.kind != list {
		s.wrongAt(n, "%s must be a list, not %s", w.name, n.describe())
		return
	}
	seen := make(map[string]bool, len(n.items))
	for _, item := range n.items {
		switch key := same(item.text); {
		case item.kind != plain && item.kind != quoted:
			s.wrongAt(item, "%s is a list of words, not of %s", w.name, item.describe())
		case seen[key]:
			s.wrongAt(item, "%s names %s twice", w.name, item.describe())
		default:
			seen[key] = true
			read(item)
		}
	}
}

func (v *headers) read(s *source, n *node, w spec) {
	*v = headers{}
	s.each(n, w, strings.ToLower, func(item *node) {
		header, ok := decide.ParseHeader(item.text)
		switch {
		case header == decide.DateHeader && ok:
			s.wrongAt(item, "%s: date is always read and is not listed", w.name)
		case !ok:
			s.wrongAt(item, "%s: %s is not a header that decider reads%s", w.name, item.describe(), didYouMean(item.text, headerNames()))
		}
		*v = append(*v, header)
	})
}

func headerNames() []string {
	var list []string
	for _, h := range decide.HonourableHeaders() {
		list = append(list, h.String())
	}
	return list
}

func (v *failures) read(s *source, n *node, w spec) {
	*v = failures{}
	s.each(n, w, asIs, func(item *node) {
		f, wrong := parseFailure(item.text)
		if wrong != "" {
			s.wrongAt(item, "%s: %s", w.name, wrong)
			return
		}
		*v = append(*v, failure{f, item})
	})
}

// parseFailure reads a status in digits or an outcome by its word; wrong says
// why a policy cannot name it.
func parseFailure(text string) (f decide.Failure, wrong string) {
	if status, err := strconv.ParseUint(text, 10, 16); err == nil && len(text) == 3 {
		f, _ = decide.Status(int(status))
		if !f.Editable() {
			wrong = fmt.Sprintf("%s is not a failure, nothing below 400 can be named", text)
		}
		return f, wrong
	}
	f, ok := decide.ParseOutcome(text)
	switch _, isGRPC := decide.ParseGRPC(strings.ToUpper(text)); {
	case ok && f.Editable():
		return f, ""
	case ok:
		return f, text + " cannot be named, it is the caller's own doing and is never retried"
	case isGRPC:
		return f, text + " is a gRPC code; name its HTTP status: UNAVAILABLE follows 503, RESOURCE_EXHAUSTED 429, DEADLINE_EXCEEDED 504"
	}
	return f, fmt.Sprintf("%q is neither a status from 400 to 999 nor an outcome%s", shorten(text), didYouMean(text, decide.Outcomes()))
}

// list are the bare failures.
func (v *failures) list() []decide.Failure {
	var bare []decide.Failure
	for _, f := range *v {
		bare = append(bare, f.Failure)
	}
	return bare
}
