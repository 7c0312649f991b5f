package budget

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// fallback asks a backend that may fail, within a bound, and answers from a
// local store of its share where it does.
type fallback struct {
	shared   Backend
	local    *Memory
	servers  *healths
	timeout  time.Duration
	replicas func() int
	stats    *stats
	pauses   pauses
}

// stats counts what went to the store.
type stats struct{ calls, operations, errors, degraded atomic.Int64 }

// run applies the operations to the shared bucket, or to this replica's own
// where that is out of reach.
func (f *fallback) run(ctx context.Context, bucket string, p *decide.Policy, ops []op) {
	if f.runShared(ctx, bucket, p, ops) == nil {
		return
	}
	f.stats.degraded.Add(int64(len(ops)))
	_ = f.local.Run(ctx, bucket, share(p, f.replicas()), ops) // memory never fails
	for i := range ops {
		ops[i].degrade(p)
	}
}

// downError says that nobody was asked, for the store is known to be out of reach.
type downError struct{}

func (downError) Error() string { return "the store is out of reach" }

func (f *fallback) runShared(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	bounded := ctx
	if f.servers.several() { // to look for the bucket's server takes time too
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	if !f.servers.of(bounded, bucket).up() {
		return downError{}
	}
	err := f.shared.Run(bounded, bucket, p, ops)
	switch {
	case err == nil:
		f.remember(ctx, bucket, p, ops)
	case ctx.Err() == nil: // a caller who left is no error of the store
		f.stats.errors.Add(1)
	}
	return err
}

// share is this replica's part of a rule: what the bucket holds at first and its
// refill by time are divided, deposits are not, since each replica hears of its own
// successes. Those alone deposit, also where requests otherwise do: in an outage
// nothing may be refilled by errors. However many replicas there are, there is room
// for the price of a retry, or nothing that is deposited could ever pay for one.
func share(p *decide.Policy, replicas int) *decide.Policy {
	n := int64(max(replicas, 1))
	mine := *p
	mine.Budget.Initial = max(p.Budget.Capacity/n, 1)
	mine.Budget.Capacity = max(mine.Budget.Initial, min(slices.Max(p.Budget.Cost[:]), p.Budget.Capacity))
	mine.Budget.NanoPerSecond = p.Budget.NanoPerSecond / n
	mine.Budget.CapacityMillis, mine.Budget.DepositOnRequest, mine.Budget.RatioMax = 0, false, 0
	for kind := range mine.Backoff {
		mine.Backoff[kind].Gap *= n // this replica's part of the slots
	}
	return &mine
}

// degrade marks a local answer, and lets the policy's on_store_failure have the
// last word on a question.
func (o *op) degrade(p *decide.Policy) {
	o.state.Degraded = true
	o.state.Budget.Local = true
	if o.ask == nil {
		return
	}
	o.answer.Degraded = true
	o.answer.Budget.Local = true
	o.answer.ReportOutcomes = o.answer.ReportOutcomes && !p.Budget.DepositOnRequest
	if o.answer.Verdict == decide.Paused { // an operator's word is above the policy's
		return
	}
	switch p.OnStoreFailure {
	case decide.StoreFailureGiveUp:
		o.answer = decide.Answer{Verdict: decide.Unavailable, Breaker: o.answer.Breaker, Degraded: true}
	case decide.StoreFailureAllow:
		o.answer = decide.Answer{Verdict: decide.Granted, Breaker: o.answer.Breaker, Degraded: true}
	}
}
