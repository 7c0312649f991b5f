package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestServerComesBack(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do(t, "SET", "decider:{a}:state", "1")
	// So much that reading it takes a moment, in which Redis answers LOADING.
	s.Do(t, "EVAL", `for i = 1, 50000 do redis.call("SET", "decider:{" .. i .. "}:state", i) end return "OK"`, 0)
	s.Kill()
	if _, err := s.Try(t, "PING"); err == nil {
		t.Error("it answers after it was killed")
	}
	s.Restart(t)
	if got := s.Do(t, "GET", "decider:{a}:state"); got != "1" {
		t.Errorf("it kept %v", got)
	}
}

// Another server that answers on the port is not taken for the one that was started.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	port := Start(t).Port()
	if err := newServer(t, port, t.TempDir(), "--port", strconv.Itoa(port)).begin(); err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Error(err)
	}
}

// No port is given twice, also where its server is away.
func TestFreePort(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range blockSize / 10 {
		port := FreePort(t)
		if seen[port] || port < firstPort || port >= firstPort+blocks*blockSize {
			t.Errorf("%d, after %v", port, seen)
		}
		seen[port] = true
	}
}

func TestClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	seen := map[string]bool{}
	for i := range 20 {
		key := fmt.Sprintf("decider:{%d}:state", i)
		node, _ := c.Owner(t, key)
		node.Do(t, "SET", key, i)
		seen[node.Addr] = true
	}
	if len(seen) != 3 {
		t.Errorf("twenty keys are on %d nodes", len(seen))
	}
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	s.Primary.Do(t, "SET", "decider:{a}:state", "1")
	s.Primary.Do(t, "WAIT", 1, 5000)
	begun := time.Now()
	s.FailOver(t)
	if got := s.Replica.Do(t, "GET", "decider:{a}:state"); got != "1" {
		t.Errorf("the new primary has %v", got)
	}
	t.Logf("failed over in %s", time.Since(begun))
}

func TestTLSWantsAPassword(t *testing.T) {
	t.Parallel()
	s, _ := StartTLS(t)
	s.Do(t, "SET", "decider:{a}:state", "1")
	if _, err := s.Try(t, "SET", "other", "1"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("another key: %v", err)
	}
}

func TestStubAnswersTheSame(t *testing.T) {
	t.Parallel()
	s := &Server{Addr: StartStub(t, "-LOADING Redis is loading the dataset in memory\r\n")}
	s.URL = "redis://" + s.Addr
	if got := s.Do(t, "PING"); got != "PONG" {
		t.Errorf("PING: %v", got)
	}
	for _, command := range [][]any{{"GET", "a"}, {"EVALSHA", "0", "0"}} {
		if _, err := s.Try(t, command...); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
			t.Errorf("%v: %v", command, err)
		}
	}
}
