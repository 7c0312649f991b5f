package budget

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// together sends what waits for one address in one go. Where that is one server,
// one script call serves several buckets; else each has a call of its own, and
// they share a write, a read and what the server does around each. Nothing waits
// while fewer than maxFlights are under way, so that a call goes alone where it is
// the only one.
type together struct {
	client *redis.Client
	whole  whole
	carry  Carry // nil: nothing is carried over

	mu      sync.Mutex
	flying  int
	waiting []*flight
}

const (
	// maxFlights are enough to keep a server busy over a network.
	maxFlights = 2
	// maxTogether bounds the buckets of one flight, so that none waits long for the
	// last of it. Their operations are maxMerged at most, as those of one bucket.
	maxTogether = 64
)

func newTogether(client *redis.Client) *together {
	return &together{client: client, whole: whole{client: client}}
}

// flight is one call that waits for others to come back.
type flight struct {
	ctx     context.Context //nolint:containedctx // of the call, whose deadline the flight keeps
	call    *call
	replies []any
	err     error
	done    chan struct{}
}

// send makes a call, alone or with others.
func (t *together) send(ctx context.Context, c *call) ([]any, error) {
	t.mu.Lock()
	if t.flying < maxFlights {
		t.flying++
		t.mu.Unlock()
		replies, err := evaluate(ctx, t.client.Process, c)
		if next := t.next(); next != nil {
			go t.fly(next)
		}
		return replies, err
	}
	f := &flight{ctx: ctx, call: c, done: make(chan struct{})}
	t.waiting = append(t.waiting, f)
	t.mu.Unlock()
	select {
	case <-f.done:
		return f.replies, f.err
	case <-ctx.Done():
		t.withdraw(f)
		return nil, ctx.Err() // the call may still be under way, and is not looked at
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
	n, ops := 0, 0
	for n < min(len(t.waiting), maxTogether) && (n == 0 || ops+t.waiting[n].call.ops <= maxMerged) {
		ops += t.waiting[n].call.ops
		n++
	}
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
		ctx := batch[len(batch)-1].ctx // the last one lasts longest
		if t.carry != nil {
			ctx = t.carry(ctx, contexts(batch, func(f *flight) context.Context { return f.ctx }))
		}
		if len(batch) == 1 || !t.whole.holds() || !t.inOneCall(ctx, batch) {
			t.inOnePipeline(ctx, batch)
		}
		for _, f := range batch {
			close(f.done)
		}
		runtime.Gosched() // whoever is about to ask goes along
	}
}

// inOneCall runs the script once for all; where the address turns out to be more
// than one server it says false, and nothing has run.
func (t *together) inOneCall(ctx context.Context, batch []*flight) bool {
	calls := make([]*call, len(batch))
	for i, f := range batch {
		calls[i] = f.call
	}
	lists, err := evaluate(ctx, t.client.Process, calls...)
	if redis.HasErrorPrefix(err, crossSlot) {
		t.whole.deny()
		return false
	}
	if err == nil && len(lists) != len(batch) {
		err = fmt.Errorf("%d answers for %d buckets", len(lists), len(batch))
	}
	for i, f := range batch {
		if f.err = err; err != nil {
			continue
		}
		switch list := lists[i].(type) {
		case []any:
			f.replies = list
		case error:
			f.err = list
		default:
			f.err = fmt.Errorf("an answer that is none of the script's: %v", list)
		}
	}
	return true
}

// inOnePipeline runs the script for each, those that the server did not know it
// for once more.
func (t *together) inOnePipeline(ctx context.Context, batch []*flight) {
	t.pipeline(ctx, byHash, batch)
	var unknown []*flight
	for _, f := range batch {
		if isUnknown(f.err) {
			unknown = append(unknown, f)
		}
	}
	if unknown != nil {
		t.pipeline(ctx, byText, unknown)
	}
}

func (t *together) pipeline(ctx context.Context, command func(context.Context, ...*call) *once, batch []*flight) {
	pipe := t.client.Pipeline()
	commands := make([]*once, len(batch))
	for i, f := range batch {
		commands[i] = command(ctx, f.call)
		_ = pipe.Process(ctx, commands[i]) // it is sent by Exec
	}
	_, _ = pipe.Exec(ctx) // each command keeps its error
	for i, f := range batch {
		f.replies, f.err = commands[i].Result()
	}
}
