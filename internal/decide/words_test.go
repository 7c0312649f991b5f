package decide_test

import (
	"flag"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMessages holds one message per reason, and each variant of those that
// have several, against a golden file.
func TestMessages(t *testing.T) {
	t.Parallel()
	type edits = []func(*decide.Attempt)
	set := func(edit func(*decide.Attempt)) edits { return edits{edit} }
	checkout := func(p *decide.Policy) { p.RetryLayer = []string{"checkout"} }
	verdict := func(v decide.Verdict, again int64) decide.Answer {
		return decide.Answer{Verdict: v, AskAgain: decide.Some(again)}
	}
	noTokens := verdict(decide.NoTokens, 6000)
	noTokens.Budget = decide.Budget{Asked: true, Tokens: 400_000, Capacity: 10_000_000, Cost: 1_000_000}
	noLocal := decide.Answer{Verdict: decide.NoTokens, Degraded: true, Budget: noTokens.Budget}
	noLocal.Budget.Local = true
	open, half := verdict(decide.OpenBreaker, 5000), verdict(decide.OpenBreaker, 5000)
	open.Breaker, half.Breaker = decide.BreakerOpen, decide.BreakerHalfOpen
	tests := []struct {
		policy  func(*decide.Policy)
		attempt edits
		answer  decide.Answer
		want    decide.Reason
	}{
		{want: decide.ReasonBackoff},
		{want: decide.ReasonRetryAfter, attempt: edits{retryAfter("2")}},
		{want: decide.ReasonCoolDown, answer: decide.Answer{CoolDown: 5000}},
		{want: decide.ReasonNotAFailure, attempt: set(func(a *decide.Attempt) { a.Failure = 200 })},
		{want: decide.ReasonCanceled, attempt: set(func(a *decide.Attempt) { a.Failure = decide.CanceledByCaller })},
		{want: decide.ReasonServerRefused, attempt: edits{header(decide.XShouldRetryHeader, "false")}, policy: honours(decide.XShouldRetryHeader)},
		{want: decide.ReasonNotRetryable, attempt: set(func(a *decide.Attempt) { a.Failure = 404 })},
		{want: decide.ReasonNotSafeToRepeat, attempt: set(func(a *decide.Attempt) { a.Method, a.Failure = "POST", decide.Timeout })},
		{want: decide.ReasonRetriedBelow, attempt: set(func(a *decide.Attempt) { a.RetriedBelow = true })},
		{want: decide.ReasonNotTheRetryLayer, attempt: set(func(a *decide.Attempt) { a.Caller = "cart" }), policy: checkout},
		{want: decide.ReasonNotTheRetryLayer, policy: checkout},
		{want: decide.ReasonNotTheRetryLayer, attempt: set(func(a *decide.Attempt) { a.InboundAttempt = 2 }), policy: func(p *decide.Policy) { p.OnlyFirstInbound = true }},
		{want: decide.ReasonAttemptsExhausted, attempt: set(func(a *decide.Attempt) { a.Number = 4 })},
		{want: decide.ReasonAttemptsExhausted, attempt: set(func(a *decide.Attempt) { a.Number, a.Failure = 2, 421 })},
		{want: decide.ReasonServerDelayTooLong, attempt: edits{retryAfter("3600")}},
		{want: decide.ReasonDeadline, attempt: edits{remaining(-5)}},
		{want: decide.ReasonDeadline, attempt: edits{remaining(150)}},
		{want: decide.ReasonDeadline, attempt: edits{remaining(2100), retryAfter("2"), func(a *decide.Attempt) { a.MinAttempt = decide.Some(200) }}},
		{want: decide.ReasonDeadline, attempt: edits{remaining(2100)}, answer: decide.Answer{Verdict: decide.CoolDownTooLong, CoolDown: 5000}},
		{want: decide.ReasonPaused, answer: verdict(decide.Paused, 60_000)},
		{want: decide.ReasonBreakerOpen, answer: open},
		{want: decide.ReasonBreakerOpen, answer: half},
		{want: decide.ReasonBreakerOpen, attempt: set(func(a *decide.Attempt) { a.Failure = decide.CallerBreakerOpen })},
		{want: decide.ReasonBudgetExhausted, answer: noTokens},
		{want: decide.ReasonBudgetExhausted, answer: noLocal},
		{want: decide.ReasonBudgetExhausted, answer: verdict(decide.NoTokens, 6000)},
		{want: decide.ReasonStoreUnavailable, answer: decide.Answer{Verdict: decide.Unavailable, Degraded: true}},
	}
	sentence := regexp.MustCompile(`^(Retry in \d+ ms|Give up: )[^.\n%]*([0-9]\.[0-9][^.\n%]*)*\.$`)
	var lines []string
	seen := map[decide.Reason]bool{}
	for _, test := range tests {
		p := standard(constant(200))
		if test.policy != nil {
			test.policy(p)
		}
		d := mustDecide(t, decider(p, answers(test.answer)), got503(test.attempt...))
		if d.Reason != test.want {
			t.Errorf("the reason is %s, want %s", d.Reason, test.want)
		}
		if message := d.Message(); !sentence.MatchString(message) {
			t.Errorf("%s: %q is no sentence", d.Reason, message)
		}
		seen[d.Reason] = true
		lines = append(lines, d.Reason.String()+": "+d.Message())
	}
	for _, reason := range decide.Reasons() {
		if !seen[reason] {
			t.Errorf("%s has no message here", reason)
		}
	}
	golden(t, "testdata/messages.golden", strings.Join(lines, "\n")+"\n")
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// A decision made by hand has a message too, if a short one.
func TestMessageOfAReasonThatIsNone(t *testing.T) {
	t.Parallel()
	d := decide.Decision{Reason: 200}
	if got := d.Message(); got != "give_up" {
		t.Errorf("the message is %q", got)
	}
	if got := (&decide.Decision{}).Word(); got != "retry" {
		t.Errorf("the zero decision is to %s", got)
	}
}

// The words are those of the contract, in its order.
func TestWords(t *testing.T) {
	t.Parallel()
	var reasons []string
	for _, reason := range decide.Reasons() {
		reasons = append(reasons, reason.String())
	}
	tests := []struct {
		name      string
		got, want []string
	}{
		{"reasons", reasons, strings.Fields(`backoff retry_after cool_down not_a_failure canceled server_refused not_retryable
			not_safe_to_repeat retried_below not_the_retry_layer attempts_exhausted server_delay_too_long deadline paused
			breaker_open budget_exhausted store_unavailable`)},
		{"outcomes", decide.Outcomes(), strings.Fields(`timeout connect_timeout connection_refused connection_reset
			connection_closed dns_failure tls_failure not_processed canceled breaker_open`)},
		{"uses", words(decide.DelayAbsent, decide.DelayMalformed), strings.Fields("absent unused used shorter_than_backoff too_long malformed")},
		{"breaker", words(decide.BreakerOff, decide.BreakerHalfOpen), strings.Fields("off closed open half_open")},
		{"breaker modes", words(decide.BreakerModeOff, decide.BreakerModeAll), strings.Fields("off retries all")},
		{"cool-downs", words(decide.CoolDownAuto, decide.CoolDownOff), strings.Fields("auto fleet caller off")},
		{"store failures", words(decide.StoreFailureLocal, decide.StoreFailureAllow), strings.Fields("local give_up allow")},
		{"kinds", words(decide.Plain, decide.Timing), strings.Fields("default throttle timeout")},
		{"overrides", words(decide.OverrideNone, decide.OverrideAllow), strings.Fields("none pause allow")},
		{"classes", words(decide.Final, decide.CallerBreaker), strings.Fields("final never_sent ambiguous not_a_failure canceled breaker_open")},
		{"hints", (decide.SameIdempotencyKey | decide.NewConnection | decide.NoEarlyData | decide.ReportOutcomes).Names(),
			strings.Fields("same_idempotency_key new_connection no_early_data report_outcomes")},
		{"no hint", decide.Hints(0).Names(), nil},
	}
	for _, test := range tests {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s are %v, want %v", test.name, test.got, test.want)
		}
	}
	for _, reason := range decide.Reasons() {
		if reason.Retry() != (reason <= decide.ReasonCoolDown) {
			t.Errorf("%s retries: %t", reason, reason.Retry())
		}
	}
}

// words are those of a run of values.
func words[T interface {
	~uint8
	String() string
}](first, last T) (list []string) {
	for value := first; value <= last; value++ {
		list = append(list, value.String())
	}
	return list
}

func TestParseOverride(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]decide.OverrideMode{"pause": decide.OverridePause, "allow": decide.OverrideAllow} {
		if got, ok := decide.ParseOverride(word); !ok || got != want {
			t.Errorf("%s reads as %s, %t", word, got, ok)
		}
	}
	for _, word := range []string{"", "none", "Pause"} {
		if _, ok := decide.ParseOverride(word); ok {
			t.Errorf("%q is an override", word)
		}
	}
}

