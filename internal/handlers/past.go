package handlers

import (
	"strconv"
	"sync"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// ringSize is how many of the newest decisions are kept.
const ringSize = 1000

// past is a decision that was made, with what it was made on. Its message is
// written when somebody reads it: most decisions are never read.
type past struct {
	sequence       int64 // of this process, from 1
	at             time.Time
	decision       decide.Decision
	method, caller string
	failure        decide.Failure
	attempt        int64
}

// ring keeps the newest decisions. One lock for all of it, held for one copy,
// costs a decision less than a slot made on the heap would; whoever reads lets
// go of it every readAtOnce slots, so that no decision waits for a reader.
type ring struct {
	mu    sync.Mutex
	last  int64 // sequence of the newest; 0: none
	slots [ringSize]past
}

const readAtOnce = 32

func (r *ring) add(at time.Time, a *decide.Attempt, d *decide.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	slot := &r.slots[r.last%ringSize]
	slot.sequence, slot.at, slot.decision = r.last, at, *d
	slot.method, slot.caller, slot.failure, slot.attempt = a.Method, a.Caller, a.Failure, max(a.Number, 1)
}

// filter says which decisions are wanted; "" is every one.
type filter struct {
	dependency, decision string
	limit                int
}

func (f *filter) wants(p *past) bool {
	return (f.dependency == "" || f.dependency == p.decision.Dependency) &&
		(f.decision == "" || f.decision == p.decision.Word())
}

// since returns the wanted decisions behind a sequence, the newest first, at
// most limit. skipped is how many more there were: wanted ones beyond the limit,
// and any that were overwritten before they could be looked at.
func (r *ring) since(after int64, f filter) (found []past, skipped, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last = r.last
	n := last
	for steps := 1; n > after && n > r.last-ringSize; n, steps = n-1, steps+1 {
		switch slot := &r.slots[n%ringSize]; {
		case !f.wants(slot):
		case len(found) < f.limit:
			found = append(found, *slot)
		default:
			skipped++
		}
		if steps%readAtOnce == 0 {
			r.mu.Unlock()
			r.mu.Lock()
		}
	}
	return found, skipped + max(n-after, 0), last
}

// appendPast writes a PastDecision.
func appendPast(b []byte, p *past) []byte {
	b = append(b, `{"at":"`...)
	b = p.at.UTC().AppendFormat(b, time.RFC3339Nano)
	b = appendString(append(b, `","method":`...), p.method)
	b = appendString(append(b, `,"failure":`...), p.failure.String())
	b = strconv.AppendInt(append(b, `,"attempt":`...), p.attempt, 10)
	if p.caller != "" {
		b = appendString(append(b, `,"caller":`...), p.caller)
	}
	b = append(b, ',')
	return append(appendDecisionMembers(b, &p.decision), '}')
}
