package handlers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	store "github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// TestEveryCallOnEveryStore runs the table of every call, which TestEveryCall
// runs on a fake, with budgets in memory and in Redis.
func TestEveryCallOnEveryStore(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t testing.TB) (newFleet func() *store.Fleet){
		"memory":    inMemory,
		"miniredis": func(t testing.TB) func() *store.Fleet { return inRedis(t, "redis://"+miniredis.RunT(t).Addr()) },
		"redis":     func(t testing.TB) func() *store.Fleet { return inRedis(t, redistest.Start(t).URL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows atomic.Int64
			newFleet := open(t)
			runContractCalls(t, func(t testing.TB) http.Handler {
				return onFleet(t, newFleet(), "row-"+strconv.FormatInt(rows.Add(1), 10)+":")
			})
		})
	}
}

func inMemory(testing.TB) func() *store.Fleet {
	return func() *store.Fleet { return store.NewFleet(store.NewMemory(time.Now)) }
}

// inRedis makes fleets that share a Redis. The bound of their questions is one
// that no busy machine misses, so that no local rule answers.
func inRedis(t testing.TB, url string) func() *store.Fleet {
	t.Helper()
	const timeout = 20 * time.Second
	client, err := store.NewClient(url, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return func() *store.Fleet {
		return store.NewSharedFleet(store.Shared{
			Store: store.NewRedis(client, nil), Timeout: timeout, ProbeEvery: time.Second, Now: time.Now,
			Replicas: func() int { return 1 },
		})
	}
}

// onFleet is onFakes with a real fleet.
func onFleet(t testing.TB, fleet *store.Fleet, prefix string) http.Handler {
	t.Helper()
	t.Cleanup(func() { fleet.Close(context.Background()) })
	config := testConfig(new(fakeFleet))
	policies := ownBuckets{newFakePolicies(), prefix}
	config.Policies, config.Fleet = policies, fleet
	config.Decider = &decide.Decider{
		Policies: policies, Fleet: fleet, Now: time.Now,
		Random: func() float64 { return 0.5 },
		NewID:  func() string { return "made-by-the-server" },
	}
	return newHandler(t, config)
}

// A client that closes its half of the connection still waits for the answer, and
// gets that of the fleet.
func TestHalfClosedConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(onFleet(t, inRedis(t, redistest.Start(t).URL)(), "half:"))
	defer server.Close()
	for range 5 {
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v1/decide", `{"dependency":"payments","method":"GET","status":503}`},
			{"POST", "/v1/decide/batch", `{"attempts":[{"dependency":"payments","method":"GET","status":503}]}`},
			{"POST", "/v1/outcomes", `{"outcomes":[{"dependency":"payments","first_try_successes":20}]}`},
			{"PUT", "/v1/dependencies/payments/override", `{"mode":"allow","expires_in_ms":1000,"reason":"a test"}`},
			{"DELETE", "/v1/dependencies/payments/override", ""},
			{"GET", "/v1/dependencies/payments", ""},
		} {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: decider\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				c.method, c.path, len(c.body), c.body)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || !strings.Contains(string(answer), `"degraded":false`) {
				t.Errorf("%s %s: %v, %s", c.method, c.path, err, answer)
			}
			conn.Close()
		}
	}
}

// ownBuckets gives each handler buckets of its own on a store that many share,
// so that no row of a table sees what another one spent.
type ownBuckets struct {
	*fakePolicies
	prefix string
}

func (o ownBuckets) Find(dependency string) (*decide.Policy, string, error) {
	p, bucket, err := o.fakePolicies.Find(dependency)
	return p, o.prefix + bucket, err
}

func (o ownBuckets) Peek(dependency string) (*decide.Policy, string, error) {
	return o.Find(dependency)
}
