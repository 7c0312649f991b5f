package decider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
