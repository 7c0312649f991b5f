package decider

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

func TestInbound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, attempt, remaining string
		retried                  bool
		status                   int
		inbound                  int
		bounded, says            bool
	}{
		{name: "nothing is told", status: 200},
		{name: "an attempt and a deadline", attempt: "3", remaining: "5000", status: 200, inbound: 3, bounded: true},
		{name: "nonsense", attempt: "-1", remaining: "soon", status: 200},
		{name: "retried, and failed all the same", retried: true, status: 503, says: true},
		{name: "retried, and it helped", retried: true, status: 200},
		{name: "failed, and not retried", status: 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			handler := Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				call := callOf(r.Context())
				deadline, bounded := r.Context().Deadline()
				if call.InboundAttempt != c.inbound || bounded != c.bounded || bounded && time.Until(deadline) > 5*time.Second {
					t.Errorf("inbound attempt %d, deadline %s", call.InboundAttempt, deadline)
				}
				// What the handler adds to its context keeps what came in.
				if c.retried {
					callOf(WithCall(r.Context(), Call{Dependency: "x"})).layer.retry()
				}
				w.WriteHeader(c.status)
			}))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.attempt != "" {
				r.Header.Set(AttemptHeader, c.attempt)
				r.Header.Set(RemainingHeader, c.remaining)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if says := w.Header().Get(RetriedHeader) == "true"; says != c.says || w.Code != c.status {
				t.Errorf("%d, %v", w.Code, w.Header())
			}
		})
	}
}

// Handlers that flush and hijack still can.
func TestInboundPassesThrough(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "flushed")
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhijacked")
		conn.Close()
	})))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{"/flush": "flushed", "/hijack": "hijacked"} {
		response, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, response); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestAttemptOf(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name     string
		response *http.Response
		err      error
		status   int
		outcome  Outcome
		ask      bool
	}{
		{"a status", &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"1", "2"}}}, nil, 503, "", true},
		{"a refused connection", nil, refused, 0, ConnectionRefused, true},
		{"an error wins", &http.Response{StatusCode: 503}, io.EOF, 0, ConnectionClosed, true},
		{"what is not known may have been sent", nil, errors.New("boom"), 0, ConnectionClosed, true},
		{"a host that is not", nil, &net.DNSError{IsNotFound: true}, 0, DNSFailure, false},
	} {
		r := request(t, WithCall(t.Context(), Call{MinAttempt: time.Second, InboundAttempt: 2}), "POST", "http://payments.example", "x")
		r.Header.Set(KeyHeader, "k")
		a, ask := AttemptOf(r, c.response, c.err, 3)
		if a.Status != c.status || a.Outcome != c.outcome || ask != c.ask || a.Number != 3 || !a.HasIdempotencyKey || a.Method != "POST" ||
			a.Dependency != "payments.example" || *a.MinAttempt != time.Second || a.InboundAttempt != 2 {
			t.Errorf("%s: %+v, %t", c.name, a, ask)
		}
		if c.status != 0 && a.RetryAfter != "1, 2" {
			t.Errorf("Retry-After %q", a.RetryAfter)
		}
	}
}
