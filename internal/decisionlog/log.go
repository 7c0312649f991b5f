package decisionlog

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/handlers"
)

const (
	// queueSize is how many entries may wait. That is some 8 MB, and 30 where each has
	// every header, as long as one is kept.
	queueSize = 8192
	// flushEvery is how long a line may stay in memory.
	flushEvery = time.Second
	bufferSize = 64 << 10
)

// Standard is the name of standard output among files.
const Standard = "-"

// Log writes entries to a file. Make one by [Open].
type Log struct {
	path   string
	config func() string
	log    *slog.Logger

	queue  chan *entry
	again  chan struct{}
	done   chan struct{}
	closed atomic.Bool
	once   sync.Once

	written, dropped, failed atomic.Int64
}

// entry is a decision or an outcome.
type entry struct {
	at         time.Time
	config     string
	attempt    decide.Attempt
	decision   decide.Decision
	outcome    *decide.Outcome
	dependency string // of the outcome
}

// Open opens the file to append to it, [Standard] for standard output. config is
// the hash of the policies in force; log hears where the file cannot be written.
func Open(path string, config func() string, log *slog.Logger) (*Log, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	l := &Log{path: path, config: config, log: log, queue: make(chan *entry, queueSize), again: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write(file)
	return l, nil
}

func open(path string) (io.WriteCloser, error) {
	if path == Standard {
		return standard{}, nil
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
}

// standard is standard output, which is nobody's to close.
type standard struct{}

func (standard) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

// Close leaves it open.
func (standard) Close() error { return nil }

// Decided queues a decision. It never waits.
func (l *Log) Decided(at time.Time, a *decide.Attempt, d *decide.Decision) {
	l.add(&entry{at: at, config: l.config(), attempt: *a, decision: *d})
}

// Reported queues an outcome. It never waits.
func (l *Log) Reported(at time.Time, dependency string, o *decide.Outcome) {
	copied := *o
	l.add(&entry{at: at, config: l.config(), outcome: &copied, dependency: dependency})
}

func (l *Log) add(e *entry) {
	if l.closed.Load() {
		l.dropped.Add(1)
		return
	}
	select {
	case l.queue <- e:
	default:
		l.dropped.Add(1)
	}
}

// Reopen opens the file anew, so that what comes goes to a new file where the
// old one was moved away.
func (l *Log) Reopen() {
	select {
	case l.again <- struct{}{}:
	default: // it is about to be
	}
}

// Counts are lines since the start.
type Counts struct {
	// Written to the file, Dropped because the queue was full, and Failed because
	// the file could not be written.
	Written, Dropped, Failed int64
}

// Counts are lines since the start.
func (l *Log) Counts() Counts {
	return Counts{l.written.Load(), l.dropped.Load(), l.failed.Load()}
}

// Close writes what is queued, no longer than the context lasts.
func (l *Log) Close(ctx context.Context) {
	l.once.Do(func() {
		l.closed.Store(true)
		select {
		case l.queue <- nil: // the end
		case <-ctx.Done():
			return
		}
	})
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

// write writes entries until the end comes.
func (l *Log) write(file io.WriteCloser) {
	defer close(l.done)
	w := newWriter(l, file)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-l.queue:
			if e == nil {
				w.flush()
				w.close()
				return
			}
			w.entry(e)
		case <-tick.C:
			w.flush()
		case <-l.again:
			w.reopen()
		}
	}
}

// writer is the file and what of it is not written yet.
type writer struct {
	*Log
	file    io.WriteCloser
	buffer  *bufio.Writer
	pending int64 // lines in the buffer
	line    []byte
	broken  bool
}

func newWriter(l *Log, file io.WriteCloser) *writer {
	return &writer{Log: l, file: file, buffer: bufio.NewWriterSize(file, bufferSize)}
}

func (w *writer) entry(e *entry) {
	w.line = append(e.appendTo(w.line[:0]), '\n')
	if w.buffer.Available() < len(w.line) {
		w.flush()
	}
	w.pending++
	if _, err := w.buffer.Write(w.line); err != nil { // longer than the whole buffer
		w.lost(err)
	}
}

// flush writes the buffer. What cannot be written is lost: a full disk must not
// become a full memory.
func (w *writer) flush() {
	if w.pending == 0 {
		return
	}
	if err := w.buffer.Flush(); err != nil {
		w.lost(err)
		return
	}
	w.written.Add(w.pending)
	w.pending = 0
	if w.broken {
		w.log.Info("the decision log is written again", "file", w.path)
		w.broken = false
	}
}

func (w *writer) lost(err error) {
	w.failed.Add(w.pending)
	w.pending = 0
	w.buffer.Reset(w.file)
	if !w.broken {
		w.log.Error("the decision log cannot be written; lines are lost", "file", w.path, "error", err)
		w.broken = true
	}
}

func (w *writer) reopen() {
	w.flush()
	file, err := open(w.path)
	if err != nil {
		w.log.Error("the decision log cannot be opened anew; it goes on in the old file", "file", w.path, "error", err)
		return
	}
	w.close()
	w.file = file
	w.buffer.Reset(file)
	w.log.Info("the decision log is opened anew", "file", w.path)
}

func (w *writer) close() {
	if err := w.file.Close(); err != nil {
		w.log.Error("the decision log cannot be closed", "file", w.path, "error", err)
	}
}

// appendTo writes the entry as a line without its end.
func (e *entry) appendTo(b []byte) []byte {
	b = e.at.UTC().AppendFormat(append(b, `{"time":"`...), time.RFC3339Nano)
	b = append(append(append(b, `","config":"`...), e.config...), '"')
	if e.outcome != nil {
		return append(appendOutcome(b, e.dependency, e.outcome), '}')
	}
	b = handlers.AppendAttempt(append(b, `,"attempt":`...), &e.attempt)
	b = handlers.AppendDecision(append(b, `,"decision":`...), &e.decision)
	return append(b, '}')
}
