package budget

import (
	"context"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Fleet puts a store to work for decisions. It implements [decide.Fleet].
type Fleet struct {
	// memory serves a fleet of one process, else fallback does.
	memory   *Memory
	fallback fallback
	commit   *commit
	teller   *teller
	later    *later
	stats    stats
}

var _ decide.Fleet = (*Fleet)(nil)

// Shared says how a store that may fail is used.
type Shared struct {
	// Store keeps the fleet's buckets.
	Store Backend
	// Timeout bounds every question; when it has passed a local rule answers.
	Timeout time.Duration
	// ProbeEvery is the pause between probes of a store that is out of reach.
	ProbeEvery time.Duration
	// Replicas is how many deciders share the store, at least 1: each answers
	// from its part of a budget while the store is out of reach.
	Replicas func() int
	// Now is this process's clock.
	Now func() time.Time
	// Changed hears when the store goes out of reach and when it is back; nil:
	// nobody does. It must not wait for anything.
	Changed func(Health)
	// Called hears how long each call of the store took, and its error; nil: nobody
	// does. It must not wait for anything.
	Called func(took time.Duration, err error)
	// Carry is called with each call of the store; nil: nothing is carried over. It
	// must not wait for anything.
	Carry Carry
}

// NewFleet makes a fleet of one process, which memory serves.
func NewFleet(memory *Memory) *Fleet { return &Fleet{memory: memory} }

// NewSharedFleet makes a fleet on a shared store.
func NewSharedFleet(s Shared) *Fleet {
	f := &Fleet{}
	servers := newHealths(s.Store, func(place string) *health {
		h := newHealth(probe(s.Store, place), s.Timeout, s.ProbeEvery, s.Now)
		h.place, h.changed = place, s.Changed
		return h
	})
	f.commit = newCommit(watched{s.Store, &f.stats, servers, s.Now, s.Called}, s.Timeout)
	f.commit.carry = s.Carry
	if r, ok := s.Store.(*Redis); ok && r.together != nil {
		r.together.carry = s.Carry
	}
	f.fallback = fallback{
		shared: f.commit, local: NewMemory(s.Now),
		timeout: s.Timeout, replicas: s.Replicas, stats: &f.stats, servers: servers,
	}
	run := func(bucket string, p *decide.Policy, ops []op) { f.fallback.run(context.Background(), bucket, p, ops) }
	f.teller, f.later = newTeller(run), newLater(run)
	return f
}

// watched counts the calls to a backend, and lets the health of its servers hear of each: of
// calls, not of those who wait for one, so that one lost reply is one failure.
type watched struct {
	Backend
	stats   *stats
	servers *healths
	now     func() time.Time
	called  func(time.Duration, error)
}

// Run watches and passes on.
func (w watched) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	w.stats.calls.Add(1)
	w.stats.operations.Add(int64(len(ops)))
	begun := w.now()
	err := w.Backend.Run(ctx, bucket, p, ops)
	if w.called != nil {
		w.called(w.now().Sub(begun), err)
	}
	w.servers.heard(ctx, bucket, err)
	return err
}

// run applies operations to a bucket, wherever it is.
func (f *Fleet) run(ctx context.Context, bucket string, p *decide.Policy, ops []op) {
	if f.memory != nil {
		_ = f.memory.Run(ctx, bucket, p, ops) // memory never fails
		return
	}
	f.fallback.run(ctx, bucket, p, ops)
}

// Ask puts step 9 of a decision to the fleet's state.
func (f *Fleet) Ask(ctx context.Context, q *decide.Question) decide.Answer {
	ops := [1]op{{ask: newQuestion(q)}}
	f.run(ctx, q.Bucket, q.Policy, ops[:])
	return ops[0].answer
}

// Tell reports a failure that was given up without a question. Memory is told
// at once, a shared store afterwards.
func (f *Fleet) Tell(failed *decide.Failed) {
	if f.memory == nil {
		f.teller.tell(failed)
		return
	}
	told := newFailures(failed)
	_ = f.memory.Run(context.Background(), failed.Bucket, failed.Policy, []op{{tell: &told}}) // memory never fails
}

// Report counts calls that needed no decision and returns the state that their
// caller needs to act alone.
func (f *Fleet) Report(ctx context.Context, o *decide.Outcome) decide.State {
	counted := report{caller: o.Caller, id: o.ReportID, firstTries: o.FirstTrySuccesses, retries: o.RetrySuccesses, finals: o.FinalFailures}
	if o.Policy.Candidate != nil {
		second := counted
		f.reportToCandidate(o, &second)
	}
	ops := [2]op{
		{report: &counted},
		{look: &look{caller: o.Caller}},
	}
	f.run(ctx, o.Bucket, o.Policy, ops[:])
	return ops[1].state
}

// State is what the fleet's state of a bucket is to a caller.
func (f *Fleet) State(ctx context.Context, bucket string, p *decide.Policy, caller string) decide.State {
	ops := [1]op{{look: &look{caller: caller}}}
	f.run(ctx, bucket, p, ops[:])
	return ops[0].state
}

// SetOverride sets an override that lasts o.ExpiresIn ms, or lifts it with
// OverrideNone, for the whole fleet. It never falls back to this replica alone:
// an error says that the store did not take it.
func (f *Fleet) SetOverride(ctx context.Context, bucket string, p *decide.Policy, o decide.Override) (decide.State, error) {
	ops := [2]op{
		{override: &override{mode: o.Mode, until: o.ExpiresIn, author: o.Author, words: o.Reason}},
		{look: &look{}},
	}
	var err error
	if f.memory != nil {
		err = f.memory.Run(ctx, bucket, p, ops[:])
	} else {
		err = f.fallback.runShared(ctx, bucket, p, ops[:])
	}
	return ops[1].state, err
}

// Health is whether the store is in reach; memory always is.
func (f *Fleet) Health() Health {
	if f.memory != nil {
		return Health{}
	}
	return f.fallback.servers.health()
}

// Watch looks whether the store is in reach while nobody asks it, until the
// context ends: at once, when one failure is enough, and after each second in
// which nothing was heard of it.
func (f *Fleet) Watch(ctx context.Context) {
	if f.memory == nil {
		f.fallback.servers.watch(ctx)
	}
}

// Stats is what went to the store since the start.
type Stats struct {
	// Calls to the store and the operations they held; Errors are operations
	// that failed, Degraded those that a local rule answered.
	Calls, Operations, Errors, Degraded int64
}

// Stats is what went to the store since the start.
func (f *Fleet) Stats() Stats {
	return Stats{f.stats.calls.Load(), f.stats.operations.Load(), f.stats.errors.Load(), f.stats.degraded.Load()}
}

// Close tells what is still to be told, no longer than the context lasts, and
// ends the probing.
func (f *Fleet) Close(ctx context.Context) {
	if f.memory == nil {
		f.teller.close(ctx)
		f.later.close(ctx)
		f.commit.close(ctx)
		f.fallback.servers.close()
	}
}
