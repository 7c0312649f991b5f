package simulate

// dependency is what is called: workers, one queue in order of arrival, and
// faults. It cancels nothing: what a client no longer waits for is still done.
type dependency struct {
	model *Model
	busy  int
	queue fifo
}

// waiting is an attempt in the queue.
type waiting struct {
	call    int32
	attempt uint32
}

// fifo is a ring that grows.
type fifo struct {
	ring  []waiting
	start int
	count int
}

func (q *fifo) push(w waiting) {
	if q.count == len(q.ring) {
		grown := make([]waiting, max(2*len(q.ring), 64))
		for i := range q.count {
			grown[i] = q.ring[(q.start+i)%len(q.ring)]
		}
		q.ring, q.start = grown, 0
	}
	q.ring[(q.start+q.count)%len(q.ring)] = w
	q.count++
}

func (q *fifo) pop() waiting {
	w := q.ring[q.start]
	q.start = (q.start + 1) % len(q.ring)
	q.count--
	return w
}

// active is the fault of a kind that holds at an instant, nil where none does.
func (d *dependency) active(k FaultKind, now int64) *Fault {
	for i := range d.model.Faults {
		f := &d.model.Faults[i]
		if f.Kind == k && int64(f.From) <= now && now < int64(f.To) {
			return f
		}
	}
	return nil
}

// workers that work at an instant.
func (d *dependency) workers(now int64) int {
	if f := d.active(FaultCut, now); f != nil {
		return max(int(float64(float64(d.model.Workers)*f.Factor)+0.5), 1)
	}
	return d.model.Workers
}

// land takes an attempt in: it is refused, never answered, served or queued.
func (r *run) land(call int32, attempt uint32) {
	d := &r.dependency
	switch {
	case d.active(FaultRefuse, r.now) != nil:
		r.events.plan(r.now+refusal, refuse, call, attempt)
	case d.active(FaultHang, r.now) != nil:
	case r.model.Workers == 0, d.busy < d.workers(r.now):
		r.serve(call, attempt)
	case r.model.Queue > 0 && d.queue.count >= r.model.Queue:
		r.events.plan(r.now+refusal, refuse, call, attempt)
	default:
		d.queue.push(waiting{call, attempt})
	}
}

// serve starts a worker on an attempt.
func (r *run) serve(call int32, attempt uint32) {
	r.dependency.busy++
	mean := float64(r.model.Service)
	if f := r.dependency.active(FaultSlow, r.now); f != nil {
		mean = float64(mean * f.Factor)
	}
	took := int64(0)
	if mean > 0 {
		took = int64(r.service.exponential(mean))
	}
	r.events.plan(r.now+took, serve, call, attempt)
}

// served ends a worker's work; the next in the queue is served.
func (r *run) served(call int32, attempt uint32) {
	d := &r.dependency
	d.busy--
	for d.queue.count > 0 && d.busy < d.workers(r.now) {
		w := d.queue.pop()
		r.serve(w.call, w.attempt)
	}
	answer := succeed
	if r.fails(call) {
		answer = refuse
	}
	r.events.plan(r.now+r.oneWay(), answer, call, attempt)
}

// fails says whether the work on an attempt comes to a failure.
func (r *run) fails(call int32) bool {
	f := r.dependency.active(FaultFail, r.now)
	failed := f != nil && r.faults.float() < f.P
	return failed || r.model.FirstFails && r.calls.all[call].client == 0
}

// oneWay is how long a message is on its way, in ns.
func (r *run) oneWay() int64 {
	if r.model.LatencyVaries {
		return int64(r.network.exponential(float64(r.model.Latency)))
	}
	return int64(r.model.Latency)
}
