//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

// scene is a store on which one fault is played.
type scene struct {
	// url is where the deciders find it, and args what else they are told.
	url  string
	args []string
	// server holds the state in the end.
	server *redistest.Server
	proxy  *redistest.Proxy
	// others: a second server, or the nodes of a cluster.
	others  []*redistest.Server
	cluster *redistest.Cluster
	// stop ends what goes on for as long as the fault does.
	stop func()
}

// fault is one way in which a store fails.
type fault struct {
	name string
	// setup makes the store; nil: one server behind a proxy.
	setup func(t *testing.T) *scene
	// begin and end play the fault; the store is well as soon as end returns.
	begin, end func(t *testing.T, s *scene)
	// unnoticed: every answer is as without the fault. Otherwise there must be
	// some that are not.
	unnoticed bool
	// forgets: the store does not keep what was charged before the end.
	forgets bool
	// cuts: connections end, so a script may have run whose reply never came.
	cuts bool
	// long: played in the long form alone, for others are like it.
	long bool
}

func nothing(*testing.T, *scene) {}

// behindProxy is one server that keeps what it has on disk, behind a proxy.
func behindProxy(t *testing.T) *scene {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	return &scene{server: s, proxy: p, url: p.URL}
}

// direct is one server without a proxy.
func direct(args ...string) func(t *testing.T) *scene {
	return func(t *testing.T) *scene {
		s := redistest.Start(t, args...)
		return &scene{server: s, url: s.URL}
	}
}

func faults() []fault {
	list := []fault{
		// What a killed process has written is the kernel's, so nothing is lost.
		{name: "connection refused", cuts: true, setup: direct("--appendonly", "yes", "--appendfsync", "everysec"),
			begin: func(_ *testing.T, s *scene) { s.server.Kill() },
			end:   func(t *testing.T, s *scene) { s.server.Restart(t) }},
		{name: "killed, back empty", cuts: true, setup: direct(), forgets: true,
			begin: func(_ *testing.T, s *scene) { s.server.Kill() },
			end:   func(t *testing.T, s *scene) { s.server.Restart(t) }},
		{name: "stalled (SIGSTOP)", setup: direct(),
			begin: func(t *testing.T, s *scene) { s.server.Pause(t) },
			end:   func(t *testing.T, s *scene) { s.server.Resume(t) }},
		{name: "slow, within the timeout", unnoticed: true,
			begin: func(_ *testing.T, s *scene) { s.proxy.Delay(storeTimeout / 10) },
			end:   func(_ *testing.T, s *scene) { s.proxy.Delay(0) }},
		{name: "slow, beyond it",
			begin: func(_ *testing.T, s *scene) { s.proxy.Delay(2 * storeTimeout) },
			end:   func(_ *testing.T, s *scene) { s.proxy.Delay(0) }},
		{name: "nothing comes through",
			begin: func(_ *testing.T, s *scene) { s.proxy.BlackHole(true) },
			end:   func(_ *testing.T, s *scene) { s.proxy.BlackHole(false) }},
		{name: "replies are lost",
			begin: func(_ *testing.T, s *scene) { s.proxy.DropReplies(true) },
			end:   func(_ *testing.T, s *scene) { s.proxy.DropReplies(false) }},
		{name: "connections closed", cuts: true,
			begin: func(_ *testing.T, s *scene) { s.proxy.Refuse(true); s.proxy.Cut() },
			end:   func(_ *testing.T, s *scene) { s.proxy.Refuse(false) }},
		{name: "cut again and again", cuts: true,
			begin: func(_ *testing.T, s *scene) {
				s.proxy.Delay(3 * time.Millisecond) // so that there are requests on their way to be cut
				s.again(20*time.Millisecond, s.proxy.Cut)
			},
			end: func(_ *testing.T, s *scene) {
				s.stop()
				s.proxy.Delay(0)
			}},
		{name: "SCRIPT FLUSH", unnoticed: true,
			begin: func(t *testing.T, s *scene) {
				s.again(20*time.Millisecond, func() { s.server.Do(t, "SCRIPT", "FLUSH", "SYNC") })
			},
			end: func(_ *testing.T, s *scene) { s.stop() }},
		{name: "FLUSHALL", unnoticed: true, forgets: true,
			begin: func(t *testing.T, s *scene) {
				s.again(200*time.Millisecond, func() { s.server.Do(t, "FLUSHALL", "SYNC") })
			},
			end: func(t *testing.T, s *scene) {
				s.stop()
				s.server.Do(t, "FLUSHALL", "SYNC")
			}},
		{name: "READONLY after a fail-over", setup: twoServers, forgets: true, begin: demote, end: promote},
		{name: "OOM, noeviction",
			begin: func(t *testing.T, s *scene) { s.server.Do(t, "CONFIG", "SET", "maxmemory", "1") },
			end:   func(t *testing.T, s *scene) { s.server.Do(t, "CONFIG", "SET", "maxmemory", "0") }},
		{name: "CLUSTERDOWN", setup: threeNodes, begin: takeSlots, end: giveSlots},
		{name: "NOAUTH", cuts: true,
			begin: func(t *testing.T, s *scene) {
				s.server.Do(t, "CONFIG", "SET", "requirepass", "open sesame")
				s.server.URL = "redis://:open%20sesame@" + s.server.Addr
				s.proxy.Cut()
			},
			end: func(t *testing.T, s *scene) { s.server.Do(t, "CONFIG", "SET", "requirepass", "") }},
		{name: "SCRIPT forbidden", setup: withAdmin, unnoticed: true,
			begin: func(t *testing.T, s *scene) {
				s.server.Do(t, "ACL", "SETUSER", "default", "-script")
				s.again(50*time.Millisecond, func() { s.server.Do(t, "SCRIPT", "FLUSH", "SYNC") })
			},
			end: func(t *testing.T, s *scene) {
				s.stop()
				s.server.Do(t, "ACL", "SETUSER", "default", "+script")
			}},
		{name: "TIME forbidden", setup: withAdmin,
			begin: func(t *testing.T, s *scene) { s.server.Do(t, "ACL", "SETUSER", "default", "-time") },
			end:   func(t *testing.T, s *scene) { s.server.Do(t, "ACL", "SETUSER", "default", "+time") }},
		{name: "TIME forbidden, --store-clock local", unnoticed: true,
			setup: func(t *testing.T) *scene {
				s := withAdmin(t)
				s.args = []string{"--store-clock=local"}
				s.server.Do(t, "ACL", "SETUSER", "default", "-time")
				return s
			}, begin: nothing, end: nothing},
		{name: "BUSY with a script", setup: direct("--busy-reply-threshold", "20"),
			begin: func(t *testing.T, s *scene) {
				var running sync.WaitGroup
				running.Go(func() { _, _ = s.server.Try(t, "EVAL", "while true do end", 0) }) // ends with an error, by SCRIPT KILL
				s.stop = running.Wait
				time.Sleep(50 * time.Millisecond) // the threshold
			},
			end: func(t *testing.T, s *scene) {
				s.server.Do(t, "SCRIPT", "KILL")
				s.stop()
			}},
	}
	for i, answer := range []string{"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script",
		"CLUSTERDOWN Hash slot not served", "TRYAGAIN Multiple keys request during rehashing of slot", "MASTERDOWN Link with MASTER is down"} {
		word, _, _ := strings.Cut(answer, " ")
		list = append(list, stubbed(word+" is all that it says", "-"+answer+"\r\n", i > 0))
	}
	return append(list, stubbed("what it says is no RESP", "<html>502</html>\r\n", false))
}

