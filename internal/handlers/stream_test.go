package handlers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/identity"
)

// pipe is a client's end of a stream in a bubble of virtual time.
type pipe struct {
	reader   *bufio.Reader
	header   http.Header
	status   int
	writer   net.Conn
	deadline time.Time
	bounded  bool // a deadline was set
	cancel   context.CancelFunc
	done     chan struct{}
}

func (p *pipe) Header() http.Header             { return p.header }
func (p *pipe) WriteHeader(status int)          { p.status = status }
func (p *pipe) Write(b []byte) (int, error)     { return p.writer.Write(b) }
func (p *pipe) Flush()                          {}
func (p *pipe) SetReadDeadline(time.Time) error { return nil }
func (p *pipe) SetWriteDeadline(t time.Time) error {
	p.bounded = p.bounded || !t.IsZero()
	p.deadline = t
	return p.writer.SetWriteDeadline(t)
}

// follow opens a stream of the handler. Its client leaves at the test's end.
func follow(t *testing.T, h http.Handler, path string, lastEvent string) *pipe {
	t.Helper()
	header := http.Header{}
	if lastEvent != "" {
		header.Set("Last-Event-ID", lastEvent)
	}
	return followAs(t, h, path, header)
}

func followAs(t *testing.T, h http.Handler, path string, header http.Header) *pipe {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header = header
	near, far := net.Pipe()
	p := &pipe{reader: bufio.NewReader(far), header: http.Header{}, writer: near, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer near.Close()
		h.ServeHTTP(p, r)
	}()
	t.Cleanup(func() { cancel(); far.Close(); <-p.done })
	return p
}

// event is one event of a stream, or a comment where its name is ":".
type event struct{ id, name, data string }

// next reads one event.
func (p *pipe) next(t *testing.T) event {
	t.Helper()
	var e event
	for {
		line, err := p.reader.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e != (event{}):
			return e
		case line == ":":
			e.name = ":"
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		}
	}
}

// ended waits for the end of a stream and returns what came until then.
func (p *pipe) ended(t *testing.T) string {
	t.Helper()
	rest, err := io.ReadAll(p.reader)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the stream ended with %v", err)
	}
	return string(rest)
}

// ask sends a request to a handler in a bubble, where no server can be.
func ask(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// virtual is a handler whose clock is the bubble's.
func virtual(t *testing.T, fleet *fakeFleet, more ...func(*Config)) http.Handler {
	t.Helper()
	config := testConfig(fleet)
	for _, change := range more {
		change(&config)
	}
	return newHandler(t, config)
}

func decisionOf(t *testing.T, e event) gen.PastDecision {
	t.Helper()
	if e.name != "decision" || e.id == "" {
		t.Fatalf("not a decision: %+v", e)
	}
	holdEvent(t, e)
	var d gen.PastDecision
	decodeWhole(t, []byte(e.data), &d)
	return d
}

// holdEvent holds an event's data to the contract.
func holdEvent(t *testing.T, e event) {
	t.Helper()
	member := contract.Components.Schemas["StreamEvent"].Value.Properties[e.name]
	if member == nil {
		t.Fatalf("the contract has no event %q", e.name)
	}
	var value any
	if err := json.Unmarshal([]byte(e.data), &value); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	if err := member.Value.VisitJSON(value, openapi3.VisitAsResponse(), openapi3.EnableFormatValidation()); err != nil {
		t.Errorf("%s against the contract: %v", e.name, err)
	}
}

func TestStreamTellsDecisionsAsTheyAreMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := virtual(t, new(fakeFleet))
		ask(t, h, "POST", "/v1/decide", attempt("payments", 503))
		ask(t, h, "POST", "/v1/decide", attempt("search", 503))
		begun := time.Now()
		p := follow(t, h, "/v1/decisions/stream?dependency=payments", "")
		if d := decisionOf(t, p.next(t)); d.Reason != "backoff" || d.Failure != "503" || time.Since(begun) != 0 {
			t.Errorf("at once: %+v after %v", d, time.Since(begun))
		}
		ask(t, h, "POST", "/v1/decide", attempt("search", 404))
		ask(t, h, "POST", "/v1/decide", attempt("payments", 404))
		if d := decisionOf(t, p.next(t)); d.Reason != "not_retryable" || time.Since(begun) > beatEvery {
			t.Errorf("within a second: %+v after %v", d, time.Since(begun))
		}
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
			if got := p.header[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		synctest.Wait()
		if p.status != 200 || !p.bounded || !p.deadline.IsZero() {
			t.Errorf("status %d, bounded %v, deadline between two events %v", p.status, p.bounded, p.deadline)
		}
	})
}

func TestStreamGoesOnWhereItBrokeOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := virtual(t, new(fakeFleet))
		for range 3 {
			ask(t, h, "POST", "/v1/decide", attempt("payments", 503))
		}
		p := follow(t, h, "/v1/decisions/stream", "")
		first, second := p.next(t), p.next(t)
		p.cancel()
		again := follow(t, h, "/v1/decisions/stream", second.id)
		if third := again.next(t); third.id == first.id || third.id == second.id {
			t.Errorf("%s is told again", third.id)
		}
		other := follow(t, h, "/v1/decisions/stream?limit=2", "elsewhere-7")
		if e := other.next(t); e.id != second.id {
			t.Errorf("another replica's id: began at %s, want the newest two, from %s", e.id, second.id)
		}
		behind := follow(t, h, "/v1/decisions/stream?limit=1", first.id)
		if e := behind.next(t); e.name != "skipped" || e.data != "1" {
			t.Errorf("what no longer fits: %+v", e)
		}
	})
}

func TestStreamSaysWhatItSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := virtual(t, new(fakeFleet))
		p := follow(t, h, "/v1/decisions/stream?limit=2", "")
		synctest.Wait()
		for range 7 {
			ask(t, h, "POST", "/v1/decide", attempt("payments", 503))
		}
		if e := p.next(t); e.name != "skipped" || e.data != "5" {
			t.Errorf("%+v", e)
		} else {
			holdEvent(t, e)
		}
		decisionOf(t, p.next(t))
		decisionOf(t, p.next(t))
	})
}

func TestStreamIsNeverSilentForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := follow(t, virtual(t, new(fakeFleet)), "/v1/decisions/stream", "")
		begun := time.Now()
		for i := 1; i <= 3; i++ {
			if e := p.next(t); e.name != ":" {
				t.Errorf("%+v", e)
			}
			if took := time.Since(begun); took != time.Duration(i)*heartbeatAfter {
				t.Errorf("heartbeat %d after %v", i, took)
			}
		}
	})
}

func snapshotOf(t *testing.T, e event) gen.Snapshot {
	t.Helper()
	if e.name != "snapshot" {
		t.Fatalf("not a snapshot: %+v", e)
	}
	holdEvent(t, e)
	var s gen.Snapshot
	decodeWhole(t, []byte(e.data), &s)
	return s
}

func TestStreamOfSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		fleet := &fakeFleet{state: func(bucket string, _ *decide.Policy, _ string) decide.State {
			asked.Add(1)
			return decide.State{Budget: decide.Budget{Asked: true, Tokens: 2_500_000, Capacity: 10_000_000}, Breaker: decide.BreakerOpen, CoolDown: 1500,
				Override: decide.Override{Mode: decide.OverridePause, ExpiresIn: 60_000, Reason: "fails over", Author: "on-call", Since: epoch}}
		}}
		h := virtual(t, fleet)
		ask(t, h, "POST", "/v1/decide", attempt("payments", 503))
		ask(t, h, "POST", "/v1/decide", attempt("payments", 404))
		time.Sleep(time.Second)
		p := follow(t, h, "/v1/decisions/stream?snapshots=true&decision=retry", "")
		decisionOf(t, p.next(t))
		whole := snapshotOf(t, p.next(t))
		if whole.Status.Version != "test" || whole.Status.Roles != nil || len(whole.Components) != 3 || !whole.At.Equal(time.Now()) {
			t.Errorf("%+v", whole)
		}
		if len(whole.Dependencies) != 1 {
			t.Fatalf("%+v", whole.Dependencies)
		}
		one := whole.Dependencies[0]
		if one.Dependency != "payments" || one.Policy != "payments" || one.Budget.Tokens != 2.5 || one.Breaker != "open" || one.CoolDownMs != 1500 ||
			one.Override == nil || one.Override.Mode != "pause" || one.Counts["backoff"] != 1 || one.Counts["not_retryable"] != 1 {
			t.Errorf("%+v", one)
		}
		if n := len(one.Recent.Retries); n != historySeconds || one.Recent.Retries[n-1] != 1 || one.Recent.GiveUps[n-1] != 1 {
			t.Errorf("%+v", one.Recent)
		}
		other := follow(t, h, "/v1/decisions/stream?snapshots=true", "")
		for e := other.next(t); e.name != "snapshot"; e = other.next(t) {
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("one moment was asked for %d times", n)
		}
		news := snapshotOf(t, p.next(t))
		if n := len(news.Dependencies[0].Recent.Retries); n != newsSeconds || !news.At.Equal(whole.At.Add(beatEvery)) {
			t.Errorf("%d seconds at %v", n, news.At)
		}
	})
}

func TestStreamsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		h := virtual(t, new(fakeFleet), func(c *Config) { c.Stopping = stopping })
		p := follow(t, h, "/v1/decisions/stream?snapshots=true", "")
		snapshotOf(t, p.next(t))
		close(stopping)
		if rest := p.ended(t); rest != "" {
			t.Errorf("after the end: %q", rest)
		}
		<-p.done
		late := ask(t, h, "GET", "/v1/decisions/stream", "")
		if late.Code != 503 || late.Header().Get("Retry-After") == "" || !strings.Contains(late.Body.String(), "not-ready") {
			t.Errorf("%d %v %s", late.Code, late.Header(), late.Body)
		}
	})
}

// Who may ask can change while a stream is open, so that it does not stay open.
func TestStreamsAreAdmittedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := follow(t, virtual(t, new(fakeFleet)), "/v1/decisions/stream", "")
		begun := time.Now()
		if rest := p.ended(t); !strings.Contains(rest, ":") {
			t.Errorf("%q", rest)
		}
		if took := time.Since(begun); took != streamLifetime {
			t.Errorf("ended after %v", took)
		}
	})
}

// A key that was taken out of the file, or may no longer look, follows no longer;
// the others do.
func TestStreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	gone, bound, stays := identity.NewKey(), identity.NewKey(), identity.NewKey()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	write := func(entries ...string) {
		if err := os.WriteFile(path, []byte("version: 1\nidentities:\n"+strings.Join(entries, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(name, key, role string) string {
		return "  " + name + ": {keys: [\"" + identity.Digest(key) + "\"], roles: [" + role + "]}\n"
	}
	write(entry("gone", gone, "read"), entry("bound", bound, "read"), entry("stays", stays, "read"))
	live, err := identity.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := virtual(t, new(fakeFleet), func(c *Config) { c.Door = &identity.Door{Keys: live} })
		open := func(key string) *pipe {
			return followAs(t, h, "/v1/decisions/stream", http.Header{"Authorization": {"Bearer " + key}})
		}
		withdrawn, demoted, kept := open(gone), open(bound), open(stays)
		time.Sleep(beatEvery / 2)
		write(entry("bound", bound, "report"), entry("stays", stays, "read"))
		live.Reload(slog.New(slog.DiscardHandler), false)
		begun := time.Now()
		withdrawn.ended(t)
		demoted.ended(t)
		if took := time.Since(begun); took > beatEvery {
			t.Errorf("ended after %v", took)
		}
		if e := kept.next(t); e.name != ":" || time.Since(begun) < 10*beatEvery {
			t.Errorf("%+v after %v", e, time.Since(begun))
		}
	})
}

// A client that takes nothing is cut off, and nobody waits for it.
func TestStreamCutsOffWhoDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := virtual(t, new(fakeFleet))
		slow := follow(t, h, "/v1/decisions/stream?snapshots=true", "")
		quick := follow(t, h, "/v1/decisions/stream?snapshots=true", "")
		begun := time.Now()
		for range 3 {
			snapshotOf(t, quick.next(t))
		}
		if took := time.Since(begun); took != 2*beatEvery {
			t.Errorf("three snapshots took %v", took)
		}
		go func() { // somebody must go on reading, because time passes only while all wait
			for {
				if _, err := quick.reader.ReadByte(); err != nil {
					return
				}
			}
		}()
		<-slow.done
		if took := time.Since(begun); took != streamWriteTimeout {
			t.Errorf("cut off after %v", took)
		}
	})
}

