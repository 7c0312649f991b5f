package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMedianAndSpread(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(each.list); got != each.want {
			t.Errorf("median of %v is %v, want %v", each.list, got, each.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
	if got, want := spreadIn([]float64{2, 1, 4}), (spreadOf{2, 1, 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := ratios([]float64{8, 9, 1}, []float64{2, 0}); len(got) != 1 || got[0] != 4 {
		t.Errorf("ratios are %v", got)
	}
}

func TestReadsWhatWrkPrints(t *testing.T) {
	t.Parallel()
	out := "Running 1s test\nRESULT {\"seconds\":2.0,\"requests\":1000,\"p50_us\":1500,\"p99_us\":20000,\"max_us\":30000,\"broken\":2,\"refused\":100,\"late\":8}\nRequests/sec: 500\n"
	r, err := readWrk([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	got := r.sample(load{connections: 8, items: 10}, spent{90 * time.Millisecond, 450, 90})
	want := sample{PerSecond: 4500, P50: 1.5, P99: 20, Max: 30, Answered: 900.0 / 1010, CPU: 10, Commands: 0.05, Degraded: 0.01}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if silent := (wrkResult{Seconds: 2}).sample(load{connections: 64}, spent{time.Second, 3, 0}); silent != (sample{}) {
		t.Errorf("a server that answers nothing: %+v", silent)
	}
	if _, err := readWrk([]byte("unable to connect")); err == nil {
		t.Error("no result is no error")
	}
}

func TestReadsProcAndRedis(t *testing.T) {
	t.Parallel()
	stat := "42 (a b) c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 8 0 100 1000 200"
	if got := cpuOf(stat); got != 3*time.Second {
		t.Errorf("got %s, want 3s", got)
	}
	for line, want := range map[string]float64{
		"cmdstat_evalsha:calls=12,usec=3": 12, "cmdstat_eval:calls=1,usec=3": 1, "cmdstat_hset:calls=7,usec=1": 0, "cmdstat_incrby:calls=5,usec=1\r": 5, "": 0,
	} {
		if got := callsIn(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

func TestReadsBenchmarks(t *testing.T) {
	t.Parallel()
	out := "goos: linux\nBenchmarkPlan/503_with_date-2 \t 100 \t 120.5 ns/op \t 16 B/op \t 1 allocs/op\nBenchmarkPlan/503_with_date-2 100 180 ns/op 16 B/op 1 allocs/op\nBenchmarkAsk/Retry-After_at=1-2 5 2000 ns/op 1.000 calls/op 8 B/op 2 allocs/op\nPASS\n"
	got := medians(readBenchmarks(out))
	want := []benchmark{{"Plan/503 with date", 150.25, 16, 1}, {"Ask/Retry-After at=1", 2000, 8, 2}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
	if nanos(1500) != "1.50 µs" || nanos(150.25) != "150 ns" {
		t.Error(nanos(1500), nanos(150.25))
	}
}

// sampled is a report of three rounds, in which the bare handler differs from
// itself by a factor.
func sampled(noise float64) *report {
	r := &report{Samples: map[string]map[string][]sample{}}
	for range 3 {
		for _, s := range scenarios(1) {
			r.add(s.name, bare, sample{PerSecond: 1000, P99: 4, Answered: 1})
			r.add(s.name, bareAgain, sample{PerSecond: 1000 * noise, P99: 4, Answered: 1})
			r.add(s.name, onMemory, sample{PerSecond: 900, P99: 5, Answered: 1})
			r.add(s.name, onRedis, sample{PerSecond: 850, P99: 5, Answered: 1, Commands: 0.05})
		}
	}
	r.Samples[hot64][onRedis][2].PerSecond = 500
	r.Goals = goals(r)
	return r
}

func TestGoals(t *testing.T) {
	t.Parallel()
	verdicts := func(r *report) map[string]string {
		found := map[string]string{}
		for _, g := range r.Goals {
			found[g.What] = g.Verdict
		}
		return found
	}
	const hot, eight, peer = "Redis, one dependency, 64 connections: throughput against the bare handler", "the same, 8 connections", "against ratelimit `/json` on the same Redis, 64 connections"
	quiet, noisy := sampled(1), sampled(1.5)
	if got := verdicts(quiet)[hot]; got != "met" {
		t.Errorf("quiet: %s", got)
	}
	if got := verdicts(noisy)[hot]; got != "too noisy to judge" {
		t.Errorf("noisy, and the rounds disagree: %s", got)
	}
	if got := verdicts(noisy)["Redis, 64 connections: p99 against the bare handler's"]; got != "met" {
		t.Errorf("noisy, and every round agrees: %s", got)
	}
	if got := verdicts(quiet)[peer]; got != "not measured" {
		t.Errorf("a peer that is not there: %s", got)
	}
	if quiet.noise() != 1 || noisy.noise() != 1.5 {
		t.Error(quiet.noise(), noisy.noise())
	}
	breathless := sampled(1)
	breathless.Samples[spread10][onRedis][0].Degraded = 0.2
	breathless.Goals = goals(breathless)
	if got := verdicts(breathless)[hot]; got != "too noisy to judge" {
		t.Errorf("a store that got no turn: %s", got)
	}
	if _, err := json.Marshal(quiet); err != nil {
		t.Error(err)
	}
}

func TestTellsAllOfIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := filepath.Join(dir, "performance.md")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "figures"), 0o750), os.WriteFile(page, []byte("before\n<!-- bench peers -->\nold\n<!-- end of bench peers -->\nafter\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := sampled(1)
	all := scenarios(1)
	for _, name := range []string{"peers.json", "peers.svg"} {
		if err := r.tell(&options{out: dir, page: page}, all); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n<!-- bench peers -->\n", "| decider, Redis | 850 |", "| ≥ 0.800 | 0.850 (0.500 to 0.850) | met |", "<!-- end of bench peers -->\nafter\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("what was there before is still there")
	}
	if err := rewrite(page, "growth", "x"); err == nil {
		t.Error("a page without the marks was rewritten")
	}
	wellFormed(t, r.picture(all))
}

func TestCurves(t *testing.T) {
	t.Parallel()
	g := &grower{steps: []step{
		{Of: "connections", Who: onMemory, Count: 1, RSS: 1 << 20, At: sample{PerSecond: 100}},
		{Of: "connections", Who: onMemory, Count: 64, RSS: 3 << 20, At: sample{PerSecond: 900}},
	}}
	if got := len(g.panels()); got != 2 {
		t.Fatalf("%d panels", got)
	}
	wellFormed(t, curves(g.panels()))
}

func wellFormed(t *testing.T, picture string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
	}
}

func TestPoliciesOfManyRules(t *testing.T) {
	t.Parallel()
	if text := policiesOf(2); !strings.Contains(text, `"service-0": {max_attempts: 2}`) || !strings.Contains(text, `"service-1-*": {max_attempts: 3}`) {
		t.Error(text)
	}
	if strings.Contains(policiesOf(0), "dependencies") {
		t.Error(policiesOf(0))
	}
	if !strings.HasSuffix(sharedPolicies, "min_per_second: 1000000, caller_share: 10%}\n") {
		t.Error(sharedPolicies)
	}
}

// The bare handler must do what it is the limit of: decode this and encode that.
func TestBareEcho(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/v1/decide", strings.NewReader(`{"dependency":"payments","method":"GET","status":503}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	bareEcho().ServeHTTP(w, r)
	if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"dependency":"payments"`)) || !bytes.Contains(w.Body.Bytes(), []byte(`"budget":{`)) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
