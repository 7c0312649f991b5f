//go:build linux

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// readiness is the answer to GET /readyz.
type readiness struct {
	State      string
	Components []component
}

type component struct{ Name, State, Means string }

// store is what is said of the store.
func (r *readiness) store() component {
	for _, c := range r.Components {
		if c.Name == "store" {
			return c
		}
	}
	return component{}
}

// eventually asks again and again until it is told to stop.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// Without a flag or a file decider answers by the built-in policy, from its own
// memory. (The variable is there because the usual port may be taken.)
func TestServeNeedsNothing(t *testing.T) {
	t.Parallel()
	p := serveWith(t, programtest.Environment("DECIDER_LISTEN=127.0.0.1:0"))
	if d := mustDecide(t, p.URL, got503("payments")); d.Decision != "retry" || d.Degraded || d.Budget.Tokens != 9 {
		t.Errorf("%+v", d)
	}
	var status struct {
		Version  string
		Policies struct{ Source string }
		Store    struct{ Kind, State string }
	}
	get(t, p.URL+"/v1/status", http.StatusOK, &status)
	if status.Version != "v1.2.3" || status.Policies.Source != "built-in" || status.Store.Kind != "memory" || status.Store.State != "ok" {
		t.Errorf("%+v", status)
	}
	var ready readiness
	get(t, p.URL+"/readyz", http.StatusOK, &ready)
	if ready.State != "ready" || ready.store().State != "ok" {
		t.Errorf("%+v", ready)
	}
}

// Every flag is a variable too, and the flag wins.
func TestVariables(t *testing.T) {
	t.Parallel()
	file := programtest.PolicyFile(t, "version: 1\ndependencies:\n  payments: {max_attempts: 2}\n")
	p := serveWith(t, programtest.Environment("DECIDER_LISTEN=127.0.0.1:0", "DECIDER_POLICIES="+file, "DECIDER_STORE=memory", "DECIDER_SEED=1",
		"DECIDER_STORE_TIMEOUT=1s", "DECIDER_REPLICAS=2", "DECIDER_SHUTDOWN_DELAY=0s", "DECIDER_LOG_FORMAT=json", "DECIDER_LOG_LEVEL=debug"), "--seed=11")
	if d := mustDecide(t, p.URL, got503("payments")); d.DelayMs != 51 {
		t.Errorf("%d ms, want those of --seed=11", d.DelayMs)
	}
	a := got503("payments")
	a.Attempt = 2
	if d := mustDecide(t, p.URL, a); d.Reason != "attempts_exhausted" {
		t.Errorf("%+v, want the policy of DECIDER_POLICIES", d)
	}
	p.Stop(t)
	for line := range strings.Lines(p.Log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("DECIDER_LOG_FORMAT=json: %s", line)
		}
	}
	if !strings.Contains(p.Log.String(), `"answers_for_ms":0,"then_drains_for_at_most_ms":10000}`) {
		t.Errorf("how long it stops is not in\n%s", p.Log)
	}
}

// A variable that is set to nothing says nothing, as where an environment's file
// has a line for each.
func TestEmptyVariables(t *testing.T) {
	t.Parallel()
	p := serveWith(t, programtest.Environment("DECIDER_LISTEN=127.0.0.1:0", "DECIDER_POLICIES=", "DECIDER_AUTH_FILE=", "DECIDER_TLS_CERT=", "DECIDER_TLS_KEY=",
		"DECIDER_TLS_CLIENT_CA=", "DECIDER_REDIS_URL=", "DECIDER_STORE=", "DECIDER_DECISION_LOG=", "DECIDER_ADMIN_LISTEN="))
	if d := mustDecide(t, p.URL, got503("payments")); d.Decision != "retry" {
		t.Errorf("%+v", d)
	}
	if log := p.Log.String(); !strings.Contains(log, "policies=built-in") || !strings.Contains(log, "store=memory") {
		t.Errorf("in force:\n%s", log)
	}
	if r := decides(t, "explain", "--policies=", `{"dependency":"payments","method":"GET","status":503}`); r.code != 0 {
		t.Errorf("explain: %+v", r)
	}
}

