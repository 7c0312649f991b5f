//go:build linux

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

// TestMain is the tests' beginning, and that of the client processes that
// TestFleet starts from the same binary.
func TestMain(m *testing.M) {
	if config := os.Getenv(clientVariable); config != "" {
		os.Exit(runClient(config, os.Stdin, os.Stdout))
	}
	code := m.Run()
	os.RemoveAll(program.dir)
	os.Exit(code)
}

// program is the decider that the tests run, built once.
var program struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// decider is the path of the program, built like the tests themselves: under
// -race the processes look for races too, and one that finds any fails its test
// by what it exits with.
func decider(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "decider-test-"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "decider")
		build := exec.Command("go", "build", "-buildvcs=false", "-race="+builtWith("-race", "false"), "-ldflags=-X main.version=v1.2.3", "-o", program.path, ".")
		if out, err := build.CombinedOutput(); err != nil {
			program.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// builtWith is a setting that this test binary was built with.
func builtWith(key, otherwise string) string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return otherwise
}

// patience bounds everything that a test waits for. It is no measure of speed:
// a busy machine may need a good part of it.
const patience = 30 * time.Second

// exactly is a bound of the store that no busy machine misses: where a test
// counts grants, none may come from a local rule.
const exactly = "--store-timeout=20s"

// settings are the environment of a process: this one's without decider's own
// variables, and more. Under -race a process would sleep a second at its end.
func settings(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "DECIDER_") })
	return append(append(env, "GORACE=atexit_sleep_ms=0"), more...)
}

// process is a decider that serves.
type process struct {
	// URL is its base, Listen the address in it.
	URL, Listen string

	cmd    *exec.Cmd
	out    bytes.Buffer // safe to read once it has ended
	err    *output
	ended  chan struct{}
	closed bool
}

// serve starts `decider serve` on a free port and waits until it answers. It is
// stopped at the test's end and must then exit with 0.
func serve(t testing.TB, args ...string) *process {
	t.Helper()
	return serveWith(t, settings(), append([]string{"--listen=127.0.0.1:0"}, args...)...)
}

var answersAt = regexp.MustCompile(`"?decider answers"?.*?http://([^" ]+)`)

func serveWith(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, args...)
	p.Listen = p.err.waitFor(t, answersAt, p.ended)
	p.URL = "http://" + p.Listen
	return p
}

// launch starts `decider serve` and waits for nothing.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(decider(t), append([]string{"serve"}, args...)...), err: newOutput(), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, &p.out, p.err
	// A test that is aborted leaves no server behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // what it exits with is looked at in stop
		close(p.ended)
	}()
	t.Cleanup(func() { p.stop(t) })
	return p
}

// stop ends the process as an operator does, once. It must end well, and must
// not have written to standard output.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if p.closed {
		return
	}
	p.closed = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is looked at below
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		t.Errorf("decider went on after SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || p.out.Len() > 0 {
		t.Errorf("decider: exit code %d, standard output %q, standard error:\n%s", code, p.out.String(), p.err)
	}
}

// output collects what a process writes while others look at it.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

// Write adds to the text.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// waitFor waits until the text matches and returns the first group.
func (o *output) waitFor(t testing.TB, pattern *regexp.Regexp, ended <-chan struct{}) string {
	t.Helper()
	late := time.After(patience)
	for {
		if m := pattern.FindStringSubmatch(o.String()); m != nil {
			return m[1]
		}
		select {
		case <-o.changed:
		case <-ended:
			t.Fatalf("decider has ended:\n%s", o)
		case <-late:
			t.Fatalf("no %q in:\n%s", pattern, o)
		}
	}
}

// result is what a command left.
type result struct {
	code     int
	out, err string
}

// command is a decider that does one thing and ends.
type command struct {
	args  []string
	env   []string // beside settings
	stdin string
	dir   string
}

// decides runs a command line of decider to its end.
func decides(t testing.TB, args ...string) result {
	t.Helper()
	return command{args: args}.run(t)
}

func (c command) run(t testing.TB) result {
	t.Helper()
	program := decider(t) // built before the time is measured
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, c.args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = settings(c.env...), c.dir, strings.NewReader(c.stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("decider %q: %v\n%s", c.args, err, errs.String())
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// decision is what the tests look at of an answer to POST /v1/decide.
type decision struct {
	Decision      string   `json:"decision"`
	DelayMs       int64    `json:"delay_ms"`
	Reason        string   `json:"reason"`
	DecisionID    string   `json:"decision_id"`
	RemainingMs   *int64   `json:"remaining_ms"`
	ServerDelayMs *int64   `json:"server_delay_ms"`
	RetryAfter    string   `json:"retry_after"`
	Budget        *bucket  `json:"budget"`
	Degraded      bool     `json:"degraded"`
	Hints         []string `json:"hints"`
}

// bucket is the budget in an answer.
type bucket struct {
	Tokens   float64 `json:"tokens"`
	Capacity float64 `json:"capacity"`
	Source   string  `json:"source"`
}

// attempt is a failed attempt as the tests report it.
type attempt struct {
	Dependency   string `json:"dependency"`
	Method       string `json:"method"`
	Status       int    `json:"status,omitempty"`
	Outcome      string `json:"outcome,omitempty"`
	Key          bool   `json:"has_idempotency_key,omitempty"`
	RetryAfter   string `json:"retry_after,omitempty"`
	ResponseDate string `json:"response_date,omitempty"`
	Attempt      int64  `json:"attempt,omitempty"`
	RemainingMs  int64  `json:"remaining_ms,omitempty"`
	Caller       string `json:"caller,omitempty"`
}

// got503 is the usual failed attempt.
func got503(dependency string) attempt {
	return attempt{Dependency: dependency, Method: http.MethodGet, Status: http.StatusServiceUnavailable}
}

// web is the HTTP client of the tests, with a connection for each of many.
var web = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

// call makes one request with a JSON body, or none, and decodes the answer.
// Every status but the one that is wanted is an error.
func call(method, url string, body any, want int, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, url, reader)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := web.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("%s %s %+v: %s, %s", method, url, body, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// decide asks whether to retry.
func decide(base string, a attempt) (d decision, err error) {
	err = call(http.MethodPost, base+"/v1/decide", a, http.StatusOK, &d)
	return d, err
}

// mustDecide is decide in a test that cannot go on without an answer.
func mustDecide(t testing.TB, base string, a attempt) decision {
	t.Helper()
	d, err := decide(base, a)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// get reads a call of the contract.
func get(t testing.TB, url string, want int, answer any) {
	t.Helper()
	if err := call(http.MethodGet, url, nil, want, answer); err != nil {
		t.Fatal(err)
	}
}

// tokens are the tokens that a dependency's bucket has.
func tokens(t testing.TB, base, dependency string) float64 {
	t.Helper()
	var state struct{ Budget bucket }
	get(t, base+"/v1/dependencies/"+dependency, http.StatusOK, &state)
	return state.Budget.Tokens
}

// policyFile writes a policy file and returns its path.
func policyFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stores are the flags of a decider on each store, made when they are asked for.
var stores = map[string]func(t testing.TB) []string{
	"memory": func(testing.TB) []string { return []string{"--store=memory"} },
	"redis":  func(t testing.TB) []string { return []string{"--redis-url=" + redistest.Start(t).URL, exactly} },
}
