package decider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Call is what one call knows and its [Transport] does not. Zero values leave
// the Transport's own.
type Call struct {
	// Dependency is what is called.
	Dependency string
	// Idempotent is your own knowledge, which overrides the method's default.
	Idempotent *bool
	// IdempotencyKey is the operation's, for every attempt.
	IdempotencyKey string
	// MinAttempt is the least time in which an attempt can succeed.
	MinAttempt time.Duration
	// InboundAttempt is the attempt number of the request that is being served;
	// [Inbound] sets it.
	InboundAttempt int
	// NoRetry makes the call once, whatever happens.
	NoRetry bool

	layer *layer
}

// layer is what the calls made for one inbound request have in common.
type layer struct{ retried atomic.Bool }

func (l *layer) retry() {
	if l != nil {
		l.retried.Store(true)
	}
}

type callKey struct{}

// WithCall returns a context whose requests are made as call says. What call
// leaves zero, it takes over from ctx.
func WithCall(ctx context.Context, call Call) context.Context {
	before := callOf(ctx)
	if call.Dependency == "" {
		call.Dependency = before.Dependency
	}
	if call.Idempotent == nil {
		call.Idempotent = before.Idempotent
	}
	if call.IdempotencyKey == "" {
		call.IdempotencyKey = before.IdempotencyKey
	}
	if call.MinAttempt == 0 {
		call.MinAttempt = before.MinAttempt
	}
	if call.InboundAttempt == 0 {
		call.InboundAttempt = before.InboundAttempt
	}
	call.NoRetry = call.NoRetry || before.NoRetry
	call.layer = before.layer
	return context.WithValue(ctx, callKey{}, &call)
}

func callOf(ctx context.Context) Call {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return *call
	}
	return Call{}
}

// HostOf names a request's dependency by its host, in lower case, and the port
// where it is not the scheme's own. What a name may not have becomes "-".
func HostOf(r *http.Request) string {
	host, port := "", ""
	if r.URL != nil {
		host, port = r.URL.Hostname(), r.URL.Port()
	}
	if port == "443" && r.URL.Scheme == "https" || port == "80" && r.URL.Scheme == "http" {
		port = ""
	}
	if port != "" {
		host += ":" + port
	}
	return nameOf(host)
}

// maxName is how long the name of a dependency may be.
const maxName = 128

// nameOf makes a name of the contract's of any text.
func nameOf(text string) string {
	if isName(text) {
		return text
	}
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case alphanumeric(byte(min(c, 127))), strings.ContainsRune("._:/-", c):
			return c
		}
		return '-'
	}, text)
	if name == "" || !alphanumeric(name[0]) {
		name = "host" + name
	}
	return name[:min(len(name), maxName)]
}

// isName says whether the text is a name, in lower case, as it stands.
func isName(text string) bool {
	if text == "" || len(text) > maxName || !alphanumeric(text[0]) {
		return false
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= 'A' && c <= 'Z' || !alphanumeric(c) && strings.IndexByte("._:/-", c) < 0 {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// randomKey is a key for a request whose method is not idempotent.
func randomKey(r *http.Request) string {
	if idempotentMethod(method(r)) {
		return ""
	}
	return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
}

// honored are the response headers that a policy can honor, besides
// Retry-After and Date, which have members of their own.
var honored = [...]string{
	"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After", "X-Should-Retry", "Stripe-Should-Retry",
	"Grpc-Retry-Pushback-Ms", "Ratelimit-Reset",
}

// The contract's bounds of raw texts.
const (
	maxRetryAfter = 4096
	maxDate       = 64
)

// readHeaders takes the raw headers that can matter to a decision, and no other.
func (a *Attempt) readHeaders(h http.Header) {
	if values := h["Retry-After"]; len(values) > 0 {
		a.RetryAfter = cut(strings.Join(values, ", "), maxRetryAfter)
		if date := h.Get("Date"); len(date) <= maxDate {
			a.ResponseDate = date
		}
	}
	for _, name := range honored {
		values := h[name]
		if len(values) == 0 {
			continue
		}
		if a.Headers == nil {
			a.Headers = make(map[string]string)
		}
		a.Headers[name] = cut(strings.Join(values, ", "), maxRetryAfter)
	}
}

func cut(text string, most int) string { return text[:min(len(text), most)] }
