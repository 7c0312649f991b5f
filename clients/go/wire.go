package decider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
)

// wire is what httptrace tells of one attempt. net/http may send a request
// several times within it, and may call its hooks from other goroutines, late
// too: what is late counts for the next attempt, which errs on the side of "it
// may have been acted on".
type wire struct {
	hooks httptrace.ClientTrace
	// conns are the connections that were got, writes the times that the whole
	// header was written. What was not written whole, nobody acts on.
	conns, writes atomic.Int32
	traced        atomic.Bool

	// key is what every attempt is to carry under keyHeader.
	key, keyHeader string
	keyDiffers     atomic.Bool // what was written was another one
}

// watch returns the context that all attempts of the operation are made with:
// its hooks are added, once, to those that the caller's has.
func (w *wire) watch(o *operation) context.Context {
	w.hooks.GetConn = func(string) { w.traced.Store(true) }
	w.hooks.GotConn = func(httptrace.GotConnInfo) { w.conns.Add(1) }
	w.hooks.WroteHeaders = func() { w.writes.Add(1) }
	if o.key != "" {
		w.key, w.keyHeader = o.key, notReplayable(o.keyHeader)
		w.hooks.WroteHeaderField = w.wroteField
	}
	return httptrace.WithClientTrace(o.ctx, &w.hooks)
}

// begin is called before each attempt.
func (w *wire) begin() {
	w.conns.Store(0)
	w.writes.Store(0)
}

// notReplayable is the name under which net/http does not see that a request is
// idempotent, and so does not send it again by itself. On the wire it is the
// same: the case of a header's name means nothing (RFC 9110 §5.1).
func notReplayable(header string) string {
	switch header {
	case "Idempotency-Key", "X-Idempotency-Key":
		return strings.ToLower(header)
	}
	return header
}

// wroteField notices a key that something below changed.
func (w *wire) wroteField(name string, values []string) {
	if strings.EqualFold(name, w.keyHeader) && (len(values) != 1 || values[0] != w.key) {
		w.keyDiffers.Store(true)
	}
}

// sent says whether the attempt may have reached the server. Where nobody calls
// the hooks, only the error can say that it did not.
func (w *wire) sent(err error) bool {
	if w.writes.Load() > 0 {
		return true
	}
	return !w.traced.Load() && !neverDialed(err)
}

// outcome is the contract's word for an error of the attempt, whose context was
// ctx. lost says that an earlier attempt was sent and never answered. ask is
// false where another attempt cannot fare better.
func (w *wire) outcome(ctx context.Context, err error, lost bool) (o Outcome, ask bool) {
	if ended := ctx.Err(); ended != nil {
		if errors.Is(ended, context.Canceled) {
			return Canceled, true
		}
		err = ended
	}
	o, ask = outcomeOf(err, w.conns.Load() == 0 && w.traced.Load())
	// A refused connection is no proof where an earlier try of the same call
	// was sent and lost.
	if lost || w.sent(err) {
		switch o {
		case ConnectTimeout:
			return Timeout, ask
		case ConnectionRefused, DNSFailure, TLSFailure:
			return ConnectionClosed, ask
		}
	}
	if o == ConnectionClosed && w.conns.Load() > 0 && w.writes.Load() == 0 && !lost {
		return NotProcessed, ask // a connection, and never a whole header on it
	}
	return o, ask
}

// outcomeOf reads an error of net/http. unconnected says that there never was a
// connection for the request.
func outcomeOf(err error, unconnected bool) (o Outcome, ask bool) {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled, true
	case errors.As(err, &dns):
		return DNSFailure, !dns.IsNotFound
	case isTLS(err):
		return TLSFailure, false
	case isTimeout(err):
		if unconnected || dialing(err) {
			return ConnectTimeout, true
		}
		return Timeout, true
	case localFault(err):
		return ConnectionRefused, false
	case errors.Is(err, syscall.ECONNREFUSED), dialing(err):
		return ConnectionRefused, true
	case isReset(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if unconnected {
			return ConnectTimeout, true // the handshake's end
		}
	}
	return streamOutcome(err)
}

// streamOutcome reads what is left: the ends of connections and streams.
func streamOutcome(err error) (o Outcome, ask bool) {
	text := err.Error()
	var stream streamError
	switch {
	case errors.As(err, &stream) && stream.Code == refusedStream, strings.Contains(text, "REFUSED_STREAM"),
		strings.Contains(text, "graceful shutdown GOAWAY"):
		return NotProcessed, true
	case stream.StreamID != 0, isReset(err):
		return ConnectionReset, true
	}
	return ConnectionClosed, true
}

// streamError has the fields of net/http's own error for an HTTP/2 stream,
// which errors.As therefore fills.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error is never shown; errors.As wants it.
func (e streamError) Error() string { return "HTTP/2 stream error" }

// refusedStream is RFC 9113 §7: nothing was processed.
const refusedStream = 7

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// dialing says whether the error is one of opening the connection.
func dialing(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") ||
		strings.Contains(err.Error(), "TLS handshake timeout")
}

// neverDialed says whether the error alone proves that nothing was sent.
func neverDialed(err error) bool {
	var dns *net.DNSError
	return dialing(err) || errors.As(err, &dns)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// isTLS says whether a side refused the other's certificate or version.
func isTLS(err error) bool {
	var (
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		host    x509.HostnameError
		signer  x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		op      *net.OpError
	)
	switch {
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &host), errors.As(err, &signer), errors.As(err, &invalid):
		return true
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return true
	}
	text := err.Error()
	return strings.HasPrefix(text, "tls: ") || strings.Contains(text, "server gave HTTP response to HTTPS client")
}

// localFault says whether this machine or the request is at fault: another
// attempt fails alike, or makes a shortage worse.
func localFault(err error) bool {
	for _, each := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, each) {
			return true
		}
	}
	var address *net.AddrError
	var network net.UnknownNetworkError
	var parse *net.ParseError
	if errors.As(err, &address) || errors.As(err, &network) || errors.As(err, &parse) || errors.Is(err, http.ErrUseLastResponse) {
		return true
	}
	text := err.Error()
	for _, beginning := range [...]string{"unsupported protocol scheme", "net/http: invalid", "net/http: nil", "http: nil", "http: no Host", "http: invalid"} {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	return false
}
