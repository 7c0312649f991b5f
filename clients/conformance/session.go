package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// session is one run of one case.
type session struct {
	scenario          *scenario
	upstream, decider *side
	ended             chan struct{}

	mu        sync.Mutex
	arrivals  []seen
	questions []map[string]any
	answered  []time.Time
	reports   []report
	wrong     []string // what neither side should have been sent
}

// seen is a request at the dependency.
type seen struct {
	method, body string
	headers      http.Header
	at           time.Time
}

type report struct {
	Outcomes []struct {
		Dependency string `json:"dependency"`
		FirstTries int64  `json:"first_try_successes"`
		Retries    int64  `json:"retry_successes"`
		Finals     int64  `json:"final_failures"`
	} `json:"outcomes"`
	ReportID string `json:"report_id"`
}

// side is a server on an address of its own.
type side struct {
	url    string
	server *http.Server
	held   net.Conn // of an address that refuses
}

func newSession(s *scenario) (*session, error) {
	run := &session{scenario: s, ended: make(chan struct{})}
	var err error
	if run.upstream, err = serve(http.HandlerFunc(run.arrive), s.Upstream[0].Refused); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decide", run.decide)
	mux.HandleFunc("POST /v1/outcomes", run.outcomes)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		run.fail("decider was sent %s %s", r.Method, r.URL.Path)
		http.NotFound(w, r)
	})
	if run.decider, err = serve(mux, s.Client.DeciderDown); err != nil {
		run.close()
		return nil, err
	}
	return run, nil
}

// serve listens, unless connections are to be refused.
func serve(h http.Handler, refused bool) (*side, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &side{url: "http://" + listener.Addr().String(), server: &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}}
	if refused {
		// The near end of a connection: nobody listens there, nor will.
		if s.held, err = net.Dial("tcp", listener.Addr().String()); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		s.url = "http://" + s.held.LocalAddr().String()
	}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func (s *session) close() {
	close(s.ended)
	for _, each := range []*side{s.upstream, s.decider} {
		if each == nil {
			continue
		}
		_ = each.server.Close()
		if each.held != nil {
			_ = each.held.Close()
		}
	}
}

func (s *session) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// arrive is the dependency.
func (s *session) arrive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.arrivals = append(s.arrivals, seen{r.Method, string(body), r.Header.Clone(), time.Now()})
	b := nth(s.scenario.Upstream, len(s.arrivals))
	s.mu.Unlock()
	if s.does(w, r, b.Does) {
		return
	}
	for name, value := range b.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(b.Status)
	_, _ = io.WriteString(w, b.Body)
}

// does does something else than answer, where there is something.
func (s *session) does(w http.ResponseWriter, r *http.Request, what string) bool {
	switch what {
	case "":
		return false
	case "hang":
		select {
		case <-r.Context().Done():
		case <-s.ended:
		}
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return true
	}
	if tcp, ok := conn.(*net.TCPConn); ok && what == "reset" {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	return true
}

// decide is decider's answer to a failed attempt.
func (s *session) decide(w http.ResponseWriter, r *http.Request) {
	var question map[string]any
	if !s.read(r, &question) {
		return
	}
	s.mu.Lock()
	s.questions = append(s.questions, question)
	a := nth(s.scenario.Decide, len(s.questions))
	s.mu.Unlock()
	if s.does(w, r, a.Does) {
		return
	}
	s.mu.Lock()
	s.answered = append(s.answered, time.Now())
	s.mu.Unlock()
	a.write(w)
}

// outcomes is decider's answer to a report.
func (s *session) outcomes(w http.ResponseWriter, r *http.Request) {
	var in report
	if !s.read(r, &in) {
		return
	}
	s.mu.Lock()
	s.reports = append(s.reports, in)
	a := answer{Body: json.RawMessage(`{"dependencies":[]}`)}
	if len(s.scenario.Outcomes) > 0 {
		a = nth(s.scenario.Outcomes, len(s.reports))
	}
	s.mu.Unlock()
	if !s.does(w, r, a.Does) {
		a.write(w)
	}
}

// read reads what decider is sent, which must be JSON and say so.
func (s *session) read(r *http.Request, into any) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		s.fail("%s came as %q, want application/json", r.URL.Path, kind)
	}
	if err := json.Unmarshal(body, into); err != nil {
		s.fail("%s: %v", r.URL.Path, err)
		return false
	}
	return true
}

func (a answer) write(w http.ResponseWriter) {
	status, kind := a.Status, "application/json"
	if status == 0 {
		status = http.StatusOK
	}
	if status != http.StatusOK {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(a.Body)
}

// nth is the n-th of a list, 1 the first, and the last for all that follow.
func nth[T any](list []T, n int) (v T) {
	if len(list) > 0 {
		v = list[min(n, len(list))-1]
	}
	return v
}
