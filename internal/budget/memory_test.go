package budget

import (
	"fmt"
	"testing"
)

// held is what a memory holds: buckets, ids and reports.
func (m *Memory) held() (buckets, ids, reports int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for _, k := range s.buckets {
			buckets++
			ids += len(k.ids)
			reports += len(k.reports)
		}
		s.mu.Unlock()
	}
	return buckets, ids, reports
}

// What is over takes no memory: names that nobody asks for any more, ids and
// reports, also where the clock is set back.
func TestMemoryLetsGo(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := NewMemory(c.now)
	everywhere := testRule(refill(perSecond))
	touch := func(name string) { // every shard has one of these
		for i := range 40 * shards {
			run(t, m, fmt.Sprint(name, i), everywhere, op{tell: &failures{count: 1}})
		}
	}
	touch("a")
	run(t, m, "nobody", everywhere, op{look: &look{}})
	if buckets, _, _ := m.held(); buckets != 40*shards {
		t.Errorf("%d buckets, want %d", buckets, 40*shards)
	}
	c.advance(2 * minute)
	touch("b")
	if buckets, _, _ := m.held(); buckets != 40*shards {
		t.Errorf("%d buckets two minutes later, want %d new ones", buckets, 40*shards)
	}
	p := testRule(named("busy", holds(1_000_000*token, 0)))
	grant := func(from int) {
		for i := range 1000 {
			askOnce(t, m, p, withID(fmt.Sprint("r", from+i), 1))
			run(t, m, p.Name, p, op{report: &report{id: fmt.Sprint("p", from+i), finals: 1}})
		}
	}
	grant(0)
	for i, step := range []int64{2 * minute, 11 * minute, -60 * minute} {
		c.advance(step)
		grant(1000 * (i + 1))
		if _, ids, reports := m.held(); ids != 1000 || reports > 2000 {
			t.Errorf("after %d ms there are %d ids and %d reports", step, ids, reports)
		}
	}
}
