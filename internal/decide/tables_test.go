package decide_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/policy"
)

// streamCase is what a seed of mulberry32 gives.
type streamCase struct {
	ID     string
	Seed   uint32
	Expect struct {
		Uint32 []uint32
		Floats []float64
	}
}

// tableCase is a row of the tables that the seed texts print.
type tableCase struct {
	ID, Table string
	Input     json.RawMessage
	Expect    json.RawMessage
}

// runNumbers runs vectors that no decision is asked for.
func runNumbers(t *testing.T, file vectorFile) {
	for _, raw := range file.Cases {
		if file.Kind == "stream" {
			runStream(t, strictly[streamCase](t, raw))
			continue
		}
		c := strictly[tableCase](t, raw)
		run, ok := tables[c.Table]
		if !ok {
			t.Fatalf("table %q is not known", c.Table)
		}
		t.Run(c.ID, func(t *testing.T) { run(t, c) })
	}
}

func runStream(t *testing.T, c streamCase) {
	t.Run(c.ID, func(t *testing.T) {
		words, floats := decide.NewMulberry32(c.Seed), decide.NewMulberry32(c.Seed)
		for i, want := range c.Expect.Uint32 {
			if got := words.Uint32(); got != want {
				t.Fatalf("word %d is %d, want %d", i, got, want)
			}
		}
		for i, want := range c.Expect.Floats {
			if got := floats.Float64(); !sameFloat(got, want) {
				t.Fatalf("float %d is %v, want %v", i, got, want)
			}
		}
	})
}

var tables = map[string]func(*testing.T, tableCase){
	"mt19937":    runTwister,
	"one_client": runOneClient,
	"schedule":   runSchedule,
	"storm":      runStorm,
}

func runTwister(t *testing.T, c tableCase) {
	seed := strictly[struct{ Seed uint32 }](t, c.Input).Seed
	want := strictly[struct {
		Doubles []float64
		Words   []uint32
	}](t, c.Expect)
	doubles, words := newTwister(seed), newTwister(seed)
	for i, each := range want.Doubles {
		if got := doubles.float(); !sameFloat(got, each) {
			t.Fatalf("double %d is %v, want %v", i, got, each)
		}
	}
	for i, each := range want.Words {
		if got := words.next(); got != each {
			t.Fatalf("word %d is %d, want %d", i, got, each)
		}
	}
}

// scheduleInput is a backoff and who waits by it.
type scheduleInput struct {
	Strategy string
	Base     int64 `json:"base_ms"`
	Cap      int64 `json:"cap_ms"`
	Slot     int64 `json:"slot_ms"`
	Retries  int64
	Clients  int
	Seed     uint32
}

func (in *scheduleInput) backoff() *decide.Backoff {
	strategy := must(decide.ParseStrategy(in.Strategy))
	return &decide.Backoff{Strategy: strategy, Base: in.Base, Cap: in.Cap, Multiplier: 2}
}

// waits are those of one client, in real-valued ms.
func (in *scheduleInput) waits(random func() float64) (waits []float64) {
	b := in.backoff()
	previous := float64(in.Base)
	for n := int64(1); n <= in.Retries; n++ {
		r := 0.0
		if b.Strategy <= decide.ProportionalJitter {
			r = random()
		}
		previous = b.Real(n, previous, r)
		waits = append(waits, previous)
	}
	return waits
}

// wholeWaits are the same in whole ms, as the service answers.
func (in *scheduleInput) wholeWaits(random func() float64) (waits []float64) {
	b := in.backoff()
	previous := in.Base
	for n := int64(1); n <= in.Retries; n++ {
		previous = b.Delay(n, previous, random)
		waits = append(waits, float64(previous))
	}
	return waits
}

func runOneClient(t *testing.T, c tableCase) {
	in := strictly[scheduleInput](t, c.Input)
	want := strictly[struct {
		Printed []float64
		Waits   []float64 `json:"waits_ms"`
	}](t, c.Expect)
	got := in.waits(newTwister(in.Seed).float)
	if !slices.EqualFunc(got, want.Waits, func(a, b float64) bool { return sixDecimals(a) == sixDecimals(b) }) {
		t.Errorf("the waits are %v, want %v", got, want.Waits)
	}
	if !slices.EqualFunc(got, want.Printed, func(a, b float64) bool { return math.RoundToEven(a) == b }) {
		t.Errorf("printed, the waits are %v, want %v", got, want.Printed)
	}
}

// crowd is how clients that all failed at once come back.
type crowd struct {
	Mean    float64 `json:"mean_ms"`
	Longest float64 `json:"longest_ms"`
	Busiest int     `json:"busiest_slot_calls"`
}

