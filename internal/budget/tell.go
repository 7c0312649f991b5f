package budget

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/sidebyside"
)

// tellAfter is how long failures are merged before the state is told of them;
// with a store's timeout on top that is well within the second they have.
const tellAfter = 250 * time.Millisecond

// maxTold bounds how many different failures wait; more are told at once.
const maxTold = 10_000

// teller merges failures that were given up without a question and tells the
// state of them afterwards.
type teller struct {
	run func(bucket string, p *decide.Policy, ops []op)

	mu      sync.Mutex
	pending map[tellKey]*failures
	timer   *time.Timer
	closed  bool
	flushes sync.WaitGroup
}

// tellKey is what failures that can be merged have in common.
type tellKey struct {
	bucket    string
	policy    *decide.Policy
	caller    string
	forCaller bool
}

func newTeller(run func(bucket string, p *decide.Policy, ops []op)) *teller {
	return &teller{run: run, pending: map[tellKey]*failures{}}
}

// tell takes one failure and returns at once.
func (t *teller) tell(f *decide.Failed) {
	one := newFailures(f)
	key := tellKey{f.Bucket, f.Policy, f.Caller, one.forCaller && one.serverDelay > 0}
	if !key.forCaller && f.Policy.Budget.CallerShare == 0 {
		key.caller = "" // nothing holds for the caller alone
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	merged, ok := t.pending[key]
	if !ok {
		merged = &failures{caller: key.caller, forCaller: key.forCaller}
		t.pending[key] = merged
	}
	merged.count += one.count
	merged.firsts += one.firsts
	merged.serverDelay = max(merged.serverDelay, one.serverDelay)
	if len(t.pending) >= maxTold {
		t.start()
	} else if t.timer == nil {
		t.timer = time.AfterFunc(tellAfter, t.flush)
	}
}

func (t *teller) flush() {
	t.mu.Lock()
	t.start()
	t.mu.Unlock()
}

// start tells all that is pending, in the background. The lock is held.
func (t *teller) start() {
	pending := t.pending
	t.pending, t.timer = map[tellKey]*failures{}, nil
	if len(pending) == 0 {
		return
	}
	t.flushes.Add(1)
	go func() {
		defer t.flushes.Done()
		t.runAll(pending)
	}()
}

// runAll tells each bucket in its order, and many buckets at once: one after the
// other they would take longer than the second that they have.
func (t *teller) runAll(pending map[tellKey]*failures) {
	var targets []target
	grouped := map[target][]op{}
	for key, f := range pending {
		at := target{key.bucket, key.policy}
		if grouped[at] == nil {
			targets = append(targets, at)
		}
		grouped[at] = append(grouped[at], op{tell: f})
	}
	sidebyside.Do(sidebyside.All, len(targets), func(i int) {
		for ops := range slices.Chunk(grouped[targets[i]], maxMerged) {
			t.run(targets[i].bucket, targets[i].policy, ops)
		}
	})
}

// close tells what is pending and waits, no longer than the context lasts. What
// comes later is dropped.
func (t *teller) close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.start()
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.flushes.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
