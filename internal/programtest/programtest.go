//go:build linux

// Package programtest runs the decider of this tree for tests of the whole
// program: it builds it once for each test binary, starts it, reads along what it
// writes, and sees to it that it ends well.
package programtest

import (
	"bytes"
	"fmt"
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
)

// Patience bounds everything that a test waits for. It is no measure of speed:
// a busy machine may need a good part of it.
const Patience = 30 * time.Second

// Version is what the program says of itself.
const Version = "v1.2.3"

// program is the decider that the tests run, built once.
var program struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Program is the path of the decider, built like the tests themselves: under
// -race the processes look for races too, and one that finds any fails its test
// by what it exits with. TestMain must call [Remove].
func Program(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "decider-test-"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "decider")
		build := exec.Command("go", "build", "-buildvcs=false", "-race="+BuiltWith("-race", "false"), "-ldflags=-X main.version="+Version,
			"-o", program.path, "github.com/retrydecider/decider/cmd/decider")
		if out, err := build.CombinedOutput(); err != nil {
			program.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// Remove removes the program at the end of all tests.
func Remove() { _ = os.RemoveAll(program.dir) }

// BuiltWith is a setting that this test binary was built with.
func BuiltWith(key, otherwise string) string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return otherwise
}

// Environment is that of a process: this one's without decider's own variables,
// and more. Under -race a process would sleep a second at its end.
func Environment(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "DECIDER_") })
	return append(append(env, "GORACE=atexit_sleep_ms=0"), more...)
}

// Process is a decider that serves.
type Process struct {
	Cmd *exec.Cmd
	// Out is what it wrote to standard output, safe to read once it has ended; Log
	// is standard error.
	Out   bytes.Buffer
	Log   *Output
	Ended chan struct{}

	told bool // it was asked to stop
	over bool // it was stopped or killed
}

// Start starts `decider serve` and waits for nothing. It is stopped at the test's
// end and must then exit with 0.
func Start(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(Program(t), append([]string{"serve"}, args...)...), Log: newOutput(), Ended: make(chan struct{})}
	p.Cmd.Env, p.Cmd.Stdout, p.Cmd.Stderr = env, &p.Out, p.Log
	// A test that is aborted leaves no server behind.
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Cmd.Wait() // what it exits with is looked at in Stop
		close(p.Ended)
	}()
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// Address matches the log line that tells where decider answers; its group is the
// host and port.
var Address = regexp.MustCompile(`"?decider answers"?.*?https?://([^" ]+)`)

// WaitFor waits until standard error matches and returns the first group.
func (p *Process) WaitFor(t testing.TB, pattern *regexp.Regexp) string {
	t.Helper()
	late := time.After(Patience)
	for {
		if m := pattern.FindStringSubmatch(p.Log.String()); m != nil {
			return m[1]
		}
		select {
		case <-p.Log.changed:
		case <-p.Ended:
			t.Fatalf("decider has ended:\n%s", p.Log)
		case <-late:
			t.Fatalf("no %q in:\n%s", pattern, p.Log)
		}
	}
}

// Terminate asks the process to end, once, and waits for nothing: a second signal
// would end it at once.
func (p *Process) Terminate() {
	if !p.told {
		p.told = true
		_ = p.Cmd.Process.Signal(syscall.SIGTERM) // Stop looks at one that has ended
	}
}

// Stop ends the process as an operator does. It must end well, and must not have
// written to standard output.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if p.over {
		return
	}
	p.over = true
	p.Terminate()
	select {
	case <-p.Ended:
	case <-time.After(Patience):
		_ = p.Cmd.Process.Kill()
		<-p.Ended
		t.Errorf("decider went on after SIGTERM")
	}
	if code := p.Cmd.ProcessState.ExitCode(); code != 0 || p.Out.Len() > 0 {
		t.Errorf("decider: exit code %d, standard output %q, standard error:\n%s", code, p.Out.String(), p.Log)
	}
}

// Kill ends the process at once.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.over = true
	if err := p.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Ended
}

// Output collects what a process writes while others look at it.
type Output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *Output { return &Output{changed: make(chan struct{}, 1)} }

// Write adds to the text.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(text)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// PolicyFile writes a policy file and returns its path.
func PolicyFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