// stubbed is a fault in which something else answers in Redis's place.
func stubbed(name, answer string, long bool) fault {
	return fault{name: name, long: long, cuts: true,
		begin: func(t *testing.T, s *scene) {
			s.proxy.SendTo(redistest.StartStub(t, answer))
			s.proxy.Cut()
		},
		end: func(_ *testing.T, s *scene) {
			s.proxy.SendTo(s.server.Addr)
			s.proxy.Cut()
		}}
}

// again does something now and then until stop.
func (s *scene) again(every time.Duration, do func()) {
	ending := make(chan struct{})
	var going sync.WaitGroup
	going.Go(func() {
		for {
			do()
			select {
			case <-ending:
				return
			case <-time.After(every):
			}
		}
	})
	s.stop = func() {
		close(ending)
		going.Wait()
	}
}

// withAdmin is a server on which the deciders' user may be restricted while
// another one may do everything.
func withAdmin(t *testing.T) *scene {
	s := behindProxy(t)
	s.server.Do(t, "ACL", "SETUSER", "admin", "on", ">open sesame", "~*", "&*", "+@all")
	s.server.URL = "redis://admin:open%20sesame@" + s.server.Addr
	return s
}

// twoServers are a primary, which the proxy leads to, and its replica.
func twoServers(t *testing.T) *scene {
	primary, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	replica.Do(t, "REPLICAOF", primary.Host(), primary.Port())
	eventually(t, "the replica", patience, func() error {
		if role := replica.Do(t, "ROLE").([]any); role[3] != "connected" {
			return fmt.Errorf("it is %v", role)
		}
		return nil
	})
	p := redistest.NewProxy(t, primary.Addr)
	return &scene{server: replica, others: []*redistest.Server{primary}, proxy: p, url: p.URL}
}

// demote makes the primary a replica: its connections live on, and all that they
// say is READONLY.
func demote(t *testing.T, s *scene) {
	s.others[0].Do(t, "REPLICAOF", s.server.Host(), s.server.Port())
	s.proxy.SendTo(s.server.Addr)
}

func promote(t *testing.T, s *scene) { s.server.Do(t, "REPLICAOF", "NO", "ONE") }

// threeNodes is a cluster in which one node holds the bucket of the account.
func threeNodes(t *testing.T) *scene {
	c := redistest.StartCluster(t)
	owner, _ := c.Owner(t, stateKey(account))
	return &scene{server: owner, others: c.Nodes, cluster: c, url: c.URL}
}

// takeSlots takes a slot from each node: nobody has it, and the cluster is down.
func takeSlots(t *testing.T, s *scene) {
	for _, node := range s.others {
		node.Do(t, "CLUSTER", "DELSLOTS", s.cluster.First(node))
	}
}

func giveSlots(t *testing.T, s *scene) {
	for _, node := range s.others {
		node.Do(t, "CLUSTER", "ADDSLOTS", s.cluster.First(node))
	}
	s.cluster.WaitUntilWell(t)
}
