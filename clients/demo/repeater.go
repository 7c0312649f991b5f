package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// What libraries do by default: three retries, full jitter.
const (
	maxRetries = 3
	firstWait  = 100 * time.Millisecond
)

// repeater makes a call up to four times. Where it has a bucket each retry takes
// a token, or is not made.
type repeater struct {
	base   http.RoundTripper
	bucket *tokens
}

// RoundTrip repeats.
func (c *repeater) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		try := r.Clone(r.Context())
		try.Header.Set(decider.AttemptHeader, strconv.Itoa(attempt))
		response, err := c.base.RoundTrip(try)
		good := err == nil && response.StatusCode < 500
		if good {
			c.bucket.deposit()
		}
		if good || attempt > maxRetries || !c.bucket.spend() {
			return response, err
		}
		wait := time.Duration(rand.Float64() * float64(firstWait<<(attempt-1)))
		if response != nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close() // a failed response's
		}
		if w, ok := r.Context().Value(waitsKey{}).(*waits); ok {
			w.sum += wait
		}
		if !sleep(r.Context(), wait) {
			return nil, r.Context().Err()
		}
	}
}

// A bucket per client as published ones have it.
const (
	burst = 5
	ratio = 0.1
)

// tokens is one client's own bucket, fed by its successes. nil is no limit.
type tokens struct {
	mu   sync.Mutex
	left float64
}

func newTokens() *tokens { return &tokens{left: burst} }

func (t *tokens) deposit() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = min(t.left+ratio, burst)
}

func (t *tokens) spend() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left < 1 {
		return false
	}
	t.left--
	return true
}
