package budget

import "github.com/retrydecider/decider/internal/decide"

// caller is what a bucket knows of one caller: its own share of the budget, the
// instants in ms at which its own cool-down ends and at which it was last seen.
type caller struct {
	share          decide.Micro
	coolDown, seen int64
}

const (
	// maxCallers are known by name per bucket; the rest are one.
	maxCallers = 100
	// theRest is the name of those; no caller can have it.
	theRest = "*"
	// forgotten is how long, in ms, a caller is kept once nothing holds for it.
	forgotten = 600_000
)

// caller finds a caller's entry, or makes one that starts with one retry's
// worth of share. Past the bound callers are one.
func (b *bucket) caller(t int64, p *decide.Policy, name string) (string, caller) {
	if b.callers == nil {
		b.callers = map[string]caller{}
	}
	if _, ok := b.callers[name]; !ok && len(b.callers) >= maxCallers {
		b.forget(t)
		if len(b.callers) >= maxCallers {
			name = theRest
		}
	}
	c, ok := b.callers[name]
	if !ok {
		c.share = p.Budget.Cost[decide.Plain]
	}
	c.seen = t
	return name, c
}

// forget drops the callers for whom nothing holds any more.
func (b *bucket) forget(t int64) {
	for name, c := range b.callers {
		if name != theRest && c.coolDown <= t && c.seen <= t-forgotten {
			delete(b.callers, name)
		}
	}
}

// known is a caller's entry, or that of the rest, without making one.
func (b *bucket) known(name string) caller {
	if c, ok := b.callers[name]; ok {
		return c
	}
	return b.callers[theRest]
}

// earn adds to a caller's own share for so many of its original calls; a share
// holds two retries' worth at most.
func (b *bucket) earn(t int64, p *decide.Policy, name string, calls int64) {
	if p.Budget.CallerShare == 0 {
		return
	}
	key, c := b.caller(t, p, name)
	c.share = min(c.share+calls*p.Budget.CallerShare, 2*p.Budget.Cost[decide.Plain])
	b.callers[key] = c
}

// ownShare says whether the caller's own share pays for a retry; without shares
// it always does.
func (b *bucket) ownShare(t int64, p *decide.Policy, name string, cost decide.Micro) bool {
	if p.Budget.CallerShare == 0 {
		return true
	}
	key, c := b.caller(t, p, name)
	b.callers[key] = c
	return c.share >= cost
}

func (b *bucket) useShare(t int64, p *decide.Policy, name string, cost decide.Micro) {
	if p.Budget.CallerShare == 0 {
		return
	}
	key, c := b.caller(t, p, name)
	c.share -= cost
	b.callers[key] = c
}
