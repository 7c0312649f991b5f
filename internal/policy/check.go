package policy

import (
	"math/big"

	"github.com/retrydecider/decider/internal/decide"
)

// checkUnprocessed notes failures that are final all the same.
func (c *compiler) checkUnprocessed(list failures, b *decide.ClassesBuilder) {
	for _, f := range list {
		if !b.Retryable(f.Failure) {
			c.wrongAt(f.node, "unprocessed names %s, which is never retried; add it to retryable.add too, or take it out", f)
		}
	}
}

// blame notes a contradiction at the first of the words that the rule itself
// says; where it says none, a layer below it has been blamed.
func (c *compiler) blame(r *rule, dotted []string, format string, args ...any) {
	for _, path := range dotted {
		if n := r.node.at(path); n != nil {
			c.wrongAt(n, format, args...)
			return
		}
	}
}

// checkWaits notes waits that cannot be: a base or a least wait above the cap.
// A kind's own base of a layer below may end up there and is nobody's fault:
// who lowers the common cap means the kind's waits too.
func (c *compiler) checkWaits(r *rule, l *layers) {
	waits := l.words.Backoff.byKind()
	plain := waits[decide.Plain]
	for kind, w := range waits {
		own := "backoff."
		if kind != int(decide.Plain) {
			own += decide.Kind(kind).String() + "."
		}
		same := *w.Cap == *plain.Cap && *w.Strategy == *plain.Strategy && kind != int(decide.Plain)
		if *w.Strategy == word(decide.Constant.String()) {
			continue
		}
		if *w.Strategy == word(decide.Paced.String()) && w.Rate == nil {
			c.blame(r, []string{own + "strategy", "backoff.strategy"}, "%sstrategy paced needs %srate, the retries per second that the fleet may make", own, own)
		}
		if *w.Base > *w.Cap && !(same && *w.Base == *plain.Base) {
			c.blame(r, []string{own + "base", own + "cap", own + "strategy"},
				"%sbase %s is longer than %scap %s: every wait would be the cap", own, *w.Base, own, *w.Cap)
		}
		if *w.Min > *w.Cap && !(same && *w.Min == *plain.Min) {
			c.blame(r, []string{own + "min", own + "cap", own + "strategy", "backoff.min", "backoff.cap", "backoff.strategy"},
				"%smin %s is longer than %scap %s", own, *w.Min, own, *w.Cap)
		}
	}
}

// checkRetryAfter notes a bound that, with its spread, no timer holds.
func (c *compiler) checkRetryAfter(r *rule, l *layers) {
	w := l.words.RetryAfter
	longest := new(big.Rat).Add(w.Spread.Rat, big.NewRat(1, 1))
	longest.Mul(longest, big.NewRat(int64(*w.Max), 1))
	if longest.Cmp(big.NewRat(decide.MaxDelayMillis, 1)) > 0 {
		c.blame(r, []string{"retry_after.max", "retry_after.spread"},
			"retry_after.max %s and its spread come to more than %s, the longest wait that every timer holds", *w.Max, millis(decide.MaxDelayMillis))
	}
}

// checkCosts notes a cost that no full bucket can pay.
func (c *compiler) checkCosts(r *rule, l *layers) {
	b := l.words.Budget
	if bool(*b.Off) {
		return
	}
	if most := units(b.RatioMax.Rat, 6); most > 0 && most < units(b.Ratio.Rat, 6) {
		c.blame(r, []string{"budget.ratio_max", "budget.ratio"}, "budget.ratio_max %s is below budget.ratio %s", percent(most), percent(units(b.Ratio.Rat, 6)))
	}
	capacity := units(b.Capacity.Rat, 6)
	for kind, cost := range b.Cost.byKind() {
		own := "budget.cost." + decide.Kind(kind).String()
		if kind != int(decide.Plain) && cost == units(b.Cost.Default.Rat, 6) && r.node.at(own) == nil {
			continue // it is told of the default
		}
		if cost > capacity {
			c.blame(r, []string{own, "budget.capacity", "budget"},
				"%s %s is more than budget.capacity %s: no retry could ever be paid", own, decide.FormatMicro(cost), decide.FormatMicro(capacity))
		}
	}
}
