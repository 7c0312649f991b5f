package handlers

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/sidebyside"
)

// newsSeconds is how many seconds of decisions a snapshot tells to those who
// had the one before: more than lie between two beats, because beats may slip.
const newsSeconds = 5

// newBeat is what the streams tell at this moment.
func (s *server) newBeat() *beat {
	take := sync.OnceValue(s.takeSnapshot)
	return &beat{
		whole: sync.OnceValue(func() []byte { return take().bytes(historySeconds) }),
		news:  sync.OnceValue(func() []byte { return take().bytes(newsSeconds) }),
		next:  make(chan struct{}),
	}
}

// snapshot is a Snapshot with all that is remembered of each dependency.
type snapshot gen.Snapshot

// takeSnapshot asks the fleet's state of every dependency. It belongs to all
// streams, so no client that leaves can break it off; the store's own timeout
// bounds it.
func (s *server) takeSnapshot() *snapshot {
	ctx, now := context.Background(), s.Now()
	status := s.Status()
	names := s.tally.with(exactNames(s.Policies.Rules()))
	found := make([]*gen.DependencySnapshot, len(names))
	sidebyside.Do(sidebyside.Few, len(names), func(i int) {
		p, bucket, err := s.Policies.Peek(names[i])
		if err != nil {
			return // it was asked about, and the policy file refuses it by now
		}
		state := s.Fleet.State(ctx, bucket, p, "")
		found[i] = &gen.DependencySnapshot{
			Dependency: names[i], Policy: p.Name, Budget: budget(&state.Budget), Breaker: state.Breaker.String(), CoolDownMs: state.CoolDown,
			Override: override(&state.Override), Degraded: state.Degraded, Counts: s.tally.of(names[i]), Recent: s.tally.recent(names[i], now),
		}
	})
	out := &snapshot{At: now.UTC(), Status: s.statusModel(&status), Components: status.components(), Dependencies: []gen.DependencySnapshot{}}
	for _, one := range found {
		if one != nil {
			out.Dependencies = append(out.Dependencies, *one)
		}
	}
	return out
}

// bytes is the snapshot with the last seconds of each dependency's decisions.
func (s *snapshot) bytes(seconds int) []byte {
	short := *s
	short.Dependencies = make([]gen.DependencySnapshot, len(s.Dependencies))
	for i, each := range s.Dependencies {
		each.Recent = lastSeconds(each.Recent, seconds)
		short.Dependencies[i] = each
	}
	b, err := json.Marshal(gen.Snapshot(short))
	if err != nil {
		panic(err) // a model of strings, numbers and times: it cannot fail
	}
	return b
}
