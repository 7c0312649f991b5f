package redistest

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// StartShards starts what shards behind one address, as some proxies do: each
// command goes to the server of its first key's hash tag, and nobody looks where
// the other keys of a script belong. It ends with the test.
func StartShards(t testing.TB, servers ...*Server) (address string) {
	t.Helper()
	shards := make([]*shard, len(servers))
	for i, server := range servers {
		conn, err := net.Dial("tcp", server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		shards[i] = &shard{conn: conn, in: bufio.NewReader(conn)}
	}
	return startStub(t, func(command []string) string {
		at := crc32.ChecksumIEEE([]byte(hashTag(firstKey(command)))) % uint32(len(shards))
		answer, err := shards[at].ask(command)
		if err != nil {
			return "-ERR " + err.Error() + "\r\n"
		}
		return answer
	})
}

func firstKey(command []string) string {
	at := 1
	if strings.HasPrefix(strings.ToUpper(command[0]), "EVAL") {
		at = 3
	}
	if at >= len(command) {
		return ""
	}
	return command[at]
}

func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok {
			return tag
		}
	}
	return key
}

// shard is a connection to one server.
type shard struct {
	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
}

func (s *shard) ask(command []string) (answer string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(s.conn, text.String()); err != nil {
		return "", err
	}
	var reply strings.Builder
	err = copyReply(&reply, s.in)
	return reply.String(), err
}

// copyReply copies one reply (RESP2), with what is in it.
func copyReply(out *strings.Builder, in *bufio.Reader) error {
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	out.WriteString(line)
	if line[0] != '$' && line[0] != '*' {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || n < 0 {
		return err
	}
	if line[0] == '$' {
		_, err := io.CopyN(out, in, int64(n+len("\r\n")))
		return err
	}
	for range n {
		if err := copyReply(out, in); err != nil {
			return err
		}
	}
	return nil
}
