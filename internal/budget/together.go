package budget

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

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
	trip    *trip // nil while it waits
	replies []any
	err     error
	done    chan struct{}
}

// trip is the one way to the server and back of several buckets. That it failed
// each of them hears, and it is one failure of the server all the same.
type trip struct{ counted atomic.Bool }

// tripError is what a bucket hears of a trip that failed; without a trip nobody
// was asked.
type tripError struct {
	trip  *trip
	cause error
}

func (e *tripError) Error() string { return e.cause.Error() }
func (e *tripError) Unwrap() error { return e.cause }

// isFailure says whether an error is a failure of the server that was not
// counted yet.
func isFailure(err error) bool {
	var of *tripError
	return !errors.As(err, &of) || of.trip != nil && of.trip.counted.CompareAndSwap(false, true)
}

// of is what a bucket hears of an error: a reply is its own, all else the trip's.
func (t *trip) of(err error) error {
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		return err
	}
	return &tripError{t, err}
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
		return nil, &tripError{t.withdraw(f), ctx.Err()} // the call may still be under way, and is not looked at
	}
}

// withdraw takes back what waits; what does not is on the trip that it returns.
func (t *together) withdraw(f *flight) *trip {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, f); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return f.trip
}

// next is who goes now that a flight is back; nil where nobody waits. Whose time is
// up is about to withdraw, and must not be taken for one that the server failed.
func (t *together) next() []*flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(f *flight) bool { return f.ctx.Err() != nil })
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
	shared := &trip{}
	for _, f := range batch {
		f.trip = shared
	}
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
		if err != nil {
			f.err = f.trip.of(err)
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
		var err error
		f.replies, err = commands[i].Result()
		f.err = f.trip.of(err)
	}
}