// A decider that is told to stop is not ready first, while it goes on answering.
func TestStopAnswersForAWhile(t *testing.T) {
	t.Parallel()
	p := serve(t, "--shutdown-delay=1h")
	get(t, p.URL+"/readyz", http.StatusOK, &readiness{})
	p.Terminate()
	var notReady struct{ Title string }
	eventually(t, "not ready after SIGTERM", func() bool {
		return call(http.MethodGet, p.URL+"/readyz", nil, http.StatusServiceUnavailable, &notReady) == nil
	})
	if notReady.Title != "Not ready" {
		t.Errorf("%+v", notReady)
	}
	if d := mustDecide(t, p.URL, got503("payments")); d.Decision != "retry" {
		t.Errorf("%+v", d)
	}
	if r := decides(t, "healthcheck", "--listen="+p.Listen); r.code != 1 || !strings.Contains(r.err, "not ready: 503") {
		t.Errorf("healthcheck: %+v", r)
	}
	p.Kill(t)
}

// Then it takes nobody new, answers whom it has, and exits well.
func TestStopAnswersWhomItHas(t *testing.T) {
	t.Parallel()
	p := serve(t, "--shutdown-delay=100ms")
	waiting := halfAsked(t, p.Listen)
	p.Terminate()
	eventually(t, "no new connection", func() bool {
		conn, err := net.Dial("tcp", p.Listen)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	select {
	case <-p.Ended:
		t.Fatal("ended with a request unanswered")
	default:
	}
	waiting.finish(t)
	p.Stop(t)
}

// half is a request of which the server has the head and not the body.
type half struct {
	conn   net.Conn
	reader *bufio.Reader
	body   string
}

func halfAsked(t *testing.T, address string) *half {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	h := &half{conn, bufio.NewReader(conn), `{"dependency":"payments","method":"GET","status":503}`}
	fmt.Fprintf(conn, "POST /v1/decide HTTP/1.1\r\nHost: decider\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(h.body))
	// The server says so when it begins to read the body.
	if line, err := h.reader.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := h.reader.ReadString('\n'); line != "\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return h
}

// finish sends the body and looks at the answer.
func (h *half) finish(t *testing.T) {
	t.Helper()
	fmt.Fprint(h.conn, h.body)
	response, err := http.ReadResponse(h.reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || err != nil {
		t.Errorf("%s, %s, %v", response.Status, text, err)
	}
}

// A SIGHUP on the way to the end, as a rotation of logs sends it, is no end: the
// decision log is opened anew, and requests are answered.
func TestHangupWhileStopping(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "decisions.ndjson")
	plain, logs := serve(t, "--shutdown-delay=1h"), serve(t, "--shutdown-delay=1h", "--decision-log="+log)
	for _, p := range []*process{plain, logs} {
		p.Terminate()
		eventually(t, "not ready after SIGTERM", func() bool {
			return call(http.MethodGet, p.URL+"/readyz", nil, http.StatusServiceUnavailable, &struct{}{}) == nil
		})
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{plain, logs} {
		if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatalf("%v:\n%s", err, p.Log)
		}
	}
	eventually(t, "the decision log is opened anew", func() bool {
		_, err := os.Stat(log)
		return err == nil
	})
	for _, p := range []*process{plain, logs} {
		mustDecide(t, p.URL, got503("payments"))
	}
	eventually(t, "a line in the new file", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), `"payments"`)
	})
	plain.Kill(t)
	logs.Kill(t)
}

func TestInterruptStopsToo(t *testing.T) {
	t.Parallel()
	p := serve(t)
	if err := p.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Ended:
	case <-time.After(patience):
		t.Error("still there")
	}
	p.Stop(t)
}

