package budget

import "github.com/retrydecider/decider/internal/decide"

// instant is a time in ms and µs: in µs alone it would pass 2^53 in 230 years.
type instant struct{ ms, us int64 }

// after is the instant so many µs later.
func (i instant) after(us int64) instant {
	us += i.us
	return instant{i.ms + us/1000, us % 1000}
}

// from is in how many ms, a part counting as a whole one, the instant comes
// after t; 0 where it has passed.
func (i instant) from(t int64) int64 {
	wait := i.ms - t
	if i.us > 0 {
		wait++
	}
	return max(wait, 0)
}

// nextSlot is when the next slot of a paced fleet begins, none before its
// cool-down ends; free is false where that is further ahead than the rule, which
// counts from that end, or the deadline allows. A wait that the server gave to one
// caller alone moves no slot: those of the others would be lost. A fleet that is not
// paced has every slot.
func (b *bucket) nextSlot(t int64, p *decide.Policy, q *question, a *decide.Answer) (begin instant, free bool) {
	pace := &p.Backoff[q.kind]
	if pace.Strategy != decide.Paced {
		return instant{}, true
	}
	begin, wait, earliest := b.slot, b.slot.from(t), b.fleetCoolDown(t, p)
	if wait <= earliest {
		begin, wait = instant{ms: t + earliest}, earliest
	}
	if wait-earliest > pace.Cap {
		a.Verdict, a.AskAgain = decide.NoTokens, decide.Some(wait-pace.Cap)
		return instant{}, false
	}
	a.Slot = wait
	if q.fit.Present && wait > q.fit.Value {
		a.Verdict = decide.CoolDownTooLong
		return instant{}, false
	}
	return begin, true
}

// takeSlot hands the slot out.
func (b *bucket) takeSlot(begin instant, p *decide.Policy, q *question) {
	if pace := &p.Backoff[q.kind]; pace.Strategy == decide.Paced {
		b.slot = begin.after(pace.Gap)
	}
}
