package identity

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Live is the auth file in force. A bad file changes nothing.
type Live struct {
	file    string
	current atomic.Pointer[Set]
	refused atomic.Bool
}

// Open reads an auth file to be kept live.
func Open(file string) (*Live, error) {
	set, err := Load(file)
	if err != nil {
		return nil, err
	}
	l := &Live{file: file}
	l.current.Store(set)
	return l, nil
}

// Set is the file in force.
func (l *Live) Set() *Set { return l.current.Load() }

// Refused says whether the file as it is now was refused, and an earlier one is
// in force.
func (l *Live) Refused() bool { return l.refused.Load() }

// Files are those that Reload reads.
func (l *Live) Files() []string { return []string{l.file} }

// Reload reads the file again and puts it in force where it is good.
func (l *Live) Reload(log *slog.Logger) {
	set, err := Load(l.file)
	l.refused.Store(err != nil)
	if err != nil {
		log.Error("auth file refused, the one in force stays", "file", l.file, "error", err.Error())
		return
	}
	before := l.Set()
	if set.hash == before.hash {
		return
	}
	set.carryOver(before)
	l.current.Store(set)
	log.Info("auth file applied", "file", l.file, "identities", set.Size())
}

// Reloader is what is read again when its files may have changed.
type Reloader interface {
	Files() []string
	Reload(log *slog.Logger)
}

const (
	// settle is how long the folders must be quiet before the files are read: a
	// secret is swapped in several steps.
	settle = 100 * time.Millisecond
	// patience is how many events are waited out.
	patience = 20
	// belt is how often the files are read though nothing was heard of them.
	belt = 30 * time.Second
)

// Watch reloads whenever a file may have changed, or again asks for it, until the
// context ends. Folders are watched, not files: a mounted secret swaps a link
// beside its files.
func Watch(ctx context.Context, r Reloader, again <-chan struct{}, log *slog.Logger) {
	events := make(chan fsnotify.Event)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close() //nolint:errcheck // nothing is read from it any more
		events = watcher.Events
		for _, file := range r.Files() {
			if bad := watcher.Add(filepath.Dir(file)); bad != nil {
				err = bad
			}
		}
	}
	if err != nil {
		log.Warn("files are read every so often, their folders cannot be watched", "files", r.Files(), "every", belt, "error", err)
	}
	watch(ctx, r, events, again, log)
}

func watch(ctx context.Context, r Reloader, events <-chan fsnotify.Event, again <-chan struct{}, log *slog.Logger) {
	timer := time.NewTimer(belt)
	defer timer.Stop()
	heard := 0 // since the files were read last
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			if heard++; heard <= patience {
				timer.Reset(settle)
			}
			continue
		case <-again:
		case <-timer.C:
		}
		r.Reload(log)
		heard = 0
		timer.Reset(belt)
	}
}
