//go:build linux

package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// exactly is a bound of the store that no busy machine misses: where grants are
// counted, none may come from a local rule.
const exactly = "--store-timeout=20s"

// Three replicas, 64 clients, a bucket of 1,000 and a ratio of 10 %: ten times
// over, what is granted and what is left is what was there and what was
// deposited, to the token. (A fail-over is not part of it: what a primary had not
// passed on to its replica when it died is charged again.)
func TestNothingIsGrantedTwice(t *testing.T) {
	t.Parallel()
	const clients, asks, every, runs = 64, 30, 10, 10
	server := redistest.Start(t)
	fleet := startFleet(t, 3, `version: 1
dependencies:
  "rush-*":
    budget: {ratio: 10%, capacity: 1000, capacity_seconds: 0, min_per_second: 0}
`, "--redis-url="+server.URL, exactly)
	for run := range runs {
		name := fmt.Sprintf("rush-%d", run)
		var granted, deposited, degraded atomic.Int64
		var asking sync.WaitGroup
		for client := range clients {
			asking.Go(func() {
				url := fleet[client%len(fleet)].URL
				for n := range asks {
					var d struct {
						Decision string
						Degraded bool
					}
					if err := call(http.MethodPost, url+"/v1/decide", `{"dependency":"`+name+`","method":"GET","status":503}`, http.StatusOK, &d); err != nil {
						t.Error(err)
						return
					}
					if d.Decision == "retry" {
						granted.Add(1)
					}
					if d.Degraded {
						degraded.Add(1)
					}
					if n%every == every-1 { // after spending, so that no deposit finds a full bucket
						body := fmt.Sprintf(`{"caller":"c%d","report_id":"r%d","outcomes":[{"dependency":%q,"first_try_successes":%d}]}`, client, n, name, every)
						if err := call(http.MethodPost, url+"/v1/outcomes", body, http.StatusOK, &struct{}{}); err != nil {
							t.Error(err)
							return
						}
						deposited.Add(every / 10)
					}
				}
			})
		}
		asking.Wait()
		left := fleet[run%len(fleet)].dependency(t, name).Budget.Tokens
		if over := granted.Load() + int64(left) - 1000 - deposited.Load(); over != 0 || degraded.Load() > 0 {
			t.Errorf("run %d: %d granted, %v left, of 1000 and %d deposited: %d too many (%d answers degraded)", run+1, granted.Load(), left, deposited.Load(), over, degraded.Load())
		}
	}
}

