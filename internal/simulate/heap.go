package simulate

// kind of an event.
type kind uint8

// The events of a run.
const (
	arrive  kind = iota // a new call
	land                // an attempt reaches the dependency; a: call, b: attempt
	serve               // a worker is done; a: call, b: attempt
	succeed             // a good answer reaches the client; a: call, b: attempt
	refuse              // a bad one does
	expire              // the client stops waiting for it
	ask                 // the client's question is answered; a: call
	again               // a retry starts; a: call
	wake                // the rule's own; a: whatever it planned
)

// event is something that happens at an instant.
type event struct {
	at    int64  // ns
	order uint64 // of two at one instant the one planned first is first
	a     int32
	b     uint32
	kind  kind
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// heap holds the events that are planned, the next on top: a heap of four
// children, since that is shallow and its values lie side by side.
type heap struct {
	events  []event
	planned uint64
}

const children = 4

// plan adds an event.
func (h *heap) plan(at int64, k kind, a int32, b uint32) {
	h.planned++
	e := event{at: at, order: h.planned, kind: k, a: a, b: b}
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !e.before(&h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = e
}

// next takes the event on top; there must be one.
func (h *heap) next() event {
	top := h.events[0]
	n := len(h.events) - 1
	last := h.events[n]
	h.events = h.events[:n]
	if n > 0 {
		h.sink(last)
	}
	return top
}

// sink puts an event in at the top and lets it sink to its place.
func (h *heap) sink(e event) {
	i, n := 0, len(h.events)
	for {
		child := children*i + 1
		if child >= n {
			break
		}
		least := child
		for j := child + 1; j < min(child+children, n); j++ {
			if h.events[j].before(&h.events[least]) {
				least = j
			}
		}
		if !h.events[least].before(&e) {
			break
		}
		h.events[i] = h.events[least]
		i = least
	}
	h.events[i] = e
}