func TestCoolDownForCaller(t *testing.T) {
	t.Parallel()
	tests := []struct {
		scope           decide.CoolDown
		throttle, plain bool
	}{
		{decide.CoolDownAuto, true, false},
		{decide.CoolDownFleet, false, false},
		{decide.CoolDownCaller, true, true},
		{decide.CoolDownOff, false, false},
	}
	for _, test := range tests {
		if got := test.scope.ForCaller(decide.Throttle); got != test.throttle {
			t.Errorf("%s, a throttle: for its caller %t", test.scope, got)
		}
		if got := test.scope.ForCaller(decide.Timing); got != test.plain {
			t.Errorf("%s, a timeout: for its caller %t", test.scope, got)
		}
	}
}

func TestFormatMicro(t *testing.T) {
	t.Parallel()
	for micro, want := range map[decide.Micro]string{
		0: "0", 1: "0.000001", 100_000: "0.1", 9_100_000: "9.1", 10_000_000: "10", 1_000_001: "1.000001", -1: "-0.000001", -1_500_000: "-1.5",
		math.MaxInt64: "9223372036854.775807", math.MinInt64: "-9223372036854.775808",
	} {
		if got := decide.FormatMicro(micro); got != want {
			t.Errorf("%d millionths are %s, want %s", micro, got, want)
		}
	}
}
