package simulate

import "github.com/retrydecider/decider/internal/decide"

// What other systems do to bound retries, as far as a run needs it. None of
// this is decider's own code, but for the shapes of waits, which all share.

// allowance is what a client may still retry by itself.
type allowance interface {
	// call tells that a client's call begins.
	call(now int64, client int)
	// fail tells of a failed attempt and says whether it may be retried.
	fail(now int64, client int, retries bool) bool
	// succeed tells that a call ended well after so many retries.
	succeed(client int, retries int32)
	// reborn makes a client's allowance new.
	reborn(client int)
}

// local is a rule by which each client decides alone.
type local struct {
	run     *run
	retries int32
	backoff decide.Backoff
	// allow is each layer's allowance; nil: any number.
	allow []allowance
}

// newLocal makes a local rule; of each layer, or one for all.
func newLocal(r *run, retries int, backoff decide.Backoff, allowanceOf func(r *run) allowance) rule {
	l := &local{run: r, retries: int32(retries), backoff: backoff}
	if allowanceOf == nil {
		return l
	}
	for layer := range r.model.Layers {
		if layer > 0 && r.model.Scope == Shared {
			l.allow = append(l.allow, l.allow[0])
			continue
		}
		l.allow = append(l.allow, allowanceOf(r))
	}
	return l
}

// feeds says whether a layer's calls count as calls of its allowance: of a
// shared one only the outermost layer's do.
func (r *run) feeds(layer int) bool { return r.model.Scope != Shared || layer == r.model.Layers-1 }

func (l *local) begins(c *call, layer int) bool {
	if l.allow != nil && l.run.feeds(layer) {
		l.allow[layer].call(l.run.now, int(c.client))
	}
	return true
}

func (l *local) failed(c *call, layer int) (wait int64, granted bool) {
	left := c.tries[layer] <= l.retries
	if l.run.model.Scope == Lowest && layer > 0 {
		return 0, false
	}
	if l.allow != nil {
		left = l.allow[layer].fail(l.run.now, int(c.client), left) && left
	}
	if !left {
		return 0, false
	}
	random := l.run.waits.float()
	return int64(float64(l.backoff.Real(int64(c.tries[layer]), c.waited[layer], random) * 1e6)), true
}

func (l *local) succeeded(c *call, layer int) {
	if l.allow != nil && l.run.feeds(layer) {
		l.allow[layer].succeed(int(c.client), c.tries[layer]-1)
	}
}

func (l *local) reborn(client, layer int) {
	if l.allow != nil {
		l.allow[layer].reborn(client)
	}
}

func (l *local) wake(int32, uint32) {}

// bucket of each client: so many tokens at first and at most.
type tokens struct {
	left []float64
	full float64
}

func newTokens(clients int, full float64) tokens {
	t := tokens{left: make([]float64, clients), full: full}
	for i := range t.left {
		t.left[i] = full
	}
	return t
}

func (t *tokens) add(client int, n float64) { t.left[client] = min(t.full, t.left[client]+n) }

// take takes a cost where it is there.
func (t *tokens) take(client int, cost float64) bool {
	if t.left[client] < cost {
		return false
	}
	t.left[client] -= cost
	return true
}

func (t *tokens) call(int64, int)   {}
func (t *tokens) reborn(client int) { t.left[client] = t.full }

// grpcThrottle is gRPC's: a failure takes a token, a success brings a tenth,
// and a retry needs more than half (grpc/proposal A6).
type grpcThrottle struct{ tokens }

func newGRPC(r *run) allowance { return &grpcThrottle{newTokens(r.model.Clients, 10)} }

func (g *grpcThrottle) fail(_ int64, client int, retries bool) bool {
	g.left[client] = max(0, g.left[client]-1)
	return retries && g.left[client] > g.full/2
}

func (g *grpcThrottle) succeed(client int, _ int32) { g.add(client, 0.1) }

// awsQuota is the AWS SDKs' of 2026: 500 tokens, 14 a retry, which a success
// gives back; one for a call without a retry.
type awsQuota struct{ tokens }

