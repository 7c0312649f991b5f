package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// StartStub starts a server that lets everybody in (HELLO, CLIENT, PING) and
// answers every other command with the same bytes: "-LOADING …\r\n", say, or
// what is no answer at all. It returns its address and ends with the test.
func StartStub(t testing.TB, answer string) (address string) {
	t.Helper()
	return startStub(t, func([]string) string { return answer })
}

func startStub(t testing.TB, answer func(command []string) string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{answer: answer, conns: map[net.Conn]bool{}}
	s.served.Add(1)
	go s.serve(l)
	t.Cleanup(func() { l.Close(); s.close() })
	return l.Addr().String()
}

type stub struct {
	answer func(command []string) string
	served sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func (s *stub) serve(l net.Listener) {
	defer s.served.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !s.add(conn) {
			conn.Close()
			continue
		}
		go s.talk(conn)
	}
}

func (s *stub) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[conn] = true
	s.served.Add(1)
	return true
}

func (s *stub) close() {
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.served.Wait()
}

func (s *stub) talk(conn net.Conn) {
	defer s.served.Done()
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, s.answerTo(command)); err != nil {
			return
		}
	}
}

func (s *stub) answerTo(command []string) string {
	switch strings.ToUpper(command[0]) {
	case "HELLO":
		return "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
	case "CLIENT", "SELECT":
		return "+OK\r\n"
	case "PING":
		return "+PONG\r\n"
	}
	return s.answer(command)
}

var errNoCommand = errors.New("not an array of strings")

// readCommand reads one command, an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	n, err := readLength(in, '*')
	if err != nil || n < 1 {
		return nil, errors.Join(err, errNoCommand)
	}
	for range n {
		length, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		words = append(words, string(text[:length]))
	}
	return words, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, errNoCommand
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
