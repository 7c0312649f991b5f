package redistest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a primary with one replica, watched by three sentinels.
type Sentinel struct {
	Primary, Replica *Server
	Sentinels        []*Server
	// URL is in the form that budget.NewClient takes.
	URL string
}

// watched is the name under which the sentinels know the primary.
const watched = "main"

// StartSentinel starts all five; they end with the test.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Primary: Start(t, "--repl-diskless-sync-delay", "0")}
	s.Replica = Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(s.Primary.port))
	waitFor(t, "the replica", func() (string, bool) {
		role := s.Replica.Do(t, "ROLE").([]any)
		return fmt.Sprint(role), role[3] == "connected"
	})
	addresses := url.Values{"master_name": {watched}}
	for i := range 3 {
		watcher := startSentinel(t, s.Primary.port)
		if s.Sentinels = append(s.Sentinels, watcher); i > 0 {
			addresses.Add("addr", watcher.Addr)
		}
	}
	s.URL = "redis://" + s.Sentinels[0].Addr + "?" + addresses.Encode()
	for _, watcher := range s.Sentinels {
		waitFor(t, "a sentinel", func() (string, bool) {
			known := watcher.sentinelKnows(t)
			return fmt.Sprint(known), known["num-other-sentinels"] == "2" && known["num-slaves"] == "1" && known["flags"] == "master"
		})
	}
	return s
}

func startSentinel(t testing.TB, primary int) *Server {
	t.Helper()
	port, dir := FreePort(t), t.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nlogfile redis.log\nsentinel monitor %[3]s 127.0.0.1 %[4]d 2\n"+
		"sentinel down-after-milliseconds %[3]s 15000\nsentinel failover-timeout %[3]s 2000\nsentinel parallel-syncs %[3]s 1\n", port, dir, watched, primary)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, port, dir, config, "--sentinel")
	// Otherwise they learn of each other and of the replica within seconds, and after
	// a stall of two seconds they do nothing for half a minute (TILT).
	s.Do(t, "SENTINEL", "DEBUG", "info-period", 200, "publish-period", 200, "tilt-trigger", 60000)
	return s
}

func (s *Server) sentinelKnows(t testing.TB) map[string]string {
	t.Helper()
	options, err := redis.ParseURL("redis://" + s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewSentinelClient(options)
	defer client.Close()
	known, err := client.Master(t.Context(), watched).Result()
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// FailOver kills the primary and waits until its replica is the primary that the
// sentinels name: before that no client can know. It returns when that was.
func (s *Sentinel) FailOver(t testing.TB) time.Time {
	t.Helper()
	for _, watcher := range s.Sentinels { // before that one that stood still is no dead one
		watcher.Do(t, "SENTINEL", "SET", watched, "down-after-milliseconds", 1000)
	}
	s.Primary.Kill()
	for _, watcher := range s.Sentinels {
		waitFor(t, "the new primary", func() (string, bool) {
			named := watcher.Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", watched)
			return fmt.Sprint(named), fmt.Sprint(named) == fmt.Sprintf("[%s %d]", s.Replica.Host(), s.Replica.Port())
		})
	}
	waitFor(t, "the new primary", func() (string, bool) {
		role := s.Replica.Do(t, "ROLE").([]any)
		return fmt.Sprint(role), role[0] == "master"
	})
	return time.Now()
}
