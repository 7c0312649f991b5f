package decider

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// listen serves each connection by one function, and ends with the test.
func listen(t *testing.T, serve func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				serve(n, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// closedPort is an address where nobody listens, nor will: it is the near end of
// a connection.
func closedPort(t *testing.T) string {
	t.Helper()
	c, err := net.Dial("tcp", listen(t, func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// readRequest reads an HTTP/1.1 request to its end.
func readRequest(c net.Conn) error {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// reset ends a connection by RST.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

func dialError(err error) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = silent
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	hold := func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) }

	for _, c := range []struct {
		name    string
		url     string
		change  func(*http.Transport)
		timeout time.Duration // of the attempt
		want    Outcome
		notAsk  bool
	}{
		{name: "nobody listens", url: "http://" + closedPort(t), want: ConnectionRefused},
		{name: "no route", url: "http://x.example", change: func(b *http.Transport) {
			b.DialContext = dialError(os.NewSyscallError("connect", syscall.EHOSTUNREACH))
		}, want: ConnectionRefused},
		{name: "out of ports", url: "http://x.example", change: func(b *http.Transport) {
			b.DialContext = dialError(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL))
		}, notAsk: true},
		{name: "dialing takes too long", url: "http://x.example", timeout: 30 * time.Millisecond, change: func(b *http.Transport) {
			b.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, want: ConnectTimeout},
		{name: "dialing times out by itself", url: "http://x.example", change: func(b *http.Transport) { b.DialContext = dialError(os.ErrDeadlineExceeded) }, want: ConnectTimeout},
		{name: "a name server that fails", url: "http://x.example", change: func(b *http.Transport) {
			b.DialContext = dialError(&net.DNSError{Err: "server misbehaving", Name: "x.example", IsTemporary: true})
		}, want: DNSFailure},
		{name: "a name server that is slow", url: "http://x.example", change: func(b *http.Transport) {
			b.DialContext = dialError(&net.DNSError{Err: "i/o timeout", Name: "x.example", IsTimeout: true})
		}, want: DNSFailure},
		{name: "no such host", url: "http://x.example", change: func(b *http.Transport) {
			b.DialContext = dialError(&net.DNSError{Err: "no such host", Name: "x.example", IsNotFound: true})
		}, notAsk: true},
		{name: "a certificate of nobody's", url: secure.URL, want: TLSFailure, notAsk: true},
		{name: "a version that is refused", url: secure.URL, change: func(b *http.Transport) {
			b.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS10, MinVersion: tls.VersionTLS10} //nolint:gosec // what is tested
		}, want: TLSFailure, notAsk: true},
		{name: "no TLS there", url: strings.Replace(plain.URL, "http:", "https:", 1), want: TLSFailure, notAsk: true},
		{name: "a handshake that takes too long", url: "https://" + listen(t, hold), change: func(b *http.Transport) { b.TLSHandshakeTimeout = 50 * time.Millisecond }, want: ConnectTimeout},
		{name: "a handshake that is reset", url: "https://" + listen(t, func(_ int, c net.Conn) { _, _ = c.Read(make([]byte, 16)); reset(c) }), want: ConnectTimeout},
		{name: "a handshake that ends", url: "https://" + listen(t, func(_ int, c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }), want: ConnectTimeout},
		{name: "no answer in time", url: "http://" + listen(t, hold), timeout: 50 * time.Millisecond, want: Timeout},
		{name: "no header in the base's time", url: "http://" + listen(t, hold), change: func(b *http.Transport) { b.ResponseHeaderTimeout = 50 * time.Millisecond }, want: Timeout},
		{name: "closed without an answer", url: "http://" + listen(t, func(_ int, c net.Conn) { _ = readRequest(c) }), want: ConnectionClosed},
		{name: "closed within the header", url: "http://" + listen(t, func(_ int, c net.Conn) { _ = readRequest(c); _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-") }), want: ConnectionClosed},
		{name: "reset without an answer", url: "http://" + listen(t, func(_ int, c net.Conn) { _ = readRequest(c); reset(c) }), want: ConnectionReset},
		{name: "an answer that is no HTTP", url: "http://" + listen(t, func(_ int, c net.Conn) { _ = readRequest(c); _, _ = io.WriteString(c, "oops\r\n\r\n") }), want: ConnectionClosed},
		{name: "no scheme of HTTP's", url: "gopher://x.example", notAsk: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := own(t)
			base.ForceAttemptHTTP2 = false
			if c.change != nil {
				c.change(base)
			}
			s := newStandIn(t, func(int, question) string { return say(false, 0) })
			var seen events
			tr := NewTransport(s.client(t), WithBase(base), WithAttemptTimeout(c.timeout), WithObserver(&seen))
			_, err := tr.RoundTrip(request(t, t.Context(), "GET", c.url, ""))
			if err == nil {
				t.Fatal("no error")
			}
			e, asked := seen.all()[0], s.asked()
			if e.Outcome != c.want && !c.notAsk || (len(asked) == 0) != c.notAsk {
				t.Errorf("outcome %q of %v (%T) after %d questions, want %q", e.Outcome, err, err, len(asked), c.want)
			}
			if c.want == TLSFailure && e.Outcome != TLSFailure {
				t.Errorf("outcome %q of %v", e.Outcome, err)
			}
			if c.timeout > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v is no deadline's", err)
			}
		})
	}
}

func TestOutcomeOfTheContext(t *testing.T) {
	t.Parallel()
	address := listen(t, func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	s := newStandIn(t, func(int, question) string { return say(true, 0) })
	c := s.client(t)
	for want, end := range map[Reason]func(context.Context) (context.Context, context.CancelFunc){
		ReasonDeadline: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
		ReasonCanceled: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("the caller's own reason")) })
			return ctx, func() { cancel(nil) }
		},
	} {
		var seen events
		ctx, cancel := end(t.Context())
		_, err := NewTransport(c, WithBase(own(t)), WithObserver(&seen)).RoundTrip(request(t, ctx, "GET", "http://"+address, ""))
		cancel()
		if list := seen.all(); err == nil || len(list) != 1 || list[0].Decision.Reason != want || list[0].Decision.Retry {
			t.Errorf("%s: %v, %+v", want, err, list)
		}
	}
	if n := len(s.asked()); n != 0 {
		t.Errorf("%d questions on calls whose callers had left", n)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := s.reported()[0].Outcomes[0]; o.Finals != 1 { // the deadline's, which was a slow dependency
		t.Errorf("report %+v", o)
	}
}

func TestCaseSaRefusedNotProof(t *testing.T) {
	t.Parallel()
	// The first connection takes the request and ends; whoever dials again is refused.
	address := listen(t, func(_ int, c net.Conn) { _ = readRequest(c) })
	base := own(t)
	var dials atomic.Int32
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, addr)
	}
	// A base that sends again by itself, as some do.
	silently := transportFunc(func(r *http.Request) (*http.Response, error) {
		response, err := base.RoundTrip(r)
		if err == nil {
			return response, nil
		}
		again := r.Clone(r.Context())
		again.Body, _ = r.GetBody()
		return base.RoundTrip(again)
	})
	s := newStandIn(t, func(int, question) string { return say(false, 0) })
	if _, err := NewTransport(s.client(t), WithBase(silently)).RoundTrip(request(t, t.Context(), "POST", "http://"+address, "pay")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("error %v", err)
	}
	if asked := s.asked(); len(asked) != 1 || asked[0].Outcome != ConnectionClosed || asked[0].HasKey {
		t.Errorf("questions %+v", asked)
	}

	// The same over two attempts of one call: sent and lost, then refused.
	dials.Store(0)
	s = newStandIn(t, func(n int, _ question) string { return say(n == 1, 0) })
	tr := NewTransport(s.client(t), WithBase(base))
	ctx := WithCall(t.Context(), Call{Idempotent: new(true)})
	if _, err := tr.RoundTrip(request(t, ctx, "POST", "http://"+address, "pay")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("error %v", err)
	}
	if asked := s.asked(); len(asked) != 2 || asked[0].Outcome != ConnectionClosed || asked[1].Outcome != ConnectionClosed {
		t.Errorf("questions %+v", asked)
	}
}

