package simulate

// twister is MT19937 as CPython's random.Random(seed) starts and reads it, for
// tables that were printed with that generator.
type twister struct {
	state [twisterWords]uint32
	used  int
}

const twisterWords = 624

func newTwister(seed uint32) *twister {
	m := &twister{used: twisterWords}
	s := &m.state
	s[0] = 19650218
	for i := 1; i < twisterWords; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i := 1
	mix := func(factor, add uint32) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*factor) + add
		if i++; i == twisterWords {
			s[0], i = s[twisterWords-1], 1
		}
	}
	for range twisterWords { // the key is the seed's one word
		mix(1664525, seed)
	}
	for range twisterWords - 1 {
		mix(1566083941, -uint32(i))
	}
	s[0] = 1 << 31
	return m
}

func (m *twister) word() uint32 {
	if m.used == twisterWords {
		m.turn()
	}
	y := m.state[m.used]
	m.used++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *twister) turn() {
	s := &m.state
	for i := range s {
		y := s[i]&(1<<31) | s[(i+1)%twisterWords]&(1<<31-1)
		s[i] = s[(i+397)%twisterWords] ^ y>>1 ^ (y&1)*0x9908b0df
	}
	m.used = 0
}

// float is in [0, 1), of 53 bits.
func (m *twister) float() float64 {
	high, low := m.word()>>5, m.word()>>6
	return (float64(float64(high)*(1<<26)) + float64(low)) / (1 << 53)
}
