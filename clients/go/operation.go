package decider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

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
