package handlers

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/retrydecider/decider/internal/decide"
)

// Bounds of a body in bytes.
const (
	maxBody     = 64 << 10
	maxListBody = 1 << 20 // of a batch and of a report of outcomes
)

// exchange holds the memory of one request and its answer, so that the next
// one needs none of its own.
type exchange struct {
	body    bytes.Buffer
	limited io.LimitedReader
	reader  reader
	draft   draft
	items   []batchItem // of a batch
	out     []byte
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// release gives the memory back, but for that of an uncommonly large request.
func (x *exchange) release() {
	if x.body.Cap() > 2*maxBody || cap(x.out) > 2*maxBody || cap(x.items) > keptItems {
		return
	}
	x.draft.attempt = decide.Attempt{} // holds strings, as do items
	clear(x.items)
	x.items = x.items[:0]
	x.reader.wrong = nil
	exchanges.Put(x)
}

// receive reads a JSON body of at most limit bytes. A body that is too large is
// told before anything else that is wrong with it, so it is read first.
func (x *exchange) receive(r *http.Request, limit int64) error {
	if err := checkMediaType(r.Header); err != nil {
		return err
	}
	if r.ContentLength > limit {
		return tooLargeError(limit)
	}
	x.body.Reset()
	x.limited = io.LimitedReader{R: r.Body, N: limit + 1}
	_, err := x.body.ReadFrom(&x.limited)
	x.limited.R = nil
	switch {
	case int64(x.body.Len()) > limit:
		return tooLargeError(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTooSlow
	case err != nil:
		return &notJSONError{detail: "The body ended before it was complete."}
	}
	x.reader.reset(&x.body)
	return nil
}

// checkMediaType wants application/json, with any parameters but a charset that
// is not UTF-8 (RFC 8259 §8.1), and no encoding. Other +json types mean
// something else and are refused.
func checkMediaType(h http.Header) error {
	if len(h["Content-Encoding"]) > 0 {
		return mediaTypeError("A Content-Encoding is not accepted.")
	}
	types := h["Content-Type"]
	if len(types) != 1 {
		return mediaTypeError("One Content-Type, application/json, is needed.")
	}
	if types[0] == jsonType {
		return nil
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || media != jsonType {
		return mediaTypeError("The Content-Type must be application/json.")
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return mediaTypeError("The charset must be utf-8.")
	}
	return nil
}
