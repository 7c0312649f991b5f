package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// PlainWords tells what a policy does, in sentences for people.
func PlainWords(p *decide.Policy) []string {
	if p.MaxAttempts == 1 {
		return []string{"A call is made once and never retried."}
	}
	list := []string{fmt.Sprintf("A call is made at most %d times, the first time included.", p.MaxAttempts), waitsInWords("The wait before a retry", p.Backoff[decide.Plain])}
	for _, k := range otherKinds {
		if p.Backoff[k.kind] != p.Backoff[decide.Plain] {
			list = append(list, waitsInWords("After a "+k.what+" the wait", p.Backoff[k.kind]))
		}
	}
	list = append(list, serverInWords(&p.RetryAfter), retriedInWords(p), whoInWords(&p.Repeat))
	if p.MinAttempt > 0 {
		list = append(list, fmt.Sprintf("No retry starts with less than %s left of the deadline.", ms(p.MinAttempt)))
	}
	if len(p.RetryLayer) > 0 {
		list = append(list, "Only these callers retry: "+strings.Join(p.RetryLayer, ", ")+".")
	}
	if p.OnlyFirstInbound {
		list = append(list, "Nobody retries below somebody else's second attempt.")
	}
	list = append(list, budgetInWords(&p.Budget)...)
	return append(list, stateInWords(p)...)
}

// otherKinds are the kinds of failures that can have a wait and a cost of their own.
var otherKinds = []struct {
	kind decide.Kind
	what string
}{{decide.Throttle, "throttle"}, {decide.Timing, "timeout"}}

func ms(n int64) string { return brief(time.Duration(n) * time.Millisecond) }

// waitsInWords shows the first windows as they grow.
func waitsInWords(what string, b decide.Backoff) string {
	if b.Strategy == decide.Constant {
		if b.Base == 0 {
			return what + " is nothing, but for the server's own."
		}
		return fmt.Sprintf("%s is %s, every time the same.", what, ms(b.Base))
	}
	if b.Strategy == decide.Paced {
		return fmt.Sprintf("%s is until the next of the fleet's slots, %s a second, none further ahead than %s.", what, perSecond(b.Gap), ms(b.Cap))
	}
	text := fmt.Sprintf("%s %s: %s", what, drawnFrom(b), windows(b))
	if b.Min > 0 {
		text += ", " + ms(b.Min) + " at least"
	}
	return text + "."
}

// perSecond is how many slots so many µs apart a second has.
func perSecond(gap int64) string {
	return strconv.FormatFloat(1e6/float64(max(gap, 1)), 'g', 6, 64)
}

// drawnFrom tells how a wait comes from its window.
func drawnFrom(b decide.Backoff) string {
	switch b.Strategy {
	case decide.FullJitter:
		return "is drawn from 0 to the window"
	case decide.EqualJitter:
		return "is half of the window and up to the other half"
	case decide.DecorrelatedJitter:
		return "is drawn from the base to three times the wait before"
	case decide.ProportionalJitter:
		return "is the window, " + strconv.FormatFloat(b.Jitter*100, 'g', -1, 64) + " % more or less"
	case decide.Linear, decide.Exponential:
		return "is the window, every time the same"
	}
	return "is " + b.Strategy.String()
}

// windows are the first three windows, and the cap.
func windows(b decide.Backoff) string {
	shape := b
	shape.Strategy, shape.Min = decide.Exponential, 0
	if b.Strategy == decide.Linear {
		shape.Strategy = decide.Linear
	}
	var list []string
	for n := int64(1); n <= 3; n++ {
		list = append(list, ms(shape.Delay(n, 0, nil)))
	}
	return strings.Join(list, ", ") + ", … to " + ms(b.Cap)
}

func serverInWords(r *decide.RetryAfter) string {
	var names, verdicts []string
	for _, h := range r.Headers {
		if h == decide.XShouldRetryHeader || h == decide.StripeShouldRetry {
			verdicts = append(verdicts, h.String())
		} else {
			names = append(names, h.String())
		}
	}
	var list []string
	if len(names) > 0 {
		spread := ""
		if r.Spread > 0 {
			spread = fmt.Sprintf(", and a crowd comes back spread over %s more", share(r.Spread))
		}
		list = append(list, fmt.Sprintf("A server's wait is read from %s and obeyed up to %s%s; a longer one ends in a give-up.", strings.Join(names, ", "), ms(r.Max), spread))
	}
	if len(verdicts) > 0 {
		list = append(list, fmt.Sprintf("What %s says of a retry is obeyed.", strings.Join(verdicts, ", ")))
	}
	if len(names) == 0 {
		list = append(list, "No wait of the server is read.")
	}
	return strings.Join(list, " ")
}

