package simulate

import "github.com/retrydecider/decider/internal/decide"

// call is one call of a client, with all its attempts.
type call struct {
	start  int64 // ns
	client int32
	// attempt numbers the attempts of this place in the slab, so that answers
	// and deadlines of earlier ones are known for what they are.
	attempt uint32
	// waits: the client waits for the answer of attempt.
	waits bool
	// layer asks, or retries, next.
	layer int8
	// sent counts attempts at the dependency.
	sent    int32
	failure decide.Failure
	tries   [maxLayers]int32
	// waited is the wait before each layer's last try, in ms.
	waited [maxLayers]float64
}

// slab keeps the calls that are under way; what is over makes room.
type slab struct {
	all  []call
	free []int32
}

func (s *slab) take() int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.all = append(s.all, call{})
	return int32(len(s.all) - 1)
}

func (s *slab) release(i int32) {
	c := &s.all[i]
	*c = call{attempt: c.attempt + 1}
	s.free = append(s.free, i)
}

// arrived starts a new call of a client.
func (r *run) arrived(client int) {
	i := r.calls.take()
	c := &r.calls.all[i]
	c.start, c.client = r.now, int32(client)
	r.stats.first(r.now, client)
	r.reborn(client)
	for layer := r.model.Layers - 1; layer >= 0; layer-- {
		if !r.enter(i, layer) {
			r.calls.release(i)
			return
		}
	}
	r.send(i)
}

// reborn replaces a client whose life is over by a new one.
func (r *run) reborn(client int) {
	if r.model.Life == 0 {
		return
	}
	if r.age[client] == int32(r.model.Life) {
		r.age[client] = 0
		for layer := range r.model.Layers {
			r.rule.reborn(client, layer)
		}
	}
	r.age[client]++
}

// enter begins a layer's own call; false: it is shed.
func (r *run) enter(i int32, layer int) bool {
	c := &r.calls.all[i]
	c.tries[layer], c.waited[layer] = 1, 0
	return r.rule.begins(c, layer)
}

// send sends one attempt to the dependency.
func (r *run) send(i int32) {
	c := &r.calls.all[i]
	c.attempt++
	c.waits, c.layer = true, 0
	c.sent++
	r.stats.attempt(r.now)
	if r.model.Timeout > 0 {
		r.events.plan(r.now+int64(r.model.Timeout), expire, i, c.attempt)
	}
	if f := r.dependency.active(FaultHold, r.now); f != nil {
		r.events.plan(int64(f.To), land, i, c.attempt)
		return
	}
	if r.model.Latency > 0 {
		r.events.plan(r.now+r.oneWay(), land, i, c.attempt)
		return
	}
	r.land(i, c.attempt)
}

// landed is an attempt that was on its way. What the network held is gone where
// the client has gone.
func (r *run) landed(i int32, attempt uint32) {
	if r.lets() && !r.waitsFor(i, attempt) {
		return
	}
	r.land(i, attempt)
}

// lets says whether the network lets go, at this instant, of what it held.
func (r *run) lets() bool {
	for n := range r.model.Faults {
		if f := &r.model.Faults[n]; f.Kind == FaultHold && r.now == int64(f.To) {
			return true
		}
	}
	return false
}

func (r *run) waitsFor(i int32, attempt uint32) bool {
	c := &r.calls.all[i]
	return c.waits && c.attempt == attempt
}

// succeeded ends a call well.
func (r *run) succeeded(i int32, attempt uint32) {
	if !r.waitsFor(i, attempt) {
		return
	}
	c := &r.calls.all[i]
	r.stats.good(r.now, c)
	for layer := range r.model.Layers {
		r.rule.succeeded(c, layer)
	}
	r.calls.release(i)
}

// failed ends an attempt badly: the layer next to the dependency asks first.
func (r *run) failed(i int32, attempt uint32, f decide.Failure) {
	if !r.waitsFor(i, attempt) {
		return
	}
	c := &r.calls.all[i]
	c.waits, c.failure = false, f
	r.question(i)
}

// question puts the question of the call's layer, which is answered later where
// somebody else answers it.
func (r *run) question(i int32) {
	if r.answer > 0 {
		r.events.plan(r.now+r.answer, ask, i, 0)
		return
	}
	r.answered(i)
}

// answered retries, lets the next layer above ask, or gives up.
func (r *run) answered(i int32) {
	c := &r.calls.all[i]
	layer := int(c.layer)
	wait, granted := r.rule.failed(c, layer)
	r.stats.wish(c, granted)
	switch {
	case granted:
		c.waited[layer] = float64(wait) / 1e6
		r.events.plan(r.now+wait, again, i, 0)
	case layer+1 < r.model.Layers:
		c.layer++
		r.question(i)
	default:
		r.stats.bad(r.now, c)
		r.calls.release(i)
	}
}

// retry starts a layer's next try: the layers below begin anew.
func (r *run) retry(i int32) {
	c := &r.calls.all[i]
	layer := int(c.layer)
	c.tries[layer]++
	for below := layer - 1; below >= 0; below-- {
		if !r.enter(i, below) { // shed on the way down: that try has failed
			c.failure = decide.CallerBreakerOpen
			r.question(i)
			return
		}
	}
	r.send(i)
}
