package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/policy"
)

// Contract reads and writes the contract's forms; package handlers has them.
type Contract struct {
	ReadAttempt    func(body []byte) (decide.Attempt, error)
	ReadOutcome    func(body []byte) (dependency string, o decide.Outcome, err error)
	AppendDecision func(b []byte, d *decide.Decision) []byte
}

// Suite is the cases of one file and what became of them.
type Suite struct {
	// File has the cases, Policies is the file that they test.
	File     string   `json:"file"`
	Policies string   `json:"policies"`
	Tests    []Result `json:"tests"`
	// Untouched is what no test has touched.
	Untouched []Untouched `json:"untouched"`
	// Rules of the policy file, and how many of them some test has touched.
	Rules   int `json:"rules"`
	Touched int `json:"touched"`
}

// Result is what became of a test.
type Result struct {
	Name   string    `json:"name"`
	Line   int       `json:"line"`
	Failed []Failure `json:"failed"`
}

// Failure is an answer that is not what was expected.
type Failure struct {
	// Line is the step's, and Time which of its attempts it is.
	Line int   `json:"line"`
	Time int64 `json:"time"`
	// Attempt in JSON, Message is the answer's.
	Attempt json.RawMessage `json:"attempt"`
	Message string          `json:"message"`
	Differ  []Difference    `json:"differ"`
	// Trace is every question with its answer.
	Trace []string `json:"trace"`
}

// Run runs every test of a file of cases.
func Run(file string, cases *policy.Cases, set *policy.Set, contract Contract) (*Suite, error) {
	suite := &Suite{File: file, Policies: set.Source(), Tests: []Result{}}
	touched := newCoverage()
	for i := range cases.Tests {
		p := newPlay(&cases.Tests[i], set, contract, touched)
		result, err := p.run()
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, p.line, err)
		}
		suite.Tests = append(suite.Tests, result)
	}
	touched.report(suite, set)
	return suite, nil
}

// Failed is how many tests failed.
func (s *Suite) Failed() (n int) {
	for _, t := range s.Tests {
		if len(t.Failed) > 0 {
			n++
		}
	}
	return n
}

// play is one test while it runs.
type play struct {
	test     *policy.Case
	set      *policy.Set
	contract Contract
	touched  *coverage

	now     time.Time
	memory  *budget.Memory
	fleet   *budget.Fleet
	decider *decide.Decider
	drawn   int
	seeded  *decide.Mulberry32 // nil without a seed
	line    int
	// compared is what the candidate came to on the last attempt.
	compared *decide.Comparison
}

func newPlay(test *policy.Case, set *policy.Set, contract Contract, touched *coverage) *play {
	p := &play{test: test, set: set, contract: contract, touched: touched, now: test.At, line: test.Line}
	clock := func() time.Time { return p.now }
	p.memory = budget.NewMemory(clock)
	p.fleet = budget.NewFleet(p.memory)
	ids := 0
	p.decider = &decide.Decider{Policies: set, Fleet: p.fleet, Now: clock, Random: p.random(), Trials: p,
		NewID: func() string { ids++; return fmt.Sprint("test-", ids) }}
	return p
}

// random draws the floats that the test names, one half where it names none.
func (p *play) random() func() float64 {
	if p.test.Seed != nil {
		p.seeded = decide.NewMulberry32(*p.test.Seed)
		return p.seeded.Float64
	}
	return func() float64 {
		if len(p.test.Random) == 0 {
			return 0.5
		}
		x := p.test.Random[p.drawn%len(p.test.Random)]
		p.drawn++
		return x
	}
}

// AskLater answers a candidate's question at once.
func (p *play) AskLater(q *decide.Question, answered func(decide.Answer)) {
	p.fleet.AskLater(q, answered)
}

// Compared keeps what a candidate came to.
func (p *play) Compared(c *decide.Comparison) { p.compared = c }

func (p *play) run() (Result, error) {
	result := Result{Name: p.test.Name, Line: p.test.Line, Failed: []Failure{}}
	for _, s := range p.test.State {
		rule, bucket, err := p.set.Find(s.Dependency)
		if err != nil {
			return result, fmt.Errorf("the state of %s: %w", s.Dependency, err)
		}
		p.memory.Arrange(bucket, rule, budget.Arrangement{Tokens: s.Tokens, CoolDown: s.CoolDown, Override: s.Override, Breaker: s.Breaker})
	}
	for i := range p.test.Steps {
		failed, err := p.step(&p.test.Steps[i])
		if err != nil {
			return result, err
		}
		result.Failed = append(result.Failed, failed...)
	}
	return result, nil
}

func (p *play) step(s *policy.CaseStep) ([]Failure, error) {
	p.line = s.Line
	p.now = p.now.Add(time.Duration(s.Wait) * time.Millisecond)
	switch {
	case s.Report != nil:
		return nil, p.report(s)
	case s.Attempt != nil:
		return p.attempt(s)
	}
	return nil, nil
}

func (p *play) report(s *policy.CaseStep) error {
	dependency, o, err := p.contract.ReadOutcome(s.Report)
	if err != nil {
		return err
	}
	if o.Policy, o.Bucket, err = p.set.Find(dependency); err != nil {
		return fmt.Errorf("the report of %s: %w", dependency, err)
	}
	p.fleet.Report(context.Background(), &o)
	return nil
}

// attempt makes an attempt so many times, and stops at the first that differs:
// what follows would differ for the same reason.
func (p *play) attempt(s *policy.CaseStep) ([]Failure, error) {
	a, err := p.contract.ReadAttempt(s.Attempt)
	if err != nil {
		return nil, err
	}
	for n := int64(1); n <= s.Times; n++ {
		trace, err := p.explain(&a)
		if err != nil {
			return nil, err
		}
		p.compared = nil
		d, err := p.decider.Decide(context.Background(), &a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Dependency, err)
		}
		p.touched.touch(&a, &d, p.compared)
		differ, err := p.compare(s.Expect, &d)
		if err != nil {
			return nil, err
		}
		if len(differ) > 0 {
			return []Failure{{Line: s.Line, Time: n, Attempt: s.Attempt, Message: d.Message(), Differ: differ, Trace: trace}}, nil
		}
	}
	return nil, nil
}

// explain tells every question of an attempt that is about to be made. It changes
// nothing, and what it draws will be drawn again.
func (p *play) explain(a *decide.Attempt) ([]string, error) {
	drawn := p.drawn
	var seeded decide.Mulberry32
	if p.seeded != nil {
		seeded = *p.seeded
	}
	var trace decide.Trace
	if _, err := p.decider.Explain(context.Background(), a, &trace); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Dependency, err)
	}
	if p.drawn = drawn; p.seeded != nil {
		*p.seeded = seeded
	}
	list := make([]string, 0, len(trace.Steps))
	for _, s := range trace.Steps {
		list = append(list, fmt.Sprintf("%d %s %s", s.Step, s.Question, s.Answer))
	}
	return list, nil
}
