package budget

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Arrangement is what a bucket holds where a test of a policy begins.
type Arrangement struct {
	// Tokens; nil: as many as a bucket that does not exist yet, which is full.
	Tokens *decide.Micro
	// CoolDown is what is left in ms of the fleet's.
	CoolDown int64
	// Override lasts for a day.
	Override decide.OverrideMode
	// Breaker is its state; a rule without a breaker has none.
	Breaker decide.BreakerState
}

// Arrange makes a bucket that holds what a test wants. No decider calls it: a
// bucket comes to its state by what happens to it.
func (m *Memory) Arrange(bucket string, p *decide.Policy, a Arrangement) {
	now := m.now().UnixMilli()
	ops := []op{{override: &override{mode: a.Override, until: (24 * time.Hour).Milliseconds()}}}
	_ = m.Run(context.Background(), bucket, p, ops) // memory never fails, and the bucket exists now
	s := &m.shards[maphash.String(m.seed, bucket)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(bucket, now)
	if a.Tokens != nil {
		b.tokens = min(*a.Tokens, capacity(b.flow, &p.Budget))
	}
	if a.CoolDown > 0 {
		b.coolDown = now + a.CoolDown
	}
	switch a.Breaker {
	case decide.BreakerOpen:
		b.breaker.openUntil = now + p.Breaker.OpenFor
	case decide.BreakerHalfOpen:
		b.breaker.openUntil = now
	}
	b.expires = now + b.ttl(now, p)
}
