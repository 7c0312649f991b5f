//go:build linux

package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// startFleet starts replicas on a store that know of each other.
func startFleet(t *testing.T, n int, policies string, args ...string) []*process {
	t.Helper()
	fleet := make([]*process, n)
	for i := range fleet {
		fleet[i] = serve(t, append([]string{"--policies=" + programtest.PolicyFile(t, policies)}, args...)...)
	}
	if n > 1 {
		know(t, fleet)
	}
	return fleet
}

func urlsOf(fleet []*process) (urls []string) {
	for _, p := range fleet {
		urls = append(urls, p.URL)
	}
	return urls
}

// A primary dies in the middle of the load, and its sentinels put the replica in
// its place: answers go on, within the shares, and are normal within a second of
// the sentinels' word.
func TestSentinelFailOverUnderLoad(t *testing.T) {
	t.Parallel()
	programtest.InTime(t, func() []string { return playFailOver(t) })
}

func playFailOver(t *testing.T) (late []string) {
	t.Helper()
	s := redistest.StartSentinel(t)
	fleet := startFleet(t, replicas, chaosPolicies, "--redis-url="+s.URL, "--store-timeout="+storeTimeout.String())
	l := &load{urls: urlsOf(fleet), dependencies: []string{account, scarce}, workers: loadWorkers, perSecond: loadPerSecond}
	begun := time.Now()
	l.run()
	time.Sleep(before)
	faulty := time.Now()
	well := s.FailOver(t)
	time.Sleep(normalWithin + after)
	records := l.end()
	// What the old primary had not passed on is lost with it.
	f := fault{name: "fail-over", forgets: true, cuts: true}
	r := row{control: percentile(between(records, begun, faulty), 99), p99: percentile(between(records, faulty, well), 99), degraded: count(records, degraded)}
	late = f.checkAnswers(t, records, faulty, well, &r)
	checkShares(t, records, &r)
	f.checkAccount(t, s.Replica, records, well, &r)
	for _, p := range fleet {
		checkWell(t, p, &f)
	}
	t.Logf("failed over in %s; of %d answers %d degraded, p99 %s (without %s), normal %s after the sentinels' word",
		well.Sub(faulty), len(records), r.degraded, millis(r.p99), millis(r.control), millis(r.back))
	return late
}

// A Redis that is there only after the deciders is used as soon as it is there.
func TestStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	programtest.InTime(t, func() []string { return playStartWithoutRedis(t) })
}

func playStartWithoutRedis(t *testing.T) (late []string) {
	t.Helper()
	server := redistest.Start(t)
	server.Kill()
	fleet := startFleet(t, 1, chaosPolicies, "--redis-url="+server.URL, "--store-timeout="+storeTimeout.String(), "--replicas=4")
	l := &load{urls: urlsOf(fleet), dependencies: []string{scarce}, workers: 4, perSecond: 60}
	l.run()
	eventually(t, "without Redis", patience, func() error { return storeIs(fleet[0].status(t), "connection refused") })
	time.Sleep(1500 * time.Millisecond) // it asks for more than its share
	if err := call("GET", fleet[0].URL+"/readyz", "", 200, &struct{}{}); err != nil {
		t.Error(err)
	}
	server.Restart(t)
	well := time.Now()
	time.Sleep(normalWithin + after)
	records := l.end()
	// Nobody knows yet how many replicas there are: --replicas says so.
	if n := count(records, func(r *record) bool { return r.degraded && r.granted }); n != scarceTokens/4 {
		t.Errorf("%d granted without Redis, want a quarter of %d", n, scarceTokens)
	}
	for _, r := range records {
		if r.wrong != "" {
			t.Errorf("%s after Redis was there: %+v", r.asked.Sub(well), r)
		}
		if r.degraded && r.asked.After(well.Add(normalWithin)) {
			late = append(late, fmt.Sprintf("%s after Redis was there: %+v", r.asked.Sub(well), r))
		}
	}
	if n := count(between(records, well, time.Now()), func(r *record) bool { return !r.degraded && r.granted }); n == 0 {
		late = append(late, "nothing was granted from the fleet's budget")
	}
	return late
}

// re-crossslot: in a cluster every key of a bucket is in one slot, so fifty at
// once get exactly what the bucket holds, each by one script.
func TestClusterGrantsExactly(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	begun := time.Now()
	fleet := startFleet(t, 1, `version: 1
dependencies:
  "cross-*":
    budget: {capacity: 5, capacity_seconds: 0, min_per_second: 0.001}
    breaker: {mode: retries, failure_ratio: 100%, min_attempts: 1000}
    cool_down: fleet
`, "--redis-url="+c.URL, "--store-timeout=20s")
	for i := range 6 { // on every node
		name := fmt.Sprintf("cross-%d", i)
		answers := askAtOnce(t, fleet[0].URL, name, 50)
		if answers["retry backoff"] != 5 || answers["give_up budget_exhausted"] != 45 {
			t.Errorf("%s: %v, want 5 retries of 50 and the others exhausted", name, answers)
		}
	}
	scripts := 0
	for _, node := range c.Nodes {
		scripts += commandsRun(t, node, "evalsha")
	}
	// One that nobody asks is looked after by a probe a second.
	calls, probes := int(fleet[0].metric(t, "decider_store_calls_total")), 1+int(time.Since(begun).Seconds())
	if scripts < calls || scripts > calls+probes {
		t.Errorf("the nodes were sent %d scripts for %d calls and %d probes at most", scripts, calls, probes)
	}
}

// commandsRun is how often a server has run a command.
func commandsRun(t *testing.T, server *redistest.Server, command string) int {
	t.Helper()
	for line := range strings.Lines(fmt.Sprint(server.Do(t, "INFO", "commandstats"))) {
		if calls, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			calls, _, _ = strings.Cut(calls, ",")
			n, err := strconv.Atoi(calls)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// askAtOnce asks for so many retries at once and counts the answers.
func askAtOnce(t *testing.T, url, dependency string, n int) map[string]int {
	t.Helper()
	var mu sync.Mutex
	answers := map[string]int{}
	var asking sync.WaitGroup
	for range n {
		asking.Go(func() {
			var d struct {
				Decision, Reason string
				Degraded         bool
			}
			err := call("POST", url+"/v1/decide", `{"dependency":"`+dependency+`","method":"GET","status":503}`, 200, &d)
			what := d.Decision + " " + d.Reason
			if d.Degraded {
				what += ", degraded"
			}
			if err != nil {
				what = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			answers[what]++
		})
	}
	asking.Wait()
	return answers
}
