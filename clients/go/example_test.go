package decider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// startDecider stands in for a decider: it grants every retry after 51 ms.
func startDecider() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"decision":"retry","delay_ms":51,"reason":"backoff","next_attempt":2,
			"message":"Retry in 51 ms as attempt 2 of at most 4, after the policy's own backoff."}`)
	}))
}

func ExampleNewTransport() {
	server := startDecider() // or http://127.0.0.1:8080 after `make run`
	defer server.Close()
	down := true
	payments := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down {
			down = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "paid")
	}))
	defer payments.Close()

	client, err := decider.NewClient(server.URL, decider.WithCaller("checkout"), decider.WithTimeout(time.Second), decider.WithReportInterval(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	retries := decider.ObserverFunc(func(_ context.Context, e decider.Event) {
		fmt.Printf("attempt %d ended with %d; retry: %t, in %s\n", e.Attempt, e.Status, e.Decision.Retry, e.Decision.Delay)
	})
	caller := &http.Client{
		Timeout: 5 * time.Second, // of the whole call; decider plans within it
		Transport: decider.NewTransport(client,
			decider.WithDependency(func(*http.Request) string { return "payments" }),
			decider.WithIdempotencyKey(nil), // payments honors keys, so that a POST may be repeated
			decider.WithObserver(retries)),
	}
	response, err := caller.Post(payments.URL, "text/plain", strings.NewReader("10 EUR"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(string(body))
	// Output:
	// attempt 1 ended with 503; retry: true, in 51ms
	// paid
}

// Calls of any other kind: the loop is your own.
func ExampleClient_Ask() {
	server := startDecider()
	defer server.Close()
	client, err := decider.NewClient(server.URL, decider.WithTimeout(time.Second), decider.WithReportInterval(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	ctx := context.Background()
	attempts := 0
	publish := func() error {
		if attempts++; attempts == 1 {
			return errors.New("the broker closed the connection")
		}
		return nil
	}
	for attempt := 1; ; attempt++ {
		err := publish()
		if err == nil {
			client.Succeeded("broker", attempt)
			break
		}
		decision := client.Ask(ctx, decider.Attempt{
			Dependency: "broker", Method: "PUT", Outcome: decider.ConnectionClosed, Number: attempt,
		})
		if !decision.Retry {
			fmt.Println("give up:", err)
			return
		}
		time.Sleep(decision.Delay)
	}
	fmt.Println("published at attempt", attempts)
	// Output: published at attempt 2
}

// What one call knows, its context carries.
func ExampleWithCall() {
	ctx := decider.WithCall(context.Background(), decider.Call{
		Dependency:     "orders",
		IdempotencyKey: "order-4711",          // of the operation, for every attempt
		MinAttempt:     50 * time.Millisecond, // no retry with less left
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://orders.example/v1/orders", strings.NewReader("{}"))
	fmt.Println(r.Method, r.URL, err)
	// Output: POST http://orders.example/v1/orders <nil>
}

// Every retry in the log, with its number, its wait and its cause.
func ExampleLogTo() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	decider.LogTo(log).Observe(context.Background(), decider.Event{
		Dependency: "payments", Method: "GET", Attempt: 1, Status: 503,
		Decision: decider.Decision{Retry: true, Delay: 51 * time.Millisecond, Reason: decider.ReasonBackoff, DecisionID: "7f3c9a52"},
	})
	// Output: level=INFO msg=retry call.dependency=payments call.method=GET call.attempt=1 call.status=503 call.retry=true call.delay_ms=51 call.reason=backoff call.degraded=false call.local=false call.decision_id=7f3c9a52
}

func ExampleClient_Decide() {
	server := startDecider() // or http://127.0.0.1:8080 after `make run`
	defer server.Close()
	client, err := decider.NewClient(server.URL, decider.WithCaller("checkout"), decider.WithTimeout(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()

	// A GET to payments came back with 503.
	decision, err := client.Decide(context.Background(), decider.Attempt{
		Dependency: "payments",
		Method:     http.MethodGet,
		Status:     http.StatusServiceUnavailable,
		Number:     1,
		Remaining:  new(8 * time.Second),
	})
	switch {
	case err != nil:
		fmt.Println("no decision, so give up:", err)
	case !decision.Retry:
		fmt.Println("give up:", decision.Message)
	default:
		fmt.Printf("wait %s, then make attempt %d\n", decision.Delay, decision.NextAttempt)
	}
	// Output: wait 51ms, then make attempt 2
}

func ExampleClient_Report() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"dependencies":[{"dependency":"payments","breaker":"off","budget":{"tokens":9.3,"capacity":10,"source":"fleet"}}]}`)
	}))
	defer server.Close()
	client, err := decider.NewClient(server.URL, decider.WithTimeout(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()

	// Once a second: what went well since the last time feeds the budget.
	states, err := client.Report(context.Background(), decider.OutcomeReport{
		Caller:   "checkout",
		Outcomes: []decider.Outcomes{{Dependency: "payments", FirstTrySuccesses: 118, RetrySuccesses: 2}},
	})
	if err != nil {
		fmt.Println("the counts can go with the next report:", err)
		return
	}
	for _, state := range states {
		fmt.Printf("%s has %.1f of %.0f retries left\n", state.Dependency, state.Budget.Tokens, state.Budget.Capacity)
	}
	// Output: payments has 9.3 of 10 retries left
}

func ExampleProblem() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"type":"urn:decider:problem:not-valid","title":"The request is not valid","status":422,
			"detail":"Wrong: /attempt.","errors":[{"field":"/attempt","detail":"must be at least 1"}]}`)
	}))
	defer server.Close()
	client, err := decider.NewClient(server.URL, decider.WithTimeout(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()

	_, err = client.Decide(context.Background(), decider.Attempt{Dependency: "payments", Method: http.MethodGet, Status: 503, Number: -7})
	var problem *decider.Problem
	if errors.As(err, &problem) {
		for _, each := range problem.Errors {
			fmt.Println(each.Field, each.Detail)
		}
	}
	// Output: /attempt must be at least 1
}
