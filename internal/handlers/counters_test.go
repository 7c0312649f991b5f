package handlers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/decide"
)

// namedPolicies are policies that name dependencies exactly, and others tomorrow.
type namedPolicies struct {
	rules atomic.Pointer[[]*decide.Policy]
}

func (n *namedPolicies) name(dependencies ...string) {
	rules := []*decide.Policy{}
	for _, each := range append(dependencies, "default") {
		rules = append(rules, testPolicy(each))
	}
	n.rules.Store(&rules)
}

func (n *namedPolicies) Rules() []*decide.Policy { return *n.rules.Load() }

func (n *namedPolicies) Find(dependency string) (*decide.Policy, string, error) {
	rules := n.Rules()
	for _, each := range rules {
		if each.Name == dependency {
			return each, dependency, nil
		}
	}
	return rules[len(rules)-1], dependency, nil
}

func (n *namedPolicies) Peek(dependency string) (*decide.Policy, string, error) {
	return n.Find(dependency)
}

// withNames asks a handler whose policy file names them.
func withNames(t *testing.T, fleet *fakeFleet, dependencies ...string) (*caller, *namedPolicies) {
	t.Helper()
	policies := new(namedPolicies)
	policies.name(dependencies...)
	config := testConfig(fleet)
	config.Policies, config.Decider.(*decide.Decider).Policies = policies, policies
	return newCaller(t, newHandler(t, config)), policies
}

// counted are the lines of /metrics that have a label with this value, by series.
func counted(c *caller, value string) map[string]string {
	lines := map[string]string{}
	for line := range strings.Lines(string(c.get("/metrics").body)) {
		series, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Contains(series, `="`+value+`"`) {
			lines[series] = n
		}
	}
	return lines
}

// load are the counters that every named dependency has from the start.
var load = []string{"decider_first_attempts_total", "decider_retries_asked_total", "decider_retries_granted_total"}

// everyCounter lists all series of one dependency.
func everyCounter(dependency string) (list []string) {
	for _, name := range append(load[:len(load):len(load)], "decider_budget_deposits_total", "decider_budget_spent_tokens_total",
		"decider_retry_after_malformed_total", "decider_degraded_decisions_total") {
		list = append(list, fmt.Sprintf("%s{dependency=%q}", name, dependency))
	}
	for _, outcome := range []string{"first_try_success", "retry_success", "final_failure"} {
		list = append(list, fmt.Sprintf("decider_outcomes_total{dependency=%q,outcome=%q}", dependency, outcome))
	}
	for _, reason := range decide.Reasons() {
		decision := "give_up"
		if reason.Retry() {
			decision = "retry"
		}
		list = append(list, fmt.Sprintf("decider_decisions_total{decision=%q,dependency=%q,reason=%q}", decision, dependency, reason))
	}
	return list
}

func atZero(t *testing.T, lines map[string]string, series []string) {
	t.Helper()
	for _, each := range series {
		if lines[each] != "0" {
			t.Errorf("%s is %q", each, lines[each])
		}
	}
}

// A rate sees the first burst only where there was a 0 before it.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	c, policies := withNames(t, new(fakeFleet), "payments")
	for _, label := range []string{"payments", "_other"} {
		atZero(t, counted(c, label), everyCounter(label))
	}
	if lines := counted(c, "search"); len(lines) > 0 {
		t.Errorf("named by nobody: %v", lines)
	}
	for _, why := range []string{"unidentified", "role", "dependency", "cross_site", "handshake", "rate", "concurrent", "overloaded"} {
		atZero(t, counted(c, why), []string{`decider_requests_refused_total{why="` + why + `"}`})
	}
	c.post("/v1/decide", failed)
	policies.name("search") // a reload, which takes payments away
	atZero(t, counted(c, "search"), everyCounter("search"))
	if got := counted(c, "payments")[`decider_first_attempts_total{dependency="payments"}`]; got != "1" {
		t.Errorf("what was counted before the reload is %q", got)
	}
}

