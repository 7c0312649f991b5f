package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulated runs decider simulate and returns what it writes.
func simulated(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), append([]string{"simulate"}, args...), streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

func mustSimulate(t *testing.T, args ...string) string {
	t.Helper()
	code, out, err := simulated(t, args...)
	if code != 0 {
		t.Fatalf("decider simulate %v exits %d: %s", args, code, err)
	}
	return out
}

func TestSimulateText(t *testing.T) {
	t.Parallel()
	out := mustSimulate(t, "E", "--seeds", "1", "--compare", "none,fixed")
	if !strings.HasPrefix(out, "E. 1,000 calls at one instant\n") || !strings.Contains(out, "\n1,000 at once  fixed ") {
		t.Errorf("%s", out)
	}
}

func TestSimulateIsReproducible(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"markdown", "json", "csv", "svg", "html"} {
		args := []string{"G", "--seeds", "1", "--compare", "decider,grpc", "--output", output}
		if a, b := mustSimulate(t, args...), mustSimulate(t, args...); a != b {
			t.Errorf("%s differs from run to run", output)
		}
	}
}

func TestSimulateJSON(t *testing.T) {
	t.Parallel()
	var tables []struct {
		Name string
		Rows [][]any
	}
	out := mustSimulate(t, "E", "seeds-storm", "--seeds", "1", "--compare", "none", "--output", "json")
	if err := json.Unmarshal([]byte(out), &tables); err != nil {
		t.Fatal(err)
	}
	if len(tables) != 2 || tables[1].Rows[2][2] != 1109.0 {
		t.Errorf("%s", out)
	}
}

// Pictures are well-formed and ask nobody for anything.
func TestSimulatePictures(t *testing.T) {
	t.Parallel()
	svg := mustSimulate(t, "G", "--seeds", "1", "--compare", "decider,none", "--output", "svg")
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	html := mustSimulate(t, "G", "--seeds", "1", "--compare", "decider,none", "--output", "html")
	for _, page := range []string{svg, html} {
		rest := strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, outside := range []string{"http:", "https:", "//", "<script", "url(", "@import", "src="} {
			if strings.Contains(rest, outside) {
				t.Errorf("a picture holds %q", outside)
			}
		}
	}
}

func TestSimulateFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("policies.yaml", "version: 1\ndependencies:\n  payments: {max_attempts: 2}\n")
	good := write("good.yaml", "rate: 50\nend: 20s\nfaults: [{kind: refuse, from: 5s, to: 15s}]\ncompare: [none]\npolicies: policies.yaml\ndependency: payments\nseeds: 1\n")
	if out := mustSimulate(t, good); !strings.Contains(out, "payments") {
		t.Errorf("%s", out)
	}
	bad := write("bad.yaml", "rate: 50\nclints: 3\n")
	if code, _, err := simulated(t, bad); code != exitFailed || !strings.Contains(err, "bad.yaml:2:1: unknown word") {
		t.Errorf("%d: %s", code, err)
	}
}

func TestSimulateMisuse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"nothing"}, {"E", "--compare", "nobody"}, {"E", "--clients", "-1"}, {"E", "--seeds", "9999"}, {"E", "--policies", "x.yaml"},
		{"seeds-storm", "--output", "svg"}, {"E", "--seeds", "1", "--compare", "none", "--output", "svg", "--chart", "99"},
		{"size", "--rate", "10", "--failure-rate", "5%"}, {"size", "--rate", "10", "--failure-rate", "x", "--capacity", "20"},
		{"size", "--rate", "10", "--failure-rate", "5%", "--capacity", "5"},
	} {
		if code, out, _ := simulated(t, args...); code != exitMisuse {
			t.Errorf("decider simulate %v exits %d: %s", args, code, out)
		}
	}
}

func TestSimulateSize(t *testing.T) {
	t.Parallel()
	out := mustSimulate(t, "size", "--rate", "200", "--headroom", "50%", "--failure-rate", "5%")
	for _, want := range []string{"ratio: 6%", "min_per_second: 2", "proposed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestSimulateList(t *testing.T) {
	t.Parallel()
	out := mustSimulate(t, "list")
	for _, want := range []string{"A2", "brooker-2022", "aws-jitter", "decider-breaker-all"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
