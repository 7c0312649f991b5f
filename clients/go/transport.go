package decider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The headers in which a Transport tells the next service what it needs to
// know, and hears from it. [Inbound] reads and writes them on the other side.
const (
	// AttemptHeader is the number of the attempt, the first being 1.
	AttemptHeader = "Decider-Attempt"
	// RemainingHeader is what is left of the deadline, in ms.
	RemainingHeader = "Decider-Remaining-Ms"
	// RetriedHeader, in an answer, says that retries have been made below.
	RetriedHeader = "Decider-Retried"
	// KeyHeader is the default header of an idempotency key.
	KeyHeader = "Idempotency-Key"
)

// Transport makes HTTP calls through another [http.RoundTripper], asks decider
// after each that failed, waits and makes it again. It is safe for concurrent
// use; the zero Transport works without a decider, by the local rule.
//
// What comes back is what the last attempt brought: its response with its body,
// whatever the status, or its error. The caller's request is never changed. A
// request with a body is repeated only where it has GetBody, which
// http.NewRequest sets for bytes and strings. Nothing waits longer than the
// request's context lasts, and no wait is begun that its deadline cuts short. A
// decider that does not answer costs a call the bound of one question at most.
//
// A failure is an error, a 408, 413, 421, 425, 429, anything from 500 on, and
// what [WithAlsoAsk] adds; every other answer is the caller's own matter and is
// not asked about. Redirects are above a Transport: each hop is a call.
//
// net/http sends a request again by itself where a kept connection dies and it
// takes the request for idempotent. Such re-sends count as attempts. For a
// request with an idempotency key they are prevented, because one key must not
// hide repeats from the decision.
type Transport struct {
	client *Client
	config transportConfig
}

// alone serves Transports without a client.
var alone = new(Client)

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

// NewTransport makes a Transport that asks client. Without a client, nil, the
// local rule alone answers.
func NewTransport(client *Client, opts ...TransportOption) *Transport {
	t := &Transport{client: client}
	for _, opt := range opts {
		opt(&t.config)
	}
	return t
}

// Base is the RoundTripper that the attempts go through.
func (t *Transport) Base() http.RoundTripper {
	if t.config.base == nil {
		return http.DefaultTransport
	}
	return t.config.base
}

// CloseIdleConnections closes those of the base, where that can.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.Base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip makes the call, and makes it again where decider says so.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	o := t.begin(req)
	if err := o.client.admit(o.known); err != nil {
		o.shed(err)
		return nil, err
	}
	for {
		response, err := o.attempt()
		if !o.failed(response, err) {
			return response, nil
		}
		delay, again := o.judge(response, err)
		if !again {
			return response, err
		}
		discard(response)
		if ended := wait(o.ctx, delay); ended != nil {
			o.closeBody()
			return nil, interrupted(ended, err)
		}
	}
}

// operation is one call, and all its attempts.
type operation struct {
	t      *Transport
	client *Client
	req    *http.Request
	ctx    context.Context
	call   Call

	watched context.Context // ctx with the hooks of wire

	dependency string
	known      *dependency
	key        string // of idempotency, as every attempt carries it
	keyHeader  string

	number   int // of the attempt that runs or has just ended
	previous time.Duration
	body     io.ReadCloser // of the next attempt, where it is not the request's own
	lost     bool          // an earlier attempt was sent and never answered
	alone    bool          // decider did not answer, and is not asked for this call again
	wire     wire
}

func (t *Transport) begin(req *http.Request) *operation {
	o := &operation{t: t, client: t.client, req: req, ctx: req.Context(), body: req.Body}
	if o.client == nil {
		o.client = alone
	}
	o.call = callOf(o.ctx)
	o.name()
	o.known = o.client.use(o.dependency)
	o.setKey()
	o.watched = o.wire.watch(o)
	return o
}

