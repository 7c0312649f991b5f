package policytest

import (
	"slices"
	"strings"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/policy"
)

// Untouched is a rule that no test has asked, or a word of one that no test has
// made a difference by.
type Untouched struct {
	Rule string `json:"rule"`
	Line int    `json:"line"`
	// Word is "" for the rule as a whole, and Because what no test was answered.
	Word    string `json:"word,omitempty"`
	Because string `json:"because,omitempty"`
}

// coverage is what the tests have touched, by rule.
type coverage struct{ rules map[string]*touches }

type touches struct {
	reasons  map[decide.Reason]bool
	failures map[decide.Failure]bool
	unsafe   bool // a method that is not idempotent, without a key
	shadowed bool
	differed bool
}

func newCoverage() *coverage { return &coverage{map[string]*touches{}} }

func (c *coverage) touch(a *decide.Attempt, d *decide.Decision, compared *decide.Comparison) {
	t, ok := c.rules[d.Policy]
	if !ok {
		t = &touches{reasons: map[decide.Reason]bool{}, failures: map[decide.Failure]bool{}}
		c.rules[d.Policy] = t
	}
	t.reasons[d.Enforced()] = true
	t.failures[a.Failure] = true
	t.unsafe = t.unsafe || !decide.IdempotentMethod(a.Method) && !a.HasIdempotencyKey
	t.shadowed = t.shadowed || !d.ShadowReason.Retry()
	t.differed = t.differed || compared != nil && compared.Enforced != compared.Candidate
}

// shownBy are the reasons that show a word at work. Words that no test can show
// are not among them: what a word says of itself, and what holds while the store
// is out of reach.
var shownBy = map[string][]decide.Reason{
	"max_attempts":       {decide.ReasonAttemptsExhausted},
	"backoff":            {decide.ReasonBackoff},
	"retry_after":        {decide.ReasonRetryAfter, decide.ReasonServerDelayTooLong, decide.ReasonServerRefused},
	"min_attempt":        {decide.ReasonDeadline},
	"retry_layer":        {decide.ReasonNotTheRetryLayer},
	"only_first_inbound": {decide.ReasonNotTheRetryLayer},
	"budget":             {decide.ReasonBudgetExhausted},
	"breaker":            {decide.ReasonBreakerOpen},
	"cool_down":          {decide.ReasonCoolDown},
}

// why is what no test has shown of a word, "" where some has.
func (t *touches) why(w policy.SaidWord) string {
	if len(w.Failures) > 0 {
		var missing []string
		for _, f := range w.Failures {
			if !t.failures[f] {
				missing = append(missing, f.String())
			}
		}
		if len(missing) == 0 {
			return ""
		}
		return "no attempt failed with " + strings.Join(missing, ", ")
	}
	switch {
	case w.Key == "repeat" && !t.unsafe:
		return "no attempt has another method and no key"
	case w.Key == "mode" && !t.shadowed:
		return "nothing was let through in shadow"
	case w.Key == "candidate" && !t.differed:
		return "the candidate never differed"
	}
	reasons, known := shownBy[w.Key]
	if !known || slices.ContainsFunc(reasons, func(r decide.Reason) bool { return t.reasons[r] }) {
		return ""
	}
	words := make([]string, len(reasons))
	for i, r := range reasons {
		words[i] = r.String()
	}
	return "no answer was " + strings.Join(words, " or ")
}

// report says what was not touched.
func (c *coverage) report(suite *Suite, set *policy.Set) {
	suite.Untouched = []Untouched{}
	inForce := map[string]*decide.Policy{}
	for _, p := range set.Rules() {
		inForce[p.Name] = p
	}
	for _, rule := range set.Said() {
		suite.Rules++
		t, ok := c.rules[rule.Name]
		if !ok {
			suite.Untouched = append(suite.Untouched, Untouched{Rule: rule.Name, Line: rule.Line})
			continue
		}
		suite.Touched++
		for _, w := range rule.Words {
			if because := t.why(w); because != "" && !off(inForce[rule.Name], w.Key) {
				suite.Untouched = append(suite.Untouched, Untouched{rule.Name, w.Line, w.Key, because})
			}
		}
	}
}

// off says whether a word switches something off, which no answer shows.
func off(p *decide.Policy, word string) bool {
	switch word {
	case "mode":
		return !p.Shadow
	case "budget":
		return p.Budget.Off
	case "breaker":
		return p.Breaker.Mode == decide.BreakerModeOff
	case "cool_down":
		return p.CoolDown == decide.CoolDownOff
	case "retry_layer":
		return len(p.RetryLayer) == 0
	case "only_first_inbound":
		return !p.OnlyFirstInbound
	case "repeat":
		return !p.Repeat.Any && len(p.Repeat.Methods) == 0
	}
	return false
}
