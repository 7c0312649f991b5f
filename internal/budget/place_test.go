package budget

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/programtest"
)

// clusterFleet is a fleet on a cluster, which keeps what it tells of its turns.
type clusterFleet struct {
	*Fleet
	mu    sync.Mutex
	turns []string
}

func onCluster(t *testing.T, c *redistest.Cluster) *clusterFleet {
	t.Helper()
	f := &clusterFleet{}
	f.Fleet = NewSharedFleet(Shared{Store: NewRedis(newClient(t, c.URL), nil), Timeout: patience, ProbeEvery: 50 * time.Millisecond, Now: time.Now,
		Replicas: func() int { return 1 }, Changed: func(h Health) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.turns = append(f.turns, fmt.Sprint(h.Degraded, " ", h.Error))
		}})
	t.Cleanup(func() { f.Close(t.Context()) })
	return f
}

func (f *clusterFleet) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.turns...)
}

// ruleOn is the tests' rule for a bucket that is on the node, or is not.
func ruleOn(t *testing.T, c *redistest.Cluster, node *redistest.Server, on bool) *decide.Policy {
	t.Helper()
	for i := range 100 {
		name := fmt.Sprintf("dependency-%d", i)
		if owner, _ := c.Owner(t, "{"+name+"}"); (owner == node) == on {
			return testRule(func(p *decide.Policy) { p.Name = name; p.Budget.Capacity = 1_000_000 * token })
		}
	}
	t.Fatal("no such bucket")
	return nil
}

// answersInTime waits until the cluster serves a bucket: its nodes agree on who
// has it a moment after they say that all is well.
func answersInTime(t *testing.T, f *clusterFleet, p *decide.Policy) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		a := f.Ask(t.Context(), asked(p))
		if !a.Degraded {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("at first: %s", said(a))
		}
	}
}

// One node of a cluster that dies is out of reach alone: nobody asks it any more,
// and the buckets on the others are what they were, whichever node it is.
func TestOneNodeOfAClusterDies(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint("node ", i+1), func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
			f, node := onCluster(t, c), c.Nodes[i]
			here, elsewhere := ruleOn(t, c, node, true), ruleOn(t, c, node, false)
			for _, p := range []*decide.Policy{here, elsewhere} {
				answersInTime(t, f, p)
			}
			node.Kill()
			for range 200 {
				if a := f.Ask(t.Context(), asked(here)); !a.Degraded {
					t.Fatalf("on the dead node: %s", said(a))
				}
				if a := f.Ask(t.Context(), asked(elsewhere)); a.Degraded {
					t.Fatalf("on another node: %s", said(a))
				}
				time.Sleep(5 * time.Millisecond)
			}
			if s := f.Stats(); s.Errors != fewFailures {
				t.Errorf("%d decisions asked the dead node, want %d", s.Errors, fewFailures)
			}
			if turns := f.told(); len(turns) != 1 || !strings.Contains(turns[0], "of several servers the one at "+node.Addr) {
				t.Errorf("told %q", turns)
			}
			if h := f.Health(); !h.Degraded || !strings.Contains(h.Error.Error(), node.Addr) {
				t.Errorf("%+v", h)
			}
		})
	}
}

// A node that dies is replaced by its replica, and is in use again within a
// second of that, without waiting for the client's own look at the slots.
func TestClusterFailOver(t *testing.T) {
	t.Parallel()
	programtest.InTime(t, func() []string { return playClusterFailOver(t) })
}

func playClusterFailOver(t *testing.T) (late []string) {
	t.Helper()
	c := redistest.StartCluster(t)
	node := c.Nodes[0]
	replica := c.AddReplica(t, node)
	f, p := onCluster(t, c), ruleOn(t, c, node, true)
	charged := 0
	ask := func() decide.Answer {
		a := f.Ask(t.Context(), asked(p))
		if !a.Degraded {
			charged++
		}
		return a
	}
	for range 10 {
		ask()
	}
	node.Do(t, "WAIT", 1, 5000)
	node.Kill()
	for ask(); !f.Health().Degraded; {
		ask()
	}
	c.WaitUntilPrimary(t, replica)
	back := time.Now()
	a := ask()
	for a.Degraded && time.Since(back) < patience {
		time.Sleep(5 * time.Millisecond)
		a = ask()
	}
	took := time.Since(back)
	t.Logf("normal %s after the replica took over", took)
	if want := fmt.Sprintf("granted %d/1000000", 1_000_000-charged); said(a) != want {
		t.Errorf("%s after it was replaced: %s, want %s", took, said(a), want)
	}
	if took > time.Second {
		late = append(late, fmt.Sprintf("in use %s after the replica took over", took))
	}
	return late
}

// A script whose node does not answer in time is sent once: not again to the
// node, and not to another one.
func TestClusterSendsAScriptOnce(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	client, err := NewClient(c.URL, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	node := c.Nodes[1]
	b, p := NewRedis(client, nil), ruleOn(t, c, node, true)
	run(t, b, p.Name, p, op{report: &report{}}) // the slots, the script and a connection are there
	before := scriptsRun(t, c)
	node.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := b.Run(ctx, p.Name, p, []op{{ask: &question{failures: failures{count: 1}, cost: token}}}); err == nil {
		t.Error("it answered while it was stopped")
	}
	node.Resume(t)
	time.Sleep(time.Second) // whatever is still sent is sent by then
	if n := scriptsRun(t, c) - before; n != 1 {
		t.Errorf("%d scripts were run, want one", n)
	}
	patient := NewRedis(newClient(t, c.URL), nil)
	if got := shown(lookAt(t, patient, p, "")); got != "999999/1000000" {
		t.Errorf("%s is left", got)
	}
}

// scriptsRun is how many scripts the nodes have run.
func scriptsRun(t *testing.T, c *redistest.Cluster) (n int) {
	t.Helper()
	for _, node := range c.Nodes {
		for line := range strings.Lines(fmt.Sprint(node.Do(t, "INFO", "commandstats"))) {
			var calls int
			if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
				n += calls
			} else if _, err := fmt.Sscanf(line, "cmdstat_eval:calls=%d,", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}
