package simulate

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// stream is one source of chance. A run has one for each thing that varies, so
// that two contenders meet the same arrivals.
type stream struct{ pcg rand.PCG }

// The streams of a run.
const (
	streamArrivals = iota + 1
	streamClients
	streamService
	streamFaults
	streamWaits
	streamReports
	streamNetwork
	streamAdmits
)

func newStream(seed uint64, number uint64) stream { return stream{*rand.NewPCG(seed, number)} }

// float is in [0, 1).
func (s *stream) float() float64 { return float64(s.pcg.Uint64()>>11) / (1 << 53) }

// below is a whole number in [0, n).
func (s *stream) below(n int) int {
	high, _ := bits.Mul64(s.pcg.Uint64(), uint64(n))
	return int(high)
}

// exponential is exponentially distributed with the mean.
func (s *stream) exponential(mean float64) float64 { return float64(mean * -ln(1-s.float())) }

// normal is normally distributed (by the polar method).
func (s *stream) normal(mean, deviation float64) float64 {
	for {
		u, v := float64(2*s.float())-1, float64(2*s.float())-1
		r := float64(u*u) + float64(v*v)
		if r > 0 && r < 1 {
			return mean + float64(deviation*float64(u*math.Sqrt(-2*ln(r)/r)))
		}
	}
}

// lnTerms is how many terms of the series bring a double's precision.
const lnTerms = 12

// ln is the natural logarithm of a normal number above 0. Package math has one
// in assembly on some machines, whose last bit may differ from the others'.
func ln(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction, exponent = fraction*2, exponent-1
	}
	// ln(f) = 2 artanh(s), and |s| < 0.172
	s := (fraction - 1) / (fraction + 1)
	square := float64(s * s)
	sum := 0.0
	for k := lnTerms; k >= 0; k-- {
		sum = float64(sum*square) + 1/float64(2*k+1)
	}
	return float64(2*float64(s*sum)) + float64(float64(exponent)*math.Ln2)
}

// picker picks a client by its weight.
type picker struct {
	clients int
	first   float64   // client 0's share of the calls, beside the even rest
	sums    []float64 // running sums of the weights, where they differ
}

func newPicker(m *Model) picker {
	p := picker{clients: m.Clients, first: m.FirstShare}
	if m.Zipf {
		total := 0.0
		for i := range m.Clients {
			total += 1 / float64(i+1)
			p.sums = append(p.sums, total)
		}
	}
	return p
}

func (p *picker) pick(s *stream) int {
	switch {
	case p.sums != nil:
		at := float64(s.float() * p.sums[len(p.sums)-1])
		low, high := 0, len(p.sums)-1
		for low < high {
			if middle := (low + high) / 2; p.sums[middle] > at {
				high = middle
			} else {
				low = middle + 1
			}
		}
		return low
	case p.first > 0 && p.clients > 1:
		if s.float() < p.first {
			return 0
		}
		return 1 + s.below(p.clients-1)
	}
	return s.below(p.clients)
}
