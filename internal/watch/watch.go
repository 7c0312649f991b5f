// Package watch says when files may have changed: the policy file, the auth
// file, certificates. It reads none of them.
package watch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
	// glance is how often the files' sizes and times are compared. Some changes are
	// told by nobody: on a network's file system, in a folder that took another's
	// place, where the system has no watch left to give.
	glance = time.Second
	// belt is how often the files are read though nothing was heard or seen of them.
	belt = 30 * time.Second
)

// Watch is what is heard and seen of files since Begin.
type Watch struct {
	files   []string
	seen    []os.FileInfo     // at the last look, nil where there was no file
	folders *fsnotify.Watcher // nil where there is none to be had
	err     error
}

// Begin watches files. Whoever reads them afterwards for the first time misses no
// change: what happens until Run is kept. Folders are watched, not files: a
// ConfigMap or a mounted secret swaps a link beside its files. "" is no file.
func Begin(files ...string) *Watch {
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	w := &Watch{files: files, seen: make([]os.FileInfo, len(files))}
	w.looksOther()
	if len(files) == 0 {
		return w
	}
	if w.folders, w.err = fsnotify.NewWatcher(); w.err != nil {
		w.folders = nil
		return w
	}
	for _, file := range files {
		if err := w.folders.Add(filepath.Dir(file)); err != nil {
			w.err = err
		}
	}
	return w
}

// Run calls read whenever a file may have changed, or again asks for it, until
// the context ends. read is told whether it was asked for: the log that it writes
// may stand in a folder that is watched, so that each line of it is an event, and
// what it would say again it may only say to who asked.
func (w *Watch) Run(ctx context.Context, again <-chan struct{}, log *slog.Logger, read func(asked bool)) {
	if w.err != nil {
		log.Warn("folders cannot be watched, their files are looked at every so often", "files", w.files, "every_ms", glance.Milliseconds(), "error", w.err)
	}
	if w.folders == nil {
		w.settled(ctx, nil, nil, again, read)
		return
	}
	defer w.folders.Close() //nolint:errcheck // nothing is read from it any more
	w.settled(ctx, w.folders.Events, w.folders.Errors, again, read)
}

// settled calls read once the events of a change have come to an end. An error is
// an event: what was lost may have been one.
func (w *Watch) settled(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error, again <-chan struct{}, read func(asked bool)) {
	timer, glances := time.NewTimer(belt), time.NewTicker(glance)
	defer timer.Stop()
	defer glances.Stop()
	heard := 0 // since the files were read last
	for {
		due, asked := false, false
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-lost: //nolint:errcheck // it says that something was lost, and not what
		case <-glances.C:
			if !w.looksOther() {
				continue
			}
		case <-again:
			due, asked = true, true
		case <-timer.C:
			due = true
		}
		if !due {
			if heard++; heard <= patience {
				timer.Reset(settle)
			}
			continue
		}
		w.looksOther() // what is read now need not be seen again
		read(asked)
		heard = 0
		timer.Reset(belt)
	}
}

// looksOther says whether a file is another than at the last look.
func (w *Watch) looksOther() (other bool) {
	for i, file := range w.files {
		now, err := os.Stat(file)
		if err != nil {
			now = nil
		}
		before := w.seen[i]
		w.seen[i] = now
		if now == nil || before == nil {
			other = other || now != before
			continue
		}
		other = other || !os.SameFile(before, now) || before.Size() != now.Size() || !before.ModTime().Equal(now.ModTime())
	}
	return other
}
