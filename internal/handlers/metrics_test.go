package handlers

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/decide"
)

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

func TestReasonCountIsDecides(t *testing.T) {
	t.Parallel()
	if n := len(decide.Reasons()); n != reasonCount {
		t.Errorf("decide has %d reasons, the counters %d", n, reasonCount)
	}
}

func TestMetricsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	c := newCaller(t, newHandler(t, testConfig(&fakeFleet{ask: func(*decide.Question) decide.Answer {
		return decide.Answer{Verdict: decide.NoTokens, Degraded: true}
	}})))
	c.post("/v1/decide", failed)
	c.post("/v1/decide", `{"dependency":"payments","method":"GET","status":503,"retry_after":"soon"}`)
	for _, name := range []string{"svc-a", "svc-b", "elsewhere"} {
		c.post("/v1/decide", `{"dependency":"`+name+`","method":"GET","status":503}`)
	}
	c.post("/v1/decide", `{}`)
	c.post("/v1/outcomes", `{"outcomes":[{"dependency":"payments","first_try_successes":7},{"dependency":"svc-a","final_failures":2}]}`)
	c.get("/v1/dependencies/svc-a")
	c.get("/no/such/path")
	c.do(c.request("PURGE", "/v1/decide", nil))
	text := string(c.get("/metrics").body)
	for _, line := range []string{
		`decider_decisions_total{decision="give_up",dependency="payments",reason="budget_exhausted"} 2`,
		`decider_decisions_total{decision="give_up",dependency="_other",reason="budget_exhausted"} 3`,
		`decider_decisions_total{decision="retry",dependency="payments",reason="backoff"} 0`,
		`decider_retry_after_malformed_total{dependency="payments"} 1`,
		`decider_degraded_decisions_total{dependency="_other"} 3`,
		`decider_outcomes_total{dependency="payments",outcome="first_try_success"} 7`,
		`decider_outcomes_total{dependency="_other",outcome="final_failure"} 2`,
		`http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="200",http_route="/v1/decide",url_scheme="http"} 5`,
		`http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="422",http_route="/v1/decide",url_scheme="http"} 1`,
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="/v1/dependencies/:dependency",url_scheme="http"} 1`,
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="404",http_route="_other",url_scheme="http"} 1`,
		`http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="405",http_route="/v1/decide",url_scheme="http"} 1`,
		`version="test"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "svc-") || strings.Contains(text, "elsewhere") {
		t.Error("a client's name has become a label")
	}
}

// A decision_id that is asked again is answered again and spends nothing: the
// counters of attempts and of what they cost go by what happened once.
func TestAReplayIsCountedOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	c := newCaller(t, newHandler(t, testConfig(&fakeFleet{ask: func(*decide.Question) decide.Answer {
		asked++
		return decide.Answer{Budget: decide.Budget{Asked: true, Tokens: 9_000_000, Capacity: 10_000_000, Cost: 1_000_000}, Own: 200, Delay: 200,
			Replayed: asked > 1, Degraded: asked > 1}
	}})))
	const again = `{"dependency":"payments","method":"GET","status":503,"retry_after":"soon","decision_id":"id-1"}`
	for range 3 {
		c.post("/v1/decide", again)
	}
	c.post("/v1/decide/batch", `{"attempts":[`+again+`,`+again+`]}`)
	text := string(c.get("/metrics").body)
	for _, line := range []string{
		`decider_decisions_total{decision="retry",dependency="payments",reason="backoff"} 5`,
		`decider_degraded_decisions_total{dependency="payments"} 4`,
		`decider_first_attempts_total{dependency="payments"} 1`,
		`decider_retries_asked_total{dependency="payments"} 1`,
		`decider_retries_granted_total{dependency="payments"} 1`,
		`decider_budget_spent_tokens_total{dependency="payments"} 1`,
		`decider_retry_after_malformed_total{dependency="payments"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// The scheme is the connection's own, whatever a client claims.
func TestSchemeIsTheConnections(t *testing.T) {
	t.Parallel()
	h := newHandler(t, testConfig(new(fakeFleet)))
	for _, over := range []*tls.ConnectionState{nil, new(tls.ConnectionState)} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil)
		r.TLS = over
		r.Header.Set("X-Forwarded-Proto", "gopher")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	text := string(newCaller(t, h).get("/metrics").body)
	for _, scheme := range []string{"http", "https"} {
		if !strings.Contains(text, `http_route="/v1/status",url_scheme="`+scheme+`"} 1`+"\n") {
			t.Errorf("no %s", scheme)
		}
	}
}

func TestTallyIsBounded(t *testing.T) {
	t.Parallel()
	tally := newTally()
	for i := range 2 * maxSeen {
		tally.count(&decide.Decision{Dependency: "d" + strconv.Itoa(i), Policy: "default"}, epoch)
	}
	tally.count(&decide.Decision{Dependency: "payments", Policy: "payments", Reason: decide.ReasonDeadline}, epoch)
	if n := len(tally.with(map[string]bool{})); n != maxSeen+1 {
		t.Errorf("%d names", n)
	}
	if got := tally.of("payments"); len(got) != 1 || got["deadline"] != 1 {
		t.Errorf("counts %v", got)
	}
}
