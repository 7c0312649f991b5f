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
		c.Nodes = append(c.Nodes, Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-port", strconv.Itoa(FreePort(t))}, args...)...))
	}
	addresses := url.Values{"cluster": {"true"}}
	for i, node := range c.Nodes {
		node.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		node.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		if i > 0 {
			node.Do(t, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port, c.Nodes[0].argument("--cluster-port"))
			addresses.Add("addr", node.Addr)
		}
	}
	c.URL = c.Nodes[0].URL[:strings.LastIndex(c.Nodes[0].URL, "/")] + "?" + addresses.Encode()
	c.WaitUntilWell(t)
	return c
}

// WaitUntilWell waits until each node knows the others and all slots are served.
func (c *Cluster) WaitUntilWell(t testing.TB) {
	t.Helper()
	for _, node := range c.Nodes {
		waitFor(t, "a node of the cluster", func() (string, bool) {
			info := fmt.Sprint(node.Do(t, "CLUSTER", "INFO"))
			return info, strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
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
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if seen, ok = come(); ok {
			return
		}
	}
	t.Fatalf("%s does not come up: %s", what, seen)
}
