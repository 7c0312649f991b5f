package policy

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// publishedNumber is one published number of a system beside what its preset comes to.
// Where they differ why says so.
type publishedNumber struct {
	what, published string
	ours            func(p *decide.Policy) string
	why             string
}

func attempts(p *decide.Policy) string { return strconv.FormatInt(p.MaxAttempts, 10) }
func waits(p *decide.Policy) string    { return windows(p.Backoff[decide.Plain]) }
func longest(p *decide.Policy) string  { return ms(p.RetryAfter.Max) }
func capacityOf(p *decide.Policy) string {
	return decide.FormatMicro(p.Budget.Capacity)
}
func ratioOf(p *decide.Policy) string { return percent(p.Budget.Ratio) }
func costOf(kind decide.Kind) func(p *decide.Policy) string {
	return func(p *decide.Policy) string { return decide.FormatMicro(p.Budget.Cost[kind]) }
}
func strategyOf(p *decide.Policy) string { return p.Backoff[decide.Plain].Strategy.String() }
func headersOf(p *decide.Policy) string {
	if len(p.RetryAfter.Headers) == 0 {
		return "none"
	}
	return strings.Trim(inBrackets(p.RetryAfter.Headers), "[]")
}

// waitAt is the wait of one retry for a float.
func waitAt(retry int64, random float64) func(p *decide.Policy) string {
	return func(p *decide.Policy) string {
		return ms(p.Backoff[decide.Plain].Delay(retry, 0, func() float64 { return random }))
	}
}

// answerTo is what becomes of a failure: retried, by whom, or not.
func answerTo(f decide.Failure, method string) func(p *decide.Policy) string {
	return func(p *decide.Policy) string {
		plan := decide.NewPlan(p, &decide.Attempt{Dependency: "d", Method: method, Failure: f, Number: 1}, time.Unix(0, 0), func() float64 { return 0 })
		if plan.Asks {
			return "retried"
		}
		return plan.Decision.Reason.String()
	}
}

var publishedNumbers = map[string][]publishedNumber{
	"aws-2026": {
		{"attempts", "3", attempts, ""},
		{"windows", "50ms, 100ms, 200ms, … to 20s", waits, ""},
		{"windows of a throttle", "1s, 2s, 4s, … to 20s", func(p *decide.Policy) string { return windows(p.Backoff[decide.Throttle]) }, ""},
		{"strategy", "full_jitter", strategyOf, ""},
		{"tokens of one process", "500", capacityOf, ""},
		{"cost of a retry", "14", costOf(decide.Plain), ""},
		{"cost after a throttle", "5", costOf(decide.Throttle), ""},
		{"back for a success", "100%", ratioOf, ""},
		{"longest hint", "the own wait and 5s", longest, "a server's wait is never undercut: up to the bound it is obeyed whole"},
		{"headers", "x-amz-retry-after, retry-after", headersOf, ""},
		{"POST and 500", "retried", answerTo(500, "POST"), ""},
		{"GET and 501", "not_retryable", answerTo(501, "GET"), ""},
	},
	"aws-standard": {
		{"attempts", "3", attempts, ""},
		{"windows", "1s, 2s, 4s, … to 20s", waits, ""},
		{"tokens of one process", "500", capacityOf, ""},
		{"cost of a retry", "5", costOf(decide.Plain), ""},
		{"cost after a timeout", "10", costOf(decide.Timing), ""},
		{"headers", "none", headersOf, ""},
		{"POST and 503", "retried", answerTo(503, "POST"), ""},
		{"bare 429", "not_retryable", answerTo(429, "GET"), "botocore's word; Go and JavaScript retry it, and clients report throttling codes as 429"},
	},
	"grpc": {
		{"attempts", "4", attempts, ""},
		{"windows", "100ms, 200ms, 400ms, … to 1s", waits, ""},
		{"retry 1, least", "80ms", waitAt(1, 0), ""},
		{"retry 3, most", "480ms", waitAt(3, 0.9999999), "a draw is below 1, and a wait is whole milliseconds"},
		{"retry 9 at the cap, least", "800ms", waitAt(9, 0), ""},
		{"tokens of one channel", "10", capacityOf, ""},
		{"ratio", "10%", ratioOf, ""},
		{"retries in a row", "4", capacityOf, "more than half of a channel's tokens must stay; the fleet's are spent to the last"},
		{"header", "grpc-retry-pushback-ms", headersOf, ""},
		{"longest pushback", "no bound", longest, "linkerd2-proxy's bound"},
		{"UNAVAILABLE", "retried", answerTo(503, "POST"), ""},
		{"DEADLINE_EXCEEDED", "not_retryable", answerTo(504, "POST"), ""},
	},
	"envoy": {
		{"retries", "1", func(p *decide.Policy) string { return strconv.FormatInt(p.MaxAttempts-1, 10) }, ""},
		{"windows", "25ms, 50ms, 100ms, … to 250ms", waits, ""},
		{"longest reset", "5m", longest, ""},
		{"reset above that", "ignored", func(*decide.Policy) string { return "a give-up" }, "an ignored wait would undercut the server"},
		{"spread above a reset", "50%", func(p *decide.Policy) string { return share(p.RetryAfter.Spread) }, ""},
		{"budget", "20%", ratioOf, ""},
		{"retries that are always allowed", "3", capacityOf, ""},
		{"501", "retried", answerTo(501, "GET"), ""},
		{"429", "not_retryable", answerTo(429, "GET"), ""},
	},
	"google": {
		{"attempts", "10", attempts, ""},
		{"windows", "1s, 2s, 4s, … to 1m", waits, ""},
		{"UNAVAILABLE, idempotent", "retried", answerTo(503, "GET"), ""},
		{"UNAVAILABLE, not idempotent", "not_safe_to_repeat", answerTo(503, "POST"), ""},
		{"RESOURCE_EXHAUSTED", "not_retryable", answerTo(429, "GET"), ""},
		{"headers", "none", headersOf, ""},
	},
	"dotnet": {
		{"attempts", "4", attempts, ""},
		{"mean waits", "1.74s, 2.32s, 4.16s", meanWaits, "Polly's V2 jitter; full jitter from 2 s is nearest, and has its means from the second retry on"},
		{"budget", "10%", ratioOf, ""},
		{"window of the budget", "10s", func(p *decide.Policy) string { return ms(p.Budget.CapacityMillis) }, ""},
		{"500, 408 and 429", "retried", answerTo(429, "POST"), ""},
		{"longest wait", "no bound but the 30s of the whole call", longest, "the same in effect"},
	},
	"urllib3": {
		{"retries", "10", func(p *decide.Policy) string { return strconv.FormatInt(p.MaxAttempts-1, 10) }, ""},
		{"own wait", "0s", waitAt(1, 0.5), ""},
		{"longest Retry-After", "6h", longest, ""},
		{"413 with a wait, 429, 503", "retried", answerTo(503, "GET"), ""},
		{"500", "not_retryable", answerTo(500, "GET"), ""},
		{"POST and a read timeout", "not_safe_to_repeat", answerTo(decide.Timeout, "POST"), ""},
	},
	"stripe": {
		{"attempts", "3", attempts, ""},
		{"first wait", "500ms", waitAt(1, 0.99), ""},
		{"second wait, least", "500ms", waitAt(2, 0), ""},
		{"second wait, most", "1s", waitAt(2, 0.9999999), "a draw is below 1, and a wait is whole milliseconds"},
		{"longest wait", "5s", func(p *decide.Policy) string { return ms(p.Backoff[decide.Plain].Cap) }, ""},
		{"409", "retried", answerTo(409, "GET"), ""},
		{"429 without a verdict", "not_retryable", answerTo(429, "GET"), ""},
		{"headers", "stripe-should-retry", headersOf, ""},
	},
	"standard": {
		{"attempts", "4", attempts, ""},
		{"windows", "100ms, 200ms, 400ms, … to 1s", waits, ""},
		{"ratio", "10%", ratioOf, ""},
		{"longest Retry-After", "1m", longest, ""},
	},
	"none": {{"attempts", "1", attempts, ""}},
}

