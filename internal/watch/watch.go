// Package watch says when files may have changed: the policy file, the auth
// file, certificates. It reads none of them.
package watch

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long the folders must be quiet before the files are read: an
	// editor writes more than once, a ConfigMap is swapped in several steps.
	settle = 100 * time.Millisecond
	// patience is how many events are waited out: in a folder that is never
	// quiet the files are read all the same.
	patience = 20
	// belt is how often the files are read though nothing was heard of them.
	belt = 30 * time.Second
)

// Files calls read whenever a file may have changed, or again asks for it, until
// the context ends. Folders are watched, not files: a ConfigMap or a mounted
// secret swaps a link beside its files.
func Files(ctx context.Context, files []string, again <-chan struct{}, log *slog.Logger, read func()) {
	events := make(chan fsnotify.Event)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close() //nolint:errcheck // nothing is read from it any more
		events = watcher.Events
		for _, file := range files {
			if bad := watcher.Add(filepath.Dir(file)); bad != nil {
				err = bad
			}
		}
	}
	if err != nil {
		log.Warn("files are read every so often, their folders cannot be watched", "files", files, "every", belt, "error", err)
	}
	settled(ctx, events, again, read)
}

// settled calls read once the events of a change have come to an end.
func settled(ctx context.Context, events <-chan fsnotify.Event, again <-chan struct{}, read func()) {
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
		read()
		heard = 0
		timer.Reset(belt)
	}
}
