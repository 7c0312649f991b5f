//go:build linux

package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrydecider/decider/internal/programtest"
)

func contains(path, words string) func() bool {
	return func() bool {
		text, _ := os.ReadFile(path) // one that is not there yet holds nothing
		return strings.Contains(string(text), words)
	}
}

// A log is written off the path, opened anew at SIGHUP, and replayed.
func TestDecisionLogAndReplay(t *testing.T) {
	t.Parallel()
	policies := programtest.PolicyFile(t, "version: 1\ndependencies: {payments: {budget: {capacity: 3, min_per_second: 0, capacity_seconds: 0}}}\n")
	log := filepath.Join(t.TempDir(), "decisions.ndjson")
	p := serve(t, "--policies="+policies, "--decision-log="+log)
	for range 4 {
		mustDecide(t, p.URL, got503("payments"))
	}
	eventually(t, "the refusal is in the log", contains(log, "budget_exhausted"))
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is opened anew", func() bool { _, err := os.Stat(log); return err == nil })
	var ignored any
	if err := call(http.MethodPost, p.URL+"/v1/outcomes", json.RawMessage(`{"caller":"checkout","outcomes":[{"dependency":"payments","first_try_successes":20}]}`), http.StatusOK, &ignored); err != nil {
		t.Fatal(err)
	}
	mustDecide(t, p.URL, got503("payments"))
	metrics := pageText(t, p.URL+"/metrics")
	if !strings.Contains(metrics, `decider_decision_log_lines_total{result="dropped"} 0`) {
		t.Errorf("no count of drops:\n%s", metrics)
	}
	p.Stop(t) // which writes the rest

	r := decides(t, "replay", log+".1", log, "--policies="+policies)
	if r.code != 0 || !strings.Contains(r.out, "5 attempts and 1 reports") || !strings.Contains(r.out, "4 retries logged, 4 replayed: 0 saved, 0 added") {
		t.Errorf("%+v", r)
	}
	other := programtest.PolicyFile(t, "version: 1\ndependencies: {payments: {max_attempts: 1}}\n")
	r = decides(t, "replay", "--output=json", "--dependency=payments", "--policies="+other, log, log+".1")
	var report struct {
		Attempts     int
		Dependencies []struct {
			Saved int
			Flips []struct{ Logged, Replayed string }
		}
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || report.Attempts != 5 || report.Dependencies[0].Saved != 4 || report.Dependencies[0].Flips[0].Replayed != "attempts_exhausted" {
		t.Errorf("%+v, %v", r, err)
	}
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if r := (command{args: []string{"replay", "-", "--policies=" + other}, stdin: string(whole)}).run(t); r.code != 0 || !strings.Contains(r.out, "1 attempts and 1 reports") {
		t.Errorf("from standard input: %+v", r)
	}
	if r := (command{args: []string{"replay", "-", "--policies=" + other}, stdin: "nonsense\n"}).run(t); r.code != 1 || r.out != "" || !strings.Contains(r.err, "-:1: this is no line of a decision log") {
		t.Errorf("nonsense: %+v", r)
	}
	if r := decides(t, "replay", log); r.code != 2 || !strings.Contains(r.err, "--policies") {
		t.Errorf("without policies: %+v", r)
	}
	if r := decides(t, "serve", "--listen=127.0.0.1:0", "--decision-log="+filepath.Join(log, "nowhere")); r.code != 1 || !strings.Contains(r.err, "nowhere") {
		t.Errorf("a log that cannot be opened: %+v", r)
	}
}

func pageText(t *testing.T, url string) string {
	t.Helper()
	response, err := web.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A bad file keeps the old policy, and shows everywhere; so does a good one.
func TestReloadsAreTold(t *testing.T) {
	t.Parallel()
	policies := programtest.PolicyFile(t, goodPolicies)
	p := serve(t, "--policies="+policies)
	var before, after struct {
		Policies struct {
			Hash, Refused   string
			Taken, Refusals int
			Warnings        int
			RefusedAt       string `json:"refused_at"`
		}
	}
	get(t, p.URL+"/v1/status", http.StatusOK, &before)
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(policies+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(policies+".new", policies); err != nil {
			t.Fatal(err)
		}
	}
	replace(badPolicies)
	eventually(t, "the refusal is told", func() bool {
		return strings.Contains(pageText(t, p.URL+"/metrics"), "decider_policies_last_reload_successful 0")
	})
	get(t, p.URL+"/v1/status", http.StatusOK, &after)
	if s := after.Policies; s.Hash != before.Policies.Hash || s.Refusals != 1 || s.Taken != 0 || s.RefusedAt == "" || !strings.Contains(s.Refused, ":2:20: ") || !strings.Contains(s.Refused, "(and 3 more)") {
		t.Errorf("%+v", s)
	}
	if ready := pageText(t, p.URL+"/readyz"); !strings.Contains(ready, ":2:20: ") || !strings.Contains(ready, `"state":"ready"`) {
		t.Errorf("%s", ready)
	}
	replace(unwisePolicies)
	eventually(t, "the good file is in force", func() bool {
		get(t, p.URL+"/v1/status", http.StatusOK, &after)
		return after.Policies.Hash != before.Policies.Hash
	})
	metrics := pageText(t, p.URL+"/metrics")
	for _, line := range []string{"decider_policies_last_reload_successful 1", `decider_policies_reloads_total{result="refused"} 1`, `decider_policies_reloads_total{result="taken"} 1`,
		`decider_policies_info{config="` + after.Policies.Hash + `",source="` + policies + `"} 1`, "decider_policies_warnings 2", "decider_policies_last_reload_timestamp_seconds 1."} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %s in\n%s", line, metrics)
		}
	}
	if after.Policies.Warnings != 2 || after.Policies.Taken != 1 {
		t.Errorf("%+v", after.Policies)
	}
	for _, words := range []string{"policy file is unwise", "payments: budget: (nothing) → off", "search-*: gone"} {
		eventually(t, words+" is logged", func() bool { return strings.Contains(p.Log.String(), words) })
	}
}

