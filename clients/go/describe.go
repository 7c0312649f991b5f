package decider

import (
	"context"
	"net/http"
)

// AttemptOf describes a failed attempt of r by what net/http gave back for it,
// for retry libraries that make the attempts themselves; number is the
// attempt's. ask is false where the request or this machine is at fault and
// nothing is to be asked. response may be nil; err wins over it.
//
// A [Transport] knows more, from httptrace: here, only an error that proves that
// nothing was sent is taken for that. An idempotency key counts where r carries
// one in [KeyHeader]; that each attempt carries the same one is the caller's part.
func AttemptOf(r *http.Request, response *http.Response, err error, number int) (a Attempt, ask bool) {
	call := callOf(r.Context())
	a = Attempt{
		Dependency: call.Dependency, Method: method(r), Number: number, Idempotent: call.Idempotent,
		HasIdempotencyKey: r.Header.Get(KeyHeader) != "", InboundAttempt: call.InboundAttempt,
	}
	if a.Dependency == "" {
		a.Dependency = HostOf(r)
	}
	if call.MinAttempt > 0 {
		a.MinAttempt = &call.MinAttempt
	}
	switch {
	case err != nil:
		a.Outcome, ask = outcomeWithoutTrace(r.Context(), err)
	case response != nil:
		a.describe(response)
		ask = true
	}
	return a, ask
}

// outcomeWithoutTrace is the contract's word for an error of net/http where
// nothing else is known.
func outcomeWithoutTrace(ctx context.Context, err error) (Outcome, bool) {
	return new(wire).outcome(ctx, err, false)
}

// describe takes what a response says.
func (a *Attempt) describe(response *http.Response) {
	a.Status = response.StatusCode
	a.RetriedBelow = response.Header.Get(RetriedHeader) == "true"
	a.readHeaders(response.Header)
}
