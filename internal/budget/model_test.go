package budget

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// model is the state of one dependency once more, written without a look at
// bucket.go: exact fractions, lists of events, no care for speed. It knows one
// rule, without shares and without a growing capacity.
type model struct {
	p      *decide.Policy
	born   bool
	tokens *big.Rat // of the second it was last brought up to date
	asOf   int64

	counted   []event // attempts of the closed breaker
	openUntil int64   // 0: closed
	leases    []int64
	probed    bool

	fleetCool   int64
	callersCool map[string]int64

	pausedUntil, allowedUntil int64

	replies map[string]string // of ids that were granted
	reports map[string]bool
}

// event is an attempt that ended.
type event struct {
	slot   int64
	failed bool
}

func newModel(p *decide.Policy) *model {
	return &model{p: p, callersCool: map[string]int64{}, replies: map[string]string{}, reports: map[string]bool{}}
}

// rat is so many parts of something.
func rat(n, of int64) *big.Rat { return big.NewRat(n, of) }

// refill brings the tokens to an instant.
func (m *model) refill(t int64) {
	full := rat(m.p.Budget.Capacity, token)
	if !m.born {
		m.born, m.tokens, m.asOf = true, full, t
		return
	}
	perMilli := new(big.Rat).Mul(rat(m.p.Budget.NanoPerSecond, 1_000_000_000), rat(1, 1000))
	m.add(perMilli.Mul(perMilli, rat(t-m.asOf, 1)))
	m.asOf = t
}

func (m *model) add(n *big.Rat) {
	m.tokens = new(big.Rat).Add(m.tokens, n)
	if full := rat(m.p.Budget.Capacity, token); m.tokens.Cmp(full) > 0 {
		m.tokens = full
	}
}

// whole is the tokens in whole millionths.
func (m *model) whole() int64 {
	micro := new(big.Rat).Mul(m.tokens, rat(token, 1))
	return new(big.Int).Quo(micro.Num(), micro.Denom()).Int64()
}

func (m *model) breaker(t int64) string {
	switch {
	case m.p.Breaker.Mode == decide.BreakerModeOff:
		return "off"
	case m.openUntil == 0:
		return "closed"
	case t < m.openUntil:
		return "open"
	}
	return "half_open"
}

// held is the leases that have not ended.
func (m *model) held(t int64) (held []int64) {
	for _, end := range m.leases {
		if end > t {
			held = append(held, end)
		}
	}
	return held
}

func (m *model) count(t int64, failed bool, times int64) {
	r := &m.p.Breaker
	slot := t / (r.Window / 10) * (r.Window / 10)
	for range times {
		m.counted = append(m.counted, event{slot, failed})
	}
	for { // a slot that is outside goes where enough attempts stay without it
		oldest, of := m.counted[0].slot, int64(0)
		for _, e := range m.counted {
			if e.slot == oldest {
				of++
			}
		}
		if oldest > slot-r.Window || int64(len(m.counted))-of < r.MinAttempts {
			return
		}
		m.counted = m.counted[of:]
	}
}

func (m *model) fail(t, times int64) {
	if times == 0 {
		return
	}
	switch m.breaker(t) {
	case "half_open":
		if held := m.held(t); len(held) > 0 {
			m.counted, m.leases, m.probed, m.openUntil = nil, nil, false, held[len(held)-1]
			return
		}
		fallthrough
	case "closed":
		m.count(t, true, times)
		m.judge(t)
	}
}

// judge opens or closes the breaker by what was counted.
func (m *model) judge(t int64) {
	failures := int64(0)
	for _, e := range m.counted {
		if e.failed {
			failures++
		}
	}
	total := int64(len(m.counted))
	switch {
	case m.breaker(t) == "half_open" && failures == 0 && total >= min(m.p.Breaker.MinAttempts, 10):
		m.counted, m.leases, m.probed, m.openUntil = nil, nil, false, 0
	case total < m.p.Breaker.MinAttempts:
	case rat(failures, total).Cmp(rat(m.p.Breaker.FailureRatio, token)) >= 0:
		m.counted, m.leases, m.probed, m.openUntil = nil, nil, false, t+m.p.Breaker.OpenFor
	case m.breaker(t) == "half_open":
		m.counted, m.leases, m.probed, m.openUntil = nil, nil, false, 0
	}
}

