//go:build linux

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/programtest"
)

// clientVariable turns the test binary into a client process; it holds the
// client's configuration in JSON.
const clientVariable = "TEST_OF_DECIDER_CLIENT"

// client is a program that calls a dependency, asks decider before each retry,
// and reports what succeeded: all that a well-behaved caller does.
type client struct {
	Name       string
	Dependency string
	// Server is the dependency's base URL.
	Server string
	// Deciders are asked in turn.
	Deciders []string

	asked int
	tally tally
}

// tally is what a client has seen so far.
type tally struct {
	Calls, Requests  int
	Granted, Refused int // answers of decider
	Successes        int // calls that succeeded and were reported
	Degraded         int // answers of a local rule
}

// runClient is the client process: a line with a number makes so many calls and
// is answered with the tally.
func runClient(config string, in io.Reader, out io.Writer) (code int) {
	var c client
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		for ; err == nil && n > 0; n-- {
			err = c.call()
		}
		if err == nil {
			err = json.NewEncoder(out).Encode(c.tally)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// call makes one call, with all the retries that are granted.
func (c *client) call() error {
	c.tally.Calls++
	url := fmt.Sprintf("%s/%s/%d", c.Server, c.Name, c.tally.Calls)
	for attempt := int64(1); ; attempt++ {
		c.tally.Requests++
		response, err := web.Get(url)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			c.tally.Successes++
			return c.report(attempt > 1)
		}
		again, err := c.ask(attempt, response.StatusCode)
		if err != nil || !again {
			return err
		}
	}
}

// ask asks whether to retry, and waits as it is told.
func (c *client) ask(number int64, status int) (again bool, err error) {
	d, err := decide(c.next(), attempt{Dependency: c.Dependency, Caller: c.Name, Method: http.MethodGet, Status: status, Attempt: number})
	if d.Degraded {
		c.tally.Degraded++
	}
	if err != nil || d.Decision != "retry" {
		c.tally.Refused++
		return false, err
	}
	c.tally.Granted++
	time.Sleep(time.Duration(d.DelayMs) * time.Millisecond)
	return true, nil
}

// report reports a success.
func (c *client) report(retried bool) error {
	outcome := map[string]any{"dependency": c.Dependency, "first_try_successes": 1}
	if retried {
		outcome = map[string]any{"dependency": c.Dependency, "retry_successes": 1}
	}
	var answer struct{ Dependencies []struct{ Degraded bool } }
	err := call(http.MethodPost, c.next()+"/v1/outcomes", map[string]any{"caller": c.Name, "outcomes": []any{outcome}}, http.StatusOK, &answer)
	if err == nil && answer.Dependencies[0].Degraded {
		c.tally.Degraded++
	}
	return err
}

// next is the decider whose turn it is.
func (c *client) next() string {
	c.asked++
	return c.Deciders[c.asked%len(c.Deciders)]
}

// clientProcess is a client in a process of its own.
type clientProcess struct {
	orders  io.WriteCloser
	answers *json.Decoder
}

// startClient starts a client process, which ends with the test.
func startClient(t *testing.T, c client) *clientProcess {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = programtest.Environment(clientVariable + "=" + string(config))
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		orders.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("client %s: %v", c.Name, err)
		}
	})
	return &clientProcess{orders, json.NewDecoder(answers)}
}

// eachCalls lets all clients make n calls at once and adds up what they saw.
func eachCalls(t *testing.T, clients []*clientProcess, n int) (each []tally, sum tally) {
	t.Helper()
	for _, c := range clients {
		if _, err := fmt.Fprintln(c.orders, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		var seen tally
		if err := c.answers.Decode(&seen); err != nil {
			t.Fatal("a client has ended: ", err)
		}
		each = append(each, seen)
		sum.Calls += seen.Calls
		sum.Requests += seen.Requests
		sum.Granted += seen.Granted
		sum.Refused += seen.Refused
		sum.Successes += seen.Successes
		sum.Degraded += seen.Degraded
	}
	return each, sum
}
