package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A client that repeats everything three times and asks nobody must fail every
// case that has a failure in it, or the cases show nothing.
func TestANaiveClientFails(t *testing.T) {
	t.Parallel()
	passed := map[string]bool{}
	for id, s := range readAll(t) {
		run, err := newSession(s)
		if err != nil {
			t.Fatal(err)
		}
		var results []result
		for _, each := range s.Calls {
			results = append(results, naive(run.upstream.url, each, s.Client.AttemptTimeoutMS))
		}
		run.close()
		if len(run.judge(results)) == 0 {
			passed[id] = true
		}
	}
	// In these one blind repeat at once, or none, is right by chance.
	for _, id := range []string{"final-statuses-are-the-callers", "decider-down-one-retry", "decider-down-post-key"} {
		delete(passed, id)
	}
	for id := range passed {
		t.Errorf("%s passed", id)
	}
}

func naive(base string, c call, timeout int64) result {
	client := &http.Client{Timeout: 200e6}
	if timeout > 0 {
		client.Timeout = 100e6
	}
	defer client.CloseIdleConnections()
	var last result
	for range 4 {
		r, _ := http.NewRequest(c.Method, base+c.Path, bytes.NewReader([]byte(c.Body)))
		for name, value := range c.Headers {
			r.Header.Set(name, value)
		}
		response, err := client.Do(r)
		if err != nil {
			last = result{Error: "other"}
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		text := string(body)
		last = result{Status: response.StatusCode, Body: &text}
		if response.StatusCode < 500 && response.StatusCode != 429 {
			break
		}
	}
	return last
}

func readAll(t *testing.T) map[string]*scenario {
	t.Helper()
	cases, err := readCases("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Decisions in the cases are whole, so that a strict client reads them too.
func TestAnswersAreWhole(t *testing.T) {
	t.Parallel()
	required := []string{"decision", "delay_ms", "reason", "message", "decision_id", "dependency", "policy", "retry_after", "breaker", "degraded", "hints"}
	for id, s := range readAll(t) {
		for _, each := range s.Decide {
			if each.Does != "" || each.Status != 0 {
				continue
			}
			var d map[string]any
			if err := json.Unmarshal(each.Body, &d); err != nil {
				t.Fatal(err)
			}
			for _, member := range required {
				if _, ok := d[member]; !ok {
					t.Errorf("%s: a decision without %s", id, member)
				}
			}
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	j := &judgement{names: map[string]string{}}
	j.value("equal", 3.0, 3.0)
	j.value("absent", nil, nil)
	j.value("there", "*", "x")
	j.value("within", map[string]any{"min": 1.0, "max": 3.0}, 2.0)
	j.value("first", "$id", "a")
	j.value("same", "$id", "a")
	if len(j.failures) != 0 {
		t.Errorf("failures %v", j.failures)
	}
	j.value("other", 3.0, 4.0)
	j.value("not absent", nil, "x")
	j.value("not there", "*", nil)
	j.value("beyond", map[string]any{"min": 1.0, "max": 3.0}, 4.0)
	j.value("no number", map[string]any{"min": 1.0}, "x")
	j.value("another", "$id", "b")
	if len(j.failures) != 6 {
		t.Errorf("failures %v", j.failures)
	}
}

func TestRunEndsWithItsInput(t *testing.T) {
	t.Parallel()
	in, end := io.Pipe()
	out := &strings.Builder{}
	done := make(chan error, 1)
	go func() { done <- run(t.Context(), []string{"-cases", "../testdata"}, in, out) }()
	end.Close()
	if err := <-done; err != nil || !strings.Contains(out.String(), `{"url":"http://127.0.0.1:`) {
		t.Errorf("%v, printed %q", err, out)
	}
}

func TestBadCasesAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an unknown member": `[{"id":"a","calls":[{"method":"GET"}],"upstream":[{"status":200}],"mood":1}]`,
		"no calls":          `[{"id":"a","upstream":[{"status":200}]}]`,
		"an id twice":       `[{"id":"a","calls":[{"method":"GET"}],"upstream":[{"status":200}]},{"id":"a","calls":[{"method":"GET"}],"upstream":[{"status":200}]}]`,
	} {
		directory := t.TempDir()
		if err := os.WriteFile(filepath.Join(directory, "x.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readCases(directory); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := readCases(t.TempDir()); err == nil {
		t.Error("an empty directory: accepted")
	}
}
