package budget

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// together sends what waits for one server in one go. Buckets cannot share a
// script call; their calls can share a write, a read and what the server does
// around each. Nothing waits while fewer than maxFlights are under way, so that
// a call goes alone where it is the only one.
type together struct {
	client *redis.Client

	mu      sync.Mutex
	flying  int
	waiting []*flight
}

const (
	// maxFlights are enough to keep a server busy over a network.
	maxFlights = 2
	// maxTogether bounds the calls of one flight, so that none waits long for
	// the last of it.
	maxTogether = 64
)

// flight is one command that waits for others to come back.
type flight struct {
	ctx  context.Context //nolint:containedctx // of the command, whose deadline the flight keeps
	cmd  redis.Cmder
	done chan struct{}
}

// Process sends a command, which keeps its error, alone or with others.
func (t *together) Process(ctx context.Context, cmd redis.Cmder) error {
	t.mu.Lock()
	if t.flying < maxFlights {
		t.flying++
		t.mu.Unlock()
		err := t.client.Process(ctx, cmd)
		if next := t.next(); next != nil {
			go t.fly(next)
		}
		return err
	}
	f := &flight{ctx: ctx, cmd: cmd, done: make(chan struct{})}
	t.waiting = append(t.waiting, f)
	t.mu.Unlock()
	select {
	case <-f.done:
		return cmd.Err()
	case <-ctx.Done():
		t.withdraw(f)
		return ctx.Err() // the command may still be under way, and is not looked at
	}
}

func (t *together) withdraw(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, f); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}

// next is who goes now that a flight is back; nil where nobody waits.
func (t *together) next() []*flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), maxTogether)
	if n == 0 {
		t.flying--
		return nil
	}
	batch := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	return batch
}

// fly makes one flight after the other until nobody waits.
func (t *together) fly(batch []*flight) {
	for ; batch != nil; batch = t.next() {
		pipe := t.client.Pipeline()
		for _, f := range batch {
			_ = pipe.Process(batch[0].ctx, f.cmd) // it is sent by Exec
		}
		_, _ = pipe.Exec(batch[len(batch)-1].ctx) // each command keeps its error; the last one lasts longest
		for _, f := range batch {
			close(f.done)
		}
		runtime.Gosched() // whoever is about to ask goes along
	}
}
