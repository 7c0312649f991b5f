package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/retrydecider/decider/internal/decide"
)

// What is legal and unwise begins above these. Most clients wait 30 s for an
// answer by default, and few callers hold a request for longer than five minutes.
const (
	commonTimeout   = 30 * time.Second
	longestPatience = 5 * time.Minute
	manyAttempts    = 10
)

// WarningKinds are the ids of warnings and what each is about, in their order.
var WarningKinds = []struct{ ID, About string }{
	{"long-cap", "a wait that outlasts the timeouts that clients have"},
	{"long-retry-after", "a server's wait that no caller sits out"},
	{"many-attempts", "attempts of which the last ones add load and hardly a success"},
	{"no-jitter", "waits that are the same for a whole crowd"},
	{"no-spread", "a server's wait after which a crowd comes back at once"},
	{"deaf", "a server's wait that is not read"},
	{"retries-final", "a failure that will be the same again"},
	{"acted-on", "a failure of which nobody knows that the call was not acted on"},
	{"repeats-all", "calls that may be acted on twice"},
	{"no-bound", "retries that nothing bounds while all callers fail"},
	{"metastable", "retries that can keep a dependency down by themselves"},
	{"over-headroom", "retries that ask for more than the dependency can serve"},
	{"stops-all", "a breaker that stops first attempts too"},
	{"same-candidate", "a candidate that says what its rule says"},
	{"unused-preset", "a preset that nobody names"},
}

// adviser looks at one rule: what it says itself, and what it comes to.
type adviser struct {
	*compiler
	rule *rule
	p    *decide.Policy
}

// warn notes a warning at the first of the words that the rule itself says. What
// a layer below says is warned of there, or is a built-in preset's and published.
func (a *adviser) warn(id string, words []string, format string, args ...any) {
	for _, path := range words {
		if n := a.rule.node.at(path); n != nil {
			a.warnAt(id, n, format, args...)
			return
		}
	}
}

func (s *source) warnAt(id string, n *node, format string, args ...any) {
	s.warnings = append(s.warnings, Warning{id, s.mistake(n.line, n.column, n.path, fmt.Sprintf(format, args...))})
}

// advice is all warnings by their place, each once: a rule under two others is
// looked at twice.
func (s *source) advice() []Warning {
	slices.SortStableFunc(s.warnings, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(s.warnings)
}

// advise notes what is unwise in a sound rule.
func (c *compiler) advise(r *rule, l *layers) {
	a := &adviser{c, r, l.policy(r.name)}
	a.waits()
	a.failures()
	a.bounds()
	if a.p.Breaker.Mode == decide.BreakerModeAll {
		a.warn("stops-all", []string{"breaker.mode"}, "an open breaker of mode all stops first attempts too: where half of the calls fail, hardly any is left to succeed; retries stops the storm and lets calls through")
	}
}

// adviseCandidate notes what is unwise in a rule's own candidate.
func (c *compiler) adviseCandidate(r *rule, l *layers) {
	c.advise(r, l.candidate)
	rule, candidate := l.policy(""), l.candidate.policy("")
	rule.Candidate, rule.Shadow = nil, false
	if reflect.DeepEqual(rule, candidate) {
		c.warnAt("same-candidate", r.node, "the candidate says what its rule says: it will never differ")
	}
}

// adviseUnused notes presets that no rule names.
func (c *compiler) adviseUnused(presets rules) {
	for _, r := range presets {
		if !c.named[r.name] {
			c.warnAt("unused-preset", r.key, "no rule names preset %q", shorten(r.name))
		}
	}
}

func (a *adviser) waits() {
	for kind, b := range a.p.Backoff {
		own := "backoff."
		if kind != int(decide.Plain) {
			own += decide.Kind(kind).String() + "."
		}
		if wait := time.Duration(b.Cap) * time.Millisecond; wait > commonTimeout {
			a.warn("long-cap", []string{own + "cap"}, "%scap %s outlasts the %s after which most clients time out: where they pass their deadline on, such a wait only ends in a give-up", own, brief(wait), brief(commonTimeout))
		}
		if !jitters(b) {
			a.warn("no-jitter", []string{own + "strategy"}, "%s waits the same in every client: those that failed together come back together; full_jitter spreads them", b.Strategy)
		}
	}
	if wait := time.Duration(a.p.RetryAfter.Max) * time.Millisecond; wait > longestPatience {
		a.warn("long-retry-after", []string{"retry_after.max"}, "retry_after.max %s lets a server hold its callers for longer than the %s that a request is ever kept: they are better told to give up", brief(wait), brief(longestPatience))
	}
	if a.p.RetryAfter.Spread == 0 && len(a.p.RetryAfter.Headers) > 0 {
		a.warn("no-spread", []string{"retry_after.spread"}, "without a spread all who were given one Retry-After come back at the same instant")
	}
	if len(a.p.RetryAfter.Headers) == 0 {
		a.warn("deaf", []string{"retry_after.headers"}, "no header is read: a server that asks for time is not heard")
	}
	if a.p.MaxAttempts > manyAttempts {
		a.warn("many-attempts", []string{"max_attempts"}, "%d attempts: what has failed %d times hardly succeeds after that, and every attempt is load", a.p.MaxAttempts, manyAttempts)
	}
}

// brief writes a duration without what is zero of it: 1h for 1h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if before, ok := strings.CutSuffix(text, zero); ok && before != "" && !unicode.IsDigit(rune(before[len(before)-1])) {
			text = before
		}
	}
	return text
}

