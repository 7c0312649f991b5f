package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// attempt is the body of a decide with one status.
func attempt(dependency string, status int) string {
	return fmt.Sprintf(`{"dependency":%q,"method":"GET","status":%d,"caller":"checkout"}`, dependency, status)
}

// listed are the decisions of an answer, each as "dependency reason".
func listed(t *testing.T, r *reply) []string {
	t.Helper()
	var list gen.PastDecisions
	if err := json.Unmarshal(r.body, &list); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	out := []string{}
	for _, d := range list.Decisions {
		out = append(out, d.Dependency+" "+d.Reason)
	}
	return out
}

func TestDecisionsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	config.Now = func() time.Time { return epoch }
	c := newCaller(t, newHandler(t, config))
	if got := listed(t, c.get("/v1/decisions")); len(got) != 0 {
		t.Errorf("before the first decision: %q", got)
	}
	c.post("/v1/decide", attempt("payments", 503))
	c.post("/v1/explain", attempt("explained", 503))
	c.post("/v1/decide/batch", `{"attempts":[`+attempt("search", 404)+`,{}]}`)
	c.post("/v1/decide", attempt("payments", 404))
	for query, want := range map[string][]string{
		"":                                      {"payments not_retryable", "search not_retryable", "payments backoff"},
		"?limit=1":                              {"payments not_retryable"},
		"?dependency=payments":                  {"payments not_retryable", "payments backoff"},
		"?decision=retry":                       {"payments backoff"},
		"?dependency=search&decision=retry":     {},
		"?decision=give_up&dependency=payments": {"payments not_retryable"},
		"?decision=give_up&limit=1000":          {"payments not_retryable", "search not_retryable"},
	} {
		if got := listed(t, c.get("/v1/decisions"+query)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	first := c.get("/v1/decisions?decision=retry").body
	for member, want := range map[string]any{
		"at": "2026-11-30T15:04:05Z", "method": "GET", "failure": "503", "attempt": 1.0, "caller": "checkout", "decision": "retry",
		"message": "Retry in 200 ms as attempt 2 of at most 4, after the policy's own backoff.",
	} {
		var list struct{ Decisions []map[string]any }
		if err := json.Unmarshal(first, &list); err != nil {
			t.Fatal(err)
		}
		if got := list.Decisions[0][member]; got != want {
			t.Errorf("%s is %v, want %v", member, got, want)
		}
	}
}

func TestDecisionsRefuseWrongFilters(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	for _, path := range []string{"/v1/decisions", "/v1/decisions/stream"} {
		for query, want := range map[string][]string{
			"?dependency=-a&decision=maybe&limit=0": {"/dependency", "/decision", "/limit"},
			"?limit=1001":                           {"/limit"},
			"?decision=":                            {"/decision"},
			"?dependency=":                          {"/dependency"},
		} {
			got := c.get(path + query)
			if fields := got.fields(t); got.status != 422 || !slices.Equal(fields, want) {
				t.Errorf("%s%s: %d %q, want %q", path, query, got.status, fields, want)
			}
		}
		if got := c.get(path + "?limit=many"); got.status != 400 {
			t.Errorf("%s: a limit that is no number: %d", path, got.status)
		}
	}
}

// script adds n decisions, every third of them a give_up, on dependencies that
// take turns.
func script(r *ring, from, n int) {
	for i := from; i < from+n; i++ {
		d := decide.Decision{Dependency: fmt.Sprintf("d%d", i%2), NextAttempt: int64(i)}
		if i%3 == 0 {
			d.Reason = decide.ReasonDeadline
		}
		r.add(epoch, &decide.Attempt{}, &d)
	}
}

func sequence(found []past) []int64 {
	out := []int64{}
	for _, p := range found {
		out = append(out, p.decision.NextAttempt)
	}
	return out
}

func TestRing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		added   int
		after   int64
		filter  filter
		want    []int64
		skipped int64
	}{
		"nothing yet":                {0, 0, filter{limit: 10}, []int64{}, 0},
		"all":                        {3, 0, filter{limit: 10}, []int64{3, 2, 1}, 0},
		"behind the second":          {3, 2, filter{limit: 10}, []int64{3}, 0},
		"behind the last":            {3, 3, filter{limit: 10}, []int64{}, 0},
		"behind what is to come":     {3, 9, filter{limit: 10}, []int64{}, 0},
		"more than the limit":        {9, 2, filter{limit: 2}, []int64{9, 8}, 5},
		"give-ups":                   {9, 0, filter{decision: "give_up", limit: 2}, []int64{9, 6}, 1},
		"retries of one":             {9, 0, filter{decision: "retry", dependency: "d0", limit: 9}, []int64{8, 4, 2}, 0},
		"what was overwritten":       {ringSize + 50, 10, filter{limit: 1}, []int64{ringSize + 50}, ringSize - 1 + 40},
		"none of what is wanted":     {50, 0, filter{dependency: "other", limit: 1}, []int64{}, 0},
		"a ring that is just full":   {ringSize, 0, filter{dependency: "d1", decision: "give_up", limit: 1}, []int64{999}, 166},
		"a ring that has gone round": {2 * ringSize, 2*ringSize - 2, filter{limit: 5}, []int64{2000, 1999}, 0},
	} {
		r := new(ring)
		script(r, 1, row.added)
		found, skipped, last := r.since(row.after, row.filter)
		if got := sequence(found); !slices.Equal(got, row.want) || skipped != row.skipped || last != int64(row.added) {
			t.Errorf("%s: %v, %d skipped, last %d; want %v, %d, %d", name, got, skipped, last, row.want, row.skipped, row.added)
		}
	}
}