func runSchedule(t *testing.T, c tableCase) {
	in := strictly[scheduleInput](t, c.Input)
	want := strictly[struct {
		Printed, Real crowd
		Whole         crowd `json:"whole_ms"`
	}](t, c.Expect)
	got := in.crowd(in.waits)
	if !got.is(want.Real) {
		t.Errorf("real-valued: %+v, want %+v", got, want.Real)
	}
	if got.Mean, got.Longest = math.RoundToEven(got.Mean), math.RoundToEven(got.Longest); got != want.Printed {
		t.Errorf("printed: %+v, want %+v", got, want.Printed)
	}
	if got := in.crowd(in.wholeWaits); !got.is(want.Whole) {
		t.Errorf("in whole ms: %+v, want %+v", got, want.Whole)
	}
}

func (c crowd) is(want crowd) bool {
	return sixDecimals(c.Mean) == sixDecimals(want.Mean) && sixDecimals(c.Longest) == sixDecimals(want.Longest) && c.Busiest == want.Busiest
}

// crowd draws all clients from one generator, client by client.
func (in *scheduleInput) crowd(waits func(func() float64) []float64) (c crowd) {
	random := newTwister(in.Seed)
	slots := map[int64]int{}
	sum := 0.0
	for range in.Clients {
		at := 0.0
		for _, wait := range waits(random.float) {
			at += wait
			slot := int64(at / float64(in.Slot))
			slots[slot]++
			c.Busiest = max(c.Busiest, slots[slot])
		}
		sum += at
		c.Longest = max(c.Longest, at)
	}
	c.Mean = sum / float64(in.Clients)
	return c
}

// runStorm counts the calls that reach a database that is down, below layers
// that each ask whether to retry.
func runStorm(t *testing.T, c tableCase) {
	in := strictly[struct {
		Layers   []string `json:"retrying_layers"`
		Attempts int64
		Requests int
		Budget   json.RawMessage
	}](t, c.Input)
	want := strictly[struct{ Calls int }](t, c.Expect).Calls
	free := ruleOf(t, map[string]any{"max_attempts": in.Attempts, "budget": "off"})
	paid := free
	if in.Budget != nil {
		budget := map[string]any{"capacity_seconds": 0, "min_per_second": 0}
		if err := json.Unmarshal(in.Budget, &budget); err != nil {
			t.Fatal(err)
		}
		paid = ruleOf(t, map[string]any{"max_attempts": in.Attempts, "budget": budget})
	}
	for name, newFleet := range localFleets {
		fleet := newFleet(t, func() time.Time { return noon })
		calls := 0
		call := func() { calls++ }
		for _, layer := range []string{"payments", "orders", "gateway"} {
			if !slices.Contains(in.Layers, layer) {
				continue
			}
			d := decider(free, fleet)
			if layer == "payments" {
				d = decider(paid, fleet)
			}
			below := call
			call = func() {
				a := got503(func(a *decide.Attempt) { a.Dependency = "below " + layer })
				for below(); ; below() {
					decision := mustDecide(t, d, a)
					if !decision.Retry() {
						return
					}
					a.Number = decision.NextAttempt
				}
			}
		}
		for range in.Requests {
			call()
		}
		if calls != want {
			t.Errorf("%s: %d calls reach the database, want %d", name, calls, want)
		}
	}
}

func ruleOf(t *testing.T, body map[string]any) *decide.Policy {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// twister is MT19937 as CPython's random.Random seeds and reads it: the tables
// of the seed texts were printed with it.
type twister struct {
	state [624]uint32
	used  int
}

func newTwister(seed uint32) *twister {
	const n = 624
	m := &twister{used: n}
	s := &m.state
	s[0] = 19650218
	for i := uint32(1); i < n; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + i
	}
	i := uint32(1) // init_by_array with one word
	step := func(multiplier uint32, add uint32) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*multiplier) + add
		if i++; i >= n {
			s[0], i = s[n-1], 1
		}
	}
	for range n {
		step(1664525, seed)
	}
	for range n - 1 {
		step(1566083941, -i)
	}
	s[0] = 1 << 31
	return m
}

func (m *twister) next() uint32 {
	const n = 624
	s := &m.state
	if m.used == n {
		for i := range n {
			y := s[i]&(1<<31) | s[(i+1)%n]&(1<<31-1)
			s[i] = s[(i+397)%n] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		m.used = 0
	}
	y := s[m.used]
	m.used++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// float is a double in [0, 1) of 53 bits.
func (m *twister) float() float64 {
	a, b := m.next()>>5, m.next()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}