func meanWaits(p *decide.Policy) string {
	var list []string
	for n := int64(1); n <= 3; n++ {
		list = append(list, waitAt(n, 0.5)(p))
	}
	return strings.Join(list, ", ")
}

// TestPresetsAgainstPublishedNumbers writes docs/presets.md, and fails where a
// preset differs from its system and nobody says why.
func TestPresetsAgainstPublishedNumbers(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# The built-in presets against what is published

Generated by a test from the presets, the published numbers and the vectors; ` + "`make generate`" + ` writes it anew, and a
preset that drifts from this page fails the tests. ` + "`decider explain --preset NAME`" + ` tells a preset in plain words.

A rule names a preset and edits it. All presets but standard are written over standard: what a system says nothing of is
standard's. Budgets that live in one process are translated to one for the fleet, as each section says.
`)
	cases := vectorCases(t)
	for _, p := range BuiltInPresets() {
		presetSection(t, &b, p, cases[p.Name])
	}
	golden(t, filepath.Join("..", "..", "docs", "presets.md"), []byte(b.String()))
}

func presetSection(t *testing.T, b *strings.Builder, p Preset, vectors int) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", p.Name, strings.ToUpper(p.Description[:1])+p.Description[1:])
	for _, source := range p.Sources {
		fmt.Fprintf(b, "- Published in %s\n", source)
	}
	if vectors > 0 {
		fmt.Fprintf(b, "- %d cases of testdata/vectors hold it\n", vectors)
	}
	fmt.Fprintf(b, "\n| what | published | here | |\n|---|---|---|---|\n")
	for _, n := range publishedNumbers[p.Name] {
		ours, same := n.ours(p.Policy), "the same"
		if ours != n.published {
			if same = n.why; n.why == "" {
				t.Errorf("%s: %s is %s, published is %s, and nobody says why", p.Name, n.what, ours, n.published)
			}
		} else if n.why != "" {
			t.Errorf("%s: %s is the same, and a reason says why not", p.Name, n.what)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", n.what, n.published, ours, same)
	}
	if len(publishedNumbers[p.Name]) == 0 {
		t.Errorf("nothing is published of %s", p.Name)
	}
	if p.Fleet != "" {
		fmt.Fprintf(b, "\n%s\n", p.Fleet)
	}
	if len(p.Cannot) > 0 {
		fmt.Fprintf(b, "\nWhat the words of a policy file cannot say of it:\n\n")
		for _, each := range p.Cannot {
			fmt.Fprintf(b, "- %s\n", each)
		}
	}
}

// vectorCases counts the cases of the vectors by the preset that they hold.
func vectorCases(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, path := range fixtures(t, filepath.Join("..", "..", "testdata", "vectors", "*.json")) {
		var file struct {
			Policy struct{ Preset string }
			Cases  []json.RawMessage
		}
		if err := json.Unmarshal(read(t, path), &file); err != nil {
			continue // another form, which no preset is tested by
		}
		count[file.Policy.Preset] += len(file.Cases)
	}
	return count
}
