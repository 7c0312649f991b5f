package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Word is one word of the policy file with its value, both as the file would
// write them; the key has dots for depth.
type Word struct{ Key, Value string }

// Describe writes a complete policy in the words of the file, in their order.
// Two policies that say the same are described alike.
func Describe(p *decide.Policy) []Word {
	w := description{}
	w.add("description", p.Description)
	w.add("owner", p.Owner)
	w.add("max_attempts", strconv.FormatInt(p.MaxAttempts, 10))
	w.backoff("backoff", &p.Backoff[decide.Plain])
	for _, kind := range []decide.Kind{decide.Throttle, decide.Timing} {
		if p.Backoff[kind] != p.Backoff[decide.Plain] {
			w.backoff("backoff."+kind.String(), &p.Backoff[kind])
		}
	}
	w.add("retry_after.max", span(p.RetryAfter.Max))
	w.add("retry_after.spread", share(p.RetryAfter.Spread))
	w.add("retry_after.headers", inBrackets(p.RetryAfter.Headers))
	w.classes(p.Classes)
	w.add("repeat", whoRepeats(&p.Repeat))
	w.add("min_attempt", span(p.MinAttempt))
	w.add("retry_layer", inBrackets(p.RetryLayer))
	if p.OnlyFirstInbound {
		w.add("only_first_inbound", "true")
	}
	w.budget(&p.Budget)
	w.breaker(&p.Breaker)
	w.add("cool_down", p.CoolDown.String())
	w.add("on_store_failure", p.OnStoreFailure.String())
	if p.Headroom > 0 {
		w.add("headroom", decide.FormatMicro(p.Headroom))
	}
	if p.Shadow {
		w.add("mode", "shadow")
	}
	if p.Candidate != nil {
		w.candidate(p.Candidate)
	}
	return w
}

// candidate tells what a candidate says otherwise than its rule, which has been
// told.
func (w *description) candidate(p *decide.Policy) {
	rule := *w
	for _, d := range compareWords(rule, Describe(p)) {
		if d.Key != "mode" && d.Key != "description" { // a candidate has neither
			w.add("candidate."+d.Key, orNothing(d.After))
		}
	}
	if len(*w) == len(rule) {
		w.add("candidate", "{}")
	}
}

type description []Word

func (w *description) add(key, value string) {
	if value != "" {
		*w = append(*w, Word{key, value})
	}
}

func (w *description) backoff(key string, b *decide.Backoff) {
	w.add(key+".strategy", b.Strategy.String())
	w.add(key+".base", span(b.Base))
	w.add(key+".cap", span(b.Cap))
	w.add(key+".multiplier", strconv.FormatFloat(b.Multiplier, 'g', -1, 64))
	w.add(key+".min", span(b.Min))
	if b.Strategy == decide.Paced {
		w.add(key+".rate", strconv.FormatFloat(1e6/float64(b.Gap), 'g', 6, 64))
	}
	if b.Strategy == decide.ProportionalJitter {
		w.add(key+".jitter", share(b.Jitter))
	}
}

// classes tells what is retried otherwise than the contract's table says.
func (w *description) classes(c *decide.Classes) {
	var add, remove, withWait, unprocessed []decide.Failure
	for _, f := range decide.Failures() {
		standard, class := decide.StandardClasses.Of(f, true), c.Of(f, true)
		if c.OnlyWithWait(f) {
			withWait = append(withWait, f)
		}
		switch {
		case !f.Editable() || class == standard:
		case class == decide.Final:
			remove = append(remove, f)
		case class == decide.Ambiguous:
			add = append(add, f)
		case class == decide.NeverSent:
			unprocessed = append(unprocessed, f)
		}
	}
	w.add("retryable.add", inRuns(add))
	w.add("retryable.remove", inRuns(remove))
	w.add("retryable.with_retry_after", inRuns(withWait))
	w.add("unprocessed", inRuns(unprocessed))
}

func (w *description) budget(b *decide.BudgetRule) {
	if b.Off {
		w.add("budget", "off")
		return
	}
	depositOn := "success"
	if b.DepositOnRequest {
		depositOn = "request"
	}
	w.add("budget.ratio", percent(b.Ratio))
	if b.RatioMax > 0 {
		w.add("budget.ratio_max", percent(b.RatioMax))
	}
	w.add("budget.capacity", decide.FormatMicro(b.Capacity))
	w.add("budget.capacity_seconds", strconv.FormatFloat(float64(b.CapacityMillis)/1000, 'g', -1, 64))
	w.add("budget.min_per_second", strconv.FormatFloat(float64(b.NanoPerSecond)/1e9, 'g', -1, 64))
	w.add("budget.deposit_on", depositOn)
	w.add("budget.cost.default", decide.FormatMicro(b.Cost[decide.Plain]))
	for _, kind := range []decide.Kind{decide.Throttle, decide.Timing} {
		if b.Cost[kind] != b.Cost[decide.Plain] {
			w.add("budget.cost."+kind.String(), decide.FormatMicro(b.Cost[kind]))
		}
	}
	w.add("budget.caller_share", percent(b.CallerShare))
}

