package sidebyside

import (
	"sync/atomic"
	"testing"
)

func TestDo(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, Few - 1, Few, 3*Few + 1} {
		done := make([]atomic.Int64, n)
		var at, peak atomic.Int64
		Do(Few, n, func(i int) {
			now := at.Add(1)
			for before := peak.Load(); now > before && !peak.CompareAndSwap(before, now); before = peak.Load() {
			}
			done[i].Add(1)
			at.Add(-1)
		})
		for i := range done {
			if times := done[i].Load(); times != 1 {
				t.Errorf("%d of %d was done %d times", i, n, times)
			}
		}
		if peak.Load() > Few {
			t.Errorf("%d at once, %d at most", peak.Load(), Few)
		}
	}
}

// A panic in a goroutine of its own would end the process.
func TestAPanicComesOut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 100} {
		var done atomic.Int64
		func() {
			defer func() {
				value := recover()
				if p, ok := value.(*PanicError); ok && n > 1 {
					value = p.Value
				}
				if value != "no" {
					t.Errorf("of %d came %v", n, value)
				}
			}()
			Do(Few, n, func(i int) {
				if done.Add(1); i == 0 {
					panic("no")
				}
			})
		}()
		if n == 100 && done.Load() != 100 {
			t.Errorf("%d of 100 were done", done.Load())
		}
	}
}