// net/http sends a GET again by itself where a kept connection dies; that is an attempt too.
func TestSilentResendsCount(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			statuses(200)(n, w, r)
		case 2:
			closes(n, w, r)
		default:
			statuses(503)(n, w, r)
		}
	})
	s := newStandIn(t, func(int, question) string { return say(false, 0) })
	c := s.client(t)
	var seen events
	tr := NewTransport(c, WithBase(own(t)), WithObserver(&seen))
	for range 2 {
		response, err := tr.RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		text(t, response)
	}
	if q := s.asked()[0]; u.count("GET") != 3 || q.Attempt != 2 || q.Status != 503 || c.Stats().Resent != 1 || seen.all()[0].Resent != 1 {
		t.Errorf("%d arrivals, question %+v, %s", u.count("GET"), q, c.Stats())
	}
}

// frame is one of HTTP/2's.
func frame(c net.Conn, kind, flags byte, stream uint32, payload ...byte) {
	head := []byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = c.Write(append(head, payload...))
}

// HTTP/2's frames that matter here (RFC 9113 §6).
const (
	dataFrame     = 0
	headersFrame  = 1
	rstFrame      = 3
	settingsFrame = 4
	goAwayFrame   = 7
)

// http2 answers the n-th stream of all connections, 1 the first, when its last
// frame has come; answer says whether to go on with the connection.
func http2(t *testing.T, answer func(n int, c net.Conn, stream uint32) bool) string {
	var streams atomic.Int32
	return listen(t, func(_ int, c net.Conn) {
		r := bufio.NewReader(c)
		if _, err := io.CopyN(io.Discard, r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		frame(c, settingsFrame, 0, 0)
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(r, head); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, r, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
				return
			}
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			if kind == settingsFrame && flags&1 == 0 {
				frame(c, settingsFrame, 1, 0)
			}
			if (kind == headersFrame || kind == dataFrame) && flags&1 != 0 && !answer(int(streams.Add(1)), c, stream) {
				// Closing with something unread would be a reset.
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.CloseWrite()
				}
				_, _ = io.Copy(io.Discard, r)
				return
			}
		}
	})
}

