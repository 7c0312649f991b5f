//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// flaky is a dependency that is down, or fails every fourth call the first time
// it is made, and counts what reaches it.
type flaky struct {
	mu        sync.Mutex
	down      bool
	calls     map[string]int // by path: how often this call was made
	requests  int
	retries   int
	successes int
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	f.calls[r.URL.Path]++
	f.requests++
	again := f.calls[r.URL.Path] > 1
	if again {
		f.retries++
	}
	if f.down || n%4 == 0 && !again {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	f.successes++
}

func (f *flaky) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// The bucket of TestFleet: nothing but reported successes fills it, so what it
// allows is a matter of counting.
const (
	fleetCapacity = 20
	fleetClients  = 3
	fleetPolicy   = `
version: 1
dependencies:
  orders:
    backoff: {strategy: constant, base: 1ms}
    budget: {ratio: 10%, capacity: 20, capacity_seconds: 0, min_per_second: 0}
`
)

// fleetRun is an outage, a time of every fourth call failing, and an outage
// again, as the dependency and three client processes see it.
type fleetRun struct {
	// outage is what was granted in the first outage.
	outage int
	// each and sum are the clients' tallies, server the dependency's.
	each   []tally
	sum    tally
	server *flaky
}

func runFleet(t *testing.T, decidersOf func(client int) []string) fleetRun {
	t.Helper()
	run := fleetRun{server: &flaky{calls: map[string]int{}, down: true}}
	server := httptest.NewServer(run.server)
	t.Cleanup(server.Close)
	var clients []*clientProcess
	for i := range fleetClients {
		clients = append(clients, startClient(t, client{Name: fmt.Sprintf("client-%d", i), Dependency: "orders", Server: server.URL, Deciders: decidersOf(i)}))
	}
	_, sum := eachCalls(t, clients, 20) // asks for up to 60 retries for each client: more than there are
	run.outage = sum.Granted
	run.server.set(false)
	eachCalls(t, clients, 60) // deposits at most 18 tokens into an empty bucket of 20: none is lost
	run.server.set(true)
	run.each, run.sum = eachCalls(t, clients, 20) // takes every whole token that is left
	return run
}

// check holds what is true of every run: both sides of each counter agree, and
// no local rule answered.
func (run *fleetRun) check(t *testing.T) {
	t.Helper()
	s := run.server
	if run.sum.Granted != s.retries || run.sum.Requests != s.requests || run.sum.Successes != s.successes || run.sum.Calls+run.sum.Granted != s.requests {
		t.Errorf("the clients counted %+v, the dependency %d requests, %d retries, %d successes", run.sum, s.requests, s.retries, s.successes)
	}
	if run.sum.Degraded > 0 {
		t.Errorf("%d answers were degraded", run.sum.Degraded)
	}
}

// allowed is what one bucket allows: what it holds at first, and one retry for
// every ten successes.
func allowed(successes int) int { return fleetCapacity + successes/10 }

// TestFleet: three client processes on two deciders that share a real Redis get
// exactly the retries of one bucket. The same clients, each with a bucket of its
// own, get three times as many in an outage, and with every client more.
func TestFleet(t *testing.T) {
	t.Parallel()
	policies := "--policies=" + programtest.PolicyFile(t, fleetPolicy)
	t.Run("one shared bucket", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t)
		a := serve(t, policies, exactly, "--redis-url="+redis.URL)
		b := serve(t, policies, exactly, "--redis-url="+redis.URL)
		run := runFleet(t, func(int) []string { return []string{a.URL, b.URL} })
		run.check(t)
		if run.outage != fleetCapacity {
			t.Errorf("%d retries in the first outage, want %d", run.outage, fleetCapacity)
		}
		if want := allowed(run.server.successes); run.sum.Granted != want {
			t.Errorf("%d retries, %d successes: want %d", run.sum.Granted, run.server.successes, want)
		}
		fromA, fromB := granted(t, a), granted(t, b)
		if fromA+fromB != run.sum.Granted || fromA == 0 || fromB == 0 {
			t.Errorf("the deciders say that they granted %d and %d, the clients got %d", fromA, fromB, run.sum.Granted)
		}
		left := float64(run.server.successes%10) / 10
		if atA, atB := tokens(t, a.URL, "orders"), tokens(t, b.URL, "orders"); atA != left || atB != left {
			t.Errorf("%v and %v tokens are left, want %v at both", atA, atB, left)
		}
	})
	t.Run("three local buckets", func(t *testing.T) {
		t.Parallel()
		var own [fleetClients]string
		for i := range own {
			own[i] = serve(t, policies, "--store=memory").URL
		}
		run := runFleet(t, func(i int) []string { return own[i : i+1] })
		run.check(t)
		if run.outage != fleetClients*fleetCapacity {
			t.Errorf("%d retries in the first outage, want %d", run.outage, fleetClients*fleetCapacity)
		}
		want := 0
		for i, seen := range run.each {
			want += allowed(seen.Successes)
			if seen.Granted != allowed(seen.Successes) {
				t.Errorf("client %d: %d retries, %d successes: want %d", i, seen.Granted, seen.Successes, allowed(seen.Successes))
			}
		}
		if shared := allowed(run.server.successes); run.sum.Granted != want || want < shared+2*fleetCapacity-fleetClients {
			t.Errorf("%d retries, want %d; one bucket would allow %d", run.sum.Granted, want, shared)
		}
	})
}

var grants = regexp.MustCompile(`(?m)^decider_decisions_total\{decision="retry",.*\} (\d+)$`)

// granted is how many retries a decider says it has granted.
func granted(t *testing.T, p *process) (n int) {
	t.Helper()
	response, err := web.Get(p.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	if err := response.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, m := range grants.FindAllStringSubmatch(text.String(), -1) {
		count, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += count
	}
	return n
}

// TestNeverOneTooMany: 64 clients ask two deciders on one Redis at once, far
// more often than there are tokens.
func TestNeverOneTooMany(t *testing.T) {
	t.Parallel()
	const clients, asks, capacity, runs = 64, 4, 100, 10
	redis := redistest.Start(t)
	policies := "--policies=" + programtest.PolicyFile(t, `
version: 1
dependencies:
  "run-*":
    budget: {capacity: 100, capacity_seconds: 0, min_per_second: 0}
`)
	deciders := []string{
		serve(t, policies, exactly, "--redis-url="+redis.URL).URL,
		serve(t, policies, exactly, "--redis-url="+redis.URL).URL,
	}
	for run := range runs {
		dependency := fmt.Sprintf("run-%d", run)
		var retries, exhausted, others atomic.Int64
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for ask := range asks {
					d, err := decide(deciders[(c+ask)%2], got503(dependency))
					switch {
					case err != nil || d.Degraded:
						others.Add(1)
						t.Errorf("%s: %+v, %v", dependency, d, err)
					case d.Decision == "retry":
						retries.Add(1)
					case d.Reason == "budget_exhausted":
						exhausted.Add(1)
					default:
						others.Add(1)
					}
				}
			})
		}
		all.Wait()
		if retries.Load() != capacity || exhausted.Load() != clients*asks-capacity || others.Load() > 0 {
			t.Errorf("%s: %d retries, %d refused, %d others; want %d and %d", dependency, retries.Load(), exhausted.Load(), others.Load(), capacity, clients*asks-capacity)
		}
	}
}