// A bad policy file stops the start with every mistake, on standard error.
func TestBadPolicyFile(t *testing.T) {
	t.Parallel()
	file := programtest.PolicyFile(t, badPolicies)
	r := decides(t, "serve", "--listen=127.0.0.1:0", "--policies="+file)
	if r.code != 1 || r.out != "" {
		t.Errorf("exit code %d, standard output %q", r.code, r.out)
	}
	for _, place := range badPlaces {
		if !strings.Contains(r.err, file+":"+place) {
			t.Errorf("no mistake at %s in:\n%s", place, r.err)
		}
	}
	r = decides(t, "serve", "--listen=127.0.0.1:0", "--policies="+file+".gone")
	if r.code != 1 || r.out != "" || !strings.Contains(r.err, file+".gone: no such file") {
		t.Errorf("a file that is not there: %+v", r)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	r := decides(t, "serve", "--listen="+address)
	if r.code != 1 || r.out != "" || !strings.Contains(r.err, "listen tcp "+address) || !strings.Contains(r.err, "address already in use") {
		t.Errorf("%+v", r)
	}
}

// An address that others can reach is served where that was said to be meant.
func TestAllowAnonymous(t *testing.T) {
	t.Parallel()
	p := serveWith(t, programtest.Environment("DECIDER_ALLOW_ANONYMOUS=true"), "--listen=0.0.0.0:0")
	_, port, err := net.SplitHostPort(p.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if r := decides(t, "healthcheck", "--listen=0.0.0.0:"+port); r.code != 0 {
		t.Errorf("healthcheck: %+v", r)
	}
}

// A name of another site that is pointed at this machine is none of its own, unless
// somebody has said that others are let in.
func TestForeignNameOfLoopback(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]int{"--replicas=1": http.StatusForbidden, "--allow-anonymous": http.StatusOK} {
		p := serve(t, flag)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.URL+"/v1/dependencies/payments/override", strings.NewReader(`{"mode":"pause","expires_in_ms":1000,"reason":"it is down"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example"
		r.Header = http.Header{"Content-Type": {"application/json"}, "Origin": {"http://evil.example"}}
		response, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", flag, response.Status)
		}
	}
}

// decider starts without its Redis, answers by a local rule and says so, and
// goes over to Redis when that comes, without a restart.
func TestRedisComesLater(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.Kill()
	p := serve(t, "--redis-url="+redis.URL, "--log-format=json")
	var ready readiness
	eventually(t, "readyz names the store", func() bool {
		if d := mustDecide(t, p.URL, got503("payments")); !d.Degraded || d.Budget.Source != "local" {
			t.Fatalf("%+v without a Redis", d)
		}
		get(t, p.URL+"/readyz", http.StatusOK, &ready)
		return ready.store().State == "degraded"
	})
	if ready.State != "ready" || !strings.Contains(ready.store().Means, "Redis is out of reach") {
		t.Errorf("%+v", ready)
	}
	get(t, p.URL+"/livez", http.StatusOK, &struct{}{})

	redis.Restart(t)
	eventually(t, "the fleet's budget answers", func() bool {
		d := mustDecide(t, p.URL, got503("orders"))
		return !d.Degraded && d.Budget.Source == "fleet"
	})
	get(t, p.URL+"/readyz", http.StatusOK, &ready)
	if ready.store().State != "ok" {
		t.Errorf("%+v", ready)
	}
	p.Stop(t)
	for line := range strings.Lines(p.Log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("--log-format=json: %s", line)
		}
	}
}

// The log is for the operator: it names the address, where the policies are
// from, and the store, never the password of a Redis.
func TestLog(t *testing.T) {
	t.Parallel()
	p := serve(t, "--redis-url=redis://user:secret@127.0.0.1:1/0")
	mustDecide(t, p.URL, got503("payments"))
	p.Stop(t)
	log := p.Log.String()
	for _, want := range []string{`msg="decider answers" address=` + p.URL, "version=v1.2.3", "policies=built-in", "store=redis", `msg="decider stops"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in:\n%s", want, log)
		}
	}
	if strings.Contains(log, "secret") {
		t.Errorf("a password in:\n%s", log)
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	base := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	p := programtest.Start(t, programtest.Environment(), "--listen="+base, "--log-level=ERROR")
	eventually(t, "decider answers", func() bool {
		return call(http.MethodGet, "http://"+base+"/readyz", nil, http.StatusOK, &struct{}{}) == nil
	})
	p.Stop(t)
	if log := p.Log.String(); log != "" {
		t.Errorf("nothing is wrong, and yet: %s", log)
	}
}
