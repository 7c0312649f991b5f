package decide

import "math"

// Strategy is how the policy's own wait grows and is spread.
type Strategy uint8

// The strategies (DESIGN §5; the three jitters are Brooker's, AWS Architecture Blog 2015).
const (
	FullJitter Strategy = iota
	EqualJitter
	DecorrelatedJitter
	ProportionalJitter
	Constant
	Linear
	Exponential
	Paced // the fleet's state hands out slots; the own wait is the one until the slot
)

var strategyNames = [...]string{
	"full_jitter", "equal_jitter", "decorrelated_jitter", "proportional_jitter", "constant", "linear", "exponential", "paced",
}

// String is the strategy's word in a policy.
func (s Strategy) String() string { return strategyNames[s] }

// Strategies lists the words of all strategies.
func Strategies() []string { return append([]string(nil), strategyNames[:]...) }

// ParseStrategy reads a strategy's word.
func ParseStrategy(word string) (s Strategy, ok bool) {
	for i, name := range strategyNames {
		if name == word {
			return Strategy(i), true
		}
	}
	return 0, false
}

// jitters says whether the strategy draws a float.
func (s Strategy) jitters() bool { return s <= ProportionalJitter }

// Backoff is a policy's own wait before retry n. All waits are in ms.
type Backoff struct {
	Strategy Strategy
	// Base is the first window, Cap the largest, Min the least wait.
	Base, Cap, Min int64
	// Multiplier is the window's growth per retry, at least 1.
	Multiplier float64
	// Jitter is the share of the window that proportional_jitter moves by, 0 to 1.
	Jitter float64
	// Gap is, in µs, how far the slots of a paced fleet are apart; Cap is the
	// longest wait until one.
	Gap int64
}

// Window is min(cap, ⌊base · multiplier^(n-1)⌋) ms for retry n, which is at
// least 1. It does not overflow for any n.
func (b *Backoff) Window(n int64) int64 {
	if b.Base <= 0 || n <= 1 || b.Multiplier == 1 {
		return min(b.Base, b.Cap)
	}
	w := float64(b.Base) * math.Pow(b.Multiplier, float64(n-1))
	if w < float64(b.Cap) {
		return int64(w)
	}
	return b.Cap // also where the power is infinite
}

// Real is the strategy's wait before retry n in real-valued ms, before it is
// cut to whole ms and lifted to the least wait. previous is the wait before
// this attempt, random a float in [0, 1).
//
// Products are converted explicitly, so that no compiler fuses a multiply and
// an add and every machine gets the same bits.
func (b *Backoff) Real(n int64, previous, random float64) float64 {
	switch b.Strategy {
	case Paced:
		return 0 // the slot is not known yet
	case Constant:
		return float64(b.Base)
	case Linear:
		return min(float64(b.Cap), float64(float64(b.Base)*float64(n)))
	case EqualJitter:
		half := float64(b.Window(n)) / 2
		return half + float64(random*half)
	case DecorrelatedJitter:
		base := float64(b.Base)
		span := float64(3*max(base, previous)) - base
		return min(float64(b.Cap), base+float64(random*span))
	case ProportionalJitter:
		share := float64((float64(2*random) - 1) * b.Jitter)
		return float64(float64(b.Window(n)) * (1 + share))
	case FullJitter:
		return float64(random * float64(b.Window(n)))
	}
	return float64(b.Window(n))
}

// Delay is the own wait before retry n in whole ms: the strategy's, at least
// Min, and in any case 0 to [MaxDelayMillis]. It draws from random only where the
// strategy has jitter.
func (b *Backoff) Delay(n, previous int64, random func() float64) int64 {
	r := 0.0
	if b.Strategy.jitters() {
		r = random()
	}
	own := b.Real(n, float64(previous), r)
	return min(max(wholeMillis(own, MaxDelayMillis), b.Min), MaxDelayMillis)
}

// Spread is what a crowd that was given one wait of floor ms is spread by:
// ⌊random · min(⌊share · floor⌋, room)⌋ ms, where room is what a deadline
// leaves. It draws only where floor and share are positive and room is not
// negative.
func Spread(floor int64, share float64, room int64, random func() float64) int64 {
	if floor <= 0 || !(share > 0) || room < 0 {
		return 0
	}
	widest := wholeMillis(float64(share*float64(floor)), room)
	return wholeMillis(float64(random()*float64(widest)), widest)
}

// wholeMillis cuts ms to whole ones from 0 to most, which is at most
// [MaxMillis]. The conversion of a float outside of int64 is undefined.
func wholeMillis(ms float64, most int64) int64 {
	switch {
	case ms >= float64(most):
		return most
	case ms > 0:
		return int64(ms)
	}
	return 0 // also for a NaN
}
