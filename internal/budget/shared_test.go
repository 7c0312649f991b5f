package budget

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

// sharedServer is a Redis of a kind that takes seconds to start: it is started
// once, and tests have it one after the other, empty.
type sharedServer struct {
	start func(t testing.TB) (url string)

	mu  sync.Mutex // whose it is
	url string
}

// sharedServers are the kinds, by the names of their subtests.
var sharedServers = map[string]*sharedServer{
	"sentinel": {start: func(t testing.TB) string { return redistest.StartSentinel(t).URL }},
	"cluster":  {start: func(t testing.TB) string { return redistest.StartCluster(t).URL }},
	"tls": {start: func(t testing.TB) string {
		server, _ := redistest.StartTLS(t)
		return server.URL + "?skip_verify=true" // whom to trust is another test's question
	}},
}

// client is a client of the server, which is the test's alone until its end.
func (s *sharedServer) client(t *testing.T) redis.UniversalClient {
	t.Helper()
	s.mu.Lock()
	t.Cleanup(s.mu.Unlock)
	if s.url == "" {
		s.url = s.start(untilAllEnd{t})
	}
	client := newClient(t, s.url)
	flush(t, client)
	return client
}

func flush(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	err := eachServer(t, client, func(ctx context.Context, server redis.Cmdable) error { return server.FlushAll(ctx).Err() })
	if err != nil {
		t.Fatal(err)
	}
}

// untilAllEnd is a test whose resources last until the last test ends.
type untilAllEnd struct{ testing.TB }

var atEnd struct {
	mu sync.Mutex
	do []func()
}

// Cleanup is called when all tests have ended.
func (untilAllEnd) Cleanup(f func()) {
	atEnd.mu.Lock()
	defer atEnd.mu.Unlock()
	atEnd.do = append(atEnd.do, f)
}

// TempDir is a directory that lasts as long.
func (u untilAllEnd) TempDir() string {
	u.Helper()
	dir, err := os.MkdirTemp("", "budget-test-")
	if err != nil {
		u.Fatal(err)
	}
	u.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Context is one that no test's end ends.
func (untilAllEnd) Context() context.Context { return context.Background() }

func endAll() {
	for i := len(atEnd.do) - 1; i >= 0; i-- {
		atEnd.do[i]()
	}
}
