package decide_test

import (
	"math"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		base, cap  int64
		multiplier float64
		n, want    int64
	}{
		{"first", 100, 1000, 2, 1, 100},
		{"second", 100, 1000, 2, 2, 200},
		{"fourth", 100, 1000, 2, 4, 800},
		{"fifth is capped", 100, 1000, 2, 5, 1000},
		{"base above the cap", 2000, 1000, 2, 1, 1000},
		{"cut once, not step by step", 100, 100_000, 1.5, 4, 337},
		{"and again", 100, 100_000, 1.5, 5, 506},
		{"multiplier one", 100, 1000, 1, 1 << 30, 100},
		{"no base", 0, 1000, 2, 1 << 30, 0},
		{"the largest attempt", 100, 1000, 2, decide.MaxAttempt, 1000},
		{"the largest number", 100, decide.MaxDelayMillis, 10, math.MaxInt64, decide.MaxDelayMillis},
		{"just under an infinite power", 1, decide.MaxMillis, 2, 1024, decide.MaxMillis},
		{"a slow growth", 100, decide.MaxMillis, 1 + 1e-9, decide.MaxAttempt, 856},
		{"attempt nought", 100, 1000, 2, 0, 100},
		{"attempt below nought", 100, 1000, 2, math.MinInt64, 100},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := decide.Backoff{Base: test.base, Cap: test.cap, Multiplier: test.multiplier}
			if got := b.Window(test.n); got != test.want {
				t.Errorf("window %d is %d ms, want %d", test.n, got, test.want)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	const nearlyOne = 1 - 1.0/(1<<53)
	backoff := func(s decide.Strategy, edits ...func(*decide.Backoff)) decide.Backoff {
		b := decide.Backoff{Strategy: s, Base: 100, Cap: 1000, Multiplier: 2, Jitter: 0.2}
		for _, edit := range edits {
			edit(&b)
		}
		return b
	}
	least := func(ms int64) func(*decide.Backoff) { return func(b *decide.Backoff) { b.Min = ms } }
	top := func(ms int64) func(*decide.Backoff) { return func(b *decide.Backoff) { b.Cap = ms } }
	base := func(ms int64) func(*decide.Backoff) { return func(b *decide.Backoff) { b.Base = ms } }
	jitter := func(share float64) func(*decide.Backoff) { return func(b *decide.Backoff) { b.Jitter = share } }
	tests := []struct {
		name        string
		backoff     decide.Backoff
		n, previous int64
		floats      []float64
		want        int64
	}{
		{"constant", backoff(decide.Constant), 9, 0, nil, 100},
		{"constant is not capped", backoff(decide.Constant, base(2000)), 1, 0, nil, 2000},
		{"linear", backoff(decide.Linear), 3, 0, nil, 300},
		{"linear is capped", backoff(decide.Linear), 11, 0, nil, 1000},
		{"linear at the largest number", backoff(decide.Linear, top(decide.MaxDelayMillis)), math.MaxInt64, 0, nil, decide.MaxDelayMillis},
		{"exponential", backoff(decide.Exponential), 3, 0, nil, 400},
		{"exponential is capped", backoff(decide.Exponential), 60, 0, nil, 1000},
		{"full jitter, least", backoff(decide.FullJitter), 1, 0, []float64{0}, 0},
		{"full jitter, half", backoff(decide.FullJitter), 2, 0, []float64{0.5}, 100},
		{"full jitter, most", backoff(decide.FullJitter), 1, 0, []float64{0.999}, 99},
		{"full jitter, as near to one as a float is", backoff(decide.FullJitter), 1, 0, []float64{nearlyOne}, 99},
		{"full jitter, largest number", backoff(decide.FullJitter), math.MaxInt64, 0, []float64{0.5}, 500},
		{"equal jitter, least", backoff(decide.EqualJitter), 1, 0, []float64{0}, 50},
		{"equal jitter, most", backoff(decide.EqualJitter), 1, 0, []float64{0.999999}, 99},
		{"equal jitter, odd window", backoff(decide.EqualJitter, base(5)), 1, 0, []float64{0.5}, 3},
		{"decorrelated, least", backoff(decide.DecorrelatedJitter), 1, 0, []float64{0}, 100},
		{"decorrelated, no previous", backoff(decide.DecorrelatedJitter), 1, 0, []float64{0.5}, 200},
		{"decorrelated, previous below base", backoff(decide.DecorrelatedJitter), 2, 20, []float64{0.5}, 200},
		{"decorrelated, previous above base", backoff(decide.DecorrelatedJitter), 2, 200, []float64{0.5}, 350},
		{"decorrelated, capped", backoff(decide.DecorrelatedJitter), 2, 900, []float64{0.9}, 1000},
		{"decorrelated, previous does not overflow", backoff(decide.DecorrelatedJitter, top(decide.MaxMillis)), 2, math.MaxInt64, []float64{0.9}, decide.MaxDelayMillis},
		{"decorrelated, previous below nought", backoff(decide.DecorrelatedJitter), 2, math.MinInt64, []float64{0.5}, 200},
		{"proportional, least", backoff(decide.ProportionalJitter), 1, 0, []float64{0}, 80},
		{"proportional, middle", backoff(decide.ProportionalJitter), 1, 0, []float64{0.5}, 100},
		{"proportional passes the cap", backoff(decide.ProportionalJitter), 9, 0, []float64{0.999}, 1199},
		{"proportional, all of it", backoff(decide.ProportionalJitter, jitter(1)), 1, 0, []float64{0}, 0},
		{"least wait", backoff(decide.FullJitter, least(70)), 1, 0, []float64{0.5}, 70},
		{"least wait above the cap", backoff(decide.Constant, least(5000)), 1, 0, nil, 5000},
		{"least wait above every timer", backoff(decide.Constant, least(math.MaxInt64)), 1, 0, nil, decide.MaxDelayMillis},
		{"no base", backoff(decide.FullJitter, base(0)), 5, 0, []float64{0.9}, 0},
		{"longer than every timer", backoff(decide.Constant, base(math.MaxInt64)), 1, 0, nil, decide.MaxDelayMillis},
		{"below nought", backoff(decide.Linear, base(math.MinInt64), top(math.MinInt64), least(-5)), 7, 0, nil, 0},
		{"not a number", backoff(decide.ProportionalJitter, jitter(math.NaN())), 1, 0, []float64{0.5}, 0},
		{"a strategy that is none grows as the window", backoff(99), 2, 0, nil, 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.backoff.Delay(test.n, test.previous, script(t, test.floats...)); got != test.want {
				t.Errorf("the wait is %d ms, want %d", got, test.want)
			}
		})
	}
}

