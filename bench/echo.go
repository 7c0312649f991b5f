package main

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
)

// bareEcho decodes an Attempt and encodes a Decision by encoding/json, with echo
// and nothing between: the most that the asked-for stack can do. The decision is
// the one that decider gives to these attempts, but for the dependency.
func bareEcho() http.Handler {
	next, remaining, cost := int64(2), int64(7923), 1.0
	answer := gen.Decision{
		Decision: "retry", DelayMs: 77, Reason: "backoff",
		Message:    "Retry in 77 ms as attempt 2 of at most 4, after the policy's own backoff.",
		DecisionId: "Vt1mQbX0Tn2mTgKq3wFb1w", Policy: "*", NextAttempt: &next, RemainingMs: &remaining,
		RetryAfter: "absent", Breaker: "off", Hints: []string{},
		Budget: &gen.Budget{Tokens: 999_876.5, Capacity: 1_000_000, Cost: &cost, Source: "fleet"},
	}
	e := echo.New()
	e.POST("/v1/decide", func(c echo.Context) error {
		var a gen.Attempt
		if err := c.Bind(&a); err != nil {
			return err
		}
		d := answer
		d.Dependency = a.Dependency
		return c.JSON(http.StatusOK, &d)
	})
	return e
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
