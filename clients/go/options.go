package decider

import (
	"net/http"
	"time"
)

type transportConfig struct {
	base           http.RoundTripper
	dependency     func(*http.Request) string
	newKey         func(*http.Request) string
	keyHeader      string
	attemptHeader  *string
	remaining      *string
	attemptTimeout time.Duration
	minAttempt     *time.Duration
	observer       Observer
	alsoAsk        map[int]bool
}

// TransportOption changes what [NewTransport] makes.
type TransportOption func(*transportConfig)

// WithBase sends through base instead of [http.DefaultTransport].
func WithBase(base http.RoundTripper) TransportOption {
	return func(c *transportConfig) { c.base = base }
}

// WithDependency names the dependency of each request instead of [HostOf].
func WithDependency(name func(*http.Request) string) TransportOption {
	return func(c *transportConfig) { c.dependency = name }
}

// WithIdempotencyKey gives each request that has none a key, the same for all
// its attempts. newKey makes it, and "" means none for this request; a nil
// newKey gives random keys to requests whose method is not idempotent. The
// server must honor them: use it for dependencies that are known to.
func WithIdempotencyKey(newKey func(*http.Request) string) TransportOption {
	return func(c *transportConfig) {
		if c.newKey = newKey; newKey == nil {
			c.newKey = randomKey
		}
	}
}

// WithKeyHeader carries idempotency keys in another header than [KeyHeader].
func WithKeyHeader(name string) TransportOption {
	return func(c *transportConfig) { c.keyHeader = http.CanonicalHeaderKey(name) }
}

// WithAttemptHeader tells the number of the attempt in another header than
// [AttemptHeader]; "" does not tell it.
func WithAttemptHeader(name string) TransportOption {
	return func(c *transportConfig) { c.attemptHeader = &name }
}

// WithRemainingHeader tells what is left of the deadline in another header than
// [RemainingHeader]; "" does not tell it.
func WithRemainingHeader(name string) TransportOption {
	return func(c *transportConfig) { c.remaining = &name }
}

// WithAttemptTimeout bounds each attempt by d, until the answer's header has
// come. Its body is bounded by the request's context alone.
func WithAttemptTimeout(d time.Duration) TransportOption {
	return func(c *transportConfig) { c.attemptTimeout = d }
}

// WithMinAttempt is the least time in which an attempt can succeed, instead of
// the policy's: no retry starts with less left of the deadline.
func WithMinAttempt(d time.Duration) TransportOption {
	return func(c *transportConfig) { c.minAttempt = &d }
}

// WithObserver tells o of every failed attempt and what was decided.
func WithObserver(o Observer) TransportOption {
	return func(c *transportConfig) { c.observer = o }
}

// WithAlsoAsk asks about these statuses too, for dependencies whose policies
// retry them, such as 409.
func WithAlsoAsk(statuses ...int) TransportOption {
	return func(c *transportConfig) {
		c.alsoAsk = make(map[int]bool, len(statuses))
		for _, status := range statuses {
			c.alsoAsk[status] = true
		}
	}
}