// Of many dependencies each has its load from the start, and the rest when
// something was counted.
func TestCountersOfManyAreFew(t *testing.T) {
	t.Parallel()
	names := make([]string, maxWhole)
	for i := range names {
		names[i] = "d" + strconv.Itoa(i)
	}
	c, policies := withNames(t, new(fakeFleet), names...)
	atZero(t, counted(c, "d7"), everyCounter("d7"))
	policies.name(append(names, "payments")...)
	lines := counted(c, "d7")
	for _, name := range load {
		atZero(t, lines, []string{name + `{dependency="d7"}`})
	}
	for _, each := range everyCounter("d7") {
		if _, there := lines[each]; there && !slices.Contains(load, each[:strings.IndexByte(each, '{')]) {
			t.Errorf("%s is there", each)
		}
	}
	atZero(t, counted(c, "_other"), everyCounter("_other"))
	c.post("/v1/decide", failed)
	lines = counted(c, "payments")
	for _, each := range everyCounter("payments") {
		if lines[each] == "" {
			t.Errorf("after a decision there is no %s", each)
		}
	}
}

// An outage in which every retry is granted is four times the load, and four
// times is what is told.
func TestRetriesAskedAreThoseOfClients(t *testing.T) {
	t.Parallel()
	c, _ := withNames(t, new(fakeFleet), "payments")
	for range 100 {
		for attempt := 1; attempt <= 4; attempt++ {
			c.post("/v1/decide", fmt.Sprintf(`{"dependency":"payments","method":"GET","status":503,"attempt":%d}`, attempt))
		}
	}
	lines := counted(c, "payments")
	for name, want := range map[string]string{load[0]: "100", load[1]: "300", load[2]: "300"} {
		if got := lines[name+`{dependency="payments"}`]; got != want {
			t.Errorf("%s %s, want %s", name, got, want)
		}
	}
}

func TestClientWouldRetry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, attempt string
		verdict       decide.Verdict
		asked         string
	}{
		{"granted", `"method":"GET","status":503`, decide.Granted, "1"},
		{"no tokens", `"method":"GET","status":503`, decide.NoTokens, "1"},
		{"another layer", `"method":"GET","status":503,"retried_below":true`, decide.Granted, "1"},
		{"the server asks for an hour", `"method":"GET","status":503,"retry_after":"3600"`, decide.Granted, "1"},
		{"no failure", `"method":"GET","status":200`, decide.Granted, "0"},
		{"canceled", `"method":"GET","outcome":"canceled"`, decide.Granted, "0"},
		{"for good", `"method":"GET","status":404`, decide.Granted, "0"},
		{"not safe", `"method":"POST","status":503`, decide.Granted, "1"},
		{"the last attempt", `"method":"GET","status":503,"attempt":4`, decide.Granted, "0"},
		{"no time", `"method":"GET","status":503,"remaining_ms":10`, decide.Granted, "0"},
		{"the caller's breaker", `"method":"GET","outcome":"breaker_open"`, decide.Granted, "0"},
		{"the fleet's breaker", `"method":"GET","status":503`, decide.OpenBreaker, "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, _ := withNames(t, &fakeFleet{ask: func(*decide.Question) decide.Answer { return decide.Answer{Verdict: test.verdict} }}, "payments")
			c.post("/v1/decide", `{"dependency":"payments",`+test.attempt+`}`)
			if got := counted(c, "payments")[`decider_retries_asked_total{dependency="payments"}`]; got != test.asked {
				t.Errorf("asked %s, want %s", got, test.asked)
			}
		})
	}
}

// Each label is told of once, whatever is counted while it is.
func TestCountersWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	policies := new(namedPolicies)
	names := make([]string, 100)
	for i := range names {
		names[i] = "d" + strconv.Itoa(i)
	}
	policies.name(names...)
	d := &dependencyCounters{policies: policies, since: epoch}
	registry := prometheus.NewRegistry()
	registry.MustRegister(d)
	var counting sync.WaitGroup
	counting.Go(func() {
		for _, name := range names {
			d.decided(&decide.Attempt{}, &decide.Decision{Dependency: name, Policy: name})
		}
	})
	for range 20 {
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	}
	counting.Wait()
}
