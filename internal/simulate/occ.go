package simulate

import (
	"fmt"
	"math"

	"github.com/retrydecider/decider/internal/decide"
)

// The simulation of "Exponential Backoff And Jitter" (AWS Architecture Blog,
// 2015): clients that each want to write one row once, with optimistic
// concurrency. A client reads the row's version, writes with it, and where
// another was faster it backs off and reads again. Each leg of each message
// takes about 10 ms.

// The experiment's constants, in ms.
const (
	occLeg, occLegDeviation = 10, 2
	occBase, occCap         = 5, 2000
)

// The strategies in the order of the published figures; constant waits nothing.
var occStrategies = []struct {
	name    string
	backoff decide.Backoff
}{
	{"exponential", decide.Backoff{Strategy: decide.Exponential, Base: occBase, Cap: occCap, Multiplier: 2}},
	{"equal_jitter", decide.Backoff{Strategy: decide.EqualJitter, Base: occBase, Cap: occCap, Multiplier: 2}},
	{"full_jitter", decide.Backoff{Strategy: decide.FullJitter, Base: occBase, Cap: occCap, Multiplier: 2}},
	{"decorrelated_jitter", decide.Backoff{Strategy: decide.DecorrelatedJitter, Base: occBase, Cap: occCap, Multiplier: 2}},
	{"no backoff", decide.Backoff{Strategy: decide.Constant}},
}

func occClients() []int { return []int{10, 20, 50, 100, 150, 190} }

// occ is one run.
type occ struct {
	backoff decide.Backoff
	events  heap
	clients []occClient
	version int
	chance  stream
	now     int64
	done    int
	writes  int
}

type occClient struct {
	version  int // that it has read
	conflict int64
	previous float64
	ok       bool
}

// The steps of a client, as events' b.
const (
	occRead     = iota // the read reaches the server
	occVersion         // its answer the client
	occWrite           // the write the server
	occAnswered        // its answer the client
)

// playOCC runs so many clients to their end: how long it took, in ms, and how
// many writes were sent.
func playOCC(backoff decide.Backoff, clients int, seed uint64) (ms float64, writes int) {
	o := &occ{backoff: backoff, clients: make([]occClient, clients), chance: newStream(seed, streamNetwork)}
	for i := range o.clients {
		o.clients[i].previous = occBase
		o.step(int32(i), occRead, 0)
	}
	for o.done < clients {
		e := o.events.next()
		o.now = e.at
		o.happen(e.a, e.b)
	}
	return float64(o.now) / 1e6, o.writes
}

// step plans a client's next step after a wait in ms and a leg.
func (o *occ) step(client int32, step uint32, wait float64) {
	leg := math.Abs(o.chance.normal(occLeg, occLegDeviation))
	o.events.plan(o.now+int64(float64((wait+leg)*1e6)), wake, client, step)
}

func (o *occ) happen(client int32, step uint32) {
	c := &o.clients[client]
	switch step {
	case occRead:
		c.version = o.version
		o.step(client, occVersion, 0)
	case occVersion:
		o.writes++
		o.step(client, occWrite, 0)
	case occWrite:
		if c.ok = c.version == o.version; c.ok {
			o.version++
		}
		o.step(client, occAnswered, 0)
	case occAnswered:
		if c.ok {
			o.done++
			return
		}
		c.conflict++
		// the published code counts from 1 and doubles before it waits first
		c.previous = o.backoff.Real(c.conflict+1, c.previous, o.chance.float())
		o.step(client, occRead, c.previous)
	}
}

// occTable repeats the published figures as a table: the mean of so many runs.
func occTable(clients []int, runs int, tell Progress) *Table {
	t := &Table{Name: "aws-jitter", Title: "Writers that compete for one row", Head: []Head{{Name: "clients"}, {Name: "strategy", Text: true},
		{Name: "time", Unit: "ms"}, {Name: "writes", Unit: "calls"}},
		Notes: []string{fmt.Sprintf("Each client reads the row's version and writes with it; on a conflict it waits and reads again. Mean of %d runs.", runs)}}
	done := 0
	for _, n := range clients {
		for _, s := range occStrategies {
			ms, writes := occMean(s.backoff, n, runs)
			t.Rows = append(t.Rows, []Cell{number(float64(n)), text(s.name), number(ms), number(writes)})
			if done++; tell != nil {
				tell(done, len(clients)*len(occStrategies), 0)
			}
		}
	}
	return t
}

func occMean(backoff decide.Backoff, clients, runs int) (ms, writes float64) {
	for seed := range runs {
		took, sent := playOCC(backoff, clients, uint64(seed+1))
		ms += took
		writes += float64(sent)
	}
	return ms / float64(runs), writes / float64(runs)
}
