package decide_test

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// A paced retry waits for its slot, no shorter than the server asks, and for no
// more than its slot where that does not come before what the server asks.
func TestPacedWait(t *testing.T) {
	t.Parallel()
	paced := func(p *decide.Policy) {
		p.Backoff[decide.Plain] = decide.Backoff{Strategy: decide.Paced, Cap: 1000, Min: 20, Gap: 526}
	}
	for _, c := range []struct {
		name     string
		slot     int64
		attempt  []func(*decide.Attempt)
		cool     int64
		reason   decide.Reason
		delay    int64
		retained int64
	}{
		{"the slot is now", 0, nil, 0, decide.ReasonBackoff, 20, 4980},
		{"the slot comes later", 300, nil, 0, decide.ReasonBackoff, 300, 4700},
		{"the least wait is longer", 7, nil, 0, decide.ReasonBackoff, 20, 4980},
		{"the server asks for longer", 300, []func(*decide.Attempt){retryAfter("2")}, 0, decide.ReasonRetryAfter, 2100, 2900},
		{"the slot comes when the server's wait ends", 2000, []func(*decide.Attempt){retryAfter("2")}, 2000, decide.ReasonRetryAfter, 2000, 3000},
		{"the slot comes after that", 2050, []func(*decide.Attempt){retryAfter("2")}, 2000, decide.ReasonBackoff, 2050, 2950},
		{"the server asks for less", 300, []func(*decide.Attempt){retryAfter("0.1")}, 0, decide.ReasonBackoff, 300, 4700},
		{"the fleet cools down for longer", 300, nil, 900, decide.ReasonCoolDown, 945, 4055},
		{"the slot comes when the cool-down ends", 900, nil, 900, decide.ReasonCoolDown, 900, 4100},
		{"the slot misses the deadline after all", 5000, nil, 0, decide.ReasonDeadline, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := decider(standard(paced), fakeFleet{ask: func(*decide.Question) decide.Answer {
				return decide.Answer{Slot: c.slot, CoolDown: c.cool}
			}})
			got := mustDecide(t, d, got503(append(c.attempt, remaining(5000))...))
			if got.Reason != c.reason || got.Delay != c.delay || got.Remaining.Value != c.retained {
				t.Errorf("%s after %d ms with %d ms left, wanted %s after %d ms with %d ms left",
					got.Reason, got.Delay, got.Remaining.Value, c.reason, c.delay, c.retained)
			}
		})
	}
}

// An id is answered with the wait until its slot again, and with why.
func TestPacedReplay(t *testing.T) {
	t.Parallel()
	for slot, reason := range map[int64]decide.Reason{2000: decide.ReasonRetryAfter, 2050: decide.ReasonBackoff} {
		d := decider(standard(), answers(decide.Answer{Slot: slot, CoolDown: 2000, Replayed: true, Delay: 2100, ReplayedServerDelay: 2000}))
		if got := mustDecide(t, d, got503(retryAfter("2"), remaining(5000))); got.Reason != reason || got.Delay != slot {
			t.Errorf("%s after %d ms, wanted %s after %d ms", got.Reason, got.Delay, reason, slot)
		}
	}
}

func TestASlotThatMissesTheDeadline(t *testing.T) {
	t.Parallel()
	d := decider(standard(constant(0)), answers(decide.Answer{Verdict: decide.CoolDownTooLong, Slot: 700}))
	got := mustDecide(t, d, got503(remaining(500)))
	want := "Give up: the backoff of 700 ms and at least 1 ms for another attempt do not fit the 500 ms that are left of the deadline."
	if got.Message() != want || got.Reason != decide.ReasonDeadline || got.AskAgain.Present {
		t.Errorf("%s: %s", got.Reason, got.Message())
	}
}
