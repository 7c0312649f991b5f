package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// fault is what a store does with one call instead of answering it.
type fault int

const (
	well    fault = iota
	refuses       // an error, nothing applied
	loses         // applied, and then an error: the reply was lost
	stalls        // nothing applied, and no answer until the caller has enough
	isLate        // as stalls, but applied in the end, as by a server that was stopped
	isSlow        // applied and answered, after some time
	lastFault
)

// How long a slow store takes, and a stopped one is stopped.
const (
	slowFor  = 20 * time.Millisecond
	stopped  = 300 * time.Millisecond
	inBubble = 50 * time.Millisecond // the timeout of tests in virtual time
)

var errStore = errors.New("the store has a fault")

// faulty is a store in this process that has the faults a test wants.
type faulty struct {
	store Backend
	// fault, where set, chooses for each call.
	fault func(bucket string, ops []op) fault
	// applied, where set, hears of every call that reached the store, in order.
	applied func(p *decide.Policy, ops []op)

	mu    sync.Mutex
	all   fault
	calls int
}

func (f *faulty) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	f.mu.Lock()
	f.calls++
	which := f.all
	if f.fault != nil {
		which = f.fault(bucket, ops)
	}
	f.mu.Unlock()
	switch which {
	case refuses:
		return errStore
	case stalls:
		<-ctx.Done()
		return ctx.Err()
	case isLate:
		mine := append([]op(nil), ops...)
		time.AfterFunc(stopped, func() { _ = f.apply(bucket, p, mine) })
		<-ctx.Done()
		return ctx.Err()
	case isSlow:
		time.Sleep(slowFor)
	}
	err := f.apply(bucket, p, ops)
	if which == loses {
		return errStore
	}
	return err
}

func (f *faulty) apply(bucket string, p *decide.Policy, ops []op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.store.Run(context.Background(), bucket, p, ops)
	if f.applied != nil && bucket != probeBucket {
		f.applied(p, ops)
	}
	return err
}

// is sets the fault of every call from here on.
func (f *faulty) is(which fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = which
}

func (f *faulty) callsSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// bubbleFleet is one of so many replicas on a store, in virtual time.
func bubbleFleet(t *testing.T, store Backend, replicas int) *Fleet {
	t.Helper()
	f := NewSharedFleet(Shared{Store: store, Timeout: inBubble, ProbeEvery: 100 * time.Millisecond, Now: time.Now,
		Replicas: func() int { return replicas }})
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// asked is the question for a retry of a plain failure under the rule.
func asked(p *decide.Policy, changes ...func(q *decide.Question)) *decide.Question {
	q := &decide.Question{Failed: decide.Failed{Bucket: p.Name, Policy: p}, Attempt: 2, Own: 100, Delay: 100}
	for _, change := range changes {
		change(q)
	}
	return q
}
