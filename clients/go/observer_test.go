package decider

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestEventsAreLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event Event
		want  []string
	}{
		{
			Event{Dependency: "payments", Method: "GET", Attempt: 2, Resent: 1, Outcome: ConnectionReset, Err: errors.New("boom"), Decision: Decision{Retry: true, Local: true, Degraded: true}},
			[]string{"level=INFO", "outcome=connection_reset", "error=boom", "resent=1", "local=true", "degraded=true", "attempt=2"},
		},
		{
			Event{Dependency: "payments", Method: "GET", Attempt: 4, Status: 503, Decision: Decision{Reason: ReasonAttemptsExhausted}},
			[]string{"level=WARN", "status=503", "retry=false", "reason=attempts_exhausted"},
		},
	} {
		var out bytes.Buffer
		LogTo(slog.New(slog.NewTextHandler(&out, nil))).Observe(t.Context(), c.event)
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s is not in %s", want, &out)
			}
		}
	}
}

func TestHostOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://payments.example/x":          "payments.example",
		"http://Payments.Example:80/":        "payments.example",
		"https://payments.example:443":       "payments.example",
		"https://payments.example:8443":      "payments.example:8443",
		"http://payments.example:443":        "payments.example:443",
		"http://[::1]:8080/":                 "host::1:8080",
		"http://under_score.example":         "under_score.example",
		"http://b%C3%BCcher.example/":        "b-cher.example",
		"http://" + strings.Repeat("a", 200): strings.Repeat("a", 128),
		"http://-x.example":                  "host-x.example",
	} {
		r := request(t, t.Context(), "GET", url, "")
		if got := HostOf(r); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// A successful call costs a dozen small allocations and asks nobody.
func TestSuccessAllocatesLittle(t *testing.T) {
	ok := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	tr := NewTransport(nil, WithBase(transportFunc(func(*http.Request) (*http.Response, error) { return ok, nil })))
	r := request(t, t.Context(), "GET", "http://payments.example/x", "")
	if n := testing.AllocsPerRun(200, func() { _, _ = tr.RoundTrip(r) }); n > 14 {
		t.Errorf("%.0f allocations", n)
	}
}
