package watch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
		var asked atomic.Bool
		lost := make(chan error)
		go new(Watch).settled(ctx, events, lost, again, func(by bool) { reads.Add(1); asked.Store(by) })
		expect := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := reads.Load(); got != want || asked.Load() != (when == "by hand") {
				t.Errorf("%s: read %d times, want %d; asked for: %v", when, got, want, asked.Load())
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
		time.Sleep(settle)
		expect("when it is quiet again", 5)
		lost <- fsnotify.ErrEventOverflow
		time.Sleep(settle + time.Millisecond)
		expect("when events were lost", 6)
	})
}

// A link that is swapped beside the file is a change, as a ConfigMap makes it.
func TestSwappedLink(t *testing.T) {
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
	read := begin(t, filepath.Join(dir, "policies.yaml"))
	if err := os.Symlink("2", data+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(data+"_tmp", data); err != nil {
		t.Fatal(err)
	}
	within10s(t, "a swapped link is not heard of", read)
}

// begin watches a file; what Run reads is sent to the channel.
func begin(t *testing.T, file string) <-chan struct{} {
	t.Helper()
	w := Begin(file)
	read := make(chan struct{}, 100)
	go w.Run(t.Context(), nil, slog.New(slog.DiscardHandler), func(bool) { read <- struct{}{} })
	return read
}

func within10s(t *testing.T, otherwise string, read <-chan struct{}) {
	t.Helper()
	select {
	case <-read:
	case <-time.After(10 * time.Second): // the belt would hide what was missed
		t.Fatal(otherwise)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What happens between Begin, after which the file is read, and Run is kept: a
// program that is slow to start has missed nothing.
func TestChangedBeforeRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	write(t, file, "1")
	w := Begin(file)
	write(t, file, "2")
	read := make(chan struct{}, 100)
	time.Sleep(50 * time.Millisecond)
	go w.Run(t.Context(), nil, slog.New(slog.DiscardHandler), func(bool) { read <- struct{}{} })
	within10s(t, "a change before Run is lost", read)
}

// A folder that cannot be watched, and one that took another's place, send no
// events: the file is looked at.
func TestChangesThatNobodyTells(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "mount")
	file := filepath.Join(dir, "auth.yaml")
	read := begin(t, file) // the folder is not there yet
	for _, text := range []string{"1", "2"} {
		other := filepath.Join(top, text)
		if err := os.Mkdir(other, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(other, "auth.yaml"), text)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(other, dir); err != nil {
			t.Fatal(err)
		}
		within10s(t, text+" is not seen", read)
		write(t, file, "other") // in place, in a folder that is not watched
		within10s(t, "a change of "+text+" is not seen", read)
		if len(read) > 0 {
			t.Error("a change is read twice")
		}
	}
}

// Where the system has no watch left to give, the file is looked at too, and the
// log says so.
func TestNoWatchLeft(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	write(t, file, "1")
	w := &Watch{files: []string{file}, seen: make([]os.FileInfo, 1), err: errors.New("too many open files")}
	w.looksOther()
	read := make(chan struct{}, 100)
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		w.Run(ctx, nil, slog.New(slog.NewTextHandler(&log, nil)), func(bool) { read <- struct{}{} })
		close(done)
	}()
	write(t, file, "12")
	within10s(t, "the file is not looked at", read)
	stop()
	<-done
	if !strings.Contains(log.String(), "too many open files") {
		t.Errorf("log:\n%s", log.String())
	}
}
