package decisionlog

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/handlers"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openLog(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path, func() string { return "c0ffee" }, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

func attempt(id string) *decide.Attempt {
	return &decide.Attempt{Dependency: "payments", Method: "GET", Failure: 503, Number: 1, DecisionID: id}
}

func readAll(t *testing.T, path string) (lines []Line) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := NewReader(path, file); ; {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions.ndjson")
	l := openLog(t, path)
	l.Decided(noon, attempt("id-1"), &decide.Decision{Dependency: "payments", DecisionID: "id-1", Reason: decide.ReasonBackoff, ShadowReason: decide.ReasonBudgetExhausted})
	o := decide.Outcome{Caller: "checkout", ReportID: "r-1", FirstTrySuccesses: 118, RetrySuccesses: 2, FinalFailures: 1}
	l.Reported(noon.Add(time.Second), "payments", &o)
	l.Close(t.Context())
	got := readAll(t, path)
	want := []Line{
		{Time: noon, Config: "c0ffee", Attempt: *attempt("id-1"), Dependency: "payments", Decision: Decision{"retry", "id-1", "backoff", "budget_exhausted"}},
		{Time: noon.Add(time.Second), Config: "c0ffee", Dependency: "payments", Outcome: &o},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if c := l.Counts(); c != (Counts{Written: 2}) {
		t.Errorf("%+v", c)
	}
	l.Decided(noon, attempt(""), &decide.Decision{})
	if c := l.Counts(); c.Dropped != 1 {
		t.Errorf("after the end: %+v", c)
	}
}

// slow is a file that takes nothing until it may.
type slow struct {
	may     chan struct{}
	written int
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.may
	s.written += len(b)
	return len(b), nil
}

func (s *slow) Close() error { return nil }

// A disk that stalls costs no request anything: what does not fit is dropped.
func TestAStalledFileDropsAndNeverWaits(t *testing.T) {
	t.Parallel()
	file := &slow{may: make(chan struct{})}
	l := &Log{config: func() string { return "" }, log: quiet(), queue: make(chan *entry, 10), again: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write(file)
	const many = 100_000 // far more than the buffer and the queue hold
	begun := time.Now()
	for range many {
		l.Decided(noon, attempt("id"), &decide.Decision{Dependency: "payments"})
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	close(file.may)
	l.Close(t.Context())
	c := l.Counts()
	if c.Dropped == 0 || c.Written+c.Dropped != many || file.written == 0 {
		t.Errorf("%+v, %d bytes", c, file.written)
	}
}

// A file that nobody reads from costs memory for the queue alone, whatever the
// attempts say.
func TestTheQueueIsBoundedInBytes(t *testing.T) {
	var headers []string
	for _, header := range append(decide.HonourableHeaders(), decide.DateHeader) {
		headers = append(headers, `"`+header.String()+`":"`+strings.Repeat("9", 6000)+`"`)
	}
	body := []byte(`{"dependency":"p","method":"GET","status":503,"headers":{` + strings.Join(headers, ",") + `}}`)
	const entries = 1000
	l := &Log{config: func() string { return "" }, queue: make(chan *entry, entries)}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range entries {
		a, err := handlers.ReadAttempt(body)
		if err != nil {
			t.Fatal(err)
		}
		l.Decided(noon, &a, &decide.Decision{Dependency: a.Dependency})
	}
	each := (heap() - before) / entries
	if len(l.queue) != entries || each*queueSize > 48<<20 {
		t.Errorf("%d entries wait, %d bytes each: the whole queue is %d", len(l.queue), each, each*queueSize)
	}
	t.Logf("%d bytes an entry", each)
}

// broken is a file that fails until it is well.
type broken struct{ well bool }

func (b *broken) Write(text []byte) (int, error) {
	if !b.well {
		return 0, errors.New("no space left")
	}
	return len(text), nil
}

func (b *broken) Close() error { return nil }

func TestAFullDiskLosesLinesAndGoesOn(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	l := &Log{path: "f", config: func() string { return "" }, log: slog.New(slog.NewTextHandler(&told, nil))}
	file := &broken{}
	w := newWriter(l, file)
	for range 3 {
		w.entry(&entry{at: noon, attempt: *attempt("id")})
		w.flush()
	}
	file.well = true
	w.entry(&entry{at: noon, attempt: *attempt("id")})
	w.flush()
	if c := l.Counts(); c != (Counts{Written: 1, Failed: 3}) {
		t.Errorf("%+v", c)
	}
	if lines := strings.Split(strings.TrimSpace(told.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "no space left") || !strings.Contains(lines[1], "written again") {
		t.Errorf("told %q", lines)
	}
}

// Rotation: the file is moved away, and the log opened anew.
func TestTheFileIsOpenedAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions.ndjson")
	l := openLog(t, path)
	l.Decided(noon, attempt("id-1"), &decide.Decision{})
	for l.Counts().Written < 1 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	for {
		if _, err := os.Stat(path); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.Decided(noon, attempt("id-2"), &decide.Decision{})
	l.Close(t.Context())
	for file, id := range map[string]string{path + ".1": "id-1", path: "id-2"} {
		if lines := readAll(t, file); len(lines) != 1 || lines[0].Attempt.DecisionID != id {
			t.Errorf("%s holds %+v", file, lines)
		}
	}
	if _, err := Open(filepath.Join(path, "nowhere"), nil, quiet()); err == nil {
		t.Error("a file in a file is opened")
	}
}

func TestWhatIsNoLineIsToldAtItsPlace(t *testing.T) {
	t.Parallel()
	const good = `{"time":"2026-11-30T12:00:00Z","attempt":{"dependency":"p","method":"GET","status":503},"decision":{"reason":"backoff"},"tomorrow":1}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":         {good + "\nnonsense\n", "f:3: this is no line of a decision log"},
		"no time":         {`{"attempt":{}}` + "\n", "f:1: this is no line of a decision log: it has no time"},
		"neither":         {`{"time":"2026-11-30T12:00:00Z"}` + "\n", "neither an attempt and its decision nor an outcome"},
		"a bad attempt":   {strings.Replace(good, "503", "99", 1), "f:1: the attempt: Wrong: /status"},
		"a bad outcome":   {`{"time":"2026-11-30T12:00:00Z","outcome":{}}` + "\n", "f:1: the outcome: Wrong: /dependency"},
		"a line too long": {`"` + strings.Repeat("x", maxLine) + "\"\n", "f:1: the line is longer than"},
		"torn":            {good + good[:50], "f:2: the last line is torn"},
	} {
		r := NewReader("f", strings.NewReader(c.text))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrTorn) != (name == "torn") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if line, err := NewReader("f", strings.NewReader(strings.TrimSuffix(good, "\n"))).Next(); err != nil || line.Decision.Reason != "backoff" {
		t.Errorf("a whole line without its end: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"time":"2026-11-30T12:00:00Z","attempt":{"dependency":"p","method":"GET","status":503},"decision":{"reason":"backoff"}}`))
	f.Add([]byte(`{"time":"2026-11-30T12:00:00Z","outcome":{"dependency":"p","first_try_successes":3}}` + "\n\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader("f", strings.NewReader(string(text)))
		for {
			line, err := r.Next()
			if err != nil {
				return
			}
			if line.Dependency == "" || line.Time.IsZero() {
				t.Errorf("%+v of %q", line, text)
			}
		}
	})
}
