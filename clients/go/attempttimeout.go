package decider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// attemptTimeoutError ends an attempt that took longer than [WithAttemptTimeout].
type attemptTimeoutError struct{}

// Error says what was waited for.
func (attemptTimeoutError) Error() string {
	return "decider: no answer within the attempt's timeout"
}

// Timeout makes it a timeout for whoever asks as net.Error does.
func (attemptTimeoutError) Timeout() bool { return true }

// Temporary is the other half of net.Error.
func (attemptTimeoutError) Temporary() bool { return true }

// Is makes it a deadline's error.
func (attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// attemptLimit bounds an attempt until its header has come.
type attemptLimit struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	timer *time.Timer
}

func newAttemptLimit(parent context.Context, d time.Duration) *attemptLimit {
	ctx, end := context.WithCancelCause(parent)
	return &attemptLimit{ctx, end, time.AfterFunc(d, func() { end(attemptTimeoutError{}) })}
}

func (l *attemptLimit) cancel() { l.stop(context.Canceled) }

// end stops the clock. What the base says of the limit's own end becomes its
// error, and the context ends with the response's body.
func (l *attemptLimit) end(response *http.Response, err error) (*http.Response, error) {
	l.timer.Stop()
	if err == nil && response != nil {
		response.Body = bodyWithEnd(response.Body, l.cancel)
		return response, nil
	}
	if err != nil && errors.Is(context.Cause(l.ctx), attemptTimeoutError{}) {
		err = attemptTimeoutError{}
	}
	return response, err
}

// bodyWithEnd calls end when the body is closed or read to its end.
func bodyWithEnd(body io.ReadCloser, end func()) io.ReadCloser {
	if both, ok := body.(io.ReadWriteCloser); ok { // of a 101: what follows is no HTTP
		return &endingStream{endingBody{both, end}, both}
	}
	return &endingBody{body, end}
}

type endingBody struct {
	io.ReadCloser
	end func()
}

// Read ends with the body.
func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close closes the body first: an ended context would break its connection.
func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

type endingStream struct {
	endingBody
	io.Writer
}
