package decider

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
)

// Inbound serves requests by next as one layer of several: calls that are made
// with the request's context carry the attempt number it came with, so that a
// policy can leave retrying to the first attempt; they end when the caller's
// deadline does; and where one was retried and the answer is a 5xx all the same,
// the answer says so in [RetriedHeader], so that the layer above does not
// multiply what was tried below.
func Inbound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		below := new(layer)
		call := Call{layer: below}
		if n, err := strconv.ParseInt(r.Header.Get(AttemptHeader), 10, 32); err == nil && n >= 1 {
			call.InboundAttempt = int(n)
		}
		ctx := context.WithValue(r.Context(), callKey{}, &call)
		if left, err := strconv.ParseInt(r.Header.Get(RemainingHeader), 10, 64); err == nil && left >= 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, duration(left))
			defer cancel()
		}
		next.ServeHTTP(&layerWriter{ResponseWriter: w, layer: below}, r.WithContext(ctx))
	})
}

// layerWriter tells the layer above that this one has retried.
type layerWriter struct {
	http.ResponseWriter
	layer *layer
	wrote bool
}

// WriteHeader adds what there is to say to a 5xx.
func (w *layerWriter) WriteHeader(status int) {
	if !w.wrote && status >= 500 && w.layer.retried.Load() {
		w.Header().Set(RetriedHeader, "true")
	}
	w.wrote = w.wrote || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *layerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for handlers that ask for http.Flusher.
func (w *layerWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack is for handlers that ask for http.Hijacker.
func (w *layerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