// name finds the dependency.
func (o *operation) name() {
	switch {
	case o.call.Dependency != "":
		o.dependency = o.call.Dependency
	case o.t.config.dependency != nil:
		o.dependency = o.t.config.dependency(o.req)
	}
	if o.dependency == "" {
		o.dependency = HostOf(o.req)
	}
}

// setKey settles the key once, so that every attempt carries the same one
// whatever becomes of the caller's header meanwhile.
func (o *operation) setKey() {
	o.keyHeader = o.t.config.keyHeader
	if o.keyHeader == "" {
		o.keyHeader = KeyHeader
	}
	switch {
	case o.call.IdempotencyKey != "":
		o.key = o.call.IdempotencyKey
	case o.req.Header.Get(o.keyHeader) != "":
		o.key = o.req.Header.Get(o.keyHeader)
	case o.t.config.newKey != nil:
		o.key = o.t.config.newKey(o.req)
	}
}

// attempt makes the next attempt.
func (o *operation) attempt() (response *http.Response, err error) {
	o.number++
	o.wire.begin()
	ctx, done := o.watched, func() {}
	var limit *attemptLimit
	if d := o.t.config.attemptTimeout; d > 0 {
		limit = newAttemptLimit(ctx, d)
		ctx, done = limit.ctx, limit.cancel
	}
	response, err = o.t.Base().RoundTrip(o.request(ctx))
	if limit != nil {
		response, err = limit.end(response, err)
	}
	switch {
	case err != nil && response != nil:
		response.Body.Close() // an error is what counts, and a response beside it is not to be
		response = nil
	case err == nil && response == nil:
		err = errNothing
	}
	if err != nil {
		done()
	}
	o.resent()
	return response, err
}

var errNothing = errors.New("decider: the base RoundTripper returned neither a response nor an error")

// resent counts what net/http sent again by itself during the attempt.
func (o *operation) resent() {
	if again := int(o.wire.writes.Load()) - 1; again > 0 {
		o.number += again
		o.client.tally.resent.Add(int64(again))
	}
}

// request is the caller's, copied, with this attempt's context, body and headers.
func (o *operation) request(ctx context.Context) *http.Request {
	r := o.req.WithContext(ctx)
	r.Body = o.body
	r.Header = o.req.Header.Clone()
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	if name := header(o.t.config.attemptHeader, AttemptHeader); name != "" {
		r.Header.Set(name, strconv.Itoa(o.number))
	}
	if name := header(o.t.config.remaining, RemainingHeader); name != "" {
		if deadline, ok := o.ctx.Deadline(); ok {
			r.Header.Set(name, strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 0), 10))
		}
	}
	if o.key != "" {
		r.Header.Del(o.keyHeader)
		r.Header[o.wire.keyHeader] = []string{o.key}
	}
	return r
}

// header is a header's name as an option has it, or else its default.
func header(option *string, name string) string {
	if option != nil {
		return *option
	}
	return name
}

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

// What is read of a failed response, so that its connection can be used again,
// and for how long.
const (
	drainBytes = 4 << 10
	drainTime  = 50 * time.Millisecond
)

// discard drains a little of a failed response and closes it.
func discard(response *http.Response) {
	if response == nil {
		return
	}
	if response.ContentLength != 0 && response.ContentLength <= drainBytes {
		// A body that stalls would hold the call: closing it ends the read.
		stop := time.AfterFunc(drainTime, func() { response.Body.Close() }) // closed again below
		_, _ = io.CopyN(io.Discard, response.Body, drainBytes)
		stop.Stop()
	}
	response.Body.Close() // a failed response's
}

// wait waits, no longer than ctx lasts.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return ctx.Err()
}

// interrupted is the error of a call whose wait was cut short: the context's,
// with the last attempt's where that had one.
func interrupted(ended, last error) error {
	if last == nil {
		return ended
	}
	return fmt.Errorf("%w while waiting to retry after: %w", ended, last)
}
