package policy

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/watch"
)

const (
	fileA   = "version: 1\ndependencies: {payments: {max_attempts: 2, backoff: {strategy: constant, base: 100ms}, budget: off, candidate: {max_attempts: 3}}}\n"
	fileB   = "version: 1\ndependencies: {payments: {max_attempts: 5, backoff: {strategy: constant, base: 500ms}, budget: off, candidate: {max_attempts: 6}}}\n"
	fileBad = "version: 1\ndependencies: {payments: {max_attempts: 0}}\n"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	temp := path + ".new" // so that nobody reads a half of it
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, text string) (live *Live, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policies.yaml")
	write(t, path, text)
	live, err := Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return live, path
}

// ofFile says of what file a decision is; a decision that mixes two is of none.
func ofFile(d *decide.Decision) string {
	switch {
	case d.Delay == 100 && strings.Contains(d.Message(), "of at most 2"):
		return "A"
	case d.Delay == 500 && strings.Contains(d.Message(), "of at most 5"):
		return "B"
	}
	return ""
}

// sameFile is a book of trials that holds a rule and its candidate to
// being of one file.
type sameFile struct{ t testing.TB }

func (sameFile) AskLater(*decide.Question, func(decide.Answer)) {}

func (s sameFile) Compared(c *decide.Comparison) {
	if c.Policy.Candidate.MaxAttempts != c.Policy.MaxAttempts+1 {
		s.t.Error("a candidate of another file")
	}
}

// TestAReloadStorm reads the file anew 200 times, every other one a bad one,
// while 20,000 decisions are made.
func TestAReloadStorm(t *testing.T) {
	live, path := open(t, fileA)
	decider := &decide.Decider{Policies: live, Fleet: budget.NewFleet(budget.NewMemory(time.Now)), Now: time.Now,
		Random: func() float64 { return 0.5 }, NewID: func() string { return "id" }, Trials: sameFile{t}}
	const decisions, reloads, deciders = 20_000, 200, 4
	var made, ofA, ofB atomic.Int64
	step := make(chan struct{}, deciders)
	decideSome := func() {
		for n := made.Add(1); n <= decisions; n = made.Add(1) {
			d, err := decider.Decide(context.Background(), &decide.Attempt{Dependency: "payments", Method: "GET", Failure: 503})
			switch file := ofFile(&d); {
			case err != nil:
				t.Error(err)
			case file == "A":
				ofA.Add(1)
			case file == "B":
				ofB.Add(1)
			default:
				t.Errorf("%d ms and %q are of no file", d.Delay, d.Message())
			}
			if n%(decisions/reloads) == 0 {
				step <- struct{}{} // the next reload, while the others go on
			}
		}
	}
	before := heap()
	var group sync.WaitGroup
	for range deciders {
		group.Go(decideSome)
	}
	texts := []string{fileBad, fileB, fileBad, fileA}
	for i := range reloads {
		<-step
		write(t, path, texts[i%len(texts)])
		if _, err := live.Reload(); (err != nil) != (i%2 == 0) {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	group.Wait()
	if last := live.LastReload(); last.Good != reloads/2 || last.Bad != reloads/2 || last.Err != nil {
		t.Errorf("%+v", last)
	}
	if ofA.Load()+ofB.Load() != decisions || ofA.Load() == 0 || ofB.Load() == 0 {
		t.Errorf("%d decisions under A, %d under B", ofA.Load(), ofB.Load())
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A live bucket keeps its tokens when its rule changes, clamped at the next touch.
func TestBucketsKeepTheirTokensClamped(t *testing.T) {
	t.Parallel()
	file := func(capacity string) string {
		return "version: 1\ndependencies: {payments: {budget: {min_per_second: 0, capacity: " + capacity + "}}}\n"
	}
	live, path := open(t, file("10"))
	fleet := budget.NewFleet(budget.NewMemory(time.Now))
	decider := &decide.Decider{Policies: live, Fleet: fleet, Now: time.Now, Random: func() float64 { return 0.5 }, NewID: func() string { return "id" }}
	tokens := func() string {
		d, err := decider.Decide(t.Context(), &decide.Attempt{Dependency: "payments", Method: "GET", Failure: 503})
		if err != nil {
			t.Fatal(err)
		}
		return decide.FormatMicro(d.Budget.Tokens) + "/" + decide.FormatMicro(d.Budget.Capacity)
	}
	for _, c := range []struct{ capacity, want string }{{"10", "9/10"}, {"10", "8/10"}, {"20", "7/20"}, {"3", "2/3"}, {"100", "1/100"}} {
		write(t, path, file(c.capacity))
		if _, err := live.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := tokens(); got != c.want {
			t.Errorf("under a capacity of %s %s are left, want %s", c.capacity, got, c.want)
		}
	}
}

// A ConfigMap's folder holds links: the file to ..data/ and ..data to the folder
// of the moment, which is swapped by a rename.
func TestAConfigMapSwapIsPickedUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "policies.yaml"), text)
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version("..2026_1", fileA)
	link("..2026_1", "..data")
	link("..data/policies.yaml", "policies.yaml")
	path := filepath.Join(dir, "policies.yaml")
	watched := watch.Begin(path)
	live, err := Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	log := newLogged()
	go watched.Run(t.Context(), nil, log.logger(), func(asked bool) { live.ReloadAndLog(log.logger(), asked) })

	version("..2026_2", fileB)
	link("..2026_2", "..data_tmp")
	swapped := time.Now()
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	want := mustParse(t, fileB).Hash()
	for live.Set().Hash() != want {
		if time.Since(swapped) > 10*time.Second { // far from the half minute after which it is read anyhow
			t.Fatal("not picked up")
		}
		time.Sleep(5 * time.Millisecond)
	}
	log.wait(t, "payments: max_attempts: 2 → 5")

	version("..2026_3", fileBad)
	link("..2026_3", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	log.wait(t, "refused, the one in force stays")
	if live.Set().Hash() != want || live.LastReload().Err == nil {
		t.Error("a bad file has changed something")
	}
}

// logged keeps log lines.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLogged() *logged { return &logged{} }

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) wait(t *testing.T, words string) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !strings.Contains(l.String(), words); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%q is not logged:\n%s", words, l)
		}
	}
}

