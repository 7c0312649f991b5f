package decider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTransportRepeatsUntilItSucceeds(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "2")
			w.Header().Set("Set-Cookie", "secret=1")
			w.Header().Set("X-Should-Retry", "true")
		}
		statuses(503, 500, 200)(n, w, r)
	})
	s := newStandIn(t, func(n int, _ question) string { return say(true, 5*n) })
	c := s.client(t, WithCaller("checkout"))
	var seen events
	tr := NewTransport(c, WithBase(own(t)), WithDependency(func(*http.Request) string { return "payments" }), WithObserver(&seen))

	response, err := tr.RoundTrip(request(t, t.Context(), "PUT", u.URL, "body"))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); response.StatusCode != 200 || got != "200 to request 3" {
		t.Errorf("answer %d %q", response.StatusCode, got)
	}
	for i, each := range u.seen() {
		if want := string(rune('1' + i)); each.body != "body" || each.header.Get(AttemptHeader) != want {
			t.Errorf("request %d: body %q, attempt %q", i+1, each.body, each.header.Get(AttemptHeader))
		}
	}
	asked := s.asked()
	if len(asked) != 2 {
		t.Fatalf("%d questions, want 2", len(asked))
	}
	first, second := asked[0], asked[1]
	if first.Status != 503 || first.RetryAfter != "2" || first.ResponseDate == "" || first.Attempt != 1 || first.Caller != "checkout" ||
		first.Dependency != "payments" || first.Method != "PUT" || first.HasKey || first.Remaining != nil ||
		!reflect.DeepEqual(first.Headers, map[string]string{"X-Should-Retry": "true"}) {
		t.Errorf("first question %+v", first)
	}
	if second.Status != 500 || second.Attempt != 2 || second.PreviousDelay != 5 || second.RetryAfter != "" || second.Headers != nil ||
		second.DecisionID == first.DecisionID || second.DecisionID == "" {
		t.Errorf("second question %+v", second)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := s.reported()[0]
	if o := report.Outcomes[0]; len(report.Outcomes) != 1 || o.Dependency != "payments" || o.Firsts != 0 || o.Retries != 1 || o.Finals != 0 || report.Caller != "checkout" {
		t.Errorf("report %+v", report)
	}
	if list := seen.all(); len(list) != 2 || !list[0].Decision.Retry || list[1].Attempt != 2 || list[1].Decision.Delay != 10*time.Millisecond || list[0].Decision.Reason != ReasonBackoff {
		t.Errorf("events %+v", list)
	}
}

func TestTransportReturnsTheLastRealResponse(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, statuses(503, 502))
	s := newStandIn(t, func(n int, _ question) string { return say(n == 1, 0) })
	response, err := NewTransport(s.client(t), WithBase(own(t))).RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); response.StatusCode != 502 || got != "502 to request 2" {
		t.Errorf("answer %d %q", response.StatusCode, got)
	}
}

// An error after a response is the error alone.
func TestTransportNeverReturnsBoth(t *testing.T) {
	t.Parallel()
	var closed atomic.Int32
	body := func() io.ReadCloser { return closing{strings.NewReader("x"), &closed} }
	boom := errors.New("boom")
	for name, base := range map[string]func() (*http.Response, error){
		"both":    func() (*http.Response, error) { return &http.Response{StatusCode: 503, Body: body()}, boom },
		"neither": func() (*http.Response, error) { return nil, nil },
	} {
		closed.Store(0)
		s := newStandIn(t, func(int, question) string { return say(false, 0) })
		tr := NewTransport(s.client(t), WithBase(transportFunc(func(*http.Request) (*http.Response, error) { return base() })))
		response, err := tr.RoundTrip(request(t, t.Context(), "GET", "http://x.example", ""))
		if response != nil || err == nil {
			t.Errorf("%s: %v, %v", name, response, err)
		}
		if name == "both" && (closed.Load() != 1 || !errors.Is(err, boom)) {
			t.Errorf("%s: closed %d times, %v", name, closed.Load(), err)
		}
	}
}

type closing struct {
	io.Reader
	closed *atomic.Int32
}

func (c closing) Close() error {
	c.closed.Add(1)
	return nil
}

