package handlers

import (
	"sort"
	"sync"
	"sync/atomic"

	"github.com/retrydecider/decider/internal/decide"
)

// maxSeen bounds the dependencies that are counted beside those that the policy
// file names exactly: names come from clients.
const maxSeen = 1000

// tally counts the decisions of this replica since it started, by dependency
// and reason, for /v1/dependencies.
type tally struct {
	counts sync.Map // of a dependency's name to its *reasonCounts
	seen   atomic.Int64
}

type reasonCounts [reasonCount]atomic.Int64

// reasonCount is how many reasons there are; a test holds it to decide's list.
const reasonCount = 17

func newTally() *tally { return new(tally) }

func (t *tally) count(d *decide.Decision) {
	entry, ok := t.counts.Load(d.Dependency)
	if !ok {
		if entry, ok = t.begin(d.Dependency, d.Policy == d.Dependency); !ok {
			return
		}
	}
	entry.(*reasonCounts)[d.Reason].Add(1)
}

// begin makes the entry of a dependency; ok is false where there is no room.
func (t *tally) begin(dependency string, exact bool) (entry any, ok bool) {
	if !exact && t.seen.Add(1) > maxSeen {
		t.seen.Add(-1)
		return nil, false
	}
	entry, loaded := t.counts.LoadOrStore(dependency, new(reasonCounts))
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
		if n := entry.(*reasonCounts)[reason].Load(); n > 0 {
			counts[reason.String()] = n
		}
	}
	return counts
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