func TestTheBuiltInPolicyIsNeverReloaded(t *testing.T) {
	t.Parallel()
	live, err := Open("", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := live.Reload(); changes != nil || err != nil || !live.LastReload().At.IsZero() {
		t.Errorf("%v, %v", changes, err)
	}
}

func TestWarningsAreLogged(t *testing.T) {
	t.Parallel()
	live, path := open(t, fileA)
	log := newLogged()
	live.LogWarnings(log.logger())
	write(t, path, strings.Replace(fileB, "max_attempts: 5", "max_attempts: 15", 1))
	live.ReloadAndLog(log.logger(), false)
	for _, words := range []string{"kind=no-bound", "kind=many-attempts", "policies.yaml:2:", "policy changed"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("%q is not logged:\n%s", words, log)
		}
	}
}

// What is refused is told and counted once, and told again to who asks: the log
// may stand in the folder that is watched.
func TestAReloadIsToldOnce(t *testing.T) {
	t.Parallel()
	live, path := open(t, fileA)
	now := time.Unix(1_700_000_000, 0)
	live.now = func() time.Time { return now }
	for _, step := range []struct {
		text      string
		asked     bool
		want      string // in what is logged; "": nothing is
		good, bad int64
		refused   time.Duration // since when, from the beginning
	}{
		{fileA, false, "", 0, 0, 0},
		{fileA, true, "policy file is the one in force", 0, 0, 0},
		{fileBad, false, "policy file refused", 0, 1, 2 * time.Second},
		{fileBad, false, "", 0, 1, 2 * time.Second},
		{fileBad, true, "policy file refused", 0, 1, 2 * time.Second},
		{"version: 2\n", false, "policy file refused", 0, 2, 5 * time.Second},
		{fileA, false, "policy file is the one in force", 1, 2, 0},
		{fileA, false, "", 1, 2, 0},
		{fileB, false, "policy file applied", 2, 2, 0},
		{fileB + "# other\n", false, "", 2, 2, 0},
		{fileBad, false, "policy file refused", 2, 3, 10 * time.Second},
		{fileA, false, "policy file applied", 3, 3, 0},
	} {
		write(t, path, step.text)
		log := newLogged()
		live.ReloadAndLog(log.logger(), step.asked)
		now = now.Add(time.Second)
		if got := log.String(); step.want == "" && got != "" || !strings.Contains(got, step.want) {
			t.Errorf("%+v: %q", step, got)
		}
		last := live.LastReload()
		if last.Good != step.good || last.Bad != step.bad || (last.Err != nil) != (step.refused > 0) {
			t.Errorf("%+v: %+v", step, last)
		}
		if since := last.RefusedAt.Sub(time.Unix(1_700_000_000, 0)); last.Err != nil && since != step.refused {
			t.Errorf("%+v: since %v", step, since)
		}
	}
}
