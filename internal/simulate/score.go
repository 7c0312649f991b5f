package simulate

import "math"

// Score is what a run comes to. A NaN stands for what was not measured.
type Score struct {
	// Load is attempts per new call in the trigger's window.
	Load float64
	// Success is the share of the window's calls that ended well.
	Success float64
	// Peak is the most attempts in 10 ms of the window, Healthy before it.
	Peak, Healthy float64
	// Recovery is in seconds from the trigger's end until calls end well again,
	// Inf where they did not before the run's end.
	Recovery float64
	// Fairness is Jain's index of the clients' granted shares of their wishes,
	// over clients with at least three; Starved is the share of those that were
	// granted none.
	Fairness, Starved float64
	// FirstSuccess and OtherSuccess are the first client's success and all others'.
	FirstSuccess, OtherSuccess float64
	// P99 is of the good calls' duration in seconds.
	P99 float64
	// Done is when the last call ended, in seconds from the trigger's start.
	Done float64
	// Attempts started in the window, and new calls.
	Attempts, Calls float64
	// Extra is what a scenario measures besides, in the order of its columns.
	Extra []float64
	// Events that happened.
	Events float64
}

// score makes the metrics of a run.
func (s *Stats) score() Score {
	attempts, firsts, good := s.sum(s.from, s.to)
	out := Score{
		Load: ratio(attempts, firsts), Success: ratio(good, firsts),
		Peak: float64(s.peak(s.from, s.to)), Healthy: float64(s.peak(0, s.from)), Recovery: s.recovery(),
		FirstSuccess: ratio(s.Group[0].Good, s.Group[0].Firsts), OtherSuccess: ratio(s.Group[1].Good, s.Group[1].Firsts),
		P99: s.Latency.Quantile(0.99).Seconds(), Done: float64(s.Done-s.from) / 1e9,
		Attempts: float64(attempts), Calls: float64(firsts), Events: float64(s.Events),
	}
	out.Fairness, out.Starved = s.fairness()
	return out
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// sum counts between two instants in ns, cut to whole slots.
func (s *Stats) sum(from, to int64) (attempts, firsts, good int64) {
	for i := from / s.width; i < min((to+s.width-1)/s.width, int64(len(s.Slots))); i++ {
		slot := &s.Slots[i]
		attempts += int64(slot.Attempts)
		firsts += int64(slot.Firsts)
		good += int64(slot.Good)
	}
	return attempts, firsts, good
}

func (s *Stats) peak(from, to int64) (most int32) {
	for i := from / s.width; i < min((to+s.width-1)/s.width, int64(len(s.Slots))); i++ {
		most = max(most, s.Slots[i].Peak)
	}
	return most
}

// A dependency has recovered at the first slot from which recoveredSlots each
// have recoveredEach good calls and together recoveredAll.
const (
	recoveredSlots = 15
	recoveredEach  = 0.97
	recoveredAll   = 0.99
)

func (s *Stats) recovery() float64 {
	start := s.to / s.width
	for i := start; i+recoveredSlots <= int64(len(s.Slots)); i++ {
		if s.recoveredAt(i) {
			return float64((i-start)*s.width) / 1e9
		}
	}
	return math.Inf(1)
}

func (s *Stats) recoveredAt(i int64) bool {
	var firsts, good int64
	for _, slot := range s.Slots[i : i+recoveredSlots] {
		if float64(slot.Good) < float64(recoveredEach*float64(slot.Firsts)) {
			return false
		}
		firsts += int64(slot.Firsts)
		good += int64(slot.Good)
	}
	return float64(good) >= float64(recoveredAll*float64(firsts))
}

// wishes is how many a client must have to count for fairness.
const wishes = 3

func (s *Stats) fairness() (jain, starved float64) {
	var sum, squares float64
	var clients, none int64
	for i, wanted := range s.wanted {
		if wanted < wishes {
			continue
		}
		x := float64(s.granted[i]) / float64(wanted)
		sum += x
		squares += float64(x * x)
		clients++
		if s.granted[i] == 0 {
			none++
		}
	}
	if clients == 0 || squares == 0 {
		return math.NaN(), math.NaN()
	}
	return float64(sum*sum) / float64(float64(clients)*squares), ratio(none, clients)
}
