package decider

import "net/http"

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
