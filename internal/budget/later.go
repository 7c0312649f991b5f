package budget

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

const (
	// laterAfter is how long a candidate's questions wait for each other; nobody
	// waits for their answers.
	laterAfter = 100 * time.Millisecond
	// maxLater bounds those that wait or are being asked; more are dropped.
	maxLater = 10_000
)

// later puts to candidates' buckets what nobody waits for, in the order in which
// it came and merged into few calls. A candidate must cost the enforced rule
// nothing, so what is too much is dropped and counted.
type later struct {
	run func(bucket string, p *decide.Policy, ops []op)

	mu      sync.Mutex
	pending map[target][]postponed
	count   int
	timer   *time.Timer
	closed  bool
	flushes sync.WaitGroup
	dropped atomic.Int64
}

// target is a bucket under one rule.
type target struct {
	bucket string
	policy *decide.Policy
}

// postponed is an operation and who hears its answer; answered may be nil.
type postponed struct {
	op       op
	answered func(decide.Answer)
}

func newLater(run func(bucket string, p *decide.Policy, ops []op)) *later {
	return &later{run: run, pending: map[target][]postponed{}}
}

// add takes one operation and returns at once.
func (l *later) add(at target, p postponed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.count >= maxLater {
		l.dropped.Add(1)
		return
	}
	l.count++
	l.pending[at] = append(l.pending[at], p)
	if l.timer == nil {
		l.timer = time.AfterFunc(laterAfter, l.flush)
	}
}

func (l *later) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start()
}

// start asks all that is pending, in the background, each bucket by itself. The
// lock is held.
func (l *later) start() {
	pending := l.pending
	l.pending, l.timer = map[target][]postponed{}, nil
	for at, list := range pending {
		l.flushes.Add(1)
		go func() {
			defer l.flushes.Done()
			l.runAll(at, list)
		}()
	}
}

func (l *later) runAll(at target, list []postponed) {
	for len(list) > 0 {
		n := min(len(list), maxMerged)
		ops := make([]op, n)
		for i := range ops {
			ops[i] = list[i].op
		}
		l.run(at.bucket, at.policy, ops)
		for i := range ops {
			if list[i].answered != nil {
				list[i].answered(ops[i].answer)
			}
		}
		list = list[n:]
		l.mu.Lock()
		l.count -= n
		l.mu.Unlock()
	}
}

// close asks what is pending and waits, no longer than the context lasts.
func (l *later) close(ctx context.Context) {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.start()
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.flushes.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// AskLater puts a candidate's question to its own bucket and hands on the
// answer: memory's at once, a shared store's within the second. A question too
// many is dropped, and then nobody hears of it.
func (f *Fleet) AskLater(q *decide.Question, answered func(decide.Answer)) {
	asked := op{ask: newQuestion(q)}
	if f.memory == nil {
		f.later.add(target{q.Bucket, q.Policy}, postponed{asked, answered})
		return
	}
	ops := [1]op{asked}
	_ = f.memory.Run(context.Background(), q.Bucket, q.Policy, ops[:]) // memory never fails
	answered(ops[0].answer)
}

// reportToCandidate counts for a rule's candidate what is counted for the rule.
func (f *Fleet) reportToCandidate(o *decide.Outcome, r *report) {
	at := target{decide.CandidateBucket(o.Bucket), o.Policy.Candidate}
	if f.memory == nil {
		f.later.add(at, postponed{op: op{report: r}})
		return
	}
	_ = f.memory.Run(context.Background(), at.bucket, at.policy, []op{{report: r}}) // memory never fails
}

// Dropped is how many questions and reports to candidates were too many.
func (f *Fleet) Dropped() int64 {
	if f.memory != nil {
		return 0
	}
	return f.later.dropped.Load()
}
