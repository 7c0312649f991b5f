package main

import (
	"context"
	"net/http"
	"time"

	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/handlers/bareecho"
)

// bareEcho answers what decider answers to these attempts.
func bareEcho() http.Handler {
	next, remaining, cost := int64(2), int64(7923), 1.0
	return bareecho.New(gen.Decision{
		Decision: "retry", DelayMs: 77, Reason: "backoff",
		Message:    "Retry in 77 ms as attempt 2 of at most 4, after the policy's own backoff.",
		DecisionId: "Vt1mQbX0Tn2mTgKq3wFb1w", Policy: "*", NextAttempt: &next, RemainingMs: &remaining,
		RetryAfter: "absent", Breaker: "off", Hints: []string{},
		Budget: &gen.Budget{Tokens: 999_876.5, Capacity: 1_000_000, Cost: &cost, Source: "fleet"},
	})
}

// serveBareEcho serves it until the context ends.
func serveBareEcho(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, Handler: bareEcho(), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}
