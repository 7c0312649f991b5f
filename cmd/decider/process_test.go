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
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// TestMain is the tests' beginning, and that of the client processes that
// TestFleet starts from the same binary.
func TestMain(m *testing.M) {
	if config := os.Getenv(clientVariable); config != "" {
		os.Exit(runClient(config, os.Stdin, os.Stdout))
	}
	code := m.Run()
	programtest.Remove()
	os.Exit(code)
}

// patience bounds everything that a test waits for.
const patience = programtest.Patience

// exactly is a bound of the store that no busy machine misses: where a test
// counts grants, none may come from a local rule.
const exactly = "--store-timeout=20s"

// process is a decider that serves.
type process struct {
	*programtest.Process
	// URL is its base, Listen the address in it.
	URL, Listen string
}

// serve starts `decider serve` on a free port and waits until it answers. It is
// stopped at the test's end and must then exit with 0.
func serve(t testing.TB, args ...string) *process {
	t.Helper()
	return serveWith(t, programtest.Environment(), append([]string{"--listen=127.0.0.1:0"}, args...)...)
}

func serveWith(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{Process: programtest.Start(t, env, args...)}
	p.Listen = p.WaitFor(t, programtest.Address)
	p.URL = "http://" + p.Listen
	return p
}

// result is what a command left.
type result struct {
	code     int
	out, err string
}

// command is a decider that does one thing and ends.
type command struct {
	args  []string
	env   []string // beside this one's
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
	program := programtest.Program(t) // built before the time is measured
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, c.args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = programtest.Environment(c.env...), c.dir, strings.NewReader(c.stdin), &out, &errs
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

// stores are the flags of a decider on each store, made when they are asked for.
var stores = map[string]func(t testing.TB) []string{
	"memory": func(testing.TB) []string { return []string{"--store=memory"} },
	"redis":  func(t testing.TB) []string { return []string{"--redis-url=" + redistest.Start(t).URL, exactly} },
}