func TestHTTP2Outcomes(t *testing.T) {
	t.Parallel()
	refuse := func(_ int, c net.Conn, stream uint32) bool { frame(c, rstFrame, 0, stream, 0, 0, 0, 7); return true }
	goAway := func(last byte) func(int, net.Conn, uint32) bool {
		return func(_ int, c net.Conn, _ uint32) bool {
			frame(c, goAwayFrame, 0, 0, 0, 0, 0, last, 0, 0, 0, 0)
			time.Sleep(20 * time.Millisecond)
			return false
		}
	}
	for _, c := range []struct {
		name   string
		answer func(int, net.Conn, uint32) bool
		want   Outcome
	}{
		{"REFUSED_STREAM", refuse, NotProcessed},
		{"GOAWAY below the stream", goAway(0), NotProcessed},
		{"GOAWAY that includes the stream", goAway(1), ConnectionClosed},
		{"another reset of the stream", func(_ int, c net.Conn, stream uint32) bool {
			frame(c, rstFrame, 0, stream, 0, 0, 0, 2)
			return true
		}, ConnectionReset},
		{"the connection ends", func(int, net.Conn, uint32) bool { return false }, ConnectionClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := own(t)
			base.Protocols = new(http.Protocols)
			base.Protocols.SetUnencryptedHTTP2(true)
			s := newStandIn(t, func(int, question) string { return say(false, 0) })
			r := request(t, WithCall(t.Context(), Call{Idempotent: new(true)}), "POST", "http://"+http2(t, c.answer), "body")
			sent := *r
			base2 := transportFunc(func(r *http.Request) (*http.Response, error) {
				r = r.WithContext(r.Context())
				r.GetBody = nil // so that net/http does not send again by itself, for seconds
				return base.RoundTrip(r)
			})
			_, err := NewTransport(s.client(t), WithBase(base2)).RoundTrip(&sent)
			if asked := s.asked(); err == nil || len(asked) != 1 || asked[0].Outcome != c.want {
				t.Errorf("%v, questions %+v, want %q", err, asked, c.want)
			}
		})
	}
}

// HTTP/2 sends a refused stream again by itself, at once the first time.
func TestHTTP2ResendsCount(t *testing.T) {
	t.Parallel()
	base := own(t)
	base.Protocols = new(http.Protocols)
	base.Protocols.SetUnencryptedHTTP2(true)
	address := http2(t, func(n int, c net.Conn, stream uint32) bool {
		if n == 1 {
			frame(c, rstFrame, 0, stream, 0, 0, 0, 7)
		} else {
			frame(c, headersFrame, 5, stream, 0x88) // :status 200
		}
		return true
	})
	s := newStandIn(t, func(int, question) string { return say(false, 0) })
	c := s.client(t)
	response, err := NewTransport(c, WithBase(base)).RoundTrip(request(t, t.Context(), "GET", "http://"+address, ""))
	if err != nil {
		t.Fatal(err)
	}
	text(t, response)
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := s.reported()[0].Outcomes[0]; c.Stats().Resent != 1 || o.Firsts != 0 || o.Retries != 1 {
		t.Errorf("%s, report %+v", c.Stats(), o)
	}
}

func TestUpgradesPassThrough(t *testing.T) {
	t.Parallel()
	address := listen(t, func(_ int, c net.Conn) {
		_ = readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.CopyN(c, c, 5)
	})
	r := request(t, t.Context(), "GET", "http://"+address, "")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	response, err := NewTransport(nil, WithBase(own(t)), WithAttemptTimeout(time.Minute)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	stream, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T", response.Body)
	}
	defer stream.Close()
	fmt.Fprint(stream, "hello")
	echo := make([]byte, 5)
	if _, err := io.ReadFull(stream, echo); err != nil || string(echo) != "hello" {
		t.Errorf("echo %q, %v", echo, err)
	}
}

// The attempt's limit ends with the header; the body takes what it takes.
func TestAttemptTimeoutLeavesTheBody(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(150 * time.Millisecond)
		_, _ = io.WriteString(w, "late")
	})
	response, err := NewTransport(nil, WithBase(own(t)), WithAttemptTimeout(50*time.Millisecond)).RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); got != "late" {
		t.Errorf("body %q", got)
	}
}
