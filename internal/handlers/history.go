package handlers

import (
	"sync/atomic"
	"time"

	"github.com/retrydecider/decider/internal/gen"
)

// historySeconds is how far back it is remembered what each second decided.
const historySeconds = 120

// history is the number of retries and give-ups in each of the last seconds. A
// cell is one word, so that a decision costs one compare-and-swap and no lock:
// the second's low bits above, then both counts.
type history [128]atomic.Uint64

const (
	countBits  = 20
	countMax   = 1<<countBits - 1 // a busier second reads as this
	secondBits = 64 - 2*countBits
)

// cell takes a second's word apart; counts of another second are none.
func cell(word uint64, second int64) (retries, giveUps uint64) {
	if word>>(2*countBits) != uint64(second)&(1<<secondBits-1) {
		return 0, 0
	}
	return word >> countBits & countMax, word & countMax
}

func (h *history) add(second int64, retry bool) {
	slot := &h[uint64(second)%uint64(len(h))]
	for {
		old := slot.Load()
		retries, giveUps := cell(old, second)
		if retry {
			retries = min(retries+1, countMax)
		} else {
			giveUps = min(giveUps+1, countMax)
		}
		word := uint64(second)<<(2*countBits) | retries<<countBits | giveUps
		if slot.CompareAndSwap(old, word) {
			return
		}
	}
}

// before is what is remembered of the seconds before one.
func (h *history) before(second int64) gen.RecentDecisions {
	from := second - historySeconds
	out := gen.RecentDecisions{From: time.Unix(from, 0).UTC(), Retries: make([]int64, historySeconds), GiveUps: make([]int64, historySeconds)}
	for i := range int64(historySeconds) {
		retries, giveUps := cell(h[uint64(from+i)%uint64(len(h))].Load(), from+i)
		out.Retries[i], out.GiveUps[i] = int64(retries), int64(giveUps)
	}
	return out
}

// lastSeconds is the end of what is remembered.
func lastSeconds(r gen.RecentDecisions, n int) gen.RecentDecisions {
	skip := max(len(r.Retries)-n, 0)
	return gen.RecentDecisions{From: r.From.Add(time.Duration(skip) * time.Second), Retries: r.Retries[skip:], GiveUps: r.GiveUps[skip:]}
}