func (m *model) succeed(t, times int64) {
	if times == 0 {
		return
	}
	switch m.breaker(t) {
	case "closed":
		m.count(t, false, times)
	case "half_open":
		if m.probed {
			m.counted, m.leases, m.probed, m.openUntil = nil, nil, false, 0
			return
		}
		m.count(t, false, times)
		m.judge(t)
	}
}

func (m *model) deposit(calls int64) {
	m.add(new(big.Rat).Mul(rat(m.p.Budget.Ratio, token), rat(calls, 1)))
}

func (m *model) failed(t int64, f *failures) {
	m.fail(t, f.count)
	m.felt(t, f)
}

// felt is what failures say to all but the breaker.
func (m *model) felt(t int64, f *failures) {
	if m.p.Budget.DepositOnRequest {
		m.deposit(f.firsts)
	}
	switch until := t + f.serverDelay; {
	case f.serverDelay == 0 || m.p.CoolDown == decide.CoolDownOff:
	case f.forCaller:
		m.callersCool[f.caller] = max(m.callersCool[f.caller], until)
	default:
		m.fleetCool = max(m.fleetCool, until)
	}
}

// ask is what a question must be answered, in the words of [said].
func (m *model) ask(t int64, q *question) string {
	if before, ok := m.replies[q.id]; ok && q.id != "" {
		return before + fmt.Sprintf(" replayed %d %d %d", q.own, q.delay, q.serverDelay)
	}
	m.refill(t)
	if m.breaker(t) != "half_open" || int64(len(m.held(t))) >= m.p.Breaker.Probes { // else it may be a probe
		m.fail(t, q.count)
	}
	m.felt(t, &q.failures)
	state := m.breaker(t)
	words := func(parts ...string) string {
		if state != "off" {
			parts = append(parts, state)
		}
		said := strings.Join(parts, " ")
		if parts[0] == "granted" && q.id != "" {
			m.replies[q.id] = said
		}
		return said
	}
	if t < m.allowedUntil {
		return words("granted")
	}
	if t < m.pausedUntil {
		return words("paused", fmt.Sprint("again ", m.pausedUntil-t))
	}
	held := m.held(t)
	if state == "open" {
		return words("open breaker", fmt.Sprint("again ", m.openUntil-t))
	}
	if state == "half_open" && int64(len(held)) >= m.p.Breaker.Probes {
		return words("open breaker", fmt.Sprint("again ", held[0]-t))
	}
	cool := min(max(m.fleetCool-t, m.callersCool[q.caller]-t, 0), m.p.RetryAfter.Max)
	cooling := []string{}
	if cool > 0 {
		cooling = []string{fmt.Sprint("cool ", cool)}
	}
	if q.fit.Present && cool > q.fit.Value {
		return words(append([]string{"cool-down too long"}, cooling...)...)
	}
	cost := rat(q.cost, token)
	if m.tokens.Cmp(cost) < 0 {
		parts := []string{"no tokens", m.level()}
		if nano := m.p.Budget.NanoPerSecond; nano > 0 && q.cost <= m.p.Budget.Capacity {
			wait := new(big.Rat).Quo(rat((q.cost-m.whole())*1000, token), rat(nano, 1_000_000_000))
			up := new(big.Int).Add(wait.Num(), new(big.Int).Sub(wait.Denom(), big.NewInt(1)))
			parts = append(parts, fmt.Sprint("again ", up.Quo(up, wait.Denom())))
		}
		return words(append(parts, cooling...)...)
	}
	m.tokens = new(big.Rat).Sub(m.tokens, cost)
	if state == "half_open" {
		m.probed = true
		m.leases = held
		m.leases = append(m.leases, t+m.p.Breaker.OpenFor)
	}
	return words(append([]string{"granted", m.level()}, cooling...)...)
}

func (m *model) level() string {
	return decide.FormatMicro(m.whole()) + "/" + decide.FormatMicro(m.p.Budget.Capacity)
}

func (m *model) report(t int64, r *report) {
	key := r.caller + " " + r.id
	if r.id != "" && m.reports[key] {
		return
	}
	m.reports[key] = true
	m.refill(t)
	calls := r.firstTries + r.retries
	if m.p.Budget.DepositOnRequest {
		calls += r.finals
	}
	m.deposit(calls)
	m.succeed(t, r.firstTries+r.retries)
	m.fail(t, r.finals)
}

