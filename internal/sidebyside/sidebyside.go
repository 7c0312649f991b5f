// Package sidebyside does many things at once, within bounds.
package sidebyside

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// most is how many things one list does at once: all of a batch of a thousand, which
// a store over the network then merges into a few calls, and a bound for longer lists.
const most = 1024

// PanicError is a panic and the stack of the goroutine that it was in.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Do calls do for every i below n, several at once, and returns when all are
// done. A panic in one comes out of Do, as a [*PanicError] where it was in another
// goroutine: there it would end the process.
func Do(n int, do func(i int)) {
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