func TestTransportDoesNotChangeTheRequest(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, statuses(503, 200))
	s := newStandIn(t, func(int, question) string { return say(true, 0) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := request(t, ctx, "POST", u.URL, "body")
	r.Header.Set(KeyHeader, "k1")
	header, body := r.Header.Clone(), r.Body
	response, err := NewTransport(s.client(t), WithBase(own(t)), WithAttemptTimeout(time.Minute)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text(t, response)
	if !reflect.DeepEqual(r.Header, header) || r.Body != body || r.Context() != ctx || r.ContentLength != 4 {
		t.Errorf("the request was changed: %+v", r)
	}
	seen := u.seen()
	if len(seen) != 2 || seen[0].header.Get(RemainingHeader) == "" || seen[1].header.Get(KeyHeader) != "k1" || seen[1].body != "body" {
		t.Errorf("arrivals %+v", seen)
	}
	if q := s.asked()[0]; !q.HasKey || q.Remaining == nil || *q.Remaining < 50_000 {
		t.Errorf("question %+v", q)
	}
}

func TestTransportDrainsAndClosesBeforeTheWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		bytes int
		conns int
	}{{"a small body keeps its connection", 100, 1}, {"a large one does not", 1 << 20, 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					w.Header().Set("Content-Length", "0")
					w.Header().Del("Content-Length")
					w.WriteHeader(503)
					_, _ = w.Write(bytes.Repeat([]byte("x"), c.bytes))
					return
				}
				statuses(200)(n, w, r)
			})
			s := newStandIn(t, func(int, question) string { return say(true, 20) })
			conns := map[string]bool{}
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conns[i.Conn.LocalAddr().String()] = true }})
			response, err := NewTransport(s.client(t), WithBase(own(t))).RoundTrip(request(t, ctx, "GET", u.URL, ""))
			if err != nil {
				t.Fatal(err)
			}
			text(t, response)
			if len(conns) != c.conns {
				t.Errorf("%d connections, want %d", len(conns), c.conns)
			}
		})
	}
}

// A body that stalls must not hold the call.
func TestTransportDoesNotWaitForAStalledBody(t *testing.T) {
	t.Parallel()
	stalled := make(chan struct{})
	u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader([]int{503, 200}[min(n, 2)-1])
		if n == 1 {
			_ = http.NewResponseController(w).Flush()
			<-stalled
		}
	})
	t.Cleanup(func() { close(stalled) })
	s := newStandIn(t, func(int, question) string { return say(true, 0) })
	begin := time.Now()
	response, err := NewTransport(s.client(t), WithBase(own(t))).RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	text(t, response)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestTransportRepeatsABodyOnlyWithGetBody(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, statuses(503))
	s := newStandIn(t, func(int, question) string { return say(true, 0) })
	c := s.client(t)
	var seen events
	r := request(t, t.Context(), "PUT", u.URL, "body")
	r.GetBody = nil
	response, err := NewTransport(c, WithBase(own(t)), WithObserver(&seen)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); got != "503 to request 1" || len(s.asked()) != 0 {
		t.Errorf("answer %q after %d questions", got, len(s.asked()))
	}
	if list := seen.all(); len(list) != 1 || list[0].Decision.Reason != ReasonBodyNotReplayable {
		t.Errorf("events %+v", list)
	}
	r = request(t, t.Context(), "PUT", u.URL, "body")
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	response, err = NewTransport(c, WithBase(own(t)), WithObserver(&seen)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); got != "503 to request 2" {
		t.Errorf("answer %q", got)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := s.reported()[0].Outcomes[0]; o.Finals != 1 { // the second was brought to decide
		t.Errorf("report %+v", o)
	}
}

func TestTransportClosesTheRequestsBody(t *testing.T) {
	t.Parallel()
	var closed atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	s := newStandIn(t, func(int, question) string {
		time.AfterFunc(50*time.Millisecond, cancel)
		return say(true, 60_000)
	})
	base := transportFunc(func(r *http.Request) (*http.Response, error) {
		r.Body.Close()
		return nil, io.EOF
	})
	r := request(t, ctx, "PUT", "http://x.example", "")
	r.Body = closing{strings.NewReader("body"), &closed}
	var again atomic.Int32
	r.GetBody = func() (io.ReadCloser, error) { return closing{strings.NewReader("body"), &again}, nil }
	if _, err := NewTransport(s.client(t), WithBase(base)).RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if closed.Load() != 1 || again.Load() != 1 {
		t.Errorf("closed %d and %d times, want 1 and 1", closed.Load(), again.Load())
	}
}

