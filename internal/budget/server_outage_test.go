package budget

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

const (
	// serveTimeout is more than serve takes by default, for what is asked of a server
	// that is well must not miss it because the machine is busy.
	serveTimeout = 400 * time.Millisecond
	// patience bounds what is waited for. How long that may take is shown in virtual
	// time, and with the whole program in chaos.
	patience = 20 * time.Second
)

// serving is a fleet as serve has it, on a server that may fail.
func serving(t *testing.T, url string) *Fleet {
	t.Helper()
	client, err := NewClient(url, serveTimeout)
	if err != nil {
		t.Fatal(err)
	}
	f := NewSharedFleet(Shared{Store: NewRedis(client, nil), Timeout: serveTimeout, ProbeEvery: 100 * time.Millisecond,
		Now: time.Now, Replicas: func() int { return 1 }})
	t.Cleanup(func() {
		f.Close(context.Background())
		client.Close()
	})
	return f
}

// warm asks until a decision reaches the server: connected, script sent.
func warm(t *testing.T, f *Fleet) {
	t.Helper()
	untilWell(t, f)
}

// untilWell asks for the state of a bucket of its own until that comes from the
// store.
func untilWell(t *testing.T, f *Fleet) {
	t.Helper()
	p := testRule(named("warm", nil))
	begun := time.Now()
	for f.State(t.Context(), p.Name, p, "").Degraded {
		if time.Since(begun) > patience {
			t.Fatalf("still degraded after %s: %+v", patience, f.Health())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// left is what the server itself holds, seen by a client of its own.
func left(t *testing.T, url string, p *decide.Policy) string {
	t.Helper()
	return tokens(lookAt(t, NewRedis(newClient(t, url), nil), p, "").Budget)
}

// re-double-evalsha: a call whose reply was lost is not made again.
func TestDroppedReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	f, p := serving(t, proxy.URL), testRule(nil)
	warm(t, f)
	proxy.DropReplies(true)
	if a := f.Ask(t.Context(), asked(p)); !a.Degraded || a.Verdict != decide.Granted {
		t.Error(said(a))
	}
	proxy.DropReplies(false)
	if got := left(t, s.URL, p); got != "9/10" {
		t.Errorf("%s left, want 9", got)
	}
	untilCharged(t, f, p)
}

// re-double-go-redis: a server that stood still runs each decision once.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.URL)
	f, p := serving(t, s.URL), testRule(holds(100*token, 1_000_000))
	warm(t, f)
	if a := f.Ask(t.Context(), asked(p)); said(a) != "granted 99/100" {
		t.Fatal(said(a))
	}
	before := scriptCalls(t, client)
	id := func(q *decide.Question) { q.ID = "r1" }
	s.Pause(t)
	a := f.Ask(t.Context(), asked(p, id))
	if !a.Degraded || a.Verdict != decide.Granted {
		t.Error(said(a))
	}
	s.Resume(t)
	questions := 1
	for a.Degraded { // asked again; a busy machine may miss the bound once more
		a, questions = f.Ask(t.Context(), asked(p, id)), questions+1
	}
	if a.Verdict != decide.Granted {
		t.Errorf("asked again: %s", said(a))
	}
	if got := scriptCalls(t, client) - before; got > questions {
		t.Errorf("%d scripts for %d questions", got, questions)
	}
	time.Sleep(100 * time.Millisecond) // a command that is late would come by now
	if got := left(t, s.URL, p); !strings.HasPrefix(got, "98") {
		t.Errorf("%s left, want 98", got)
	}
}

// re-slow-when-down: a network that swallows everything costs the timeout a few
// times, and then nothing.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	f, p := serving(t, proxy.URL), testRule(holds(1000*token, 0))
	warm(t, f)
	proxy.BlackHole(true)
	before := f.Stats().Errors
	for range 100 {
		if a := f.Ask(t.Context(), asked(p)); !a.Degraded {
			t.Error(said(a))
		}
	}
	// One that asks while the last of a few fails waits too.
	if waited := f.Stats().Errors - before; waited > 2*fewFailures {
		t.Errorf("%d of 100 waited for the timeout, want about %d", waited, fewFailures)
	}
	var done sync.WaitGroup
	for range 200 {
		done.Go(func() {
			if a := f.Ask(t.Context(), asked(p)); !a.Degraded {
				t.Error(said(a))
			}
		})
	}
	done.Wait()
	proxy.BlackHole(false)
	if got := left(t, s.URL, p); got != "1000/1000" {
		t.Errorf("what was swallowed reached the server: %s", got)
	}
	untilCharged(t, f, p)
}

// re-noscript-permanent-500: a server that comes back empty is normal again, with
// connections that had died with it.
func TestServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f, p := serving(t, s.URL), testRule(nil)
	warm(t, f)
	stampedeAnyhow(f, p, 32)
	for range 3 {
		s.Kill()
		for range 20 {
			if a := f.Ask(t.Context(), asked(p)); !a.Degraded {
				t.Error(said(a))
			}
		}
		s.Restart(t)
		untilWell(t, f)
		granted := stampedeAnyhow(f, p, 32)
		if got := left(t, s.URL, p); got != "0/10" || granted > 10 {
			t.Errorf("%d granted by a new bucket, which holds %s", granted, got)
		}
	}
}

// stampedeAnyhow lets so many ask at once and counts the grants of the store.
func stampedeAnyhow(f *Fleet, p *decide.Policy, callers int) (granted int) {
	var mu sync.Mutex
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			if a := f.Ask(context.Background(), asked(p)); a.Verdict == decide.Granted && !a.Degraded {
				mu.Lock()
				defer mu.Unlock()
				granted++
			}
		})
	}
	done.Wait()
	return granted
}

