package policy

import (
	"encoding/json"
	"os"
	"reflect"
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