func TestTransportStopsAtTheDeadline(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, statuses(503))
	s := newStandIn(t, func(int, question) string { return say(true, 60_000) }) // what a policy without a deadline would say
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	begin := time.Now()
	var seen events
	response, err := NewTransport(s.client(t), WithBase(own(t)), WithObserver(&seen)).RoundTrip(request(t, ctx, "GET", u.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); got != "503 to request 1" || time.Since(begin) > 5*time.Second {
		t.Errorf("answer %q after %s", got, time.Since(begin))
	}
	if e := seen.all()[0]; e.Decision.Retry || e.Decision.Reason != ReasonDeadline {
		t.Errorf("event %+v", e)
	}
}

func TestTransportAsksOnlyAfterFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		opts   []TransportOption
		asked  int
	}{
		{200, nil, 0},
		{304, nil, 0},
		{404, nil, 0},
		{409, nil, 0},
		{409, []TransportOption{WithAlsoAsk(409)}, 1},
		{408, nil, 1},
		{429, nil, 1},
		{500, nil, 1},
		{501, nil, 1},
	} {
		u := newUpstream(t, statuses(c.status))
		s := newStandIn(t, func(int, question) string { return say(false, 0) })
		client := s.client(t)
		response, err := NewTransport(client, append(c.opts, WithBase(own(t)))...).RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		text(t, response)
		if n := len(s.asked()); n != c.asked {
			t.Errorf("%d: %d questions, want %d", c.status, n, c.asked)
		}
	}
}

func TestTransportZeroValue(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, statuses(503, 200))
	client := &http.Client{Transport: new(Transport)}
	response, err := client.Get(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); got != "200 to request 2" {
		t.Errorf("answer %q", got)
	}
}

func TestTransportCall(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, statuses(503))
	s := newStandIn(t, func(int, question) string { return say(false, 0) })
	tr := NewTransport(s.client(t), WithBase(own(t)), WithAttemptHeader("X-Try"), WithRemainingHeader(""), WithKeyHeader("x-key"), WithMinAttempt(time.Second))
	ctx := WithCall(t.Context(), Call{Dependency: "orders", IdempotencyKey: "k7", MinAttempt: 20 * time.Millisecond, InboundAttempt: 3})
	ctx = WithCall(ctx, Call{Idempotent: new(false)})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	response, err := tr.RoundTrip(request(t, ctx, "GET", u.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	text(t, response)
	q := s.asked()[0]
	if q.Dependency != "orders" || !q.HasKey || *q.MinAttempt != 20 || q.Inbound != 3 || *q.Idempotent {
		t.Errorf("question %+v", q)
	}
	h := u.seen()[0].header
	if h.Get("X-Try") != "1" || h.Get(AttemptHeader) != "" || h.Get(RemainingHeader) != "" || h.Get("X-Key") != "k7" || h.Get(KeyHeader) != "" {
		t.Errorf("header %v", h)
	}
	ctx = WithCall(ctx, Call{NoRetry: true})
	if response, err = tr.RoundTrip(request(t, ctx, "GET", u.URL, "")); err != nil {
		t.Fatal(err)
	}
	text(t, response)
	if n := len(s.asked()); n != 1 {
		t.Errorf("%d questions after a call that is not to be retried, want 1", n)
	}
}

// A decider that hangs costs a call one question's bound, however often it is repeated.
func TestTransportWaitsForDeciderOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcomes: states(`,"fallback":{"on_failure":"allow","max_attempts":4,"retry_after_max_ms":1000}`)}
		c := f.client(t, WithReportInterval(time.Hour))
		c.Succeeded("x.example", 1)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		made := 0
		base := transportFunc(func(*http.Request) (*http.Response, error) { made++; return nil, io.EOF })
		begin := time.Now()
		_, err := NewTransport(c, WithBase(base)).RoundTrip(request(t, t.Context(), "GET", "http://x.example", ""))
		if took := time.Since(begin); err == nil || made != 4 || len(f.questions) != 1 || took != DefaultTimeout+3*70*time.Millisecond {
			t.Errorf("%d attempts and %d questions in %s, %v", made, len(f.questions), took, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTransportConcurrentUse(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) { statuses([]int{200, 503}[n%2])(1, w, r) })
	s := newStandIn(t, func(_ int, q question) string { return say(q.Attempt < 4, 0) })
	c := s.client(t, WithReportInterval(10*time.Millisecond))
	tr := NewTransport(c, WithBase(own(t)), WithIdempotencyKey(nil))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				response, err := tr.RoundTrip(request(t, t.Context(), "POST", u.URL, "x"))
				if err != nil {
					t.Error(err)
					return
				}
				text(t, response)
			}
		})
	}
	all.Wait()
}

