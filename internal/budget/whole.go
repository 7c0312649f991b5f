package budget

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// whole finds out whether an address is one server. What shards behind one address
// sends a script where its first key belongs: some refuse one whose other keys
// belong elsewhere, some do not look, and buckets would have two lives.
//
// So it asks for what only one server can do: find by one script the keys that were
// each written by a command of its own.
type whole struct {
	client *redis.Client

	mu    sync.Mutex
	is    bool
	fresh bool // or is being looked at
}

const (
	// crossSlot begins the error of those that refuse. It proves that nothing ran.
	crossSlot = "CROSSSLOT"
	// tryKeys are few, and all on one of two servers in one of 32,768 cases.
	tryKeys = 16
	// lookAgain is how long what was seen is believed: an address may come to be
	// something else.
	lookAgain = time.Minute
	// lookSoon is the pause where nobody answered.
	lookSoon = time.Second
	// tryKeysLive is long enough for a server that is slow.
	tryKeysLive = 10 * time.Second
)

// holds says what was seen last, false until then, and has it looked at now and then.
func (w *whole) holds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fresh {
		w.fresh = true
		go w.look()
	}
	return w.is
}

// deny takes a server's word that it is not.
func (w *whole) deny() { w.saw(false, lookAgain) }

func (w *whole) saw(is bool, believed time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.is, w.fresh = is, true
	time.AfterFunc(believed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fresh = false
	})
}

// look looks. An answer that is an error will be one again; without an answer what
// was seen before is believed.
func (w *whole) look() {
	found, err := w.find(context.Background())
	switch {
	case err == nil:
		w.saw(found == tryKeys, lookAgain)
	case redis.HasErrorPrefix(err, ""):
		w.saw(false, lookAgain)
	default:
		w.mu.Lock()
		was := w.is
		w.mu.Unlock()
		w.saw(was, lookSoon)
	}
}

// find writes the keys, and counts those that a script finds.
func (w *whole) find(ctx context.Context) (int, error) {
	keys := make([]string, tryKeys)
	_, err := w.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range keys {
			keys[i] = keyPrefix("_whole-"+strconv.Itoa(i)) + "found"
			pipe.Set(ctx, keys[i], 1, tryKeysLive)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return w.client.Eval(ctx, `local found = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) then found = found + 1 end
end
return found`, keys).Int()
}
