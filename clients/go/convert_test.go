package decider

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/clients/go/internal/api"
)

func TestAttemptDocument(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		attempt Attempt
		want    string
	}{
		{"the least", Attempt{Dependency: "payments", Method: "GET", Status: 503}, `{"dependency":"payments","method":"GET","status":503}`},
		{"everything", Attempt{
			Dependency: "payments", Method: "POST", Outcome: ConnectionReset, GRPCStatus: "UNAVAILABLE", Idempotent: new(false),
			HasIdempotencyKey: true, RetryAfter: "2", ResponseDate: "Sun, 06 Nov 1994 08:49:37 GMT", Headers: map[string]string{"Retry-After-Ms": "5"},
			Number: 3, Remaining: new(8 * time.Second), MinAttempt: new(time.Duration(0)), PreviousDelay: 120 * time.Millisecond,
			Caller: "checkout", InboundAttempt: 2, RetriedBelow: true, DecisionID: "id-1",
		}, `{"attempt":3,"caller":"checkout","decision_id":"id-1","dependency":"payments","grpc_status":"UNAVAILABLE",` +
			`"has_idempotency_key":true,"headers":{"Retry-After-Ms":"5"},"idempotent":false,"inbound_attempt":2,"method":"POST",` +
			`"min_attempt_ms":0,"outcome":"connection_reset","previous_delay_ms":120,"remaining_ms":8000,` +
			`"response_date":"Sun, 06 Nov 1994 08:49:37 GMT","retried_below":true,"retry_after":"2"}`},
		{"no deadline is left", Attempt{Remaining: new(time.Duration(0))}, `{"dependency":"","method":"","remaining_ms":0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(c.attempt.document())
			if err != nil || string(got) != c.want {
				t.Errorf("document %s, %v\nwant     %s", got, err, c.want)
			}
		})
	}
}

func TestReportDocument(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		report OutcomeReport
		want   string
	}{
		{OutcomeReport{}, `{"outcomes":[]}`},
		{
			OutcomeReport{Caller: "checkout", ReportID: "r1", Outcomes: []Outcomes{{"payments", 118, 2, 1}, {Dependency: "search"}}},
			`{"caller":"checkout","outcomes":[{"dependency":"payments","final_failures":1,"first_try_successes":118,"retry_successes":2},` +
				`{"dependency":"search"}],"report_id":"r1"}`,
		},
	} {
		got, err := json.Marshal(c.report.document())
		if err != nil || string(got) != c.want {
			t.Errorf("document %s, %v\nwant     %s", got, err, c.want)
		}
	}
}

// A deadline must not look longer than it is, nor a need shorter.
func TestMillisecondsRound(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		d        time.Duration
		down, up int64
	}{
		{0, 0, 0},
		{1, 0, 1},
		{ms - 1, 0, 1},
		{ms, 1, 1},
		{ms + 1, 1, 2},
		{-1, -1, 0},
		{-ms, -1, 0},
		{-ms - 1, -2, 0},
		{math.MaxInt64, 9223372036854, 9223372036855},
		{math.MinInt64, -9223372036855, 0},
	} {
		if down, up := down(c.d), up(c.d); down != c.down || up != c.up {
			t.Errorf("%d ns: down %d, up %d; want %d and %d", c.d, down, up, c.down, c.up)
		}
	}
}

// The contract's numbers reach beyond what a Duration holds; they must not turn
// into a wait below zero.
func TestDurationsSaturate(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]time.Duration{
		0:            0,
		2070:         2070 * time.Millisecond,
		-5:           -5 * time.Millisecond,
		1<<53 - 1:    time.Duration(maxMillis) * time.Millisecond,
		-(1<<53 - 1): -time.Duration(maxMillis) * time.Millisecond,
	} {
		if got := duration(ms); got != want {
			t.Errorf("%d ms is %s, want %s", ms, got, want)
		}
	}
}

// TestWordsAreTheContracts reads the open lists of words, for which nothing is
// generated, from the contract.
func TestWordsAreTheContracts(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	reasons := []Reason{
		ReasonBackoff, ReasonRetryAfter, ReasonCoolDown, ReasonNotAFailure, ReasonCanceled, ReasonServerRefused, ReasonNotRetryable,
		ReasonNotSafeToRepeat, ReasonRetriedBelow, ReasonNotTheRetryLayer, ReasonAttemptsExhausted, ReasonServerDelayTooLong,
		ReasonDeadline, ReasonPaused, ReasonBreakerOpen, ReasonBudgetExhausted, ReasonStoreUnavailable,
	}
	hints := []Hint{SameIdempotencyKey, NewConnection, NoEarlyData, ReportOutcomes}
	for first, want := range map[string]string{"backoff": joined(reasons), "same_idempotency_key": joined(hints)} {
		list := regexp.MustCompile(`x-extensible-enum: \[(` + first + `,[^\]]*)\]`).FindSubmatch(contract)
		if len(list) != 2 || string(list[1]) != want {
			t.Errorf("the contract's words %q, the client's %q", list, want)
		}
	}
}

func joined[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return strings.Join(list, ", ")
}

func TestOutcomesAreTheContracts(t *testing.T) {
	t.Parallel()
	for _, o := range []Outcome{
		Timeout, ConnectTimeout, ConnectionRefused, ConnectionReset, ConnectionClosed, DNSFailure, TLSFailure, NotProcessed, Canceled, BreakerOpen,
	} {
		if !api.AttemptOutcome(o).Valid() {
			t.Errorf("outcome %q is not in the contract", o)
		}
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	d := Decision{Hints: []Hint{"from_the_future", NewConnection}}
	if !d.Has(NewConnection) || d.Has(NoEarlyData) || !slices.Contains(d.Hints, "from_the_future") {
		t.Errorf("hints %v", d.Hints)
	}
}
