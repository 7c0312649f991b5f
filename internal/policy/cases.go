package policy

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Cases are what a policy file is expected to answer, from a file beside it. It
// is as strict as the policy file: every mistake is told at its place.
type Cases struct {
	// Policies is the policy file as the file names it, "" where it names none.
	Policies string
	Tests    []Case
}

// Case is one test: steps in order, on a state of its own.
type Case struct {
	Name string
	Line int
	// At is its clock at the beginning.
	At time.Time
	// Random are the floats that are drawn, again and again; Seed, where it is
	// there, draws them by mulberry32 instead.
	Random []float64
	Seed   *uint32
	State  []CaseState
	Steps  []CaseStep
}

// CaseState is what a dependency's bucket holds at the beginning.
type CaseState struct {
	Dependency string
	// Tokens in millionths; nil: full.
	Tokens *decide.Micro
	// CoolDown is what is left of it, in ms.
	CoolDown int64
	Override decide.OverrideMode
	Breaker  decide.BreakerState
}

// CaseStep is one step: a wait, then a report or an attempt.
type CaseStep struct {
	Line int
	Wait int64 // in ms
	// Report is an outcome and Attempt an attempt in JSON, as the contract has
	// them; nil where the step has none.
	Report, Attempt []byte
	// Times the attempt is made.
	Times int64
	// Expect is what is expected of every answer.
	Expect []Expectation
}

// Expectation is a member of a Decision, or candidate, and its value in JSON.
type Expectation struct {
	Line  int
	Key   string
	Value any
}

// Form says what is wrong with an attempt or an outcome in JSON: JSON pointers
// and sentences. The contract's reader does it.
type Form func(body []byte) []FormError

// FormError is one wrong member.
type FormError struct{ Pointer, Detail string }

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

// LoadCases reads a file of cases.
func LoadCases(path string, attempt, outcome Form) (*Cases, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseCases(path, src, attempt, outcome)
}

