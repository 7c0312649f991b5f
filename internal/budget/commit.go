package budget

import (
	"context"
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

	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is the queue before one bucket. It exists while a call is under way.
type lane struct{ waiting []*waiter }

// waiter is one Run that waits for its turn.
type waiter struct {
	policy *decide.Policy
	// ops are the waiter's own copies: it may have gone when they are filled.
	ops  []op
	done chan error
}

// maxMerged bounds the operations of one call, so that no call is long.
const maxMerged = 256

func newCommit(next Backend, timeout time.Duration) *commit {
	return &commit{next: next, timeout: timeout, lanes: map[string]*lane{}}
}

// Run waits for the operations' turn and answer, no longer than the context
// lasts. What has not been sent by then is withdrawn.
func (c *commit) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	w := &waiter{policy: p, ops: append([]op(nil), ops...), done: make(chan error, 1)}
	c.mu.Lock()
	l, busy := c.lanes[bucket]
	if !busy {
		l = &lane{}
		c.lanes[bucket] = l
	}
	l.waiting = append(l.waiting, w)
	c.mu.Unlock()
	if !busy {
		go c.drain(bucket, l)
	}
	select {
	case err := <-w.done:
		copy(ops, w.ops)
		return err
	case <-ctx.Done():
		c.withdraw(l, w)
		return ctx.Err()
	}
}

func (c *commit) withdraw(l *lane, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, each := range l.waiting {
		if each == w {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return
		}
	}
}

// drain makes one call after the other until nobody waits.
func (c *commit) drain(bucket string, l *lane) {
	for {
		batch := c.take(bucket, l)
		if batch == nil {
			return
		}
		c.run(bucket, batch)
	}
}

// take is who goes next: the first who wait under one policy, for one call must
// not mix two. With nobody waiting the lane ends.
func (c *commit) take(bucket string, l *lane) []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(c.lanes, bucket)
		return nil
	}
	n, ops := 0, 0
	for n < len(l.waiting) && l.waiting[n].policy == l.waiting[0].policy && (n == 0 || ops+len(l.waiting[n].ops) <= maxMerged) {
		ops += len(l.waiting[n].ops)
		n++
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// run makes one call for a batch and gives everybody their answers.
func (c *commit) run(bucket string, batch []*waiter) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	if len(batch) == 1 {
		batch[0].done <- c.next.Run(ctx, bucket, batch[0].policy, batch[0].ops)
		return
	}
	merged := make([]op, 0, maxMerged)
	for _, w := range batch {
		merged = append(merged, w.ops...)
	}
	err := c.next.Run(ctx, bucket, batch[0].policy, merged)
	for _, w := range batch {
		copy(w.ops, merged)
		merged = merged[len(w.ops):]
		w.done <- err
	}
}
