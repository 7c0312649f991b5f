// Package standin plays a decider and a dependency for the adapters' tests.
package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// Question is an attempt as decider receives it.
type Question struct {
	Dependency string            `json:"dependency"`
	Method     string            `json:"method"`
	Status     int               `json:"status"`
	Outcome    string            `json:"outcome"`
	GRPCStatus string            `json:"grpc_status"`
	Attempt    int               `json:"attempt"`
	Idempotent bool              `json:"idempotent"`
	RetryAfter string            `json:"retry_after"`
	Headers    map[string]string `json:"headers"`
	// Traceparent is what came with it.
	Traceparent string `json:"-"`
}

// Decider grants retries of so many attempts, each after 20 ms.
type Decider struct {
	Client *decider.Client

	mu        sync.Mutex
	questions []Question
}

// Delay is the wait before each retry.
const Delay = 20 * time.Millisecond

// Start starts a decider that allows so many attempts, and a client of it.
func Start(tb testing.TB, attempts int, opts ...decider.Option) *Decider {
	tb.Helper()
	d := &Decider{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/decide" {
			_, _ = io.WriteString(w, `{"dependencies":[]}`)
			return
		}
		var q Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			tb.Error(err)
		}
		q.Traceparent = r.Header.Get("Traceparent")
		d.mu.Lock()
		d.questions = append(d.questions, q)
		d.mu.Unlock()
		if q.Attempt >= attempts {
			_, _ = io.WriteString(w, `{"decision":"give_up","reason":"attempts_exhausted"}`)
			return
		}
		fmt.Fprintf(w, `{"decision":"retry","reason":"backoff","delay_ms":%d,"next_attempt":%d}`, Delay.Milliseconds(), q.Attempt+1)
	}))
	client, err := decider.NewClient(server.URL, append(opts, decider.WithTimeout(5*time.Second), decider.WithReportInterval(0))...)
	if err != nil {
		tb.Fatal(err)
	}
	d.Client = client
	tb.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	return d
}

// Questions are those that were put.
func (d *Decider) Questions() []Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Question(nil), d.questions...)
}

// Dependency answers with one status after the other, and the last for ever.
func Dependency(tb testing.TB, statuses ...int) (url string, requests func() int) {
	tb.Helper()
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		n++
		status := statuses[min(n, len(statuses))-1]
		mu.Unlock()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		fmt.Fprint(w, status)
	}))
	tb.Cleanup(server.Close)
	return server.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}
