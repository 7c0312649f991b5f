package decider

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

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
