package simulate

import (
	"math/bits"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Stats is what is counted of a run: fixed slots of time, so its size follows
// from the model and not from what happens.
type Stats struct {
	Slots []Slot
	// Events that happened.
	Events int64
	// Group counts the calls of the trigger's window: of the first client, and
	// of all others.
	Group [2]Count
	// Latency of the good calls of the window.
	Latency Histogram
	// Done is when the last call ended, in ns.
	Done int64
	// Opened is when a breaker was first seen open after the trigger's start, in ns; 0: never.
	Opened int64
	// wanted and granted count each client's wishes for a retry in the window.
	wanted, granted []uint32

	width, from, to int64
	fine            int64 // the 10 ms that are being counted
	inFine          int32
}

// Slot is what happened in one slot of time.
type Slot struct {
	// Firsts are new calls, Good those of them that ended well.
	Firsts, Good int32
	// Attempts that started.
	Attempts int32
	// Peak is the most attempts that started within 10 ms.
	Peak int32
}

// Count of calls, and of those that ended well.
type Count struct{ Firsts, Good int64 }

// fineWidth is the width of a peak.
const fineWidth = int64(10 * time.Millisecond)

func newStats(m *Model) *Stats {
	width := m.slot()
	return &Stats{
		Slots: make([]Slot, (int64(m.End)+width-1)/width), width: width, from: int64(m.From), to: int64(m.To),
		wanted: make([]uint32, m.Clients), granted: make([]uint32, m.Clients),
	}
}

func (s *Stats) inWindow(at int64) bool { return s.from <= at && at < s.to }

func group(client int) int {
	if client == 0 {
		return 0
	}
	return 1
}

func (s *Stats) first(now int64, client int) {
	s.Slots[now/s.width].Firsts++
	if s.inWindow(now) {
		s.Group[group(client)].Firsts++
	}
}

func (s *Stats) attempt(now int64) {
	slot := &s.Slots[now/s.width]
	slot.Attempts++
	if fine := now / fineWidth; fine != s.fine {
		s.fine, s.inFine = fine, 0
	}
	s.inFine++
	slot.Peak = max(slot.Peak, s.inFine)
}

func (s *Stats) good(now int64, c *call) {
	s.Slots[c.start/s.width].Good++
	s.Done = now
	if s.inWindow(c.start) {
		s.Group[group(int(c.client))].Good++
		s.Latency.add(now - c.start)
	}
}

func (s *Stats) bad(now int64, _ *call) { s.Done = now }

func (s *Stats) wish(c *call, granted bool) {
	if !s.inWindow(c.start) {
		return
	}
	s.wanted[c.client]++
	if granted {
		s.granted[c.client]++
	}
}

// breaker is what an answer says of the breaker.
func (s *Stats) breaker(now int64, state decide.BreakerState) {
	if state == decide.BreakerOpen && s.Opened == 0 && now >= s.from {
		s.Opened = now
	}
}

// Histogram of durations in ns, sixteen bins to a doubling.
type Histogram struct {
	bins  [64 * 16]int64
	total int64
}

func (h *Histogram) add(ns int64) {
	h.bins[bin(ns)]++
	h.total++
}

func bin(ns int64) int {
	if ns < 16 {
		return int(max(ns, 0))
	}
	high := bits.Len64(uint64(ns)) - 1
	return (high-3)*16 + int(ns>>(high-4)&15)
}

// least is the least duration of a bin.
func least(bin int) int64 {
	if bin < 16 {
		return int64(bin)
	}
	high := bin/16 + 3
	return int64(16+bin%16) << (high - 4)
}

// Quantile is the duration that a share of them do not exceed, to a bin's width.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(float64(q * float64(h.total)))
	for b, n := range h.bins {
		if rank -= n; rank < 0 {
			return time.Duration(least(b))
		}
	}
	return 0
}
