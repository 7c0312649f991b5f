package budget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// health knows whether a server is worth asking. After a few failures in a
// row nothing asks any more but one probe, and everybody does again as soon as
// that succeeds.
type health struct {
	// place is the server whose health it is; "" where there is one.
	place string
	probe func(context.Context) error
	// every is how long a probe may take, and the pause before the next.
	timeout, every time.Duration
	now            func() time.Time
	// changed hears of every turn; nil: nobody does.
	changed func(Health)

	failures atomic.Int64
	heard    atomic.Int64 // calls and probes that ended
	down     atomic.Bool
	stop     chan struct{}
	probes   sync.WaitGroup

	// turning is held from a turn until it is told, so that turns are told one
	// by one and in order.
	turning sync.Mutex

	mu    sync.Mutex
	since time.Time
	last  error
}

// fewFailures in a row are enough.
const fewFailures = 5

// Health is what the store's state is told as.
type Health struct {
	// Degraded: the store is out of reach, and local rules answer.
	Degraded bool
	// Since is when it changed last; zero where it never did.
	Since time.Time
	// Error is the last failure of a degraded store.
	Error error
}

func newHealth(probe func(context.Context) error, timeout, every time.Duration, now func() time.Time) *health {
	return &health{probe: probe, timeout: timeout, every: every, now: now, stop: make(chan struct{})}
}

func (h *health) up() bool { return !h.down.Load() }

// succeeded forgets earlier failures.
func (h *health) succeeded() {
	h.heard.Add(1)
	if h.failures.Load() != 0 {
		h.failures.Store(0)
	}
}

// failed counts a failure, and stops the asking at the last of a few in a row.
func (h *health) failed(err error) {
	h.heard.Add(1)
	if h.failures.Add(1) >= fewFailures {
		h.turnDown(err)
	}
}

// turnDown stops the asking, and tells of it where that is a turn.
func (h *health) turnDown(err error) {
	h.turning.Lock()
	defer h.turning.Unlock()
	if h.goDown(err) {
		h.tell()
	}
}

// goDown stops the asking, and says whether it had not been stopped before.
func (h *health) goDown(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up() {
		return false
	}
	h.since, h.last = h.now(), err
	h.down.Store(true)
	select {
	case <-h.stop:
	default:
		h.probes.Add(1)
		go h.probeUntilUp()
	}
	return true
}

func (h *health) tell() {
	if h.changed != nil {
		h.changed(h.health())
	}
}

// probeUntilUp asks now and then whether the backend is back.
func (h *health) probeUntilUp() {
	defer h.probes.Done()
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		if h.turnUp(h.probeOnce(context.Background())) {
			return
		}
	}
}

func (h *health) probeOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return h.probe(ctx)
}

// silence is how long nothing may be heard of the backend before it is probed.
const silence = time.Second

// watch probes a backend of which nothing is heard. At the start one failure is
// enough: nothing speaks against it yet.
func (h *health) watch(ctx context.Context) {
	err := h.probeOnce(ctx)
	if err != nil && ctx.Err() == nil && h.heard.Load() == 0 {
		h.turnDown(err)
	}
	for before, next := h.heard.Load(), silence; ; before = h.heard.Load() {
		select {
		case <-ctx.Done():
			return
		case <-h.stop:
			return
		case <-time.After(next):
		}
		if next = silence; !h.up() || h.heard.Load() != before {
			continue
		}
		if err := h.probeOnce(ctx); err == nil {
			h.succeeded()
		} else if ctx.Err() == nil {
			h.failed(err)
			next = h.every // four more of these and it is down
		}
	}
}

// turnUp takes a probe's result, tells of the turn where it is one, and says so.
func (h *health) turnUp(err error) bool {
	h.turning.Lock()
	defer h.turning.Unlock()
	up := h.probed(err)
	if up {
		h.tell()
	}
	return up
}

// probed takes a probe's result and says whether the backend is back.
func (h *health) probed(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.last = err
		return false
	}
	h.since, h.last = h.now(), nil
	h.failures.Store(0)
	h.down.Store(false)
	return true
}

func (h *health) health() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := Health{Degraded: h.down.Load(), Since: h.since, Error: h.last}
	if h.place != "" && h.last != nil {
		told.Error = fmt.Errorf("of several servers the one at %s: %w", h.place, h.last)
	}
	return told
}

// close ends the probing.
func (h *health) close() {
	h.mu.Lock()
	close(h.stop)
	h.mu.Unlock()
	h.probes.Wait()
}