func jitters(b decide.Backoff) bool {
	switch b.Strategy {
	case decide.Constant, decide.Linear, decide.Exponential:
		return false
	case decide.ProportionalJitter:
		return b.Jitter > 0
	}
	return true
}

// passing are the 4xx that another attempt can cure.
var passing = []decide.Failure{408, 409, 413, 421, 423, 425, 429}

// failures looks at the failures that the rule names.
func (a *adviser) failures() {
	if edits := a.rule.words.Retryable; edits != nil {
		for _, list := range []*failures{edits.Add, edits.Only} {
			for _, f := range said(list) {
				if f.IsStatus() && f.Failure < 500 && !slices.Contains(passing, f.Failure) || decide.StandardClasses.Of(f.Failure, true) == decide.Final && f.Failure >= 500 {
					a.warnAt("retries-final", f.node, "%s is an answer, and the same call gets it again: retrying it adds load and no success", f)
				}
			}
		}
	}
	for _, f := range said(a.rule.words.Unprocessed) {
		switch f.Failure {
		case 500, 502, 504, decide.Timeout, decide.ConnectionReset, decide.ConnectionClosed:
			a.warnAt("acted-on", f.node, "after %s nobody knows whether the call was acted on; unprocessed lets a POST run twice", f)
		}
	}
	if a.p.Repeat.Any {
		also := ""
		if a.p.Budget.Off {
			also = ", and without a budget as often as max_attempts says"
		}
		a.warn("repeats-all", []string{"repeat"}, "any repeats a POST without an idempotency key: it may be acted on twice%s", also)
	}
}

// budgetWordsSaid are where a budget that is too large is blamed.
var budgetWordsSaid = []string{"budget.ratio_max", "budget.ratio", "budget.cost", "budget.deposit_on", "budget", "headroom"}

// bounds looks at how much the retries can add to the load. With b for what a
// call deposits over what a retry costs, R for the normal load and K for what the
// dependency can serve: a budget that requests feed keeps adding b while nothing
// succeeds, and is metastable where R(1+b) > K; one that successes feed adds as
// much only while they come.
func (a *adviser) bounds() {
	b, p := &a.p.Budget, a.p
	headroom := float64(p.Headroom) / float64(decide.MicroPerToken)
	switch {
	case p.MaxAttempts == 1:
	case b.Off:
		if p.Headroom == 0 || float64(p.MaxAttempts) > headroom {
			a.warn("no-bound", []string{"budget", "max_attempts", "headroom"}, "without a budget an outage multiplies the load by max_attempts %d%s", p.MaxAttempts, a.andHeadroom())
		}
	case b.DepositOnRequest && p.Headroom == 0:
		a.warn("metastable", []string{"budget.deposit_on"}, "a budget that requests feed keeps adding %s of the load while nothing succeeds: where the dependency cannot serve %s, it stays down by its retries alone; say what its headroom is, or deposit_on: success", addedBy(b), times(1+added(b)))
	case 1+added(b) > headroom && b.DepositOnRequest:
		a.warn("metastable", budgetWordsSaid, "requests feed this budget, so retries keep the load at %s while nothing succeeds, and the dependency can serve %s: once down it stays down (R(1+b) > K)", times(1+added(b)), times(headroom))
	case 1+added(b) > headroom && p.Headroom > 0:
		a.warn("over-headroom", budgetWordsSaid, "retries may raise the load to %s, and the dependency can serve %s: while part of the calls fail, retries overload it", times(1+added(b)), times(headroom))
	}
	if p.OnStoreFailure == decide.StoreFailureAllow {
		a.warn("no-bound", []string{"on_store_failure"}, "allow grants every retry while the store is out of reach: nothing bounds them then but max_attempts")
	}
}

// added is b: what one call deposits at most over what the cheapest retry costs.
// What is above the ratio pays for neither throttles nor timeouts.
func added(b *decide.BudgetRule) float64 {
	return max(float64(b.Ratio)/float64(slices.Min(b.Cost[:])), float64(b.RatioMax)/float64(b.Cost[decide.Plain]))
}

func addedBy(b *decide.BudgetRule) string { return share(added(b)) }

func (a *adviser) andHeadroom() string {
	if a.p.Headroom == 0 {
		return ""
	}
	return ", and the dependency can serve " + times(float64(a.p.Headroom)/float64(decide.MicroPerToken))
}

// times writes a multiple of the normal load.
func times(load float64) string { return fmt.Sprintf("%.4g times the normal one", load) }