const awsCost = 14

func newAWS(r *run) allowance { return &awsQuota{newTokens(r.model.Clients, 500)} }

func (a *awsQuota) fail(_ int64, client int, retries bool) bool {
	return retries && a.take(client, awsCost)
}

func (a *awsQuota) succeed(client int, retries int32) {
	if retries > 0 {
		a.add(client, awsCost)
		return
	}
	a.add(client, 1)
}

// perClient is a bucket of each client: so many tokens, a share of one for
// each call, or for each that ends well.
type perClient struct {
	tokens
	ratio     float64
	onRequest bool
}

// perClientTokens is a bucket's size where the scenario says none.
const perClientTokens = 5

func newPerClient(share float64, onRequest bool) func(r *run) allowance {
	return func(r *run) allowance {
		full := perClientTokens
		if r.model.Tokens > 0 {
			full = r.model.Tokens
		}
		return &perClient{newTokens(r.model.Clients, float64(full)), share, onRequest}
	}
}

func (p *perClient) call(_ int64, client int) {
	if p.onRequest {
		p.add(client, p.ratio)
	}
}

func (p *perClient) fail(_ int64, client int, retries bool) bool {
	return retries && p.take(client, 1)
}

func (p *perClient) succeed(client int, _ int32) {
	if !p.onRequest {
		p.add(client, p.ratio)
	}
}

// bucket2022 is the adaptive strategy of "Fixing retries with token buckets
// and circuit breakers": fed by calls, and a retry needs more than one token.
type bucket2022 struct{ perClient }

func newBucket2022(r *run) allowance {
	return &bucket2022{perClient{newTokens(r.model.Clients, perClientTokens), 0.1, true}}
}

func (b *bucket2022) fail(now int64, client int, retries bool) bool {
	return b.left[client] > 1 && b.perClient.fail(now, client, retries)
}

// retryBreaker is that article's breaker: retries while a client's failed
// attempts are at most a tenth of its calls since its start.
type retryBreaker struct{ calls, failures []int64 }

func newRetryBreaker(r *run) allowance {
	return &retryBreaker{make([]int64, r.model.Clients), make([]int64, r.model.Clients)}
}

func (b *retryBreaker) call(_ int64, client int) { b.calls[client]++ }

func (b *retryBreaker) fail(_ int64, client int, retries bool) bool {
	b.failures[client]++
	return retries && b.failures[client]*10 <= b.calls[client]
}

func (b *retryBreaker) succeed(int, int32) {}

func (b *retryBreaker) reborn(client int) { b.calls[client], b.failures[client] = 0, 0 }

// window is Finagle's and Linkerd's budget: over ten slots of a second, a fifth
// of a retry for each call, beside a reserve of ten a second.
type window struct{ clients []slots }

type slots struct {
	balance [windowSlots]int32 // in fifths of a retry
	second  int64
}

const (
	windowSlots   = 10
	retryCost     = 5 // calls that pay for a retry
	windowReserve = 10 * windowSlots * retryCost
)

func newWindow(r *run) allowance { return &window{make([]slots, r.model.Clients)} }

// at turns to the second of an instant, emptying what has passed.
func (w *window) at(now int64, client int) *slots {
	s := &w.clients[client]
	second := now / 1e9
	for n := s.second + 1; n <= min(second, s.second+windowSlots); n++ {
		s.balance[n%windowSlots] = 0
	}
	s.second = second
	return s
}

func (w *window) call(now int64, client int) {
	s := w.at(now, client)
	s.balance[s.second%windowSlots]++
}

func (w *window) fail(now int64, client int, retries bool) bool {
	s := w.at(now, client)
	sum := int32(windowReserve)
	for _, n := range s.balance {
		sum += n
	}
	if !retries || sum < retryCost {
		return false
	}
	s.balance[s.second%windowSlots] -= retryCost
	return true
}

func (w *window) succeed(int, int32) {}

func (w *window) reborn(client int) { w.clients[client] = slots{} }
