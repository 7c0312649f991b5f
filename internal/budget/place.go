package budget

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/decide"
)

// spread is a backend whose buckets are on several servers, each of which may
// fail alone.
type spread interface {
	// several says whether there is more than one.
	several() bool
	// place is the server that a bucket is on; "" where nobody knows.
	place(ctx context.Context, bucket string) string
	// lost tells that a server did not answer: its buckets may have moved.
	lost(ctx context.Context)
}

func (r *Redis) several() bool {
	_, ok := r.client.(*redis.ClusterClient)
	return ok
}

func (r *Redis) place(ctx context.Context, bucket string) string {
	cluster, ok := r.client.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	node, err := cluster.MasterForKey(ctx, "{"+bucket+"}")
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// lost lets the client ask for the cluster's slots anew. By itself it does so
// every ten seconds, or when a node that is alive sends it elsewhere.
func (r *Redis) lost(ctx context.Context) {
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// healths are the healths of all the servers that a backend is spread over. A
// backend that is one server has one, by the name of "".
type healths struct {
	store Backend
	begin func(place string) *health

	mu      sync.RWMutex
	byPlace map[string]*health
}

// newHealths begins a health for each server as it is met.
func newHealths(store Backend, begin func(place string) *health) *healths {
	h := &healths{store: store, begin: begin, byPlace: map[string]*health{}}
	h.at("")
	return h
}

// of is the health of the server that a bucket is on.
func (h *healths) of(ctx context.Context, bucket string) *health {
	whole := h.at("")
	if !h.several() || !whole.up() { // where no server is known, looking for one takes as long as asking it
		return whole
	}
	return h.at(h.store.(spread).place(ctx, bucket))
}

// several says whether there may be more healths than one.
func (h *healths) several() bool {
	servers, ok := h.store.(spread)
	return ok && servers.several()
}

func (h *healths) at(place string) *health {
	h.mu.RLock()
	one, ok := h.byPlace[place]
	h.mu.RUnlock()
	if ok {
		return one
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if one, ok = h.byPlace[place]; !ok {
		one = h.begin(place)
		h.byPlace[place] = one
	}
	return one
}

// all are the healths by now.
func (h *healths) all() []*health {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := make([]*health, 0, len(h.byPlace))
	for _, one := range h.byPlace {
		list = append(list, one)
	}
	return list
}

// health is what the backend's is told as: degraded as soon as one server is.
func (h *healths) health() (whole Health) {
	for _, each := range h.all() {
		one := each.health()
		switch {
		case one.Degraded && (!whole.Degraded || one.Since.Before(whole.Since)):
			whole = one
		case !one.Degraded && !whole.Degraded && one.Since.After(whole.Since):
			whole = one
		}
	}
	return whole
}

// heard takes how a call for a bucket ended.
func (h *healths) heard(ctx context.Context, bucket string, err error) {
	one := h.of(ctx, bucket)
	if err == nil {
		one.succeeded()
		return
	}
	if !isFailure(err) {
		return
	}
	one.failed(err)
	if servers, ok := h.store.(spread); ok {
		servers.lost(ctx)
	}
}

// watch watches a server while nobody asks: of several the one that has the
// probes' bucket.
func (h *healths) watch(ctx context.Context) { h.of(ctx, probeBucket).watch(ctx) }

func (h *healths) close() {
	for _, each := range h.all() {
		each.close()
	}
}

// probeBucket is written by probes alone; no dependency can have its name, or
// one that begins with it.
const probeBucket = "_probe"

// maxProbeNames bounds the names that are tried to find one on a server. Each
// has one in as many chances as there are servers.
const maxProbeNames = 10_000

// probe asks the server of a place whether it is back: by a write, since a store
// that is full or read-only still answers reads.
func probe(b Backend, place string) func(context.Context) error {
	rule := &decide.Policy{Name: probeBucket, Budget: decide.BudgetRule{Capacity: 1, NanoPerSecond: decide.MaxNanoPerSecond}}
	return func(ctx context.Context) error {
		bucket := probeBucket
		servers, ok := b.(spread)
		if ok && place != "" {
			if bucket = bucketAt(ctx, servers, place); bucket == "" {
				return nil // the server has no buckets any more
			}
		}
		err := b.Run(ctx, bucket, rule, []op{{tell: &failures{}}})
		if ok && err != nil {
			servers.lost(ctx)
		}
		return err
	}
}

func bucketAt(ctx context.Context, servers spread, place string) string {
	for i := range maxProbeNames {
		if bucket := probeBucket + strconv.Itoa(i); servers.place(ctx, bucket) == place {
			return bucket
		}
	}
	return ""
}
