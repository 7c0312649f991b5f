package decider

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// defaultFallback is decider's own default policy, for a dependency of which no
// report has been answered yet.
var defaultFallback = Fallback{
	OnFailure:     "local",
	MaxAttempts:   4,
	Ratio:         new(0.1),
	Burst:         new(1.0),
	RetryAfterMax: time.Minute,
	Backoff:       Backoff{Strategy: "full_jitter", Base: 100 * time.Millisecond, Cap: time.Second, Multiplier: 2},
}

// Those who were given one wait are spread above it by up to a tenth of it.
const spreadOver = 10

// decide is the local rule: the order of decider's own questions, and the
// bucket of this process where the fleet's is asked. It draws from random only
// where a float is used.
func (d *dependency) decide(a *Attempt, now time.Time, random func() float64) Decision {
	f := d.fallback()
	answer := Decision{
		DecisionID: a.DecisionID, Dependency: a.Dependency, Policy: "local", RetryAfter: "absent", Breaker: "off", Degraded: true, Local: true,
	}
	delay, reason := f.plan(a, d.coolDown(now), now, random)
	if reason == "" || reason.retries() {
		reason = d.permit(f, reason, now)
	}
	answer.Reason = reason
	if !reason.retries() {
		answer.Message = fmt.Sprintf("Give up: %s.", reason)
		return answer
	}
	answer.Retry, answer.Delay, answer.NextAttempt = true, delay, max(a.Number, 1)+1
	answer.Message = fmt.Sprintf("Retry in %d ms as attempt %d of at most %d.", delay.Milliseconds(), answer.NextAttempt, f.MaxAttempts)
	if a.Remaining != nil {
		left := *a.Remaining - delay
		answer.Remaining = &left
	}
	if a.HasIdempotencyKey {
		answer.Hints = append(answer.Hints, SameIdempotencyKey)
	}
	if a.Status == http.StatusMisdirectedRequest {
		answer.Hints = append(answer.Hints, NewConnection)
	}
	return answer
}

func (r Reason) retries() bool {
	return r == ReasonBackoff || r == ReasonRetryAfter || r == ReasonCoolDown
}

// permit is the last question: an operator's word, what to do alone, the bucket.
func (d *dependency) permit(f *Fallback, planned Reason, now time.Time) Reason {
	switch d.override(now) {
	case "pause":
		return ReasonPaused
	case "allow":
		return planned
	}
	switch f.OnFailure {
	case "allow":
		return planned
	case "local":
		if f.Ratio == nil || d.bucket.spend(f) {
			return planned
		}
		return ReasonBudgetExhausted
	}
	return ReasonStoreUnavailable
}

// plan is what can be said without the bucket: how long to wait and why, or
// why to give up.
func (f *Fallback) plan(a *Attempt, coolDown time.Duration, now time.Time, random func() float64) (time.Duration, Reason) {
	server, hasServer := a.serverDelay(now)
	switch class := a.class(hasServer); {
	case class == notAFailure:
		return 0, ReasonNotAFailure
	case a.Outcome == Canceled || a.GRPCStatus == "CANCELLED":
		return 0, ReasonCanceled
	case a.Outcome == BreakerOpen:
		return 0, ReasonBreakerOpen
	case class == final:
		return 0, ReasonNotRetryable
	case class == ambiguous && !a.mayRepeat():
		return 0, ReasonNotSafeToRepeat
	}
	switch n := int64(max(a.Number, 1)); {
	case a.RetriedBelow:
		return 0, ReasonRetriedBelow
	case a.InboundAttempt > 1:
		return 0, ReasonNotTheRetryLayer // whether the policy says so is not known; one layer is enough
	case n >= f.MaxAttempts, n >= 2 && (a.Status == http.StatusMisdirectedRequest || a.Status == http.StatusTooEarly):
		return 0, ReasonAttemptsExhausted
	case hasServer && server > f.RetryAfterMax:
		return 0, ReasonServerDelayTooLong
	}
	return f.wait(a, server, coolDown, random)
}

