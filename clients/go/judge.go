package decider

import (
	"fmt"
	"net/http"
	"time"
)

// failed says whether decider is asked, and counts what succeeded.
func (o *operation) failed(response *http.Response, err error) bool {
	if err != nil {
		return true
	}
	switch status := response.StatusCode; {
	case status < 400:
		o.client.touch(o.known)
		o.known.succeeded(o.number)
		return false
	case status >= 500, status == 408, status == 413, status == 421, status == 425, status == 429:
		return true
	default:
		return o.t.config.alsoAsk[status] || response.Header["X-Should-Retry"] != nil || response.Header["Stripe-Should-Retry"] != nil
	}
}

// judge says whether and after how long to make the call again. It has then
// made the next attempt's body ready.
func (o *operation) judge(response *http.Response, err error) (delay time.Duration, again bool) {
	e := Event{Dependency: o.dependency, Method: method(o.req), Attempt: o.number, Err: err, Resent: max(int(o.wire.writes.Load())-1, 0)}
	a, ask := o.describe(response, err)
	e.Status, e.Outcome = a.Status, a.Outcome
	decision := o.decide(&a, ask)
	if decision.Retry {
		decision = o.prepare(decision)
	}
	e.Decision = decision
	o.observe(&e)
	if !decision.Retry {
		return 0, false
	}
	o.previous = decision.Delay
	o.lost = o.lost || response == nil && o.wire.sent(err)
	o.call.layer.retry()
	if decision.Has(NewConnection) && a.Status == http.StatusMisdirectedRequest {
		o.t.CloseIdleConnections() // the connection that was misdirected is among them once its response is discarded
	}
	return decision.Delay, true
}

// decide asks, unless there is nothing to ask.
func (o *operation) decide(a *Attempt, ask bool) Decision {
	switch {
	case !ask:
		return giveUp(a, ReasonNotRetryable)
	case a.Outcome == Canceled:
		return giveUp(a, ReasonCanceled)
	case o.call.NoRetry:
		o.client.Failed(o.dependency)
		return giveUp(a, ReasonNotTheRetryLayer)
	case o.hasBody() && o.req.GetBody == nil:
		o.client.Failed(o.dependency)
		return giveUp(a, ReasonBodyNotReplayable)
	}
	decision := o.client.answer(o.ctx, *a, !o.alone)
	o.alone = o.alone || decision.Local
	return decision
}

func (o *operation) hasBody() bool { return o.req.Body != nil && o.req.Body != http.NoBody }

// prepare looks at the deadline again and makes the next body.
func (o *operation) prepare(granted Decision) Decision {
	if deadline, ok := o.ctx.Deadline(); ok && granted.Delay >= time.Until(deadline) {
		return refused(granted, ReasonDeadline)
	}
	if o.ctx.Err() != nil {
		return refused(granted, endReason(o.ctx.Err()))
	}
	if !o.hasBody() {
		return granted
	}
	body, err := o.req.GetBody()
	if err != nil {
		return refused(granted, ReasonBodyNotReplayable)
	}
	o.body = body
	return granted
}

// refused is a retry that was granted and cannot be made.
func refused(granted Decision, reason Reason) Decision {
	granted.Retry, granted.Delay, granted.Reason, granted.NextAttempt, granted.Remaining = false, 0, reason, 0, nil
	granted.Message = fmt.Sprintf("Give up though a retry was granted: %s.", reason)
	return granted
}

// describe is the attempt in the contract's words; ask is false where decider
// has nothing to say, because the request itself is at fault.
func (o *operation) describe(response *http.Response, err error) (a Attempt, ask bool) {
	a = Attempt{
		Dependency: o.dependency, Method: method(o.req), Number: o.number, PreviousDelay: o.previous,
		Idempotent: o.call.Idempotent, HasIdempotencyKey: o.key != "" && !o.wire.keyDiffers.Load(),
		InboundAttempt: o.call.InboundAttempt, MinAttempt: o.t.config.minAttempt,
	}
	if o.call.MinAttempt > 0 {
		a.MinAttempt = &o.call.MinAttempt
	}
	if err != nil {
		a.Outcome, ask = o.wire.outcome(o.ctx, err, o.lost)
		return a, ask
	}
	a.describe(response)
	return a, true
}

func method(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

// shed ends a call that is not made.
func (o *operation) shed(err error) {
	o.closeBody()
	a := Attempt{Dependency: o.dependency, Method: method(o.req), Outcome: BreakerOpen}
	o.observe(&Event{Dependency: o.dependency, Method: a.Method, Outcome: BreakerOpen, Err: err, Decision: giveUp(&a, ReasonBreakerOpen)})
}

// closeBody closes the body of an attempt that is not made.
func (o *operation) closeBody() {
	if o.body != nil {
		o.body.Close() // nothing was read of it
	}
}

func (o *operation) observe(e *Event) {
	if o.t.config.observer != nil {
		o.t.config.observer.Observe(o.ctx, *e)
	}
}
