// Package redistest starts real Redis servers for tests. miniredis hides bugs
// of the real one (its Lua is another engine), so every suite runs on both.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server of a test's own, on a loopback port.
type Server struct {
	// Addr is host:port, URL the same as redis://.
	Addr, URL string
	// Process is the server's, to be stopped or killed by tests of failures.
	Process *os.Process

	args []string
	dir  string
	port int
	cmd  *exec.Cmd
}

// Start starts a server that keeps nothing on disk; it ends with the test. More
// arguments are redis-server's own. A machine without redis-server fails the
// test: a suite that skips the real server proves nothing.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	port := FreePort(t)
	return start(t, port, t.TempDir(), append([]string{"--port", strconv.Itoa(port)}, args...)...)
}

func start(t testing.TB, port int, dir string, args ...string) *Server {
	t.Helper()
	s := newServer(t, port, dir, args...)
	s.Restart(t)
	return s
}

// newServer is a server that is yet to be started. A first argument that is no
// option is a file of its own settings.
func newServer(t testing.TB, port int, dir string, args ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("this test needs redis-server: apt-get install redis-server, or make test, which does")
	}
	s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), port: port, dir: dir, args: []string{path}}
	s.URL = "redis://" + s.Addr + "/0"
	if strings.HasPrefix(args[0], "--") { // else they are in the file
		s.args = append(s.args, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--logfile", "redis.log")
	}
	s.args = append(s.args, args...)
	t.Cleanup(s.Kill)
	return s
}

// Restart starts the server on its port after it was killed: empty, unless its
// arguments say that it keeps what it had.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
}

// isUp is what a server, or a sentinel, writes to its log when it has read what it
// kept and serves. An answer on its port could be another one's.
var isUp = regexp.MustCompile(`Ready to accept connections|\+monitor master`)

// begin starts the server and waits until it serves.
func (s *Server) begin() error {
	path := filepath.Join(s.dir, "redis.log")
	earlier, _ := os.ReadFile(path) // what it wrote before it was killed, if it was
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	// A test that is aborted leaves no server behind.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.Process = s.cmd.Process
	var log []byte
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		log, _ = os.ReadFile(path)
		log = log[min(len(earlier), len(log)):]
		if isUp.Match(log) {
			return nil
		}
		if bytes.Contains(log, []byte("Address already in use")) {
			break
		}
	}
	s.Kill()
	return fmt.Errorf("redis-server on %s does not come up: %s", s.Addr, log)
}

// patience bounds what is waited for: a busy machine may need a good part of it.
const patience = time.Minute

// Host and Port are the two parts of Addr.
func (s *Server) Host() string { return "127.0.0.1" }

// Port is the port that the server listens on.
func (s *Server) Port() int { return s.port }

func (s *Server) argument(name string) string {
	for i, a := range s.args {
		if a == name {
			return s.args[i+1]
		}
	}
	return ""
}

// Do sends one command as the user in the server's URL and returns its answer;
// an error fails the test.
func (s *Server) Do(t testing.TB, command ...any) any {
	t.Helper()
	answer, err := s.Try(t, command...)
	if err != nil {
		t.Fatalf("%v on %s: %v", command, s.Addr, err)
	}
	return answer
}

// Try sends one command and returns its answer, or the error that it was answered.
func (s *Server) Try(t testing.TB, command ...any) (any, error) {
	t.Helper()
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if options.TLSConfig != nil {
		options.TLSConfig.InsecureSkipVerify = true
	}
	options.MaxRetries = -1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = patience, patience, patience
	client := redis.NewClient(options)
	defer client.Close()
	return client.Do(context.Background(), command...).Result()
}

// Kill ends the server at once, and does nothing to one that has ended.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Pause stops the server in the middle of whatever it does (SIGSTOP).
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume lets a paused server go on (SIGCONT).
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