// ParseCases reads the text of a file of cases. The error is an [*Error] with
// every mistake.
func ParseCases(name string, src []byte, attempt, outcome Form) (*Cases, error) {
	s, src := newSource(name, src)
	var words casesWords
	root := s.tree(src)
	switch {
	case root == nil:
		return nil, s.err()
	case root.kind != mapping:
		s.wrongAt(root, `a file of cases must be a mapping of words such as "tests:", not %s`, root.describe())
		return nil, s.err()
	}
	s.group(root, reflect.ValueOf(&words).Elem(), "")
	if words.Version == nil {
		s.wrongAt(root, `the file must say "version: 1"`)
	}
	if len(said(words.Tests)) == 0 && root.get("tests") == nil {
		s.wrongAt(root, "the file has no tests")
	}
	cases := &Cases{Policies: string(said(words.Policies))}
	for _, t := range said(words.Tests) {
		cases.Tests = append(cases.Tests, s.test(&t, attempt, outcome))
	}
	return cases, s.err()
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

// test is the case of a test's words.
func (s *source) test(t *located[caseWords], attempt, outcome Form) Case {
	w := &t.words
	c := Case{Name: string(said(w.Name)), Line: t.node.line, At: time.Time(said(w.At)), Random: said(w.Random)}
	if w.Name == nil && t.node.kind == mapping {
		s.wrongAt(t.node, "a test needs a name")
	}
	if w.At == nil {
		c.At = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	if w.Seed != nil {
		seed := uint32(*w.Seed)
		c.Seed = &seed
		if w.Random != nil {
			s.wrongAt(t.node.get("random"), "a test has either random or seed")
		}
	}
	for _, each := range said(w.State) {
		c.State = append(c.State, caseState(&each))
	}
	single := w.Attempt != nil || w.Report != nil || w.Expect != nil || w.Times != nil || w.Wait != nil
	switch {
	case single && w.Steps != nil:
		s.wrongAt(t.node.get("steps"), "a test has either steps or one attempt of its own")
	case single:
		c.Steps = []CaseStep{s.step(&located[stepWords]{node: t.node, words: w.stepWords}, attempt, outcome)}
	case w.Steps == nil && t.node.kind == mapping && t.node.get("steps") == nil:
		s.wrongAt(t.node, "a test needs an attempt, or steps")
	}
	for _, each := range said(w.Steps) {
		c.Steps = append(c.Steps, s.step(&each, attempt, outcome))
	}
	return c
}

func caseState(p *located[stateWords]) CaseState {
	c := CaseState{Dependency: p.name, CoolDown: int64(said(p.words.CoolDown))}
	if p.words.Tokens != nil && p.words.Tokens.Rat != nil {
		tokens := units(p.words.Tokens.Rat, 6)
		c.Tokens = &tokens
	}
	c.Override, _ = decide.ParseOverride(string(said(p.words.Override)))
	switch said(p.words.Breaker) {
	case "closed":
		c.Breaker = decide.BreakerClosed
	case "open":
		c.Breaker = decide.BreakerOpen
	case "half_open":
		c.Breaker = decide.BreakerHalfOpen
	}
	return c
}

func (s *source) step(p *located[stepWords], attempt, outcome Form) CaseStep {
	w := &p.words
	step := CaseStep{Line: p.node.line, Wait: int64(said(w.Wait)), Times: max(int64(said(w.Times)), 1), Expect: said(w.Expect)}
	switch {
	case w.Attempt != nil && w.Report != nil:
		s.wrongAt(p.node.get("report"), "a step has either an attempt or a report")
	case w.Attempt != nil:
		step.Attempt = s.form(w.Attempt.node, attempt)
		if w.Expect == nil {
			s.wrongAt(p.node.get("attempt"), "nothing is expected of this attempt; expect: {} expects an answer alone")
		}
		return step
	case w.Report != nil:
		step.Report = s.form(w.Report.node, outcome)
	case w.Wait == nil && p.node.kind == mapping:
		s.wrongAt(p.node, "a step needs an attempt, a report or a wait")
	}
	for _, word := range []string{"expect", "times"} {
		if n := p.node.get(word); n != nil {
			s.wrongAt(n, "%s is of an attempt", word)
		}
	}
	return step
}

// form writes a mapping as JSON and notes what the contract finds wrong in it, at
// the members' places.
func (s *source) form(n *node, wrong Form) []byte {
	if n.kind != mapping {
		return nil // told already
	}
	text, err := json.Marshal(n.value())
	if err != nil {
		s.wrongAt(n, "this cannot be written as JSON")
		return nil
	}
	for _, e := range wrong(text) {
		s.wrongAt(n.place(e.Pointer), "%s", strings.TrimSpace(strings.TrimPrefix(e.Pointer, "/")+" "+e.Detail))
	}
	return text
}

// place is where a JSON pointer leads: the name of a member that has no members
// itself, or as far as there is something.
func (n *node) place(pointer string) *node {
	at := n
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		i := slices.IndexFunc(at.members, func(m member) bool { return m.name == fromPointer.Replace(name) })
		switch {
		case i < 0:
			return at
		case len(at.members[i].value.members) == 0:
			return at.members[i].key
		}
		at = at.members[i].value
	}
	return at
}

var fromPointer = strings.NewReplacer("~1", "/", "~0", "~")

// value is what the node is in JSON.
func (n *node) value() any {
	switch n.kind {
	case mapping:
		object := make(map[string]any, len(n.members))
		for _, m := range n.members {
			object[m.name] = m.value.value()
		}
		return object
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.value()
		}
		return items
	case plain:
		if b, ok := n.bool(); ok {
			return b
		}
		if isNumber(n.text) && json.Valid([]byte(n.text)) {
			return json.Number(n.text)
		}
		return n.text
	case null:
		return nil
	}
	return n.text
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
