//go:build linux

package deploytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root is the repository, from this directory.
const root = "../.."

// patience bounds what a test waits for; it is no measure of speed.
const patience = 60 * time.Second

// decider is the program, built once from the working tree.
var decider string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deploytest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	decider = filepath.Join(dir, "decider")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", decider, "./cmd/decider")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// runs runs a program to its end and returns what it wrote; it must succeed.
func runs(t *testing.T, name string, args ...string) (out string) {
	t.Helper()
	out, err := tries(t, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// tries is runs where failing is an answer.
func tries(t *testing.T, name string, args ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(text), err
}

// starts starts a program that serves, and ends it with the test.
func starts(t *testing.T, name string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &log, &log
	cmd.Env = append(os.Environ(), "DECIDER_REDIS_URL=")
	// A test that is aborted leaves no server behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			text := log.String()
			t.Logf("%s %s:\n%s", name, strings.Join(args, " "), text[max(0, len(text)-2000):])
		}
	})
}

// address is a free one of this machine.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually asks again and again until there is no error.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("not within %s: %v", patience, err)
}

var client = http.Client{Timeout: 10 * time.Second}

// get asks for JSON, or for text where answer is a *string.
func get(url string, answer any) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	return read(url, response, answer)
}

// send sends JSON as a program does, or as a page of another site.
func send(method, url, site, body string) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if site != "" {
		request.Header.Set("Sec-Fetch-Site", site)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return read(url, response, nil)
}

func read(url string, response *http.Response, answer any) error {
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s\n%s", url, response.Status, body)
	}
	if text, ok := answer.(*string); ok {
		*text = string(body)
		return nil
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}

// watchedPolicies make every metric appear.
const watchedPolicies = `version: 1
dependencies:
  payments:
    description: card payments
    owner: team-payments
    candidate: {max_attempts: 1}
  search:
    mode: shadow
    budget: {capacity: 1, capacity_seconds: 0, min_per_second: 0}
  mail:
    breaker: {mode: retries, min_attempts: 1}
`

// redis starts a real one.
func redis(t *testing.T) string {
	t.Helper()
	listen := address(t)
	host, port, _ := net.SplitHostPort(listen)
	starts(t, "redis-server", "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	eventually(t, func() error {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return listen
}

// serve starts a decider on a Redis, under watchedPolicies.
func serve(t *testing.T, redis string) (listen string) {
	t.Helper()
	policies := write(t, "policies.yaml", watchedPolicies)
	listen = address(t)
	starts(t, decider, "serve", "--listen", listen, "--policies", policies, "--redis-url", "redis://"+redis, "--store-timeout=20s") // a busy machine is no lost store
	eventually(t, func() error { return get("http://"+listen+"/readyz", nil) })
	return listen
}

// traffic asks a decider everything that has a metric, n times.
func traffic(listen string, n int) error {
	for i := range n {
		for _, dependency := range []string{"payments", "search", "mail", "not-in-the-file"} {
			for _, more := range []string{"", `,"retry_after":"soon"`, `,"attempt":9`} {
				if err := send(http.MethodPost, "http://"+listen+"/v1/decide", "", `{"dependency":"`+dependency+`","method":"GET","status":503`+more+`}`); err != nil {
					return err
				}
			}
			report := `{"outcomes":[{"dependency":"` + dependency + `","first_try_successes":` + strconv.Itoa(20+i) + `,"retry_successes":2,"final_failures":1}]}`
			if err := send(http.MethodPost, "http://"+listen+"/v1/outcomes", "", report); err != nil {
				return err
			}
		}
	}
	override := "http://" + listen + "/v1/dependencies/mail/override"
	if send(http.MethodDelete, override, "cross-site", "") == nil {
		return errors.New("a page of another site may lift an override")
	}
	return send(http.MethodPut, override, "", `{"mode":"allow","expires_in_ms":60000,"reason":"a test"}`)
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	put(t, path, text)
	return path
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
