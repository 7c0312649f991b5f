package decide

// Mulberry32 is a small seeded generator of floats in [0, 1): any language
// gets the same numbers from the same seed, so a wait can be checked by hand.
// It is not safe for concurrent use.
type Mulberry32 struct{ state uint32 }

// NewMulberry32 makes a generator that starts from seed.
func NewMulberry32(seed uint32) *Mulberry32 { return &Mulberry32{state: seed} }

// Float64 is the next float, its next 32-bit word over 2^32.
func (m *Mulberry32) Float64() float64 { return float64(m.Uint32()) / (1 << 32) }

// Uint32 is the next 32-bit word.
func (m *Mulberry32) Uint32() uint32 {
	m.state += 0x6D2B79F5
	t := m.state
	t = (t ^ t>>15) * (t | 1)
	t ^= t + (t^t>>7)*(t|61)
	return t ^ t>>14
}
