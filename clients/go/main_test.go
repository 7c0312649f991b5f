package decider

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails where a goroutine outlives the tests: a client that leaked one
// per question would end every long-lived program that uses it.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 && leaked(before) {
		stacks := make([]byte, 1<<16)
		fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}

// leaked waits a while for goroutines that are about to end.
func leaked(before int) bool {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return false
		}
	}
	return true
}
