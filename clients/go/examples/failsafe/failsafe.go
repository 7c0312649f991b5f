// Package failsafe lets decider decide in failsafe-go: a retry policy whose
// abort condition asks decider, and whose delay is the answer's.
//
// Neither is told of which execution it is asked, so a policy belongs to one
// operation. Policies of other kinds (timeouts, bulkheads, hedges) compose with
// it as ever.
package failsafe

import (
	"context"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	decider "github.com/retrydecider/decider/clients/go"
)

// NewRetryPolicy makes the policy of one operation. describe says how an attempt
// of it ended; ask is false where it succeeded, or failed for good.
func NewRetryPolicy[R any](ctx context.Context, client *decider.Client, describe func(result R, err error) (a decider.Attempt, ask bool)) retrypolicy.RetryPolicy[R] {
	var last decider.Decision
	attempt := 0
	return retrypolicy.NewBuilder[R]().
		HandleIf(func(result R, err error) bool {
			_, ask := describe(result, err)
			return ask
		}).
		AbortIf(func(result R, err error) bool { // asked once for each failure
			attempt++
			a, _ := describe(result, err)
			a.Number, a.PreviousDelay = attempt, last.Delay
			last = client.Ask(ctx, a)
			return !last.Retry
		}).
		WithDelayFunc(func(failsafe.ExecutionAttempt[R]) time.Duration { return last.Delay }).
		WithMaxRetries(-1). // decider counts
		ReturnLastFailure().
		Build()
}

// Do makes an HTTP call with all its attempts: send makes one. It returns the
// last response, whatever its status, or the last error.
func Do(client *decider.Client, r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, attempts := r.Context(), 0
	policy := NewRetryPolicy(ctx, client, func(response *http.Response, err error) (decider.Attempt, bool) {
		a, ask := decider.AttemptOf(r, response, err, attempts)
		return a, ask && (err != nil || response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests)
	})
	response, err := failsafe.With[*http.Response](policy).WithContext(ctx).GetWithExecution(func(e failsafe.Execution[*http.Response]) (*http.Response, error) {
		if attempts++; attempts > 1 {
			if before := e.LastResult(); before != nil {
				before.Body.Close()
			}
			if r.GetBody != nil {
				body, err := r.GetBody()
				if err != nil {
					return nil, err
				}
				r = r.Clone(ctx)
				r.Body = body
			}
		}
		return send(r)
	})
	if err == nil && response.StatusCode < 400 {
		a, _ := decider.AttemptOf(r, response, nil, attempts)
		client.Succeeded(a.Dependency, attempts)
	}
	return response, err
}
