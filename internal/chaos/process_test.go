//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets go of the program that the tests ran. Most of their time is
// waiting, so more of them run side by side than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(program.dir)
	os.Exit(code)
}

// program is the decider that the tests run, built once, with the race detector
// where the tests themselves have it.
var program struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func decider(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "decider-chaos-"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "decider")
		build := exec.Command("go", "build", "-buildvcs=false", "-race="+raced(), "-o", program.path, "../../cmd/decider")
		if out, err := build.CombinedOutput(); err != nil {
			program.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// raced says whether the tests run with the race detector, "true" or "false".
func raced() string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value
		}
	}
	return "false"
}

// patience bounds everything that a test waits for; it measures nothing.
const patience = 30 * time.Second

// process is a decider that serves.
type process struct {
	URL string

	cmd   *exec.Cmd
	log   *logged
	ended chan struct{}
	// killed: it was not asked to end, so what it exits with says nothing.
	killed bool
}

var answersAt = regexp.MustCompile(`decider answers.*?(http://[^" ]+)`)

// serve starts a decider on a free port, which must end well with the test.
func serve(t testing.TB, args ...string) *process {
	t.Helper()
	return serveWith(t, nil, args...)
}

// serveWith is serve with more in its environment.
func serveWith(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{log: &logged{}, ended: make(chan struct{})}
	p.cmd = exec.Command(decider(t), append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...)
	p.cmd.Stderr = p.log
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "DECIDER_") }), "GORACE=atexit_sleep_ms=0")
	p.cmd.Env = append(p.cmd.Env, env...)
	// A test that is aborted leaves no server behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // stop looks at what it exits with
		close(p.ended)
	}()
	t.Cleanup(func() { p.stop(t) })
	eventually(t, "the decider's address", patience, func() error {
		if m := answersAt.FindStringSubmatch(p.log.String()); m != nil {
			p.URL = m[1]
			return nil
		}
		return fmt.Errorf("it wrote: %s", p.log)
	})
	return p
}

func (p *process) stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is looked at below
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		t.Errorf("decider goes on after SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && !p.killed {
		t.Errorf("decider: exit code %d:\n%s", code, p.log)
	}
}

// kill ends the process at once.
func (p *process) kill(t testing.TB) {
	t.Helper()
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// logged is what a process writes to standard error.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// eventually waits until nothing is wrong any more, or fails with what is.
func eventually(t testing.TB, what string, limit time.Duration, wrong func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(limit); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if err = wrong(); err == nil {
			return
		}
	}
	t.Fatalf("%s, after %s: %v", what, limit, err)
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

// call makes one request and decodes its answer of the status that is wanted.
func call(method, url, body string, want int, answer any) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := web.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("%s %s %s: %s, %s", method, url, body, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// web is the tests' HTTP client; it keeps a connection for each of many.
var web = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

// dependency is what the tests look at of a dependency's state.
type dependency struct {
	Breaker  string
	Degraded bool
	Budget   struct{ Tokens, Capacity float64 }
	Override *struct{ Mode, Reason, Author string }
	CoolDown int64 `json:"cool_down_ms"`
}

func (p *process) dependency(t testing.TB, name string) (d dependency) {
	t.Helper()
	if err := call(http.MethodGet, p.URL+"/v1/dependencies/"+name, "", http.StatusOK, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// status is what the tests look at of a replica's status.
type status struct {
	Drift    bool
	Replicas []struct {
		Config string
		Self   bool
	}
	Store struct {
		State, Means    string
		Since           time.Time
		MaxmemoryPolicy string `json:"maxmemory_policy"`
	}
}

func (p *process) status(t testing.TB) (s status) {
	t.Helper()
	if err := call(http.MethodGet, p.URL+"/v1/status", "", http.StatusOK, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// storeIs says what is wrong where the store is not degraded for a reason that
// holds the word.
func storeIs(s status, word string) error {
	if s.Store.State != "degraded" || !strings.Contains(s.Store.Means, word) {
		return fmt.Errorf("%+v", s.Store)
	}
	return nil
}

// know waits until each replica knows of all.
func know(t testing.TB, replicas []*process) {
	t.Helper()
	for _, p := range replicas {
		eventually(t, "the replicas", patience, func() error {
			if n := len(p.status(t).Replicas); n != len(replicas) {
				return fmt.Errorf("%d of %d are known", n, len(replicas))
			}
			return nil
		})
	}
}

// metric is the value of a metric without labels.
func (p *process) metric(t testing.TB, name string) float64 {
	t.Helper()
	response, err := web.Get(p.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
