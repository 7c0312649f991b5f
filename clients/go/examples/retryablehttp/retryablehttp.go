// Package retryablehttp lets decider decide in hashicorp/go-retryablehttp.
//
// That library asks two functions after each attempt: CheckRetry, whether, and
// Backoff, how long. Only the first knows the call, so both belong to one
// operation, and so does the retryablehttp.Client that holds them; it is a few
// words of memory, and the http.Client with the connections is shared.
package retryablehttp

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	decider "github.com/retrydecider/decider/clients/go"
)

// Client makes requests as retryablehttp.Client does, and asks decider.
type Client struct {
	Decider *decider.Client
	HTTP    *http.Client
}

// Do makes one request with all its attempts. It returns the last response,
// whatever its status, or the last error.
func (c *Client) Do(r *retryablehttp.Request) (*http.Response, error) {
	o := &operation{decider: c.Decider, request: r.Request}
	one := &retryablehttp.Client{
		HTTPClient:   c.HTTP,
		RetryMax:     math.MaxInt32, // decider counts
		CheckRetry:   o.checkRetry,
		Backoff:      o.backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // the last response, not an error in its place
	}
	return one.Do(r)
}

// operation is one request and what was decided of it last.
type operation struct {
	decider *decider.Client
	request *http.Request
	attempt int
	last    decider.Decision
}

// checkRetry is asked after each attempt, those that succeeded included.
func (o *operation) checkRetry(ctx context.Context, response *http.Response, err error) (bool, error) {
	o.attempt++
	attempt, ask := decider.AttemptOf(o.request, response, err, o.attempt)
	if err == nil && response.StatusCode < 400 {
		o.decider.Succeeded(attempt.Dependency, o.attempt)
		return false, nil
	}
	if !ask || err == nil && response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests {
		return false, nil
	}
	attempt.PreviousDelay = o.last.Delay
	o.last = o.decider.Ask(ctx, attempt)
	return o.last.Retry, ctx.Err()
}

// backoff is asked after a checkRetry that said yes.
func (o *operation) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration {
	return o.last.Delay
}
