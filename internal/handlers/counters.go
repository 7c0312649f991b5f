package handlers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/decide"
)

// otherLabel stands for every dependency that the policy file does not name
// exactly, so that clients cannot make labels.
const otherLabel = "_other"

// labelOf is the label of a dependency under the rule that matched it.
func labelOf(dependency, policy string) string {
	if dependency == policy {
		return dependency
	}
	return otherLabel
}

// maxWhole is how many dependencies a policy file may name for each to have all
// its counters from the start: 27 series each. Of more of them the load alone is
// there before something is counted, or a scrape would grow to megabytes of zeros.
const maxWhole = 200

// counters are those of one label. Prometheus's own are not kept for them: a
// decision adds to plain numbers, and what has counted nothing takes no memory.
type counters struct {
	reasons                                               [reasonCount]atomic.Int64
	outcomes                                              [len(outcomeWords)]atomic.Int64
	firsts, asked, granted, deposits, malformed, degraded atomic.Int64
	spent                                                 atomic.Int64 // in decide.Micro
}

// outcomeWords are the outcomes of calls that are reported, in the order of counters.
var outcomeWords = [...]string{"first_try_success", "retry_success", "final_failure"}

// dependencyCounters are the counters of all labels. What Prometheus is told is
// made when it asks, so that a dependency's begin at 0 as soon as it is named.
type dependencyCounters struct {
	policies Policies
	since    time.Time
	byLabel  sync.Map // of a dependency's label to its *counters
}

var (
	firstsDesc = counterDesc("decider_first_attempts_total",
		"First attempts: those that were reported as outcomes and those whose failure was brought to decide.")
	askedDesc = counterDesc("decider_retries_asked_total",
		"Retries that clients would have made by themselves: attempts brought to decide, but those that no client would have repeated (not_a_failure, canceled, not_retryable, attempts_exhausted, deadline, and breaker_open by the caller's own). An estimate, and mostly a low one: a caller that is refused does not ask again.")
	grantedDesc = counterDesc("decider_retries_granted_total",
		"Retries that were granted; one that is asked for again by its decision_id counts once. First attempts and these are the load that a dependency gets; first attempts and the retries asked for are an estimate of what it would get without decider.")
	depositsDesc = counterDesc("decider_budget_deposits_total",
		"Calls reported as outcomes that deposited the policy's ratio of a token. Under deposit_on: request failed first attempts that are brought to decide deposit too; they are in decider_first_attempts_total.")
	spentDesc     = counterDesc("decider_budget_spent_tokens_total", "Tokens that granted retries took from budgets.")
	malformedDesc = counterDesc("decider_retry_after_malformed_total", "Attempts whose Retry-After, or what stands for it, could not be read.")
	degradedDesc  = counterDesc("decider_degraded_decisions_total", "Decisions that a local rule made while the fleet's state was out of reach.")
	outcomesDesc  = counterDesc("decider_outcomes_total", "Calls reported without a decision, by dependency and outcome.", "outcome")
	decisionsDesc = counterDesc("decider_decisions_total", "Decisions, by dependency, decision and reason.", "decision", "reason")
)

// counterDesc is a counter by dependency, and what else it is told apart by.
func counterDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"dependency"}, labels...), nil)
}

// of are the counters of a label.
func (d *dependencyCounters) of(label string) *counters {
	known, ok := d.byLabel.Load(label)
	if !ok {
		known, _ = d.byLabel.LoadOrStore(label, new(counters))
	}
	return known.(*counters)
}

// Describe implements [prometheus.Collector].
func (d *dependencyCounters) Describe(out chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{firstsDesc, askedDesc, grantedDesc, depositsDesc, spentDesc, malformedDesc, degradedDesc, outcomesDesc, decisionsDesc} {
		out <- each
	}
}

// Collect implements [prometheus.Collector]. Each label is told of once, also
// where its first decision falls into the middle of it.
func (d *dependencyCounters) Collect(out chan<- prometheus.Metric) {
	uncounted := exactNames(d.policies.Rules())
	whole := len(uncounted) <= maxWhole
	uncounted[otherLabel] = true
	d.byLabel.Range(func(label, known any) bool {
		delete(uncounted, label.(string))
		d.tell(out, label.(string), known.(*counters), true)
		return true
	})
	none := new(counters)
	for label := range uncounted {
		d.tell(out, label, none, whole || label == otherLabel)
	}
}

// tell tells of the counters of one label, or of its load alone.
func (d *dependencyCounters) tell(out chan<- prometheus.Metric, label string, c *counters, whole bool) {
	tell := func(desc *prometheus.Desc, value float64, words ...string) {
		out <- prometheus.MustNewConstMetricWithCreatedTimestamp(desc, prometheus.CounterValue, value, d.since, append([]string{label}, words...)...)
	}
	tell(firstsDesc, float64(c.firsts.Load()))
	tell(askedDesc, float64(c.asked.Load()))
	tell(grantedDesc, float64(c.granted.Load()))
	if !whole {
		return
	}
	tell(depositsDesc, float64(c.deposits.Load()))
	tell(spentDesc, tokens(c.spent.Load()))
	tell(malformedDesc, float64(c.malformed.Load()))
	tell(degradedDesc, float64(c.degraded.Load()))
	for i, word := range outcomeWords {
		tell(outcomesDesc, float64(c.outcomes[i].Load()), word)
	}
	for _, reason := range decide.Reasons() {
		word := (&decide.Decision{Reason: reason}).Word()
		tell(decisionsDesc, float64(c.reasons[reason].Load()), word, reason.String())
	}
}

func (d *dependencyCounters) decided(a *decide.Attempt, made *decide.Decision) {
	c := d.of(labelOf(made.Dependency, made.Policy))
	c.reasons[made.Reason].Add(1)
	if made.Degraded {
		c.degraded.Add(1)
	}
	if made.Replayed { // the attempt was counted, and the retry paid for, when it was granted
		return
	}
	if a.Number <= 1 {
		c.firsts.Add(1)
	}
	if clientWouldRetry(a, made.Reason) {
		c.asked.Add(1)
	}
	if made.Retry() {
		c.granted.Add(1)
		if made.Budget.Asked {
			c.spent.Add(made.Budget.Cost)
		}
	}
	if made.ServerDelayUse == decide.DelayMalformed {
		c.malformed.Add(1)
	}
}

// clientWouldRetry says whether a client by itself would have repeated the
// attempt. It would where another layer retries too, which is what multiplies
// load, and where the server says no or the method is not safe: some do.
func clientWouldRetry(a *decide.Attempt, reason decide.Reason) bool {
	switch reason {
	case decide.ReasonNotAFailure, decide.ReasonCanceled, decide.ReasonNotRetryable, // there is nothing to gain
		decide.ReasonAttemptsExhausted, decide.ReasonDeadline: // nothing is left of attempts, or of time
		return false
	case decide.ReasonBreakerOpen: // the client's own would have kept the retry away too
		return a.Failure != decide.CallerBreakerOpen
	}
	return true
}

func (d *dependencyCounters) reported(label string, o *decide.Outcome) {
	c := d.of(label)
	c.firsts.Add(o.FirstTrySuccesses + o.FinalFailures)
	for i, calls := range [...]int64{o.FirstTrySuccesses, o.RetrySuccesses, o.FinalFailures} {
		c.outcomes[i].Add(calls)
	}
	if o.Policy.Budget.Off {
		return
	}
	c.deposits.Add(o.FirstTrySuccesses + o.RetrySuccesses)
	if o.Policy.Budget.DepositOnRequest {
		c.deposits.Add(o.FinalFailures)
	}
}
