package decide_test

import (
	"context"
	"math/big"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// plainFleet is the budget of the contract (DESIGN §6) in exact fractions, as
// one reads it there: the arithmetic against which the stores are held. It has
// no cool-down, breaker, override or ids, and its capacity does not grow with
// traffic.
type plainFleet struct {
	now     func() time.Time
	buckets map[string]*plainBucket
}

type plainBucket struct {
	tokens *big.Rat
	at     time.Time
}

func newPlainFleet(_ *testing.T, now func() time.Time) vectorFleet {
	return &plainFleet{now: now, buckets: map[string]*plainBucket{}}
}

func (f *plainFleet) Ask(_ context.Context, q *decide.Question) (a decide.Answer) {
	rule := &q.Policy.Budget
	if rule.Off {
		return a
	}
	b := f.touch(q.Bucket, rule)
	if q.First && rule.DepositOnRequest {
		b.deposit(1, rule)
	}
	cost := tokens(q.Cost())
	if missing := new(big.Rat).Sub(cost, b.tokens); missing.Sign() > 0 {
		a.Verdict = decide.NoTokens
		if rule.NanoPerSecond > 0 {
			a.AskAgain = decide.Some(ceil(missing.Quo(missing, perMilli(rule))))
		}
	} else {
		b.tokens.Sub(b.tokens, cost)
	}
	a.Budget = decide.Budget{Asked: true, Tokens: b.micro(), Capacity: rule.Capacity, Cost: q.Cost()}
	return a
}

func (f *plainFleet) Tell(x *decide.Failed) {
	if x.First && x.Policy.Budget.DepositOnRequest && !x.Policy.Budget.Off {
		f.touch(x.Bucket, &x.Policy.Budget).deposit(1, &x.Policy.Budget)
	}
}

func (f *plainFleet) Report(o *decide.Outcome) {
	calls := o.FirstTrySuccesses + o.RetrySuccesses
	if o.Policy.Budget.DepositOnRequest {
		calls += o.FinalFailures
	}
	f.touch(o.Bucket, &o.Policy.Budget).deposit(calls, &o.Policy.Budget)
}

func (f *plainFleet) SetTokens(bucket string, _ *decide.Policy, micro decide.Micro) {
	f.buckets[bucket] = &plainBucket{tokens: tokens(micro), at: f.now()}
}

func (f *plainFleet) Tokens(bucket string, p *decide.Policy) decide.Micro {
	return f.touch(bucket, &p.Budget).micro()
}

// touch credits the time that has passed; an absent bucket is full.
func (f *plainFleet) touch(bucket string, rule *decide.BudgetRule) *plainBucket {
	b, now := f.buckets[bucket], f.now()
	if b == nil {
		b = &plainBucket{tokens: tokens(rule.Capacity), at: now}
		f.buckets[bucket] = b
	}
	if elapsed := now.UnixMilli() - b.at.UnixMilli(); elapsed > 0 {
		b.add(new(big.Rat).Mul(big.NewRat(elapsed, 1), perMilli(rule)), rule)
		b.at = now
	}
	return b
}

func (b *plainBucket) deposit(calls int64, rule *decide.BudgetRule) {
	b.add(new(big.Rat).Mul(big.NewRat(calls, 1), tokens(rule.Ratio)), rule)
}

func (b *plainBucket) add(gain *big.Rat, rule *decide.BudgetRule) {
	b.tokens.Add(b.tokens, gain)
	if full := tokens(rule.Capacity); b.tokens.Cmp(full) > 0 {
		b.tokens.Set(full)
	}
}

// micro is what the bucket holds in whole millionths.
func (b *plainBucket) micro() decide.Micro {
	scaled := new(big.Rat).Mul(b.tokens, big.NewRat(decide.MicroPerToken, 1))
	return new(big.Int).Quo(scaled.Num(), scaled.Denom()).Int64()
}

func tokens(micro decide.Micro) *big.Rat { return big.NewRat(micro, decide.MicroPerToken) }

// perMilli is the refill in tokens per ms.
func perMilli(rule *decide.BudgetRule) *big.Rat {
	return big.NewRat(rule.NanoPerSecond, 1_000_000_000_000)
}

func ceil(r *big.Rat) int64 {
	whole, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return whole.Int64() + 1
	}
	return whole.Int64()
}