func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := virtual(t, new(fakeFleet))
		open := make([]*pipe, maxStreams)
		for i := range open {
			open[i] = follow(t, h, "/v1/decisions/stream", "")
		}
		synctest.Wait()
		more := ask(t, h, "GET", "/v1/decisions/stream", "")
		if more.Code != 503 || more.Header().Get("Retry-After") != "1" || !strings.Contains(more.Body.String(), "too-many-streams") {
			t.Errorf("one more: %d %v %s", more.Code, more.Header(), more.Body)
		}
		ask(t, h, "POST", "/v1/decide", attempt("payments", 503))
		for _, p := range open {
			decisionOf(t, p.next(t))
		}
		open[0].cancel()
		<-open[0].done
		again := follow(t, h, "/v1/decisions/stream", "")
		decisionOf(t, again.next(t))
	})
}

// The pulse stops with the last stream and starts with the next. The bubble
// fails where a goroutine outlives the test.
func TestPulseStopsWithTheLastStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		p := &pulse{every: time.Second, newBeat: func() *beat { beats++; return &beat{next: make(chan struct{})} }}
		for round := 1; round <= 3; round++ {
			first, err := p.join()
			if err != nil {
				t.Fatal(err)
			}
			<-first.next
			if second := p.latest(); second == first || second == nil {
				t.Error("no beat is there after the beat")
			}
			p.leave()
			synctest.Wait()
			time.Sleep(10 * time.Second)
			if beats != 2*round || p.latest() != nil {
				t.Errorf("round %d: %d beats", round, beats)
			}
		}
	})
}

func TestHeadOfAStreamEnds(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	got := c.do(c.request(http.MethodHead, "/v1/decisions/stream", nil))
	if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || len(got.body) != 0 {
		t.Errorf("%d %v %q", got.status, got.header, got.body)
	}
}

// The deadlines that a server has for answers that end do not end a stream.
func TestStreamOutlivesTheServersDeadlines(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(onFakes(t))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 1500*time.Millisecond, 1500*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/decisions/stream?snapshots=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p := &pipe{reader: bufio.NewReader(resp.Body)}
	for range 3 {
		snapshotOf(t, p.next(t))
	}
}

// pipes is a listener whose connections are pipes, so that a server can be in a
// bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

// HTTP/2 ends a stream at its deadline, also where nothing is written then: one
// that is silent for longer goes on.
func TestStreamIsSilentOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var http2 http.Protocols
		http2.SetUnencryptedHTTP2(true)
		listener := make(pipes)
		server := &http.Server{Handler: virtual(t, new(fakeFleet)), Protocols: &http2, ReadTimeout: time.Second, WriteTimeout: time.Second}
		go server.Serve(listener) //nolint:errcheck // it ends with the test
		transport := &http.Transport{Protocols: &http2, DialContext: listener.dial}
		defer server.Close()
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://decider/v1/decisions/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 {
			t.Errorf("%s", response.Proto)
		}
		p := &pipe{reader: bufio.NewReader(response.Body)}
		for range 3 {
			if e := p.next(t); e.name != ":" {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestSequenceOfAnEvent(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int64{"run-7": 7, "run-0": 0, "run--7": 0, "run-x": 0, "run-": 0, "run": 0, "other-7": 0, "": 0, "run-99999999999999999999": 0} {
		if got := sequenceOf(id, "run"); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
}

// The longest deadline error that a slow client meets is the connection's own.
func TestPipeHasDeadlines(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	p := &pipe{writer: near}
	_ = p.SetWriteDeadline(time.Now().Add(-time.Second))
	if _, err := p.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestEventNamesAreTheContracts(t *testing.T) {
	t.Parallel()
	want := []string{"decision", "skipped", "snapshot"}
	if got := sorted(keys(contract.Components.Schemas["StreamEvent"].Value.Properties)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
