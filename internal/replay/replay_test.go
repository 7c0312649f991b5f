package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/decisionlog"
	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/replay"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func set(t testing.TB, rule string) *policy.Set {
	t.Helper()
	s, err := policy.Parse("policies.yaml", []byte("version: 1\nunknown_dependencies: refuse\ndependencies: {payments: "+rule+", stock: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// record lets a decider with a log live through an outage of a minute in the
// middle of three, in virtual time, and returns the log's path.
func record(t testing.TB, policies *policy.Set) string {
	t.Helper()
	now := noon
	clock := func() time.Time { return now }
	chance := rand.New(rand.NewPCG(1, 2))
	ids := 0
	fleet := budget.NewFleet(budget.NewMemory(clock))
	d := decide.Decider{Policies: policies, Fleet: fleet, Now: clock, Random: chance.Float64, NewID: func() string { ids++; return fmt.Sprint("id-", ids) }}
	path := filepath.Join(t.TempDir(), "decisions.ndjson")
	log, err := decisionlog.Open(path, policies.Hash, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for second := range 180 {
		failing := 0.05
		if second >= 60 && second < 120 {
			failing = 1
		}
		var o decide.Outcome
		for range 50 {
			now = now.Add(20 * time.Millisecond)
			a := decide.Attempt{Dependency: "payments", Method: "GET", Failure: 503, Number: 1}
			for chance.Float64() < failing {
				decision, err := d.Decide(t.Context(), &a)
				if err != nil {
					t.Fatal(err)
				}
				log.Decided(now, &a, &decision)
				if !decision.Retry() {
					a.Number = -1
					break
				}
				a.Number++
			}
			switch {
			case a.Number == 1:
				o.FirstTrySuccesses++
			case a.Number > 1:
				o.RetrySuccesses++
			}
		}
		p, bucket, _ := policies.Find("payments")
		o.Policy, o.Bucket, o.ReportID = p, bucket, fmt.Sprint("r-", second)
		fleet.Report(t.Context(), &o)
		log.Reported(now, "payments", &o)
	}
	log.Close(t.Context())
	if c := log.Counts(); c.Dropped > 0 || c.Failed > 0 {
		t.Fatalf("%+v", c)
	}
	return path
}

func replayed(t testing.TB, path string, policies *policy.Set, only string) (*replay.Report, string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report, err := replay.Run(decisionlog.NewReader(path, file), policies, only)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Print(&text); err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return report, text.String() + string(whole)
}

func TestUnderItsOwnPolicyNothingFlips(t *testing.T) {
	t.Parallel()
	policies := set(t, "{}")
	report, text := replayed(t, record(t, policies), policies, "")
	d := report.Dependencies[0]
	if len(report.Dependencies) != 1 || d.Name != "payments" || d.Attempts < 3000 || d.LoggedRetries == 0 || d.LoggedRetries != d.ReplayedRetries || len(d.Flips)+len(d.Others) != 0 || d.LoadChange != 0 {
		t.Errorf("%s", text)
	}
	if report.Reports != 180 || len(d.Timeline) < 12 || len(d.Timeline) > 24 {
		t.Errorf("%d reports, %d slots", report.Reports, len(d.Timeline))
	}
	var attempts, retries int64
	for _, s := range d.Timeline {
		attempts, retries = attempts+s.Attempts, retries+s.Replayed
		if s.Budget == nil || s.Budget.Least > s.Budget.Last || s.Budget.Last > s.Budget.Capacity {
			t.Errorf("%+v", s.Budget)
		}
	}
	if attempts != d.Attempts || retries != d.ReplayedRetries {
		t.Errorf("the timeline has %d attempts and %d retries", attempts, retries)
	}
}

func TestATighterPolicySaves(t *testing.T) {
	t.Parallel()
	path := record(t, set(t, "{}"))
	report, text := replayed(t, path, set(t, "{budget: {ratio: 2%, capacity: 5}}"), "payments")
	d := report.Dependencies[0]
	if d.Saved == 0 || d.Added > d.Saved || d.Flips[0].Replayed != "budget_exhausted" || d.LoadChange >= 0 {
		t.Errorf("%s", text)
	}
	for range 3 {
		if _, again := replayed(t, path, set(t, "{budget: {ratio: 2%, capacity: 5}}"), "payments"); again != text {
			t.Error("a second replay says something else")
		}
	}
	if report, _ := replayed(t, path, set(t, "{}"), "stock"); report.Attempts != 0 || len(report.Dependencies) != 0 {
		t.Errorf("%+v", report)
	}
}

// script is a log of lines.
type script []decisionlog.Line

func (s *script) Next() (decisionlog.Line, error) {
	if len(*s) == 0 {
		return decisionlog.Line{}, io.EOF
	}
	line := (*s)[0]
	*s = (*s)[1:]
	if line.Dependency == "torn" {
		return line, decisionlog.ErrTorn
	}
	return line, nil
}

func line(second int, dependency, word, reason string) decisionlog.Line {
	return decisionlog.Line{Time: noon.Add(time.Duration(second) * time.Second), Dependency: dependency,
		Attempt:  decide.Attempt{Dependency: dependency, Method: "GET", Failure: 503, Number: 1},
		Decision: decisionlog.Decision{Word: word, Reason: reason, DecisionID: fmt.Sprint("id-", second)}}
}

func TestWhatALogCanHold(t *testing.T) {
	t.Parallel()
	report, err := replay.Run(&script{
		line(0, "payments", "give_up", "paused"),
		line(1, "payments", "retry", "backoff"),
		line(2, "payments", "retry", "retry_after"), // for another reason, and alike
		line(3, "payments", "give_up", "budget_exhausted"),
		line(4, "payments", "give_up", "a_reason_to_come"),
		line(5, "gone", "retry", "backoff"),
		line(6, "torn", "", ""),
		{Time: noon.Add(7 * time.Second), Dependency: "gone", Outcome: &decide.Outcome{FirstTrySuccesses: 1}},
	}, set(t, "{budget: {capacity: 3, min_per_second: 0}, mode: shadow}"), "")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Print(&text); err != nil {
		t.Fatal(err)
	}
	const want = `5 attempts and 0 reports from 2026-11-30T12:00:00Z to 2026-11-30T12:00:07Z, decided anew by  ()
2 lines of dependencies that these policies refuse
the last line is torn, and left out

payments: 5 attempts, 2 retries logged, 3 replayed: 0 saved, 1 added, +20.00 % of the load of 5 calls
  1 were paused by an operator, and stay so
  1  budget_exhausted → backoff
  1  a_reason_to_come → budget_exhausted  decided alike
  1  retry_after → backoff                decided alike

  FROM      ATTEMPTS  RETRIES LOGGED  REPLAYED  TOKENS LEAST  LAST  OF
  12:00:00  1         0               0                             
  12:00:01  1         1               1         2             2     3
  12:00:02  1         1               1         1             1     3
  12:00:03  1         0               1         0             0     3
  12:00:04  1         0               0         0             0     3
`
	if text.String() != want {
		t.Errorf("it says\n%s", text.String())
	}
}

func TestLogsAreMergedByTime(t *testing.T) {
	t.Parallel()
	logs := []replay.Source{
		&script{line(0, "a", "", ""), line(3, "a", "", ""), line(4, "a", "", "")},
		&script{},
		&script{line(1, "b", "", ""), line(3, "b", "", ""), line(9, "b", "", "")},
	}
	merged := replay.Merge(logs)
	var got []string
	for {
		l, err := merged.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		got = append(got, l.Dependency+fmt.Sprint(l.Time.Sub(noon).Seconds()))
	}
	if strings.Join(got, " ") != "a0 b1 a3 b3 a4 b9" {
		t.Errorf("%q", got)
	}
}

// endless is a log of so many lines, on many dependencies.
type endless struct{ left, highest int }

func (e *endless) Next() (decisionlog.Line, error) {
	if e.left--; e.left < 0 {
		return decisionlog.Line{}, io.EOF
	}
	if e.left%10_000 == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		e.highest = max(e.highest, int(m.HeapAlloc))
	}
	l := line(0, fmt.Sprint("svc-", e.left%2000), "retry", "backoff")
	l.Time = noon.Add(-time.Duration(e.left) * 10 * time.Millisecond)
	l.Attempt.DecisionID = fmt.Sprint("id-", e.left)
	return l, nil
}

func TestALongLogTakesNoMemory(t *testing.T) {
	policies, err := policy.Parse("f", []byte("version: 1"))
	if err != nil {
		t.Fatal(err)
	}
	short, long := &endless{left: 10_000}, &endless{left: 50_000}
	for _, log := range []*endless{short, long} {
		report, err := replay.Run(log, policies, "")
		if err != nil || len(report.Dependencies) != 1001 {
			t.Fatalf("%v, %d dependencies", err, len(report.Dependencies))
		}
	}
	if long.highest > short.highest+(4<<20) {
		t.Errorf("the heap is %d bytes for a short log and %d for a long one", short.highest, long.highest)
	}
}