// Shadow and candidate, over HTTP and on each store.
func TestShadowAndCandidate(t *testing.T) {
	t.Parallel()
	policies := programtest.PolicyFile(t, "version: 1\ndependencies: {payments: {mode: shadow, budget: {capacity: 4, min_per_second: 0, capacity_seconds: 0}, candidate: {budget: {capacity: 2}}}}\n")
	for name, flags := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(flags(t), "--policies="+policies)...)
			for range 6 {
				if d := mustDecide(t, p.URL, got503("payments")); d.Decision != "retry" {
					t.Errorf("%+v", d)
				}
			}
			var dependency struct {
				Shadow    map[string]int
				Candidate struct {
					Judged, Saved, Added int
					Differences          []struct {
						Enforced, Candidate string
						Attempts            int
					}
					Budget bucket
				}
			}
			eventually(t, "all are judged", func() bool {
				get(t, p.URL+"/v1/dependencies/payments", http.StatusOK, &dependency)
				return dependency.Candidate.Judged == 6
			})
			c := dependency.Candidate
			if dependency.Shadow["budget_exhausted"] != 2 || c.Saved != 2 || c.Added != 0 || c.Budget.Tokens != 0 || len(c.Differences) != 1 || c.Differences[0].Attempts != 2 {
				t.Errorf("%+v", dependency)
			}
			for _, line := range []string{`decider_shadow_refusals_total{dependency="payments",reason="budget_exhausted"} 2`,
				`decider_candidate_differences_total{candidate="budget_exhausted",dependency="payments",enforced="backoff"} 2`, `decider_candidate_retries_total{dependency="payments",effect="saved"} 2`} {
				if !strings.Contains(pageText(t, p.URL+"/metrics"), line) {
					t.Errorf("no %s", line)
				}
			}
		})
	}
}

func TestTestCommand(t *testing.T) {
	t.Parallel()
	policies := programtest.PolicyFile(t, goodPolicies)
	cases := strings.TrimSuffix(policies, ".yaml") + ".test.yaml"
	junit := filepath.Join(filepath.Dir(policies), "junit.xml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(cases, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\ntests:\n  - name: the last\n    attempt: {dependency: payments, method: GET, status: 503, attempt: 2}\n    expect: {reason: attempts_exhausted}\n")
	for _, file := range []string{cases, policies} {
		r := decides(t, "test", file, "--junit="+junit)
		if r.code != 0 || r.err != "" || !strings.HasSuffix(r.out, policies+":4: untouched: rule search-*\n"+cases+": 1 tests, 0 failed; 1 of 2 rules touched\n") {
			t.Errorf("%+v", r)
		}
	}
	if !contains(junit, `<testsuites tests="1" failures="0">`)() {
		t.Error("no JUnit file")
	}
	write("version: 1\ntests:\n  - name: the last\n    attempt: {dependency: payments, method: GET, status: 503}\n    expect: {reason: attempts_exhausted}\n")
	if r := decides(t, "test", "--trace", cases); r.code != 1 || !strings.Contains(r.out, ":3: FAIL: the last\n") || !strings.Contains(r.out, "reason  expected attempts_exhausted  got backoff") || !strings.Contains(r.out, "7 are attempts left?") {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "test", "--output=json", cases); r.code != 1 || !json.Valid([]byte(r.out)) {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "test", "--policies="+programtest.PolicyFile(t, "version: 1\ndependencies: {payments: {max_attempts: 1}}\n"), cases); r.code != 0 {
		t.Errorf("of other policies: %+v", r)
	}
	write("version: 1\ntests:\n  - name: the last\n    atempt: {}\n")
	if r := decides(t, "test", cases); r.code != 1 || r.out != "" || !strings.Contains(r.err, cases+`:4:5: unknown word "atempt"; did you mean "attempt"?`) || !strings.Contains(r.err, "refused, 2 mistakes") {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "test", programtest.PolicyFile(t, badPolicies)); r.code != 1 {
		t.Errorf("no cases: %+v", r)
	}
}

func TestExplainPreset(t *testing.T) {
	t.Parallel()
	if r := decides(t, "explain", "--preset=aws-2026"); r.code != 0 || !strings.Contains(r.out, "A call is made at most 3 times") || !strings.Contains(r.out, "What it cannot say:") || !strings.Contains(r.out, "Published in:\n  - aws/aws-sdk-go-v2") {
		t.Errorf("%+v", r)
	}
	var one struct {
		Name          string
		Says, Sources []string
		Words         []struct{ Key, Value string }
	}
	if r := decides(t, "explain", "--preset=grpc", "--output=json"); json.Unmarshal([]byte(r.out), &one) != nil || one.Name != "grpc" || len(one.Says) < 5 || len(one.Words) < 10 {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "explain", "--presets"); r.code != 0 || strings.Count(r.out, "\n") != 10 {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "explain", "--preset=grcp"); r.code != 2 || !strings.Contains(r.err, `did you mean "grpc"?`) {
		t.Errorf("%+v", r)
	}
}