// Whoever reads while others write sees each decision once and whole.
func TestRingUnderWriters(t *testing.T) {
	t.Parallel()
	r := new(ring)
	var writers sync.WaitGroup
	const each = 5000
	for range 4 {
		writers.Go(func() { script(r, 1, each) })
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	var seen, missed, told int64
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		found, skipped, last := r.since(told, filter{limit: ringSize})
		for i := 1; i < len(found); i++ {
			if found[i].sequence >= found[i-1].sequence {
				t.Fatalf("%d follows %d", found[i].sequence, found[i-1].sequence)
			}
		}
		seen, missed, told = seen+int64(len(found)), missed+skipped, last
	}
	if seen+missed != 4*each {
		t.Errorf("%d seen and %d missed of %d", seen, missed, 4*each)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	h := new(history)
	at := epoch.Unix()
	for second, n := range map[int64]int{-121: 9, -120: 1, -2: 2, -1: 3, 0: 4} {
		for range n {
			h.add(at+second, true)
		}
	}
	h.add(at-1, false)
	got := h.before(at)
	if got.From != epoch.Add(-120*time.Second) || len(got.Retries) != 120 || len(got.GiveUps) != 120 {
		t.Fatalf("from %v, %d and %d", got.From, len(got.Retries), len(got.GiveUps))
	}
	if got.Retries[0] != 1 || got.Retries[118] != 2 || got.Retries[119] != 3 || got.GiveUps[119] != 1 || got.GiveUps[118] != 0 {
		t.Errorf("%v %v", got.Retries, got.GiveUps)
	}
	if later := h.before(at + 128); slices.Max(later.Retries[9:]) != 0 {
		t.Errorf("what is forgotten came back: %v", later.Retries)
	}
	end := lastSeconds(got, 2)
	if end.From != epoch.Add(-2*time.Second) || !slices.Equal(end.Retries, []int64{2, 3}) || !slices.Equal(end.GiveUps, []int64{0, 1}) {
		t.Errorf("the end: %+v", end)
	}
}

func TestHistoryUnderWriters(t *testing.T) {
	t.Parallel()
	h := new(history)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 1000 {
				h.add(epoch.Unix(), i%2 == 0)
			}
		})
	}
	writers.Wait()
	got := h.before(epoch.Unix() + 1)
	if got.Retries[119] != 4000 || got.GiveUps[119] != 4000 {
		t.Errorf("%d and %d", got.Retries[119], got.GiveUps[119])
	}
}

func TestHistorySaturates(t *testing.T) {
	t.Parallel()
	h := new(history)
	second := epoch.Unix()
	h[uint64(second)%128].Store(uint64(second)<<(2*countBits) | countMax<<countBits | 7)
	h.add(second, true)
	h.add(second, false)
	if retries, giveUps := cell(h[uint64(second)%128].Load(), second); retries != countMax || giveUps != 8 {
		t.Errorf("%d and %d", retries, giveUps)
	}
}

func TestStatusSaysWhatOneMayDo(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	var status gen.Status
	if err := json.Unmarshal(c.get("/v1/status").body, &status); err != nil {
		t.Fatal(err)
	}
	if status.Roles == nil || strings.Join(*status.Roles, " ") != "report read operate" {
		t.Errorf("%v", status.Roles)
	}
}

func TestConsoleIsMounted(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	config.Console = func(path string) (http.Handler, bool) {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("console " + path))
		}), path != "/console/nope"
	}
	c := newCaller(t, newHandler(t, config))
	for _, path := range []string{"/", "/console/app.js"} {
		if got := c.get(path); got.status != 200 || string(got.body) != "console "+path {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := c.post("/", "{}"); got.status != 405 {
		t.Errorf("POST: %d", got.status)
	}
	if got := c.get("/console/nope"); got.status != 404 || got.header.Get("Content-Type") != problemType || got.member(t, "type") != problemURN+"not-found" {
		t.Errorf("/console/nope: %d %s", got.status, got.body)
	}
}

// What a decision pays for being kept, beside others that are, and while
// somebody reads all the time.
func BenchmarkRing(b *testing.B) {
	for _, readers := range []int{0, 1} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			r, done := new(ring), make(chan struct{})
			for range readers {
				go func() {
					for {
						select {
						case <-done:
							return
						default:
							r.since(0, filter{limit: ringSize})
						}
					}
				}()
			}
			a, d := &decide.Attempt{Method: "GET"}, &decide.Decision{Dependency: "payments"}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r.add(epoch, a, d)
				}
			})
			close(done)
		})
	}
}