func (w *description) breaker(b *decide.BreakerRule) {
	w.add("breaker.mode", b.Mode.String())
	if b.Mode == decide.BreakerModeOff {
		return
	}
	w.add("breaker.failure_ratio", percent(b.FailureRatio))
	w.add("breaker.min_attempts", strconv.FormatInt(b.MinAttempts, 10))
	w.add("breaker.window", span(b.Window))
	w.add("breaker.open_for", span(b.OpenFor))
	w.add("breaker.probes", strconv.FormatInt(b.Probes, 10))
}

func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func share(of float64) string { return strconv.FormatFloat(of*100, 'g', 10, 64) + "%" }

// percent writes millionths as a percentage.
func percent(m decide.Micro) string { return decide.FormatMicro(m*100) + "%" }

func whoRepeats(r *decide.Repeat) string {
	switch {
	case r.Any:
		return "any"
	case len(r.Methods) > 0:
		return inBrackets(r.Methods)
	}
	return "idempotent"
}

// inBrackets writes a list in its order, "" for an empty one of strings: the file
// leaves those out.
func inBrackets[T any](of []T) string {
	if _, names := any(of).([]string); names && len(of) == 0 {
		return ""
	}
	each := make([]string, len(of))
	for i, v := range of {
		each[i] = fmt.Sprint(v)
	}
	return "[" + strings.Join(each, ", ") + "]"
}

// inRuns writes a list of failures with runs of statuses as first–last.
func inRuns(of []decide.Failure) string {
	if len(of) == 0 {
		return ""
	}
	var each []string
	for i := 0; i < len(of); i++ {
		last := i
		for last+1 < len(of) && of[last+1] == of[last]+1 && of[last+1].IsStatus() {
			last++
		}
		if last-i >= 2 {
			each = append(each, of[i].String()+"–"+of[last].String())
			i = last
			continue
		}
		each = append(each, of[i].String())
	}
	return "[" + strings.Join(each, ", ") + "]"
}

// Difference is a word that two policies of one name say differently; "" where
// one does not say it.
type Difference struct{ Rule, Key, Before, After string }

// String tells the difference in one line.
func (d Difference) String() string {
	switch {
	case d.Key == "" && d.Before == "":
		return d.Rule + ": new"
	case d.Key == "":
		return d.Rule + ": gone"
	}
	return fmt.Sprintf("%s: %s: %s → %s", d.Rule, d.Key, orNothing(d.Before), orNothing(d.After))
}

func orNothing(value string) string {
	if value == "" {
		return "(nothing)"
	}
	return value
}

// Compare tells how the rules of two files differ, by rule and word.
func Compare(before, after *Set) []Difference {
	var out []Difference
	old := byName(before)
	for _, p := range after.Rules() {
		earlier, ok := old[p.Name]
		delete(old, p.Name)
		if !ok {
			out = append(out, Difference{Rule: p.Name, After: "rule"})
			continue
		}
		out = append(out, compareRules(earlier, p)...)
	}
	for _, p := range before.Rules() {
		if _, gone := old[p.Name]; gone {
			out = append(out, Difference{Rule: p.Name, Before: "rule"})
		}
	}
	return out
}

func byName(s *Set) map[string]*decide.Policy {
	names := map[string]*decide.Policy{}
	for _, p := range s.Rules() {
		names[p.Name] = p
	}
	return names
}

func compareRules(before, after *decide.Policy) []Difference {
	list := compareWords(Describe(before), Describe(after))
	for i := range list {
		list[i].Rule = after.Name
	}
	return list
}

func compareWords(before, after []Word) []Difference {
	var out []Difference
	old := slices.Clone(before)
	for _, w := range after {
		was := ""
		if i := slices.IndexFunc(old, func(o Word) bool { return o.Key == w.Key }); i >= 0 {
			was = old[i].Value
			old = slices.Delete(old, i, i+1)
		}
		if was != w.Value {
			out = append(out, Difference{Key: w.Key, Before: was, After: w.Value})
		}
	}
	for _, w := range old {
		out = append(out, Difference{Key: w.Key, Before: w.Value})
	}
	return out
}
