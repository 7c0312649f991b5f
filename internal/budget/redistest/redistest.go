// Package redistest starts real Redis servers for tests. miniredis hides bugs
// of the real one (its Lua is another engine), so every suite runs on both.
package redistest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	for tries := 1; ; tries++ {
		port := FreePort(t)
		s := newServer(t, port, t.TempDir(), append([]string{"--port", strconv.Itoa(port)}, args...)...)
		err := s.begin()
		if err == nil {
			return s
		}
		if tries == 5 || !errors.Is(err, errPortTaken) {
			t.Fatal(err)
		}
	}
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

// errPortTaken: a port that was free a moment ago is not any more.
var errPortTaken = errors.New("the port was taken in the meantime")

// begin starts the server and waits until it answers.
func (s *Server) begin() error {
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	// A test that is aborted leaves no server behind.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.Process = s.cmd.Process
	var log []byte
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		log, _ = os.ReadFile(filepath.Join(s.dir, "redis.log"))
		if bytes.Contains(log, []byte("Address already in use")) {
			s.Kill()
			return fmt.Errorf("redis-server on %s: %w", s.Addr, errPortTaken)
		}
		if s.answers() {
			return nil
		}
	}
	return fmt.Errorf("redis-server on %s does not answer: %s", s.Addr, log)
}

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

// answers says whether the server talks: any reply to PING will do, a server
// that asks for a password is up too. One that is still reading what it kept
// on disk is not.
func (s *Server) answers() bool {
	conn, err := s.dial()
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "-LOADING") {
		return false
	}
	return strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")
}

func (s *Server) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	if strings.HasPrefix(s.URL, "rediss:") {
		return tls.DialWithDialer(dialer, "tcp", s.Addr, &tls.Config{InsecureSkipVerify: true})
	}
	return dialer.Dial("tcp", s.Addr)
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

// FreePort is a loopback port that nobody listens on now. It is none of those
// that the system gives to outgoing connections (32768 and above on Linux):
// one of the thousands that the tests make could have it by the time that a
// server starts, or starts again, there.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}
