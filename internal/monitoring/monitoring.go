// Package monitoring writes what Prometheus and Grafana need to watch decider:
// recording rules, alerts and a dashboard, in general and for each dependency
// that a policy file names. It knows the metrics by name only; a test of
// deploy/test scrapes a real decider and holds the names to what it exports.
package monitoring

import (
	"strings"

	"github.com/retrydecider/decider/internal/decide"
)

// Dependency is one that has a label of its own in the metrics.
type Dependency struct{ Name, Owner, Description string }

// Other is the label of all dependencies that no rule names exactly.
const Other = "_other"

// Dependencies are those among the rules that name exactly one.
func Dependencies(rules []*decide.Policy) []Dependency {
	var list []Dependency
	for _, r := range rules[:len(rules)-1] { // the last serves names without a rule
		if !strings.Contains(r.Name, "*") {
			list = append(list, Dependency{r.Name, r.Owner, r.Description})
		}
	}
	return list
}

// Selectors of decider_decisions_total by what a reason means for the call.
const (
	// refused: the retry would have been made, had the fleet's state allowed it.
	refused = `reason=~"budget_exhausted|breaker_open|paused|store_unavailable"`
	// lost: the call ends here in a failure that is the dependency's own. A 404
	// is not its failure, and where somebody else retries nothing has ended.
	lost = `decision="give_up",reason!~"not_a_failure|canceled|not_retryable|not_the_retry_layer"`
)

// join writes label selectors into one matcher.
func join(selectors ...string) string {
	var said []string
	for _, s := range selectors {
		if s != "" {
			said = append(said, s)
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "{" + strings.Join(said, ",") + "}"
}

// calls is an expression of original calls by how each ended: reported without
// a decision, or given up. Both have different labels, so that or keeps both.
func calls(selector, window string) string {
	return "rate(decider_outcomes_total" + join(selector) + "[" + window + "])" +
		" or rate(decider_decisions_total" + join(selector, lost) + "[" + window + "])"
}

// failures is an expression of the calls that ended in a failure.
func failures(selector, window string) string {
	return "rate(decider_outcomes_total" + join(selector, `outcome="final_failure"`) + "[" + window + "])" +
		" or rate(decider_decisions_total" + join(selector, lost) + "[" + window + "])"
}

// load is an expression of all that a dependency gets with so many retries, as
// a multiple of the first attempts.
func load(by, selector, window, retries string) string {
	firsts := sumBy(by, "rate(decider_first_attempts_total"+join(selector)+"["+window+"])")
	return "1 + " + sumBy(by, "rate("+retries+join(selector)+"["+window+"])") + "\n/ (" + firsts + " > 0)"
}

func sumBy(by, expr string) string { return "sum by (" + by + ") (" + expr + ")" }

// ratio divides two sums; a part that nothing has counted yet is 0 and a whole
// of 0 has no ratio.
func ratio(by, part, whole string) string {
	all := sumBy(by, whole)
	return "(" + sumBy(by, part) + "\n  or " + all + " * 0)\n/ (" + all + " > 0)"
}