// closesAfterFirst serves one answer for each connection and then reads a
// request and closes: net/http takes that for a kept connection that died.
func TestCaseUnRetryZeroStillSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		kept      bool // a GET has been served on the connection
		key       string
		body      string
		noGetBody bool
		want      int
	}{
		{"no key", false, "", "pay", false, 1},
		{"a key", false, "k1", "pay", false, 4},
		{"no key, a kept connection", true, "", "pay", false, 1},
		{"a key, a kept connection", true, "k1", "pay", false, 4},
		{"no key nor body, a kept connection", true, "", "", false, 1},
		{"a key, no body, a kept connection", true, "k1", "", false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					statuses(200)(n, w, r)
					return
				}
				closes(n, w, r)
			})
			s := newStandIn(t, func(_ int, q question) string { return say(q.HasKey && q.Attempt < 4, 0) })
			tr := NewTransport(s.client(t), WithBase(own(t)))
			if c.kept {
				response, err := tr.RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
				if err != nil {
					t.Fatal(err)
				}
				text(t, response)
			}
			r := request(t, t.Context(), "POST", u.URL, c.body)
			if c.key != "" {
				r.Header.Set(KeyHeader, c.key)
			}
			if _, err := tr.RoundTrip(r); err == nil {
				t.Fatal("an answer from a server that gives none")
			}
			retries := 0
			for _, q := range s.asked() {
				if q.Outcome != ConnectionClosed && q.Outcome != ConnectionReset {
					t.Errorf("outcome %q", q.Outcome)
				}
				if q.HasKey && q.Attempt < 4 {
					retries++
				}
			}
			if got := u.count("POST"); got != c.want || got != 1+retries {
				t.Errorf("%d arrivals for %d granted retries, want %d", got, retries, c.want)
			}
		})
	}
}

func TestCaseIdKeyNewPerTry(t *testing.T) {
	t.Parallel()
	t.Run("the client's own key", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		u := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				<-release
				return
			}
			statuses(200)(n, w, r)
		})
		t.Cleanup(func() { close(release) })
		s := newStandIn(t, func(_ int, q question) string {
			return `{"decision":"retry","delay_ms":0,"reason":"backoff","hints":["same_idempotency_key"]}`
		})
		tr := NewTransport(s.client(t), WithBase(own(t)), WithIdempotencyKey(nil), WithAttemptTimeout(100*time.Millisecond))
		response, err := tr.RoundTrip(request(t, t.Context(), "POST", u.URL, "pay"))
		if err != nil {
			t.Fatal(err)
		}
		text(t, response)
		seen, asked := u.seen(), s.asked()
		if len(seen) != 2 || seen[0].header.Get(KeyHeader) == "" || seen[0].header.Get(KeyHeader) != seen[1].header.Get(KeyHeader) {
			t.Errorf("keys of %+v", seen)
		}
		if len(asked) != 1 || asked[0].Outcome != Timeout || !asked[0].HasKey {
			t.Errorf("questions %+v", asked)
		}
	})
	t.Run("a key that something below changes on each try", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, closes)
		s := newStandIn(t, func(_ int, q question) string { return say(q.HasKey, 0) })
		base, n := own(t), 0
		changing := transportFunc(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			n++
			for name := range r.Header {
				if strings.EqualFold(name, KeyHeader) {
					r.Header[name] = []string{strings.Repeat("x", n)}
				}
			}
			return base.RoundTrip(r)
		})
		if _, err := NewTransport(s.client(t), WithBase(changing), WithIdempotencyKey(nil)).RoundTrip(request(t, t.Context(), "POST", u.URL, "pay")); err == nil {
			t.Fatal("an answer from a server that gives none")
		}
		if asked := s.asked(); len(asked) != 1 || asked[0].HasKey || u.count("POST") != 1 {
			t.Errorf("%d arrivals, questions %+v", u.count("POST"), asked)
		}
	})
	t.Run("a key that the application changes in its own request", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, statuses(503, 200))
		var r *http.Request
		s := newStandIn(t, func(_ int, q question) string {
			r.Header.Set(KeyHeader, "another") // while the call waits for the answer
			return say(q.HasKey, 0)
		})
		r = request(t, t.Context(), "POST", u.URL, "pay")
		r.Header.Set(KeyHeader, "one")
		response, err := NewTransport(s.client(t), WithBase(own(t))).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text(t, response)
		for _, each := range u.seen() {
			if each.header.Get(KeyHeader) != "one" {
				t.Errorf("key %q", each.header.Get(KeyHeader))
			}
		}
	})
}

