// Package sidebyside does many things at once, within bounds.
package sidebyside

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// How much is done at once.
const (
	// Few is enough that a store over the network is kept busy, and few enough that
	// one list costs little memory and starves nobody.
	Few = 64
	// All is every item of the longest batch, for what must be done in one go: a
	// store then merges them into a few calls.
	All = 1024
)

// PanicError is a panic and the stack of the goroutine that it was in.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Do calls do for every i below n, at most so many at once, and returns when all are
// done. A panic in one comes out of Do, as a [*PanicError] where it was in another
// goroutine: there it would end the process.
func Do(most, n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var (
		next  atomic.Int64
		cause atomic.Pointer[PanicError]
		group sync.WaitGroup
	)
	for range min(n, most) {
		group.Go(func() {
			defer func() {
				if value := recover(); value != nil {
					cause.CompareAndSwap(nil, &PanicError{value, debug.Stack()})
				}
			}()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	group.Wait()
	if p := cause.Load(); p != nil {
		panic(p)
	}
}
