package budget

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// shards bounds how many callers wait for one lock.
const shards = 32

// Memory keeps buckets in this process. What Redis would let expire is let go
// here, so idle names take no memory.
type Memory struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [shards]shard
}

// shard is one part of the buckets under one lock.
type shard struct {
	mu      sync.Mutex
	buckets map[string]*kept
	// sweepAt is the instant in ms at which expired buckets are next let go.
	sweepAt int64
}

// kept is a bucket with what would be keys of their own in Redis.
type kept struct {
	bucket
	expires int64
	// ids holds what was granted, and reports what was counted, until the
	// instant in ms in it.
	ids     map[string]granted
	reports map[string]int64
	// sweepAt is the instant in ms at which they are next let go of.
	sweepAt int64
}

// granted is the answer to a decision_id.
type granted struct {
	answer  decide.Answer
	expires int64
}

// NewMemory makes an empty store that reads the time from now.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, seed: maphash.MakeSeed()}
}

// sweepEvery is how often, in ms, a shard lets go of what has expired.
const sweepEvery = 1000

// Run applies the operations; it never fails.
func (m *Memory) Run(_ context.Context, name string, p *decide.Policy, ops []op) error {
	now := m.now().UnixMilli()
	s := &m.shards[maphash.String(m.seed, name)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.find(name, now)
	for i := range ops {
		k.run(now, p, &ops[i])
	}
	if !k.exists { // nothing but looks
		delete(s.buckets, name)
		return nil
	}
	k.sweep(now)
	k.expires = now + k.ttl(max(now, k.at), p)
	return nil
}

// sweepIDsEvery is how often, in ms, a bucket lets go of ids that are over.
const sweepIDsEvery = idsLive / 10

// sweep lets go of ids and reports that are over, now and then. One that ends
// later than any can is of a clock that was set back since.
func (k *kept) sweep(now int64) {
	if now < k.sweepAt && now >= k.sweepAt-2*sweepIDsEvery {
		return
	}
	maps.DeleteFunc(k.ids, func(_ string, g granted) bool { return g.expires <= now || g.expires > now+idsLive+failOver })
	maps.DeleteFunc(k.reports, func(_ string, expires int64) bool { return expires <= now || expires > now+reportsLive+failOver })
	k.sweepAt = now + sweepIDsEvery
}

// find is the bucket of a name, a new one where it has expired.
func (s *shard) find(name string, now int64) *kept {
	if now >= s.sweepAt || now < s.sweepAt-2*sweepEvery {
		maps.DeleteFunc(s.buckets, func(_ string, k *kept) bool { return k.over(now) })
		s.sweepAt = now + sweepEvery
	}
	k, ok := s.buckets[name]
	if !ok || k.over(now) {
		if s.buckets == nil {
			s.buckets = map[string]*kept{}
		}
		k = &kept{}
		s.buckets[name] = k
	}
	return k
}

func (k *kept) over(now int64) bool { return now >= k.expires }

// run applies one operation, unless its id has been seen.
func (k *kept) run(now int64, p *decide.Policy, o *op) {
	switch {
	case o.ask != nil && o.ask.id != "":
		k.runOnce(now, p, o)
	case o.look != nil, o.ask != nil && o.ask.dryRun:
		copied := k.clone()
		copied.apply(now, p, o)
	case o.report != nil && o.report.id != "":
		if k.firstTime(now, o.report) {
			k.apply(now, p, o)
		}
	default:
		k.apply(now, p, o)
	}
}

// runOnce answers an id as it was answered before, or asks and keeps a grant.
func (k *kept) runOnce(now int64, p *decide.Policy, o *op) {
	if g, ok := k.ids[o.ask.id]; ok && g.expires > now {
		o.answer = g.answer
		o.answer.Replayed = true
		return
	}
	if o.ask.dryRun {
		copied := k.clone()
		copied.apply(now, p, o)
		return
	}
	k.apply(now, p, o)
	if o.answer.Verdict != decide.Granted {
		return
	}
	if k.ids == nil {
		k.ids = map[string]granted{}
	}
	answer := o.answer
	answer.Own, answer.Delay, answer.ReplayedServerDelay = o.ask.own, max(o.ask.delay, answer.Slot), o.ask.serverDelay
	k.ids[o.ask.id] = granted{answer: answer, expires: now + idsLive}
}

// firstTime says whether a report has not been counted yet, and remembers it.
func (k *kept) firstTime(now int64, r *report) bool {
	key := reportKey(r.caller, r.id)
	if k.reports[key] > now {
		return false
	}
	if k.reports == nil {
		k.reports = map[string]int64{}
	}
	k.reports[key] = now + reportsLive
	return true
}

// ttl is the bucket's, and for its ids and reports as long as they live.
func (k *kept) ttl(t int64, p *decide.Policy) int64 {
	keep := k.bucket.ttl(t, p)
	if len(k.reports) > 0 {
		keep = max(keep, reportsLive)
	}
	return keep
}

// clone is a copy that shares nothing with the bucket.
func (b *bucket) clone() bucket {
	copied := *b
	copied.callers = maps.Clone(b.callers)
	copied.breaker.window = slices.Clone(b.breaker.window)
	copied.breaker.leases = slices.Clone(b.breaker.leases)
	return copied
}

// idKey names a decision_id of one attempt within a bucket.
func idKey(id string, attempt int64) string {
	return strconv.FormatInt(attempt, 10) + ":" + id
}

// reportKey names a caller's report within a bucket.
func reportKey(caller, id string) string { return caller + "|" + id }
