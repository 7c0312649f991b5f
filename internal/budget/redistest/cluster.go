package redistest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is how many slots a cluster shares out.
const slots = 16384

// Cluster is a Redis Cluster of three nodes, each with a third of the slots.
type Cluster struct {
	Nodes []*Server
	// URL is in the form that budget.NewClient takes.
	URL string
}

// StartCluster starts a cluster; it ends with the test. More arguments are
// redis-server's own, of every node.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 3 {
		c.Nodes = append(c.Nodes, startNode(t, args...))
	}
	addresses := url.Values{"cluster": {"true"}}
	for i, node := range c.Nodes {
		node.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		node.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		if i > 0 {
			addresses.Add("addr", node.Addr)
		}
	}
	c.URL = c.Nodes[0].URL[:strings.LastIndex(c.Nodes[0].URL, "/")] + "?" + addresses.Encode()
	c.WaitUntilWell(t)
	return c
}

func startNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--repl-diskless-sync-delay", "0",
		"--cluster-port", strconv.Itoa(FreePort(t))}, args...)...)
}

// meet introduces a node to another; it does nothing to those who know each other.
func (s *Server) meet(t testing.TB, other *Server) {
	t.Helper()
	_, _ = s.Try(t, "CLUSTER", "MEET", other.Host(), other.port, other.argument("--cluster-port")) // it is waited for
}

// WaitUntilWell waits until each node knows the others and who has which slot.
func (c *Cluster) WaitUntilWell(t testing.TB) {
	t.Helper()
	met := time.Time{}
	for _, node := range c.Nodes {
		waitFor(t, "a node of the cluster", func() (string, bool) {
			if time.Since(met) > 6*time.Second { // an introduction that was not heard in time is forgotten
				for _, other := range c.Nodes[1:] {
					other.meet(t, c.Nodes[0])
				}
				met = time.Now()
			}
			answer, err := node.Try(t, "CLUSTER", "INFO")
			info := fmt.Sprint(answer, err)
			// Where not all slots must be served, all is well before a node knows of all.
			for _, sign := range []string{"cluster_state:ok", "cluster_known_nodes:3", fmt.Sprintf("cluster_slots_assigned:%d", slots)} {
				if !strings.Contains(info, sign) {
					return info, false
				}
			}
			return info, true
		})
	}
}

// Owner is the node that has the slot of a key, and the slot.
func (c *Cluster) Owner(t testing.TB, key string) (node *Server, slot int) {
	t.Helper()
	slot = int(c.Nodes[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64))
	for i, node := range c.Nodes {
		if slot < (i+1)*slots/3 {
			return node, slot
		}
	}
	t.Fatalf("nobody has slot %d", slot)
	return nil, 0
}

// First is the first of a node's slots.
func (c *Cluster) First(node *Server) (slot int) {
	return slices.Index(c.Nodes, node) * slots / 3
}

// waitFor waits until what is asked for has come, or fails with what was last seen.
func waitFor(t testing.TB, what string, come func() (seen string, ok bool)) {
	t.Helper()
	var seen string
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if seen, ok = come(); ok {
			return
		}
	}
	t.Fatalf("%s does not come up: %s", what, seen)
}

// AddReplica starts a replica of a node, which takes its place when it dies.
func (c *Cluster) AddReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	replica := startNode(t)
	id := fmt.Sprint(of.Do(t, "CLUSTER", "MYID"))
	met := time.Time{}
	waitFor(t, "the replica", func() (string, bool) {
		if time.Since(met) > 6*time.Second {
			replica.meet(t, of)
			met = time.Now()
		}
		_, err := replica.Try(t, "CLUSTER", "REPLICATE", id)
		return fmt.Sprint(err), err == nil
	})
	for _, node := range append(c.Nodes, replica) {
		waitFor(t, "the replica", func() (string, bool) {
			role := replica.Do(t, "ROLE").([]any)
			known := fmt.Sprint(node.Do(t, "CLUSTER", "REPLICAS", id))
			return fmt.Sprint(role, known), role[3] == "connected" && strings.Contains(known, replica.Addr)
		})
	}
	for _, node := range append(c.Nodes, replica) { // soon; before that a node that stood still is no dead one
		node.Do(t, "CONFIG", "SET", "cluster-node-timeout", 1000)
	}
	return replica
}

// WaitUntilPrimary waits until a replica has the slots of the node that it
// replaces, and every other node knows.
func (c *Cluster) WaitUntilPrimary(t testing.TB, replica *Server) {
	t.Helper()
	for _, node := range append(c.Nodes, replica) {
		if node.cmd == nil { // killed
			continue
		}
		waitFor(t, "the new primary", func() (string, bool) {
			info := fmt.Sprint(node.Do(t, "CLUSTER", "INFO"))
			role := replica.Do(t, "ROLE").([]any)
			slots := fmt.Sprint(node.Do(t, "CLUSTER", "SLOTS"))
			return fmt.Sprint(role, info, slots), role[0] == "master" && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(slots, fmt.Sprint(replica.Port()))
		})
	}
}
