package policy

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// casesWords are the words at the top of a file of cases.
type casesWords struct {
	Version  *count `json:"version" min:"1" max:"1"`
	Policies *text  `json:"policies,omitempty"`
	Tests    *tests `json:"tests"`
}

// caseWords are the words of one test. attempt, times and expect stand for one
// step.
type caseWords struct {
	Name   *text      `json:"name"`
	At     *instant   `json:"at,omitempty"`
	Random *floats    `json:"random,omitempty"`
	Seed   *count     `json:"seed,omitempty" min:"0" max:"4294967295"`
	State  *states    `json:"state,omitempty"`
	Steps  *caseSteps `json:"steps,omitempty"`
	stepWords
}

type stepWords struct {
	Wait    *millis      `json:"wait,omitempty" min:"0" max:"8760h"`
	Report  *body        `json:"report,omitempty"`
	Attempt *body        `json:"attempt,omitempty"`
	Times   *count       `json:"times,omitempty" min:"1" max:"100000"`
	Expect  *expectation `json:"expect,omitempty"`
}

type stateWords struct {
	Tokens   *number `json:"tokens,omitempty" min:"0" max:"1000000" decimals:"6"`
	CoolDown *millis `json:"cool_down,omitempty" min:"0" max:"24h"`
	Override *word   `json:"override,omitempty" enum:"pause,allow"`
	Breaker  *word   `json:"breaker,omitempty" enum:"closed,open,half_open"`
}

type (
	tests       []located[caseWords]
	caseSteps   []located[stepWords]
	states      []located[stateWords]
	instant     time.Time
	floats      []float64
	body        struct{ node *node }
	expectation []Expectation
)

// located is a group of words, its name where it has one, and its place.
type located[W any] struct {
	name  string
	node  *node
	words W
}

func (v *tests) read(s *source, n *node, w spec) { *v = readList[caseWords](s, n, w.name, "a test") }
func (v *caseSteps) read(s *source, n *node, w spec) {
	*v = readList[stepWords](s, n, w.name, "a step")
}

func readList[W any](s *source, n *node, name, what string) (all []located[W]) {
	if n.kind != list || len(n.items) == 0 {
		s.wrongAt(n, "%s must be a list of %ss, one at least, not %s", name, strings.TrimPrefix(what, "a "), n.describe())
		return nil
	}
	for _, item := range n.items {
		all = append(all, readGroup[W](s, item, "", what))
	}
	return all
}

func readGroup[W any](s *source, n *node, name, what string) (g located[W]) {
	g.name, g.node = name, n
	if n.kind != mapping {
		s.wrongAt(n, "%s must be a mapping of words, not %s", what, n.describe())
		return g
	}
	s.group(n, reflect.ValueOf(&g.words).Elem(), "")
	return g
}

func (v *states) read(s *source, n *node, w spec) {
	if n.kind != mapping {
		s.wrongAt(n, "%s must be a mapping of dependencies, not %s", w.name, n.describe())
		return
	}
	for _, m := range n.members {
		if !nameText.MatchString(m.name) {
			s.wrongAt(m.key, "no dependency can be named %q", shorten(m.name))
		}
		*v = append(*v, readGroup[stateWords](s, m.value, m.name, "a state"))
	}
}

func (v *instant) read(s *source, n *node, w spec) {
	at, err := time.Parse(time.RFC3339Nano, n.text)
	if err != nil || n.kind != plain && n.kind != quoted {
		s.wrongAt(n, "%s must be an instant such as 2026-11-30T12:00:00Z, not %s", w.name, n.describe())
	}
	*v = instant(at)
}

func (v *floats) read(s *source, n *node, w spec) {
	if n.kind != list || len(n.items) == 0 {
		s.wrongAt(n, "%s must be a list of numbers from 0 to below 1, not %s", w.name, n.describe())
		return
	}
	for _, item := range n.items {
		x, err := strconv.ParseFloat(item.text, 64)
		if err != nil || item.kind != plain || !(x >= 0 && x < 1) {
			s.wrongAt(item, "%s is drawn from 0 to below 1, not %s", w.name, item.describe())
		}
		*v = append(*v, x)
	}
}

func (v *body) read(s *source, n *node, w spec) {
	if n.kind != mapping {
		s.wrongAt(n, "%s must be a mapping, as the contract has it, not %s", w.name, n.describe())
	}
	v.node = n
}

// expectable are the members that can be expected, and the words that some of
// them can have.
var expectable = map[string][]string{
	"decision": {"retry", "give_up"}, "reason": wordsOfReasons(), "shadow_reason": wordsOfReasons(), "candidate": wordsOfReasons(),
	"retry_after": {"absent", "unused", "used", "shorter_than_backoff", "too_long", "malformed"}, "breaker": {"closed", "open", "half_open", "off"},
	"delay_ms": nil, "message": nil, "policy": nil, "next_attempt": nil, "remaining_ms": nil, "server_delay_ms": nil, "ask_again_in_ms": nil,
	"budget": nil, "degraded": nil, "hints": nil,
}

func wordsOfReasons() (list []string) {
	for _, r := range decide.Reasons() {
		list = append(list, r.String())
	}
	return list
}

func (v *expectation) read(s *source, n *node, w spec) {
	*v = expectation{}
	if n.kind != mapping {
		s.wrongAt(n, "%s must be a mapping of a decision's members, not %s", w.name, n.describe())
		return
	}
	known := make([]string, 0, len(expectable))
	for name := range expectable {
		known = append(known, name)
	}
	slices.Sort(known)
	for _, m := range n.members {
		words, ok := expectable[m.name]
		switch {
		case !ok:
			s.wrongAt(m.key, "a decision has no member %q%s", shorten(m.name), didYouMean(m.name, known))
		case words != nil && m.value.kind != null && !(m.name == "breaker" && m.value.isOff()) && !slices.Contains(words, m.value.text):
			s.wrongAt(m.value, "%s is never %s%s", m.name, m.value.describe(), didYouMean(m.value.text, words))
		case m.value.kind == mapping:
			s.checkRange(m)
		}
		value := m.value.value()
		if m.name == "breaker" && m.value.isOff() {
			value = "off"
		}
		*v = append(*v, Expectation{m.key.line, m.name, value})
	}
}

// checkRange notes what is wrong in a mapping: budget has members, and a number
// may have bounds.
func (s *source) checkRange(m member) {
	allowed := []string{"min", "max"}
	if m.name == "budget" {
		allowed = []string{"tokens", "capacity", "cost", "source"}
	}
	for _, inner := range m.value.members {
		switch {
		case !slices.Contains(allowed, inner.name):
			s.wrongAt(inner.key, "unknown word %q%s", m.name+"."+shorten(inner.name), didYouMean(inner.name, allowed))
		case m.name == "budget" && inner.value.kind == mapping:
			s.checkRange(member{name: m.name + "." + inner.name, value: inner.value})
		case m.name != "budget" && !isNumber(inner.value.text):
			s.wrongAt(inner.value, "%s.%s must be a number, not %s", m.name, inner.name, inner.value.describe())
		}
	}
}