func TestCaseLaEsNoBackoff(t *testing.T) {
	t.Parallel()
	t.Run("the wait is obeyed", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, statuses(429, 200))
		var answered time.Time
		s := newStandIn(t, func(int, question) string { answered = time.Now(); return say(true, 500) })
		response, err := NewTransport(s.client(t), WithBase(own(t))).RoundTrip(request(t, t.Context(), "GET", u.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		text(t, response)
		if waited := u.seen()[1].at.Sub(answered); waited < 500*time.Millisecond || waited > 600*time.Millisecond {
			t.Errorf("the second request came %s after the answer, want 500 to 600 ms", waited)
		}
	})
	t.Run("a canceled wait ends", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, statuses(429, 200))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var canceled time.Time
		s := newStandIn(t, func(int, question) string {
			time.AfterFunc(100*time.Millisecond, func() { canceled = time.Now(); cancel() })
			return say(true, 500)
		})
		response, err := NewTransport(s.client(t), WithBase(own(t))).RoundTrip(request(t, ctx, "GET", u.URL, ""))
		if response != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, %v", response, err)
		}
		if late := time.Since(canceled); late > 50*time.Millisecond {
			t.Errorf("the wait ended %s after it was canceled", late)
		}
		time.Sleep(20 * time.Millisecond)
		if n := u.count("GET"); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestCaseLaStackedSdk(t *testing.T) {
	t.Parallel()
	// The stand-in does as the policies say: 4 attempts, and for the second
	// dependency only the first inbound attempt is retried.
	s := newStandIn(t, func(_ int, q question) string {
		if q.Dependency == "second" && q.Inbound > 1 {
			return `{"decision":"give_up","reason":"not_the_retry_layer"}`
		}
		return say(q.Attempt < 4, 0)
	})
	c := s.client(t)
	second := newUpstream(t, statuses(503))
	inner := NewTransport(c, WithBase(own(t)), WithDependency(func(*http.Request) string { return "second" }))
	var firsts atomic.Int32
	first := newUpstream(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		firsts.Add(1)
		Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response, err := inner.RoundTrip(request(t, r.Context(), "GET", second.URL, ""))
			if err != nil {
				t.Error(err)
				return
			}
			text(t, response)
			w.WriteHeader(http.StatusBadGateway)
		})).ServeHTTP(w, r)
	})
	outer := NewTransport(c, WithBase(own(t)), WithDependency(func(*http.Request) string { return "first" }))
	response, err := outer.RoundTrip(request(t, t.Context(), "GET", first.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	text(t, response)
	if firsts.Load() != 4 || second.count("GET") != 7 {
		t.Errorf("the first server saw %d requests and the second %d, want 4 and 7", firsts.Load(), second.count("GET"))
	}
	below := 0
	for _, q := range s.asked() {
		if q.Dependency == "first" && q.RetriedBelow {
			below++
		}
	}
	if below != 1 { // only the first of the four had retried below
		t.Errorf("%d questions said retried_below, want 1", below)
	}
}
