package handlers

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// maxSeen bounds the dependencies that are counted beside those that the policy
// file names exactly: names come from clients.
const maxSeen = 1000

// tally counts the decisions of this replica since it started, by dependency
// and reason, for /v1/dependencies.
type tally struct {
	counts sync.Map // of a dependency's name to its *tallied
	seen   atomic.Int64
}

// tallied are the decisions on one dependency.
type tallied struct {
	reasons [reasonCount]atomic.Int64
	seconds history
}

// reasonCount is how many reasons there are; a test holds it to decide's list.
const reasonCount = 17

func newTally() *tally { return new(tally) }

func (t *tally) count(d *decide.Decision, now time.Time) {
	entry, ok := t.counts.Load(d.Dependency)
	if !ok {
		if entry, ok = t.begin(d.Dependency, d.Policy == d.Dependency); !ok {
			return
		}
	}
	one := entry.(*tallied)
	one.reasons[d.Reason].Add(1)
	one.seconds.add(now.Unix(), d.Retry())
}

// begin makes the entry of a dependency; ok is false where there is no room.
func (t *tally) begin(dependency string, exact bool) (entry any, ok bool) {
	if !exact && t.seen.Add(1) > maxSeen {
		t.seen.Add(-1)
		return nil, false
	}
	entry, loaded := t.counts.LoadOrStore(dependency, new(tallied))
	if loaded && !exact {
		t.seen.Add(-1)
	}
	return entry, true
}

// of is what was decided on a dependency, by reason.
func (t *tally) of(dependency string) map[string]int64 {
	counts := make(map[string]int64)
	entry, ok := t.counts.Load(dependency)
	if !ok {
		return counts
	}
	for _, reason := range decide.Reasons() {
		if n := entry.(*tallied).reasons[reason].Load(); n > 0 {
			counts[reason.String()] = n
		}
	}
	return counts
}

// recent is what was decided on a dependency in each of the last seconds before now.
func (t *tally) recent(dependency string, now time.Time) gen.RecentDecisions {
	if entry, ok := t.counts.Load(dependency); ok {
		return entry.(*tallied).seconds.before(now.Unix())
	}
	return new(history).before(now.Unix())
}

// with lists the names together with those that were counted, sorted.
func (t *tally) with(names map[string]bool) []string {
	t.counts.Range(func(name, _ any) bool {
		names[name.(string)] = true
		return true
	})
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	return sorted
}