// apply is what an operation that reached the store must be answered.
func (m *model) apply(t int64, o *op) string {
	switch {
	case o.ask != nil:
		return m.ask(t, o.ask)
	case o.tell != nil:
		m.refill(t)
		m.failed(t, o.tell)
	case o.report != nil:
		m.report(t, o.report)
	case o.override != nil:
		m.refill(t)
		m.pausedUntil, m.allowedUntil = 0, 0
		switch o.override.mode {
		case decide.OverridePause:
			m.pausedUntil = t + o.override.until
		case decide.OverrideAllow:
			m.allowedUntil = t + o.override.until
		}
	}
	return ""
}

// history is a random life of one dependency on three replicas.
type history struct {
	t      *testing.T
	r      *rand.Rand
	p      *decide.Policy
	fleets [3]*Fleet
	model  *model
	log    []string

	mu sync.Mutex
	// charges counts, by the delay that marks a question, how often it was
	// applied, and promised is what the model says it must be answered.
	charges  map[int64]int
	promised map[int64]string
	marks    int64
	// spent and alone are how many retries the store and the replicas alone have
	// granted from a budget; calls is how many original calls were told of.
	spent, alone int
	calls        int64
}

// As many histories as a few seconds allow, or many more.
func modelHistories() uint64 {
	if long {
		return 50_000
	}
	return 2_000
}

// Random decisions, outcomes, probes, overrides, steps of time and faults of the
// store, over three replicas, are answered as by the model, one after the
// other; no decision is charged twice; and what is granted never passes what
// the bucket held, was refilled and was deposited, and the local shares.
func TestModel(t *testing.T) {
	t.Parallel()
	begin := rand.Uint64()
	for i := range modelHistories() {
		synctest.Test(t, func(t *testing.T) {
			live(t, begin+i)
		})
		if t.Failed() {
			t.Fatalf("history of seed %d", begin+i)
		}
	}
}

func live(t *testing.T, seed uint64) {
	h := &history{t: t, r: newRandom(seed), charges: map[int64]int{}, promised: map[int64]string{}}
	h.p = modelRule(h.r)
	h.model = newModel(h.p)
	store := &faulty{store: NewMemory(time.Now), applied: h.applied}
	faults, chance := pick(h.r, 0, 0, 10, 40), newRandom(seed+1)
	store.fault = func(bucket string, _ []op) fault {
		if bucket == probeBucket || chance.IntN(100) >= faults {
			return well
		}
		return pick(chance, refuses, loses, stalls, isLate, isSlow)
	}
	for i := range h.fleets {
		h.fleets[i] = bubbleFleet(t, store, len(h.fleets))
	}
	begun := time.Now()
	for range 30 {
		h.step()
	}
	time.Sleep(time.Minute) // what is late comes, what is told is told
	synctest.Wait()
	h.bounds(time.Since(begun))
	if t.Failed() {
		t.Log(strings.Join(h.log, "\n"))
	}
}

func modelRule(r *rand.Rand) *decide.Policy {
	return testRule(func(p *decide.Policy) {
		b := &p.Budget
		b.Capacity, b.NanoPerSecond = pick[int64](r, 1, 3, 10)*token, pick[int64](r, 0, perSecond/10, perSecond, 333_333_333)
		b.Ratio, b.DepositOnRequest = pick[int64](r, 0, token/10, token), r.IntN(2) == 0
		p.CoolDown = pick(r, decide.CoolDownAuto, decide.CoolDownFleet, decide.CoolDownCaller, decide.CoolDownOff)
		p.OnStoreFailure = pick(r, decide.StoreFailureLocal, decide.StoreFailureLocal, decide.StoreFailureGiveUp)
		p.Breaker.Mode = pick(r, decide.BreakerModeOff, decide.BreakerModeRetries)
		p.Breaker.MinAttempts, p.Breaker.Probes = pick[int64](r, 2, 6), pick[int64](r, 1, 2)
	})
}

// applied hears of each call that reached the store, in the order of the store.
func (h *history) applied(p *decide.Policy, ops []op) {
	now := time.Now().UnixMilli()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ops {
		before := h.model.replies[idOf(&ops[i])]
		want := h.model.apply(now, &ops[i])
		q := ops[i].ask
		if q == nil {
			continue
		}
		got := strings.ReplaceAll(said(ops[i].answer), " report", "")
		if before != "" { // the waits are those of the first time
			want, _, _ = strings.Cut(want, " replayed")
			got, _, _ = strings.Cut(got, " replayed")
		}
		if got != want {
			h.t.Errorf("the store answered %q, the model %q", got, want)
		}
		h.charges[q.delay]++
		h.promised[q.delay] = got
		if before == "" && strings.HasPrefix(want, "granted ") && strings.Contains(want, "/") {
			h.spent++
		}
	}
}

