package simulate

import (
	"github.com/retrydecider/decider/internal/decide"
)

// run is one model under one contender and one seed.
type run struct {
	model      *Model
	now        int64 // ns since the start
	events     heap
	calls      slab
	dependency dependency
	stats      *Stats
	rule       rule
	// answer is how long the rule takes to answer, in ns.
	answer int64
	age    []int32 // calls of each client since it was born
	picker picker

	arrivals, clients, service, faults, waits, reports, network, admits stream
}

// rule is what bounds a fleet's retries in a run.
type rule interface {
	// begins says whether a layer may begin a call; false sheds it.
	begins(c *call, layer int) bool
	// failed says whether a layer may try again, and after how many ns.
	failed(c *call, layer int) (wait int64, granted bool)
	// succeeded tells that a layer's call has ended well.
	succeeded(c *call, layer int)
	// reborn tells that a client was replaced by a new one.
	reborn(client, layer int)
	// wake is an event that the rule planned itself.
	wake(a int32, b uint32)
}

// newRun prepares a run.
func newRun(m *Model, c Contender, seed uint64) *run {
	r := &run{
		model: m, dependency: dependency{model: m}, stats: newStats(m), age: make([]int32, m.Clients), picker: newPicker(m),
		arrivals: newStream(seed, streamArrivals), clients: newStream(seed, streamClients), service: newStream(seed, streamService),
		faults: newStream(seed, streamFaults), waits: newStream(seed, streamWaits), reports: newStream(seed, streamReports),
		network: newStream(seed, streamNetwork), admits: newStream(seed, streamAdmits),
	}
	r.rule = c.make(r)
	return r
}

// play plays the run to its end.
func (r *run) play() *Stats {
	r.planBurst()
	r.planArrival()
	end := int64(r.model.End)
	for len(r.events.events) > 0 {
		e := r.events.next()
		if e.at >= end {
			break
		}
		r.now = e.at
		r.stats.Events++
		r.happen(&e)
	}
	return r.stats
}

func (r *run) happen(e *event) {
	switch e.kind {
	case arrive:
		r.arrivalOf(e.a)
	case land:
		r.landed(e.a, e.b)
	case serve:
		r.served(e.a, e.b)
	case succeed:
		r.succeeded(e.a, e.b)
	case refuse:
		r.failed(e.a, e.b, r.refusalAs())
	case expire:
		r.failed(e.a, e.b, decide.Timeout)
	case ask:
		r.answered(e.a)
	case again:
		r.retry(e.a)
	case wake:
		r.rule.wake(e.a, e.b)
	}
}

// unavailable is what a dependency that works answers where it fails.
const unavailable decide.Failure = 503

// refusalAs is how a bad answer looks to the client.
func (r *run) refusalAs() decide.Failure {
	if r.dependency.active(FaultRefuse, r.now) != nil {
		return decide.ConnectionRefused
	}
	return unavailable
}

// noClient marks an arrival whose client is picked then; a burst's has its own.
const noClient = -1

func (r *run) arrivalOf(client int32) {
	if client != noClient {
		r.arrived(int(client))
		return
	}
	r.arrived(r.picker.pick(&r.clients))
	r.planArrival()
}

// planArrival plans the next new call. The gaps have no memory, so where the
// rate changes within one it is drawn anew from there.
func (r *run) planArrival() {
	end := int64(r.model.End)
	for at := r.now; at < end; {
		rate, until := r.model.rateAt(at)
		if rate <= 0 {
			at = until
			continue
		}
		next := at + int64(r.arrivals.exponential(1e9/rate))
		if next < until {
			r.events.plan(next, arrive, noClient, 0)
			return
		}
		at = until
	}
}

func (r *run) planBurst() {
	for i := range r.model.Burst {
		r.events.plan(int64(r.model.BurstAt), arrive, int32(i%r.model.Clients), 0)
	}
}

// Run plays a model under a contender and a seed.
func Run(m *Model, c Contender, seed uint64) *Stats { return newRun(m, c, seed).play() }
