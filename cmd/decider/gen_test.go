//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

//go:generate go test -run ^TestDeployIsGenerated$ -update .

// What deploy holds is what decider gen writes for the built-in policy; the
// chart has a copy, for a chart cannot read files beside it.
func TestDeployIsGenerated(t *testing.T) {
	t.Parallel()
	for kind, paths := range map[string][]string{
		"alerts":    {"prometheus/rules.yaml", "helm/decider/files/rules.yaml"},
		"dashboard": {"grafana/decider.json", "helm/decider/files/dashboard.json"},
	} {
		written := command{args: []string{"gen", kind}}.run(t)
		if written.code != 0 || written.err != "" {
			t.Fatalf("gen %s: %+v", kind, written)
		}
		for _, path := range paths {
			golden(t, "../../../deploy/"+path, written.out)
		}
	}
}

const watchedPolicies = `version: 1
dependencies:
  payments: {description: "card payments {{ $x }}.", owner: team-payments}
  search: {max_attempts: 2}
  "search-*": {preset: none}
`

// generatedAlerts are the alerts of a rule file, by name.
func generatedAlerts(t *testing.T, text string) map[string][]generatedAlert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []generatedAlert
		}
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	alerts := map[string][]generatedAlert{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts[r.Alert] = append(alerts[r.Alert], r)
		}
	}
	return alerts
}

type generatedAlert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// Each dependency that the file names exactly has an alert, with its owner, and
// all that it does not name have one together.
func TestGenAlertsForPolicies(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "policies.yaml", watchedPolicies)
	got := command{args: []string{"gen", "alerts", "--policies", file, "--objective=99.9%", "--runbook=https://wiki.example/decider"}}.run(t)
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	burns := generatedAlerts(t, got.out)["DeciderCallsFailing"]
	want := []struct{ dependency, owner string }{{"payments", "team-payments"}, {"search", ""}, {"_other", ""}}
	if len(burns) != len(want) {
		t.Fatalf("%d alerts for %d dependencies: %+v", len(burns), len(want), burns)
	}
	for i, w := range want {
		b := burns[i]
		for _, part := range []string{
			`decider:calls_failed:ratio_rate1h{dependency="` + w.dependency + `"} > 0.0144`, `ratio_rate5m{dependency="` + w.dependency + `"} > 0.0144`,
			`ratio_rate6h{dependency="` + w.dependency + `"} > 0.006`, `ratio_rate30m{dependency="` + w.dependency + `"} > 0.006`,
		} {
			if !strings.Contains(b.Expr, part) {
				t.Errorf("%s: %s is not in\n%s", w.dependency, part, b.Expr)
			}
		}
		if b.Labels["owner"] != w.owner || b.Labels["dependency"] != w.dependency || b.Labels["severity"] != "critical" {
			t.Errorf("%s: labels %v", w.dependency, b.Labels)
		}
		if b.Annotations["runbook_url"] != "https://wiki.example/decider#decidercallsfailing" {
			t.Errorf("%s: runbook %s", w.dependency, b.Annotations["runbook_url"])
		}
	}
	if d := burns[0].Annotations["description"]; !strings.HasPrefix(d, `card payments {{ "{{" }} $x }}. `) || !strings.Contains(d, "99.9%") {
		t.Errorf("the description is %q", d)
	}
}

func TestGenDashboardForPolicies(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "policies.yaml", watchedPolicies)
	got := command{args: []string{"gen", "dashboard", "--policies", file}}.run(t)
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	var dashboard struct {
		Panels []struct {
			Title, Description, Repeat string
			Targets                    []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(got.out), &dashboard); err != nil {
		t.Fatal(err)
	}
	panels := map[string]int{}
	for _, p := range dashboard.Panels {
		panels[p.Title]++
		if p.Repeat != "" {
			t.Errorf("%s is repeated", p.Title)
		}
		if p.Title == "payments" && p.Description != "card payments {{ $\u200bx }}.\n\nOwner: team-payments" {
			t.Errorf("payments is described as %q", p.Description)
		}
		if one := regexp.MustCompile(`dependency="([^"]*)"`); len(p.Targets) > 0 && one.MatchString(p.Targets[0].Expr) {
			if named := one.FindStringSubmatch(p.Targets[0].Expr)[1]; named != p.Title {
				t.Errorf("the panel %s shows %s", p.Title, named)
			}
		}
	}
	for _, name := range []string{"payments", "search", "_other"} {
		if panels[name] != 1 {
			t.Errorf("%d panels for %s", panels[name], name)
		}
	}
	if panels["search-*"] != 0 {
		t.Error("a pattern has a panel, but no label")
	}
}

func TestGenRefuses(t *testing.T) {
	t.Parallel()
	bad, missing := writeFile(t, "policies.yaml", badPolicies), filepath.Join(t.TempDir(), "no.yaml")
	for _, kind := range []string{"alerts", "dashboard"} {
		got := command{args: []string{"gen", kind, "--policies", bad}}.run(t)
		if got.code != 1 || got.out != "" {
			t.Errorf("%s of a bad file: %+v", kind, got)
		}
		for _, place := range badPlaces {
			if !strings.Contains(got.err, place) {
				t.Errorf("%s: %s is not in\n%s", kind, place, got.err)
			}
		}
		if got := (command{args: []string{"gen", kind, "--policies", missing}}).run(t); got.code != 1 || got.out != "" || got.err == "" {
			t.Errorf("%s of no file: %+v", kind, got)
		}
	}
	for _, objective := range []string{"100%", "1", "0.5", "93%", "99", "NaN", "many"} {
		if got := (command{args: []string{"gen", "alerts", "--objective", objective}}).run(t); got.code != 2 || got.out != "" || !strings.Contains(got.err, "--objective") {
			t.Errorf("an objective of %s: %+v", objective, got)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
