package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// The ports of test servers are none of those that the system gives to outgoing
// connections (32768 and above on Linux), one of which could have a server's port
// by the time that it starts, or starts again. Each test process takes a block of
// them for itself and hands them out in order, so that the port of a server that
// was killed is no other's while it is away.
const (
	firstPort = 10_000
	blocks    = 40
	blockSize = 500
)

// ports is the block of this process.
var ports struct {
	mu    sync.Mutex
	lock  *os.File // held until the process ends
	first int
	given int
}

// FreePort is a loopback port that nobody listens on now, and that no other test
// is given while this process lasts.
func FreePort(t testing.TB) int {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if ports.lock == nil {
		takeBlock(t)
	}
	for range blockSize {
		port := ports.first + ports.given%blockSize
		ports.given++
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("no port from %d to %d is free", ports.first, ports.first+blockSize-1)
	return 0
}

func takeBlock(t testing.TB) {
	t.Helper()
	for i := range blocks {
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("decider-test-ports-%d", i)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			ports.lock, ports.first = lock, firstPort+i*blockSize
			return
		}
		_ = lock.Close()
	}
	t.Fatalf("%d test processes have all ports", blocks)
}
