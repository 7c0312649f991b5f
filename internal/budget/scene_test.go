package budget

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// script is what happens to one bucket, step by step, on every backend.
type script struct {
	name string
	// rule changes the tests' rule, under which the script begins.
	rule  func(p *decide.Policy)
	steps []step
}

// step moves the clock by so many ms, does something, and says what it must see.
type step struct {
	advance int64
	do      action
	want    string
}

// action does something to the scene's bucket and says what was seen.
type action func(s *scene) string

// scene is one backend under one rule.
type scene struct {
	t testing.TB
	b Backend
	p *decide.Policy
	c *clock
}

// play plays every script on every backend.
func play(t *testing.T, scripts []script) {
	t.Helper()
	for _, each := range scripts {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			eachBackend(t, func(t *testing.T, b Backend, c *clock) { each.play(t, b, c) })
		})
	}
}

func (s *script) play(t *testing.T, b Backend, c *clock) {
	on := &scene{t, b, testRule(s.rule), c}
	for i, each := range s.steps {
		c.advance(each.advance)
		if got := each.do(on); got != each.want {
			t.Errorf("step %d: got %q, want %q", i+1, got, each.want)
		}
	}
}

// rule changes the rule from here on, as a reload does.
func rule(change func(p *decide.Policy)) action {
	return func(s *scene) string {
		changed := *s.p
		change(&changed)
		s.p = &changed
		return ""
	}
}

// ask asks for the retry of a second attempt that failed plainly.
func ask(changes ...func(q *question)) action {
	return func(s *scene) string { return said(s.ask(changes...)) }
}

func (s *scene) ask(changes ...func(q *question)) decide.Answer {
	s.t.Helper()
	return askOnce(s.t, s.b, s.p, func(q *question) {
		for _, change := range changes {
			change(q)
		}
	})
}

// asks asks so many times and counts the verdicts.
func asks(times int, changes ...func(q *question)) action {
	return func(s *scene) string {
		counts := [len(verdictWords)]int{}
		for range times {
			counts[s.ask(changes...).Verdict]++
		}
		var parts []string
		for v, n := range counts {
			if n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, verdictWords[v]))
			}
		}
		return strings.Join(parts, ", ")
	}
}

// asksEvery asks so many times, each so many ms after the one before.
func asksEvery(times int, ms int64) action {
	return func(s *scene) string {
		granted := 0
		for range times {
			s.c.advance(ms)
			if s.ask().Verdict == decide.Granted {
				granted++
			}
		}
		return fmt.Sprintf("%d of %d granted", granted, times)
	}
}

// What a question may differ in.
func first(q *question)     { q.firsts = 1 }
func throttled(q *question) { q.kind = decide.Throttle }
func dryRun(q *question)    { q.dryRun = true }

func cost(c decide.Micro) func(q *question)  { return func(q *question) { q.cost = c } }
func from(caller string) func(q *question)   { return func(q *question) { q.caller = caller } }
func fits(ms int64) func(q *question)        { return func(q *question) { q.fit = decide.Some(ms) } }
func serverDelay(ms int64) func(q *question) { return func(q *question) { q.serverDelay = ms } }
func forCaller(ms int64) func(q *question) {
	return func(q *question) { q.serverDelay, q.forCaller = ms, true }
}
func waits(own, delay int64) func(*question) {
	return func(q *question) { q.own, q.delay = own, delay }
}
func withID(id string, attempt int64) func(q *question) {
	return func(q *question) { q.id = idKey(id, attempt) }
}

// success reports so many calls that succeeded at once.
func success(calls int64) action { return reports(report{firstTries: calls}) }

func reports(r report) action {
	return func(s *scene) string {
		run(s.t, s.b, s.p.Name, s.p, op{report: &r})
		return ""
	}
}

// tells tells of failures that were given up without a question.
func tells(f failures) action {
	return func(s *scene) string {
		run(s.t, s.b, s.p.Name, s.p, op{tell: &f})
		return ""
	}
}

// overrides sets an override for so many ms.
func overrides(mode decide.OverrideMode, ms int64) action {
	return func(s *scene) string {
		run(s.t, s.b, s.p.Name, s.p, op{override: &override{mode: mode, until: ms, author: "ann", words: "the moon"}})
		return ""
	}
}

// looks says what the state is to a caller.
func looks(caller string) action {
	return func(s *scene) string { return shown(lookAt(s.t, s.b, s.p, caller)) }
}

var verdictWords = [...]string{"granted", "paused", "open breaker", "cool-down too long", "no tokens", "unavailable"}

// said is an answer in words; what is as usual goes without saying.
func said(a decide.Answer) string {
	words := []string{verdictWords[a.Verdict]}
	if a.Budget.Asked {
		words = append(words, tokens(a.Budget))
	}
	if a.AskAgain.Present {
		words = append(words, fmt.Sprint("again ", a.AskAgain.Value))
	}
	if a.CoolDown != 0 {
		words = append(words, fmt.Sprint("cool ", a.CoolDown))
	}
	if a.Slot != 0 {
		words = append(words, fmt.Sprint("slot ", a.Slot))
	}
	if a.Breaker != decide.BreakerOff {
		words = append(words, a.Breaker.String())
	}
	if a.ReportOutcomes {
		words = append(words, "report")
	}
	if a.Replayed {
		words = append(words, fmt.Sprintf("replayed %d %d %d", a.Own, a.Delay, a.ReplayedServerDelay))
	}
	if a.Degraded {
		words = append(words, "degraded")
	}
	return strings.Join(words, " ")
}

// shown is a state in words.
func shown(s decide.State) string {
	words := []string{"no budget"}
	if s.Budget.Asked {
		words[0] = tokens(s.Budget)
	}
	if s.CoolDown != 0 {
		words = append(words, fmt.Sprint("cool ", s.CoolDown))
	}
	if s.Breaker != decide.BreakerOff {
		words = append(words, s.Breaker.String())
	}
	if o := s.Override; o.Mode != decide.OverrideNone {
		words = append(words, fmt.Sprintf("%s for %d by %s: %s", o.Mode, o.ExpiresIn, o.Author, o.Reason))
	}
	return strings.Join(words, " ")
}

func tokens(b decide.Budget) string {
	return decide.FormatMicro(b.Tokens) + "/" + decide.FormatMicro(b.Capacity)
}