func idOf(o *op) string {
	if o.ask == nil {
		return ""
	}
	return o.ask.id
}

// step is one thing that happens to the fleet.
func (h *history) step() {
	f := pick(h.r, h.fleets[0], h.fleets[1], h.fleets[2])
	caller := pick(h.r, "", "checkout", "search")
	switch h.r.IntN(10) {
	case 0, 1:
		h.note("time")
		time.Sleep(time.Duration(pick(h.r, 1, 100, 500, h.r.Int64N(3000))) * time.Millisecond)
	case 2:
		h.note("report by %q", caller)
		o := &decide.Outcome{Bucket: h.p.Name, Policy: h.p, Caller: caller, ReportID: pick(h.r, "", "p1", "p2"),
			FirstTrySuccesses: h.r.Int64N(4), FinalFailures: h.r.Int64N(2)}
		h.calls += o.FirstTrySuccesses + o.FinalFailures
		f.Report(context.Background(), o)
	case 3:
		h.note("tell by %q", caller)
		f.Tell(failedOnce(h.p, func(f *decide.Failed) { f.Caller, f.ServerDelay, f.Kind = caller, h.r.Int64N(900), h.kind() }))
	case 4:
		if h.r.IntN(4) == 0 {
			o := decide.Override{Mode: pick(h.r, decide.OverrideNone, decide.OverridePause, decide.OverrideAllow), ExpiresIn: 1 + h.r.Int64N(900)}
			h.note("override %s for %d", o.Mode, o.ExpiresIn)
			_, _ = f.SetOverride(context.Background(), h.p.Name, h.p, o)
		}
	case 5:
		h.burst()
	default:
		h.ask(f, h.question(caller))
	}
}

func (h *history) kind() decide.Kind { return pick(h.r, decide.Plain, decide.Throttle, decide.Timing) }

func (h *history) question(caller string) *decide.Question {
	h.marks++
	return asked(h.p, func(q *decide.Question) {
		q.Caller, q.Kind, q.Delay = caller, h.kind(), h.marks
		if q.First = h.r.IntN(3) == 0; q.First {
			h.calls++
		}
		q.ServerDelay = max(h.r.Int64N(2000)-1500, 0)
		if h.r.IntN(3) == 0 {
			q.Fit = decide.Some(h.r.Int64N(600))
		}
		if h.r.IntN(4) == 0 {
			q.ID = fmt.Sprint("r", h.r.IntN(5))
		}
	})
}

// burst is what comes at once to all replicas.
func (h *history) burst() {
	var done sync.WaitGroup
	for i := range 3 + h.r.IntN(9) {
		q := h.question("")
		done.Go(func() { h.ask(h.fleets[i%3], q) })
	}
	done.Wait()
}

// ask asks and checks that the answer is the one that the store gave.
func (h *history) ask(f *Fleet, q *decide.Question) {
	a := f.Ask(context.Background(), q)
	h.mu.Lock()
	defer h.mu.Unlock()
	got := said(a)
	h.log = append(h.log, fmt.Sprintf("%s ask %d by %q: %s", time.Now().Format("15:04:05.000"), q.Delay, q.Caller, got))
	if a.Degraded {
		if a.Verdict == decide.Granted && a.Budget.Asked && !a.Replayed {
			h.alone++
		}
		return
	}
	got = strings.ReplaceAll(got, " report", "")
	if a.Replayed {
		got, _, _ = strings.Cut(got, " replayed")
	}
	if want := h.promised[q.Delay]; got != want {
		h.t.Errorf("question %d was answered %q, by the store %q", q.Delay, got, want)
	}
}

func (h *history) note(format string, values ...any) {
	h.log = append(h.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, values...))
}

// bounds checks what holds over a whole history. The least cost is half a token.
func (h *history) bounds(took time.Duration) {
	for mark, times := range h.charges {
		if times > 1 {
			h.t.Errorf("question %d reached the store %d times", mark, times)
		}
	}
	b := &h.p.Budget
	tokens := float64(b.Capacity)/float64(token) + took.Seconds()*float64(b.NanoPerSecond)/1e9 + float64(h.calls*b.Ratio)/float64(token)
	if float64(h.spent) > 2*tokens {
		h.t.Errorf("the store granted %d retries of %g tokens", h.spent, tokens)
	}
	if float64(h.alone) > 2*tokens {
		h.t.Errorf("the replicas alone granted %d retries of %g tokens", h.alone, tokens)
	}
}
