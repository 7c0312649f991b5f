package budget

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// commit merges what waits for one bucket into one call of the backend below
// (group commit). While a call for a bucket is under way everything else for
// it waits, in order of arrival, and goes with the next: exact, and the
// backend's work grows with round trips instead of decisions.
type commit struct {
	next    Backend
	timeout time.Duration
	carry   Carry // nil: nothing is carried over

	mu    sync.Mutex
	lanes map[string]*lane

	// empty is closed with the last lane; nil: nobody waits for that.
	empty chan struct{}
	// What ended, for the next ones.
	usedLanes, usedWaiters sync.Pool
}

// lane is the queue before one bucket. It exists while a call is under way.
type lane struct {
	waiting []*waiter
	// What follows is the memory of whoever makes the calls.
	batch  []*waiter
	merged []op
	crowd
}

// crowd tells a lane when as many wait as it wants to send together.
type crowd struct {
	want     int // 0: it does not ask
	there    chan struct{}
	patience *time.Timer
}

func newLane() any {
	return &lane{crowd: crowd{there: make(chan struct{}, 1), patience: stoppedTimer()}}
}

// A call costs as much as a dozen decisions, here and in Redis. Callers that are
// busy come back as soon as they are answered, so the next call waits for them:
// for no more than make a call worth it, and no longer than a call takes anyway.
// Eight callers of one dependency then ask by one call instead of two, and Redis
// does with half the work.
const (
	worthWaiting = 8
	waitAtMost   = 300 * time.Microsecond
)

// Carry gives the context of a call what is carried over from those of who waits
// for it: their traces, and not when they end.
type Carry func(call context.Context, waiting []context.Context) context.Context

// waiter is one Run that waits for its turn.
type waiter struct {
	ctx    context.Context //nolint:containedctx // of who waits; nil where nothing is carried over
	policy *decide.Policy
	// ops are the waiter's own copies: it may have gone when they are filled.
	ops   []op
	done  chan error
	timer *time.Timer
}

func newWaiter() any {
	return &waiter{done: make(chan error, 1), timer: stoppedTimer()}
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// release lets the next one have a waiter's memory. Nobody else may know it.
func (c *commit) release(w *waiter) {
	clear(w.ops)
	w.ctx, w.policy, w.ops = nil, nil, w.ops[:0]
	c.usedWaiters.Put(w)
}

// maxMerged bounds the operations of one call, so that no call is long.
const maxMerged = 256

func newCommit(next Backend, timeout time.Duration) *commit {
	return &commit{next: next, timeout: timeout, lanes: map[string]*lane{},
		usedLanes: sync.Pool{New: newLane}, usedWaiters: sync.Pool{New: newWaiter}}
}

// Run waits for the operations' turn and answer, no longer than the timeout and
// the context last. What has not been sent by then is withdrawn.
func (c *commit) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) (err error) {
	w := c.usedWaiters.Get().(*waiter)
	w.policy, w.ops = p, append(w.ops, ops...)
	if c.carry != nil {
		w.ctx = ctx
	}
	l := c.join(bucket, w)
	w.timer.Reset(c.timeout)
	defer w.timer.Stop()
	select {
	case err = <-w.done:
		copy(ops, w.ops)
		c.release(w)
		return err
	case <-w.timer.C:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}
	if c.withdraw(l, w) {
		c.release(w)
	} // else it is still to be filled, and not used again
	return err
}

// join puts a waiter into the queue before its bucket, and sees to it that
// somebody makes the calls.
func (c *commit) join(bucket string, w *waiter) *lane {
	c.mu.Lock()
	l, busy := c.lanes[bucket]
	if !busy {
		l = c.usedLanes.Get().(*lane)
		c.lanes[bucket] = l
	}
	l.waiting = append(l.waiting, w)
	if l.want > 0 && len(l.waiting) >= l.want {
		l.want = 0
		l.there <- struct{}{}
	}
	c.mu.Unlock()
	if !busy {
		go c.drain(bucket, l)
	}
	return l
}

// withdraw takes back what waits, and says whether it still did.
func (c *commit) withdraw(l *lane, w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// drain makes one call after the other until nobody waits. Before each it lets
// everybody else run who can: whoever is about to ask then goes with it, which
// costs nothing where nobody is.
func (c *commit) drain(bucket string, l *lane) {
	for answered := 0; ; answered = len(l.batch) {
		runtime.Gosched()
		if answered > 1 {
			c.gather(l, answered)
		}
		if !c.take(bucket, l) {
			return
		}
		c.run(bucket, l)
	}
}

// gather waits for those that the last call has answered.
func (c *commit) gather(l *lane, answered int) {
	c.mu.Lock()
	want := min(len(l.waiting)+answered, worthWaiting)
	if len(l.waiting) >= want {
		c.mu.Unlock()
		return
	}
	l.want = want
	c.mu.Unlock()
	l.patience.Reset(waitAtMost)
	select {
	case <-l.there:
		l.patience.Stop()
		return
	case <-l.patience.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.want == 0 { // they came just then
		<-l.there
	}
	l.want = 0
}

// take makes a batch of who goes next: the first who wait under one policy, for
// one call must not mix two. With nobody waiting the lane ends, and taken is false.
func (c *commit) take(bucket string, l *lane) (taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(c.lanes, bucket)
		if c.empty != nil && len(c.lanes) == 0 {
			close(c.empty)
			c.empty = nil
		}
		c.usedLanes.Put(l)
		return false
	}
	n, ops := 0, 0
	for n < len(l.waiting) && l.waiting[n].policy == l.waiting[0].policy && (n == 0 || ops+len(l.waiting[n].ops) <= maxMerged) {
		ops += len(l.waiting[n].ops)
		n++
	}
	l.batch = append(l.batch[:0], l.waiting[:n]...)
	l.waiting = slices.Delete(l.waiting, 0, n)
	return true
}

// run makes one call for the batch and gives everybody their answers.
func (c *commit) run(bucket string, l *lane) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	if c.carry != nil {
		ctx = c.carry(ctx, contexts(l.batch, func(w *waiter) context.Context { return w.ctx }))
	}
	first := l.batch[0]
	if len(l.batch) == 1 {
		first.done <- c.next.Run(ctx, bucket, first.policy, first.ops)
		return
	}
	merged := l.merged[:0]
	for _, w := range l.batch {
		merged = append(merged, w.ops...)
	}
	err := c.next.Run(ctx, bucket, first.policy, merged)
	rest := merged
	for _, w := range l.batch {
		rest = rest[copy(w.ops, rest):]
		w.done <- err
	}
	clear(merged)
	l.merged = merged
}

func contexts[T any](list []T, of func(T) context.Context) []context.Context {
	all := make([]context.Context, len(list))
	for i := range list {
		all[i] = of(list[i])
	}
	return all
}

// close waits until no lane is left, no longer than the context lasts.
func (c *commit) close(ctx context.Context) {
	c.mu.Lock()
	if len(c.lanes) == 0 {
		c.mu.Unlock()
		return
	}
	empty := make(chan struct{})
	c.empty = empty
	c.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
