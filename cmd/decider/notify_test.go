//go:build linux

package main_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/programtest"
)

// Under systemd a decider says when it answers and when it ends, and not
// before; without systemd, or with a socket that nobody reads, it serves.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	for _, socket := range []string{filepath.Join(t.TempDir(), "notify"), "@decider-test-" + filepath.Base(t.TempDir())} {
		systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { systemd.Close() })
		heard := func() string {
			t.Helper()
			word := make([]byte, 64)
			if err := systemd.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			n, err := systemd.Read(word)
			if err != nil {
				t.Fatal(err)
			}
			return string(word[:n])
		}
		p := serveWith(t, programtest.Environment("NOTIFY_SOCKET="+socket), "--listen=127.0.0.1:0")
		if got := heard(); got != "READY=1" {
			t.Errorf("it says %q, want READY=1", got)
		}
		mustDecide(t, p.URL, got503("payments"))
		p.Stop(t)
		if got := heard(); got != "STOPPING=1" {
			t.Errorf("it says %q, want STOPPING=1", got)
		}
	}
	p := serveWith(t, programtest.Environment("NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "nobody")), "--listen=127.0.0.1:0")
	mustDecide(t, p.URL, got503("payments"))
}