// wait is the longer of the own wait and the server's, which is never undercut,
// where that fits the deadline. The spread is cut to what the deadline leaves.
func (f *Fallback) wait(a *Attempt, server, coolDown time.Duration, random func() float64) (time.Duration, Reason) {
	fit := time.Duration(math.MaxInt64)
	if a.Remaining != nil {
		least := f.MinAttempt
		if a.MinAttempt != nil {
			least = *a.MinAttempt
		}
		fit = *a.Remaining - max(least, time.Millisecond)
	}
	delay, reason := f.Backoff.delay(int64(max(a.Number, 1)), a.PreviousDelay, random), ReasonBackoff
	if floor := max(server, coolDown); floor > 0 {
		widest := min((floor / spreadOver).Truncate(time.Millisecond), max(fit-floor, 0))
		if floor += time.Duration(random() * float64(widest)).Truncate(time.Millisecond); floor > delay {
			delay, reason = floor, ReasonRetryAfter
			if coolDown > server {
				reason = ReasonCoolDown
			}
		}
	}
	if delay > fit {
		return 0, ReasonDeadline
	}
	return delay, reason
}

// delay is the own wait before retry n.
func (b *Backoff) delay(n int64, previous time.Duration, random func() float64) time.Duration {
	window := float64(b.Cap)
	if grown := float64(b.Base) * math.Pow(max(b.Multiplier, 1), float64(n-1)); grown < window {
		window = grown
	}
	own := 0.0
	switch b.Strategy {
	case "constant":
		own = float64(b.Base)
	case "linear":
		own = min(float64(b.Cap), float64(b.Base)*float64(n))
	case "exponential":
		own = window
	case "equal_jitter":
		own = window/2 + random()*window/2
	case "decorrelated_jitter":
		base := float64(b.Base)
		own = min(float64(b.Cap), base+random()*(3*max(base, float64(previous))-base))
	case "proportional_jitter":
		own = window * (1 + (2*random()-1)*b.Jitter)
	default:
		own = random() * window
	}
	return max(time.Duration(own).Truncate(time.Millisecond), b.Min)
}

// class says who may repeat an attempt that failed so.
type class uint8

const (
	final class = iota
	neverSent
	ambiguous
	notAFailure
)

// class is the contract's table, without what a policy may change in it.
func (a *Attempt) class(withWait bool) class {
	switch a.Outcome {
	case ConnectionRefused, ConnectTimeout, DNSFailure, NotProcessed:
		return neverSent
	case Timeout, ConnectionReset, ConnectionClosed:
		return ambiguous
	}
	switch a.GRPCStatus {
	case "OK":
		return notAFailure
	case "UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED":
		return ambiguous
	}
	return statusClass(a.Status, withWait)
}

func statusClass(status int, withWait bool) class {
	switch status {
	case 421, 425:
		return neverSent
	case 408, 429:
		return ambiguous
	case 501, 505, 506, 507, 508, 510, 511, 525, 526, 530:
		return final
	case 413:
		if withWait {
			return ambiguous
		}
	}
	switch {
	case status >= 500:
		return ambiguous
	case status >= 100 && status < 400:
		return notAFailure
	}
	return final
}

// mayRepeat: a key wins over everything, the caller's own knowledge over the method.
func (a *Attempt) mayRepeat() bool {
	if a.HasIdempotencyKey || a.Idempotent != nil && *a.Idempotent {
		return true
	}
	return a.Idempotent == nil && idempotentMethod(a.Method)
}

func idempotentMethod(method string) bool {
	switch strings.ToUpper(method) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY":
		return true
	}
	return false
}

// bucket is the local rule's, in millionths of a token that are missing from
// full, so that the zero bucket is full.
type bucket struct{ missing atomic.Int64 }

const micro = 1e6

// spend takes one token where the bucket has it.
func (b *bucket) spend(f *Fallback) bool {
	burst := f.burst()
	for {
		missing := b.missing.Load()
		if burst-missing < micro {
			return false
		}
		if b.missing.CompareAndSwap(missing, missing+micro) {
			return true
		}
	}
}

func (f *Fallback) burst() int64 {
	if f.Burst == nil {
		return micro
	}
	return int64(min(*f.Burst, 1e9) * micro)
}

// deposit adds what one success brings.
func (d *dependency) deposit() {
	f := d.fallback()
	if f.Ratio == nil {
		return
	}
	gain := int64(min(*f.Ratio, 1e6) * micro)
	for {
		missing := d.bucket.missing.Load()
		if missing == 0 || d.bucket.missing.CompareAndSwap(missing, max(missing-gain, 0)) {
			return
		}
	}
}