// re-readonly-forever: a primary that was demoted is let go of, although its
// connections are well.
func TestDemotedPrimary(t *testing.T) {
	t.Parallel()
	one, other := redistest.Start(t), redistest.Start(t)
	proxy := redistest.NewProxy(t, one.Addr)
	f, p := serving(t, proxy.URL), testRule(nil)
	warm(t, f)
	stampedeAnyhow(f, p, 16)
	host, port, _ := strings.Cut(other.Addr, ":")
	if err := newClient(t, one.URL).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.SendTo(other.Addr)
	f.Ask(t.Context(), asked(p))
	untilWrites(t, f, p)
	if got := left(t, other.URL, p); got == "10/10" {
		t.Error("nothing was charged on the new primary")
	}
}

// untilCharged asks until the store answers, and is charged for it.
func untilCharged(t *testing.T, f *Fleet, p *decide.Policy) {
	t.Helper()
	untilWell(t, f)
	untilWrites(t, f, p)
}

// untilWrites asks until a decision is charged to the store.
func untilWrites(t *testing.T, f *Fleet, p *decide.Policy) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if a := f.Ask(t.Context(), asked(p)); !a.Degraded {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("still degraded: %+v", f.Health())
		}
	}
}

// re-loading: a server that is up and answers no question is down.
func TestServerThatAnswersNoQuestion(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"LOADING":     "-LOADING Redis is loading the dataset in memory\r\n",
		"BUSY":        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
		"CLUSTERDOWN": "-CLUSTERDOWN Hash slot not served\r\n",
		"TRYAGAIN":    "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
		"MASTERDOWN":  "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
		"READONLY":    "-READONLY You can't write against a read only replica.\r\n",
		"OOM":         "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
		"NOAUTH":      "-NOAUTH Authentication required.\r\n",
		"MOVED":       "-MOVED 1234 127.0.0.1:1\r\n",
		"no RESP":     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a number":    ":1\r\n",
		"nothing":     "$-1\r\n",
		"empty list":  "*0\r\n",
		"wrong lists": "*1\r\n*2\r\n$1\r\n0\r\n$1\r\n1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := miniredis.RunT(t)
			f, p := serving(t, "redis://"+m.Addr()), testRule(holds(1000*token, 0))
			warm(t, f)
			m.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
				if !strings.HasPrefix(strings.ToUpper(command), "EVAL") {
					return false
				}
				c.WriteRaw(reply)
				return true
			})
			for range 20 {
				if a := f.Ask(t.Context(), asked(p)); !a.Degraded || a.Verdict != decide.Granted {
					t.Error(said(a))
				}
			}
			if h := f.Health(); !h.Degraded || h.Error == nil {
				t.Errorf("%+v", h)
			}
			m.Server().SetPreHook(nil)
			untilWell(t, f)
			untilWrites(t, f, p)
		})
	}
}

// A connection that is cut or refused is answered for at once.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	f, p := serving(t, proxy.URL), testRule(holds(1000*token, 0))
	warm(t, f)
	for range 5 {
		proxy.Cut()
		f.Ask(t.Context(), asked(p))
	}
	untilWell(t, f)
	proxy.Refuse(true)
	proxy.Cut()
	for range 20 {
		if a := f.Ask(t.Context(), asked(p)); !a.Degraded {
			t.Error(said(a))
		}
	}
	proxy.Refuse(false)
	untilWell(t, f)
	if n := proxy.Connections(); n > 20 {
		t.Errorf("%d connections", n)
	}
}

// A server that is slow, but within the timeout, is well.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	f, p := patientFleet(t, newClient(t, proxy.URL), nil), testRule(holds(100*token, 0))
	f.Ask(t.Context(), asked(p))
	proxy.Delay(20 * time.Millisecond)
	before := f.Stats().Calls
	if got := stampede(t, []*Fleet{f}, p, 64, 4); got != 99 {
		t.Errorf("%d granted, want 99", got)
	}
	if calls := f.Stats().Calls - before; calls > 64 {
		t.Errorf("256 decisions took %d calls of 20 ms", calls)
	}
}

// Whatever the order of the faults, a client's commands are sent once: what the
// store was charged is never more than what was asked.
func TestNoFaultChargesTwice(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr)
	f, p := serving(t, proxy.URL), testRule(holds(100_000*token, 0))
	warm(t, f)
	faults := []func(on bool){proxy.DropReplies, proxy.BlackHole, proxy.Refuse, func(bool) { proxy.Cut() },
		func(on bool) { proxy.Delay(map[bool]time.Duration{true: serveTimeout + 100*time.Millisecond}[on]) }}
	questions, answered := 0, 0
	for _, fault := range slices.Concat(faults, faults) {
		fault(true)
		for range 8 {
			questions++
			if a := f.Ask(t.Context(), asked(p)); !a.Degraded {
				answered++
			}
		}
		fault(false)
		untilWell(t, f)
	}
	time.Sleep(100 * time.Millisecond) // what is late has come
	b := lookAt(t, NewRedis(newClient(t, s.URL), nil), p, "").Budget
	charged := int((b.Capacity - b.Tokens) / token)
	if charged > questions || charged < answered {
		t.Errorf("%d charged for %d questions, %d of them answered by the store", charged, questions, answered)
	}
	t.Logf("%d questions, %d answered by the store, %d charged", questions, answered, charged)
}
