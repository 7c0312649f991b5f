package decider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// question is an attempt as decider receives it.
type question struct {
	Dependency    string            `json:"dependency"`
	Method        string            `json:"method"`
	Status        int               `json:"status"`
	Outcome       Outcome           `json:"outcome"`
	GRPCStatus    string            `json:"grpc_status"`
	Attempt       int               `json:"attempt"`
	HasKey        bool              `json:"has_idempotency_key"`
	Idempotent    *bool             `json:"idempotent"`
	RetryAfter    string            `json:"retry_after"`
	ResponseDate  string            `json:"response_date"`
	Headers       map[string]string `json:"headers"`
	Remaining     *int64            `json:"remaining_ms"`
	MinAttempt    *int64            `json:"min_attempt_ms"`
	PreviousDelay int64             `json:"previous_delay_ms"`
	Caller        string            `json:"caller"`
	Inbound       int               `json:"inbound_attempt"`
	RetriedBelow  bool              `json:"retried_below"`
	DecisionID    string            `json:"decision_id"`
}

type counted struct {
	Caller   string `json:"caller"`
	ReportID string `json:"report_id"`
	Outcomes []struct {
		Dependency string `json:"dependency"`
		Firsts     int    `json:"first_try_successes"`
		Retries    int    `json:"retry_successes"`
		Finals     int    `json:"final_failures"`
	} `json:"outcomes"`
}

// standIn stands in for decider.
type standIn struct {
	server *httptest.Server

	mu        sync.Mutex
	decide    func(n int, q question) string // the answer to the n-th question, 1 the first; "" is a broken connection
	outcomes  func(n int, r *counted) string // the same for reports
	questions []question
	reports   []*counted
}

// say is a decision.
func say(retry bool, delay int) string {
	if !retry {
		return `{"decision":"give_up","delay_ms":0,"reason":"not_safe_to_repeat"}`
	}
	return fmt.Sprintf(`{"decision":"retry","delay_ms":%d,"reason":"backoff","next_attempt":2}`, delay)
}

func newStandIn(t *testing.T, decide func(n int, q question) string) *standIn {
	t.Helper()
	s := &standIn{decide: decide, outcomes: func(int, *counted) string { return `{"dependencies":[]}` }}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decide", func(w http.ResponseWriter, r *http.Request) {
		var q question
		decode(t, r, &q)
		s.mu.Lock()
		s.questions = append(s.questions, q)
		answer := s.decide(len(s.questions), q)
		s.mu.Unlock()
		reply(w, answer)
	})
	mux.HandleFunc("POST /v1/outcomes", func(w http.ResponseWriter, r *http.Request) {
		c := new(counted)
		decode(t, r, c)
		s.mu.Lock()
		s.reports = append(s.reports, c)
		answer := s.outcomes(len(s.reports), c)
		s.mu.Unlock()
		reply(w, answer)
	})
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

func decode(t *testing.T, r *http.Request, into any) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%s: %v", r.URL.Path, err)
	}
}

func reply(w http.ResponseWriter, answer string) {
	if answer == "" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// client asks the stand-in, and reports only when it is flushed or closed.
func (s *standIn) client(t *testing.T, opts ...Option) *Client {
	t.Helper()
	c, err := NewClient(s.server.URL, append([]Option{WithTimeout(5 * time.Second), WithReportInterval(time.Hour)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Log("close:", err)
		}
	})
	return c
}

func (s *standIn) asked() []question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]question(nil), s.questions...)
}

func (s *standIn) reported() []*counted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*counted(nil), s.reports...)
}

// upstream is a dependency that answers its n-th request, 1 the first, by
// behave. It keeps what it was sent.
type upstream struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals []arrival
}

type arrival struct {
	method, body string
	header       http.Header
	at           time.Time
}

func newUpstream(t *testing.T, behave func(n int, w http.ResponseWriter, r *http.Request)) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.arrivals = append(u.arrivals, arrival{r.Method, string(body), r.Header.Clone(), time.Now()})
		n := len(u.arrivals)
		u.mu.Unlock()
		behave(n, w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) seen() []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]arrival(nil), u.arrivals...)
}

func (u *upstream) count(method string) (n int) {
	for _, each := range u.seen() {
		if each.method == method {
			n++
		}
	}
	return n
}

// statuses answers with one after the other, and with the last for ever.
func statuses(list ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		status := list[min(n, len(list))-1]
		w.WriteHeader(status)
		fmt.Fprintf(w, "%d to request %d", status, n)
	}
}

// closes reads the request and ends the connection without an answer.
func closes(_ int, w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// own is a base transport of the test's own.
func own(t *testing.T) *http.Transport {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = nil
	base.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	t.Cleanup(base.CloseIdleConnections)
	return base
}

func request(t *testing.T, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text reads a response to its end.
func text(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// events keeps what an Observer is told.
type events struct {
	mu   sync.Mutex
	list []Event
}

func (e *events) Observe(_ context.Context, event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) all() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Event(nil), e.list...)
}

// silent takes what a server says of handshakes that fail.
var silent = log.New(io.Discard, "", 0)