func retriedInWords(p *decide.Policy) string {
	var list, withWait []decide.Failure
	for _, f := range decide.Failures() {
		switch class := p.Classes.Of(f, true); {
		case !f.Editable() || class != decide.Ambiguous && class != decide.NeverSent:
		case p.Classes.OnlyWithWait(f):
			withWait = append(withWait, f)
		case !f.IsStatus() || f <= 599:
			list = append(list, f)
		}
	}
	text := "Retried: " + strings.Trim(listed(list), "[]")
	if len(withWait) > 0 {
		text += "; where the server gave a wait also " + strings.Trim(inRuns(withWait), "[]")
	}
	return text + "."
}

// listed names the failures, and the 5xx that have no name as one.
func listed(of []decide.Failure) string {
	var named []decide.Failure
	others := false
	for _, f := range of {
		if f.IsStatus() && f >= 500 && isUnlisted(f) {
			others = true
			continue
		}
		named = append(named, f)
	}
	text := inRuns(named)
	if others {
		text = strings.TrimSuffix(text, "]") + ", every 5xx without a name of its own]"
	}
	return text
}

// isUnlisted says whether the contract's table does not name the status.
func isUnlisted(f decide.Failure) bool {
	switch {
	case f <= 508, f == 510, f == 511, f >= 520 && f <= 527, f == 529, f == 530:
		return false
	}
	return true
}

func whoInWords(r *decide.Repeat) string {
	switch {
	case r.Any:
		return "Any method is repeated, though the call may have been acted on: whoever names this vouches for that."
	case len(r.Methods) > 0:
		return "A call that may have been acted on is repeated where its method is " + strings.Join(r.Methods, ", ") + " or it carries an idempotency key."
	}
	return "A call that may have been acted on is repeated where its method is idempotent or it carries an idempotency key."
}

func budgetInWords(b *decide.BudgetRule) []string {
	if b.Off {
		return []string{"No budget bounds the retries."}
	}
	from := "success"
	if b.DepositOnRequest {
		from = "call, whatever its end,"
	}
	cost := decide.FormatMicro(b.Cost[decide.Plain])
	for _, k := range otherKinds {
		if b.Cost[k.kind] != b.Cost[decide.Plain] {
			cost += ", after a " + k.what + " " + decide.FormatMicro(b.Cost[k.kind])
		}
	}
	brings := percent(b.Ratio) + " of a token"
	if b.RatioMax > 0 {
		brings += " (up to " + percent(b.RatioMax) + " where retries are seen to help)"
	}
	list := []string{
		fmt.Sprintf("The fleet's budget: each %s brings %s and a retry costs %s, so retries add at most %s to the load.", from, brings, cost, strconv.FormatFloat(100*added(b), 'g', 2, 64)+" %"),
	}
	size := "The bucket holds " + decide.FormatMicro(b.Capacity) + " tokens"
	if b.CapacityMillis > 0 {
		size += ", or what " + ms(b.CapacityMillis) + " of deposits bring where that is more"
	}
	if b.NanoPerSecond > 0 {
		size += "; time brings " + strconv.FormatFloat(float64(b.NanoPerSecond)/1e9, 'g', -1, 64) + " a second"
	}
	return append(list, size+".")
}

func stateInWords(p *decide.Policy) []string {
	var list []string
	if b := &p.Breaker; b.Mode != decide.BreakerModeOff {
		list = append(list, fmt.Sprintf("A breaker stops %s for %s where %s of at least %d attempts in %s fail.", map[decide.BreakerMode]string{decide.BreakerModeRetries: "retries", decide.BreakerModeAll: "all attempts"}[b.Mode], ms(b.OpenFor), percent(b.FailureRatio), b.MinAttempts, ms(b.Window)))
	}
	list = append(list, map[decide.CoolDown]string{
		decide.CoolDownAuto:   "A wait that the server gave one caller holds for the whole fleet, a throttle's for that caller alone.",
		decide.CoolDownFleet:  "A wait that the server gave one caller holds for the whole fleet.",
		decide.CoolDownCaller: "A wait that the server gave one caller holds for that caller.",
		decide.CoolDownOff:    "A wait that the server gave holds for that attempt alone.",
	}[p.CoolDown])
	return append(list, map[decide.OnStoreFailure]string{
		decide.StoreFailureLocal:  "While the fleet's state is out of reach each replica spends its share of the budget.",
		decide.StoreFailureGiveUp: "While the fleet's state is out of reach nothing is retried.",
		decide.StoreFailureAllow:  "While the fleet's state is out of reach everything is retried.",
	}[p.OnStoreFailure])
}