// The numbers of the seed text, the same in Python, JavaScript and Go.
func TestDelayOfMulberry32Seed11(t *testing.T) {
	t.Parallel()
	random := decide.NewMulberry32(11)
	b := decide.Backoff{Strategy: decide.FullJitter, Base: 100, Cap: 1000, Multiplier: 2}
	for i, want := range []int64{51, 105} {
		if got := b.Delay(int64(i+1), 0, random.Float64); got != want {
			t.Errorf("wait %d is %d ms, want %d", i+1, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	const open = decide.MaxDelayMillis
	tests := []struct {
		name   string
		floor  int64
		share  float64
		room   int64
		floats []float64
		want   int64
	}{
		{"the contract's own example", 2000, 0.1, open, []float64{0.35}, 70},
		{"least", 2000, 0.1, open, []float64{0}, 0},
		{"most", 2000, 0.1, open, []float64{0.999999}, 199},
		{"no floor draws nothing", 0, 0.1, open, nil, 0},
		{"no share draws nothing", 2000, 0, open, nil, 0},
		{"no room at all draws nothing", 2000, 0.1, -1, nil, 0},
		{"a share of less than a ms draws all the same", 5, 0.1, open, []float64{0.9}, 0},
		{"cut to the room", 2000, 0.1, 49, []float64{0.5}, 24},
		{"room of nought", 2000, 0.1, 0, []float64{0.9}, 0},
		{"does not overflow", math.MaxInt64, 1e9, open, []float64{0.5}, open / 2},
		{"not a number", 2000, math.NaN(), open, nil, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := decide.Spread(test.floor, test.share, test.room, script(t, test.floats...)); got != test.want {
				t.Errorf("the spread is %d ms, want %d", got, test.want)
			}
		})
	}
}

func TestStrategyWords(t *testing.T) {
	t.Parallel()
	for _, word := range decide.Strategies() {
		if s, ok := decide.ParseStrategy(word); !ok || s.String() != word {
			t.Errorf("%s reads as %v, %t", word, s, ok)
		}
	}
	if _, ok := decide.ParseStrategy("fibonacci"); ok {
		t.Error("fibonacci is a strategy")
	}
}