// 64 connections that ask about one dependency share the calls to Redis. In the
// short form its replies take a moment, as over a network: the tests' own
// machine may be too busy to ask a second question while the first is answered.
func TestCommandsPerDecision(t *testing.T) {
	t.Parallel()
	const connections, asks = 64, 100
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	fleet := startFleet(t, 1, chaosPolicies, "--redis-url="+proxy.URL, exactly)
	if !long {
		proxy.Delay(20 * time.Millisecond)
	}
	askAtOnce(t, fleet[0].URL, account, connections) // the script is known, the connections are open
	before := commandsRun(t, server, "evalsha") + commandsRun(t, server, "eval")
	var asking sync.WaitGroup
	for range connections {
		asking.Go(func() {
			for range asks {
				if err := call(http.MethodPost, fleet[0].URL+"/v1/decide", `{"dependency":"`+account+`","method":"GET","status":503}`, http.StatusOK, &struct{}{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
	commands := commandsRun(t, server, "evalsha") + commandsRun(t, server, "eval") - before
	perDecision := float64(commands) / (connections * asks)
	t.Logf("%d commands for %d decisions: %.3f each", commands, connections*asks, perDecision)
	if perDecision > 0.1 {
		t.Errorf("%.3f commands per decision, more than 0.1", perDecision)
	}
}

// A failure that is the dependency's own and is given up without a question
// reaches the state within a second, on every replica, and spends nothing.
func TestGivenUpFailuresAreTold(t *testing.T) {
	t.Parallel()
	programtest.InTime(t, func() []string { return playGivenUpFailures(t) })
}

func playGivenUpFailures(t *testing.T) (late []string) {
	t.Helper()
	server := redistest.Start(t)
	fleet := startFleet(t, 2, `version: 1
dependencies:
  payments:
    budget: {capacity: 10, capacity_seconds: 0, min_per_second: 0}
    breaker: {mode: retries, failure_ratio: 50%, min_attempts: 6, window: 60s, open_for: 60s}
    cool_down: fleet
`, "--redis-url="+server.URL, exactly)
	begun := time.Now()
	for range 6 {
		var d struct{ Decision, Reason string }
		if err := call(http.MethodPost, fleet[0].URL+"/v1/decide", `{"dependency":"payments","method":"POST","status":503,"retry_after":"3"}`, http.StatusOK, &d); err != nil {
			t.Fatal(err)
		}
		if d.Reason != "not_safe_to_repeat" {
			t.Fatalf("answered %+v", d)
		}
	}
	said := time.Now()
	var d dependency
	eventually(t, "the breaker on the other replica", patience, func() error {
		if d = fleet[1].dependency(t, "payments"); d.Breaker != "open" {
			return fmt.Errorf("it is %s", d.Breaker)
		}
		return nil
	})
	if took := time.Since(said); took > time.Second {
		late = append(late, fmt.Sprintf("the state heard of it %s after the last answer", took))
	}
	if elapsed := time.Since(begun).Milliseconds(); d.Budget.Tokens != 10 || d.CoolDown > 3000 || d.CoolDown < 3000-elapsed {
		t.Errorf("after %d ms: %+v, want ten tokens and a cool-down of three seconds", elapsed, d)
	}
	return late
}

// What an operator says on one replica holds on every other within a second, ends
// by itself, and outlives the store where it was seen.
func TestOverrideAcrossReplicas(t *testing.T) {
	t.Parallel()
	programtest.InTime(t, func() []string { return playOverride(t) })
}

func playOverride(t *testing.T) (late []string) {
	t.Helper()
	server := redistest.Start(t)
	fleet := startFleet(t, 3, chaosPolicies, "--redis-url="+server.URL, exactly)
	order := fleet[0].URL + "/v1/dependencies/" + account + "/override"
	reasons := func(p *process) string {
		var d struct {
			Decision, Reason string
			AskAgain         int64 `json:"ask_again_in_ms"`
			Degraded         bool
		}
		if err := call(http.MethodPost, p.URL+"/v1/decide", `{"dependency":"`+account+`","method":"GET","status":503}`, http.StatusOK, &d); err != nil {
			t.Fatal(err)
		}
		if d.Degraded {
			d.Reason += ", degraded"
		}
		return d.Decision + " " + d.Reason
	}
	set := func(body string) {
		t.Helper()
		if err := call(http.MethodPut, order, body, http.StatusOK, &struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	everywhere := func(want string) {
		t.Helper()
		since := time.Now()
		for i, p := range fleet {
			eventually(t, fmt.Sprintf("replica %d", i+1), patience, func() error {
				if got := reasons(p); got != want {
					return fmt.Errorf("%s, want %s", got, want)
				}
				return nil
			})
		}
		if took := time.Since(since); took > time.Second {
			late = append(late, fmt.Sprintf("%s everywhere took %s", want, took))
		}
	}
	set(`{"mode":"pause","expires_in_ms":60000,"reason":"payments fails over"}`)
	everywhere("give_up paused")
	if o := fleet[2].dependency(t, account).Override; o == nil || o.Mode != "pause" || o.Reason != "payments fails over" || o.Author != "anonymous" {
		t.Errorf("on the third replica: %+v", o)
	}
	if err := call(http.MethodDelete, order, "", http.StatusOK, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	everywhere("retry backoff")
	tokens := fleet[0].dependency(t, account).Budget.Tokens
	set(`{"mode":"allow","expires_in_ms":60000,"reason":"all is well"}`)
	everywhere("retry backoff")
	if left := fleet[0].dependency(t, account).Budget.Tokens; left != tokens {
		t.Errorf("%v tokens were spent while everything was allowed", tokens-left)
	}
	earliest := time.Now().Add(6 * time.Second)
	set(`{"mode":"pause","expires_in_ms":6000,"reason":"again"}`)
	ends := time.Now().Add(6 * time.Second)
	everywhere("give_up paused")
	server.Kill()
	eventually(t, "the outage", patience, func() error {
		if got := reasons(fleet[1]); !strings.HasSuffix(got, "degraded") {
			return fmt.Errorf("still %s", got)
		}
		return nil
	})
	if got := reasons(fleet[1]); got != "give_up paused, degraded" && time.Now().Before(earliest) {
		t.Errorf("without the store: %s", got)
	}
	var refused struct{ Type string }
	if err := call(http.MethodDelete, fleet[1].URL+"/v1/dependencies/"+account+"/override", "", http.StatusServiceUnavailable, &refused); err != nil || !strings.HasSuffix(refused.Type, "store-unavailable") {
		t.Errorf("lifted without the store: %+v, %v", refused, err)
	}
	time.Sleep(time.Until(ends.Add(50 * time.Millisecond)))
	if got := reasons(fleet[1]); got != "retry backoff, degraded" {
		t.Errorf("at its end: %s", got)
	}
	return late
}

// Status tells who decides by what, and of a Redis that may drop budgets.
func TestStatusOfAFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "volatile-lru")
	fleet := []*process{
		serve(t, "--redis-url="+server.URL, exactly, "--policies="+programtest.PolicyFile(t, chaosPolicies)),
		serve(t, "--redis-url="+server.URL, exactly, "--policies="+programtest.PolicyFile(t, chaosPolicies+"  other: {max_attempts: 2}\n")),
	}
	know(t, fleet)
	s := fleet[0].status(t)
	if !s.Drift || s.Replicas[0].Config == s.Replicas[1].Config || s.Replicas[0].Self == s.Replicas[1].Self {
		t.Errorf("two policy files: %+v", s)
	}
	eventually(t, "the eviction policy", patience, func() error {
		if s := fleet[1].status(t); s.Store.MaxmemoryPolicy != "volatile-lru" || !strings.Contains(s.Store.Means, "volatile-lru") {
			return fmt.Errorf("%+v", s.Store)
		}
		return nil
	})
	eventually(t, "the log's word, once", patience, func() error {
		if n := strings.Count(fleet[1].Log.String(), "maxmemory_policy=volatile-lru"); n != 1 {
			return fmt.Errorf("logged %d times:\n%s", n, fleet[1].Log)
		}
		return nil
	})
	var ready struct {
		State      string
		Components []struct{ Name, State string }
	}
	if err := call(http.MethodGet, fleet[0].URL+"/readyz", "", http.StatusOK, &ready); err != nil || fmt.Sprint(ready.Components) != "[{policies ok} {store ok} {replicas degraded}]" {
		t.Errorf("ready: %+v, %v", ready, err)
	}
}

// re-failopen-unbounded: four replicas without their store grant, all together,
// what one bucket holds, however many ask for however long.
func TestOutageOfFourReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fleet := startFleet(t, 4, chaosPolicies, "--redis-url="+server.URL, "--store-timeout="+storeTimeout.String())
	server.Kill()
	l := &load{urls: urlsOf(fleet), dependencies: []string{scarce}, workers: 16, perSecond: 400}
	l.run()
	time.Sleep(2 * during)
	grants := map[int]int{}
	for _, r := range l.end() {
		if r.wrong != "" || !r.degraded {
			t.Errorf("%+v", r)
		}
		if r.granted {
			grants[r.replica]++
		}
	}
	if fmt.Sprint(grants) != "map[0:10 1:10 2:10 3:10]" {
		t.Errorf("granted %v, want ten each", grants)
	}
}

// br-stuck-no-report: the replica that let a probe through is gone, and so is its
// caller; when the probe's time is over another replica lets a new one through.
func TestProbeOfAReplicaThatDied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fleet := startFleet(t, 2, `version: 1
dependencies:
  payments:
    budget: {capacity: 1000, capacity_seconds: 0, min_per_second: 0}
    breaker: {mode: retries, failure_ratio: 50%, min_attempts: 6, window: 60s, open_for: 2s, probes: 1}
`, "--redis-url="+server.URL, exactly)
	for range 12 {
		askAtOnce(t, fleet[0].URL, "payments", 1)
	}
	probe := func(p *process) error {
		for answer := range askAtOnce(t, p.URL, "payments", 1) {
			if answer != "retry backoff" {
				return fmt.Errorf("answered %s", answer)
			}
		}
		return nil
	}
	var asked time.Time
	eventually(t, "the first probe", patience, func() error {
		asked = time.Now()
		return probe(fleet[0])
	})
	fleet[0].Kill(t)
	if err := probe(fleet[1]); err == nil && time.Since(asked) < 2*time.Second {
		t.Error("a second probe went out at once")
	}
	eventually(t, "the second probe", patience, func() error { return probe(fleet[1]) })
}
