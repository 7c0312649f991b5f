package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lab is a directory and the servers that were started in it.
type lab struct {
	dir     string
	options *options
	servers []*server
}

func (l *lab) script() string { return filepath.Join(l.dir, "decide.lua") }

func (l *lab) close() {
	for _, s := range l.servers {
		s.stop()
	}
	_ = os.RemoveAll(l.dir)
}

// server is a process that is measured.
type server struct {
	name, address string
	// peer is whose words it takes; "" for a store.
	peer string
	// store is what it keeps its state in, nil where that is its own memory.
	store *server
	cmd   *exec.Cmd
	done  chan struct{}
}

// start starts a command that listens at the server's address, and waits until
// it does.
func (l *lab) start(ctx context.Context, s *server, env []string, command string, args ...string) error {
	s.cmd = exec.CommandContext(ctx, command, args...) //nolint:gosec // the commands are the flags of whoever measures
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Dir = l.dir
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(l.dir, s.name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // how it ended matters to nobody
		close(s.done)
	}()
	l.servers = append(l.servers, s)
	return s.await(ctx, filepath.Join(l.dir, s.name+".log"))
}

// patience is how long a server may take to listen.
const patience = 20 * time.Second

func (s *server) await(ctx context.Context, log string) error {
	for begun := time.Now(); time.Since(begun) < patience; {
		conn, err := net.DialTimeout("tcp", s.address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.done:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("%s has ended: %s", s.name, strings.TrimSpace(string(text)))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not listen after %s", s.name, patience)
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
}

// freeAddress is a loopback address that nobody listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// newServer names a server and finds it an address.
func newServer(name, peer string, store *server) (*server, error) {
	address, err := freeAddress()
	return &server{name: name, address: address, peer: peer, store: store}, err
}

func (l *lab) redis(ctx context.Context, name string) (*server, error) {
	s, err := newServer(name, "", nil)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.address)
	return s, l.start(ctx, s, nil, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", l.dir)
}

// policies is a file under which every question is asked and granted: what is
// measured is an answer that spends, not one that refuses.
const policies = `version: 1
max_unknown: 100000
defaults:
  budget: {capacity: 1000000, min_per_second: 1000000}
`

func (l *lab) decider(ctx context.Context, name string, store *server) (*server, error) {
	return l.deciderUnder(ctx, name, policies, store)
}

// deciderUnder starts a decider with the text of a policy file, "" for the
// policy that is built in.
func (l *lab) deciderUnder(ctx context.Context, name, policies string, store *server) (*server, error) {
	s, err := newServer(name, "decider", store)
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--listen", s.address, "--log-level", "WARN"}
	if policies != "" {
		// In a directory of its own: decider watches it, and logs are written in the other.
		file := filepath.Join(l.dir, name, "policies.yaml")
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(policies), 0o600)); err != nil {
			return nil, err
		}
		args = append(args, "--policies", file)
	}
	if store != nil {
		args = append(args, "--redis-url", "redis://"+store.address)
	}
	return s, l.start(ctx, s, nil, l.options.decider, args...)
}

func (l *lab) echo(ctx context.Context) (*server, error) {
	s, err := newServer("echo", "decider", nil)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s, l.start(ctx, s, nil, self, "echo", "-address", s.address)
}

// limits is ratelimit's configuration: a limit that is never met, so that each
// request asks the store, as it does for decider.
const limits = `domain: bench
descriptors:
  - key: dependency
    rate_limit: {unit: second, requests_per_unit: 1000000000}
`

func (l *lab) ratelimit(ctx context.Context, store *server) (*server, error) {
	s, err := newServer("ratelimit", "ratelimit", store)
	if err != nil {
		return nil, err
	}
	grpc, err := freeAddress()
	if err != nil {
		return nil, err
	}
	debug, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(l.dir, "runtime", "ratelimit", "config")
	if err := errors.Join(os.MkdirAll(config, 0o750), os.WriteFile(filepath.Join(config, "config.yaml"), []byte(limits), 0o600)); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.address)
	_, grpcPort, _ := net.SplitHostPort(grpc)
	_, debugPort, _ := net.SplitHostPort(debug)
	return s, l.start(ctx, s, []string{
		"HOST=127.0.0.1", "PORT=" + port, "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + grpcPort, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + debugPort,
		"USE_STATSD=false", "LOG_LEVEL=error", "BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + store.address,
		"RUNTIME_ROOT=" + filepath.Join(l.dir, "runtime"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}, l.options.ratelimit)
}

// gubernator keeps its state in its own memory; it knows no other store.
func (l *lab) gubernatorServer(ctx context.Context) (*server, error) {
	s, err := newServer("gubernator", "gubernator", nil)
	if err != nil {
		return nil, err
	}
	grpc, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return s, l.start(ctx, s, []string{"GUBER_GRPC_ADDRESS=" + grpc, "GUBER_HTTP_ADDRESS=" + s.address, "GUBER_PEER_DISCOVERY_TYPE=none", "GUBER_LOG_LEVEL=error"}, l.options.gubernator)
}

// cpu is how much of a processor the server has used since it started.
func (s *server) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return cpuOf(string(text))
}

// ticksPerSecond is what Linux counts a process's time in, on every platform of Go's.
const ticksPerSecond = 100

// cpuOf reads utime and stime, the fourteenth and fifteenth field of
// /proc/PID/stat; the second is the command in brackets, which may hold blanks.
func cpuOf(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// rss is the server's resident memory in bytes.
func (s *server) rss() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// ask sends one attempt and wants 200.
func (s *server) ask(ctx context.Context) error {
	body := strings.NewReader(`{"dependency":"payments","method":"GET","status":503}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/v1/decide", body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", s.name, answer.Status)
	}
	return nil
}
