// Package backoff lets decider decide in cenkalti/backoff.
//
// That library asks a BackOff for the next wait and is not told of the error, so
// the operation is wrapped: its failure is brought to decider, and the BackOff
// says what came of it.
package backoff

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	decider "github.com/retrydecider/decider/clients/go"
)

// Retry runs operation until it succeeds or decider says to give up, and returns
// the last result and error. describe says how an attempt ended; where its ask
// is false, the error is final.
func Retry[T any](ctx context.Context, client *decider.Client, dependency string, operation backoff.Operation[T],
	describe func(err error) (a decider.Attempt, ask bool), opts ...backoff.RetryOption,
) (T, error) {
	next := new(answer)
	attempt := 0
	asking := func() (T, error) {
		result, err := operation()
		attempt++
		if err == nil {
			client.Succeeded(dependency, attempt)
			return result, nil
		}
		a, ask := describe(err)
		if !ask {
			return result, backoff.Permanent(err)
		}
		a.Dependency, a.Number, a.PreviousDelay = dependency, attempt, next.Delay
		next.Decision = client.Ask(ctx, a)
		return result, err
	}
	opts = append([]backoff.RetryOption{backoff.WithBackOff(next), backoff.WithMaxElapsedTime(0)}, opts...)
	return backoff.Retry(ctx, asking, opts...)
}

// answer is a BackOff of what was decided last.
type answer struct{ decider.Decision }

// NextBackOff is the decision.
func (a *answer) NextBackOff() time.Duration {
	if !a.Retry {
		return backoff.Stop
	}
	return a.Delay
}

// Reset has nothing to forget: decider counts.
func (a *answer) Reset() {}
