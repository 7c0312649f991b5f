package watch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Many events are one read, a call by hand is one at once, silence is one every
// 30 seconds, and a folder that is never quiet is read all the same.
func TestSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events, again := make(chan fsnotify.Event), make(chan struct{})
		var reads atomic.Int64
		go settled(ctx, events, again, func() { reads.Add(1) })
		expect := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := reads.Load(); got != want {
				t.Errorf("%s: read %d times, want %d", when, got, want)
			}
		}
		for range 5 {
			events <- fsnotify.Event{}
			time.Sleep(settle / 2)
		}
		expect("while it is written", 0)
		time.Sleep(settle)
		expect("when it is quiet", 1)
		again <- struct{}{}
		expect("by hand", 2)
		time.Sleep(belt + time.Millisecond)
		expect("after a silence", 3)
		for range patience + 2 {
			events <- fsnotify.Event{}
			time.Sleep(settle / 2)
		}
		expect("in a busy folder", 4)
	})
}

// A link that is swapped beside the file is a change, as a ConfigMap makes it.
func TestFilesHearsOfASwappedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "..data")
	if err := os.Symlink("1", data); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{}, 100)
	again := make(chan struct{})
	go Files(t.Context(), []string{filepath.Join(dir, "policies.yaml")}, again, slog.New(slog.DiscardHandler), func() { read <- struct{}{} })
	again <- struct{}{} // the folder is watched by now
	<-read
	if err := os.Symlink("2", data+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(data+"_tmp", data); err != nil {
		t.Fatal(err)
	}
	select {
	case <-read:
	case <-time.After(10 * time.Second):
		t.Fatal("a swapped link is not heard of")
	}
}
