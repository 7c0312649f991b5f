//go:build linux

package deploytest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile = root + "/deploy/prometheus/rules.yaml"
	testsFile = root + "/deploy/prometheus/rules_test.yaml"
)

// ruleFile is a file of rules.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func rules(t *testing.T, text string) (file ruleFile) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// generated are the rules and the dashboard: those that are committed, and
// those for a policy file.
func generated(t *testing.T, kind, committed string) map[string]string {
	t.Helper()
	return map[string]string{
		"committed":    readFile(t, committed),
		"for policies": runs(t, decider, "gen", kind, "--policies", write(t, "policies.yaml", watchedPolicies)),
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, text := range generated(t, "alerts", rulesFile) {
		if out, err := tries(t, "promtool", "check", "rules", write(t, "rules.yaml", text)); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	runs(t, "promtool", "test", "rules", testsFile)
}

// ownedPolicies are hard on whoever reads the alerts: two of one owner, two of
// none, and texts that a template would be.
const ownedPolicies = `version: 1
dependencies:
  cart: {owner: shop}
  checkout: {owner: shop}
  mail: {}
  search: {}
  "null": {owner: "{{ $labels.job }}", description: "a {{ b"}
`

// Alerts are told apart by their labels alone, and the labels and annotations say
// what the policy file does.
func TestRulesOfOwners(t *testing.T) {
	t.Parallel()
	file := write(t, "rules.yaml", runs(t, decider, "gen", "alerts", "--policies", write(t, "policies.yaml", ownedPolicies)))
	if out, err := tries(t, "promtool", "check", "rules", "--lint=all", "--lint-fatal", file); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	runs(t, "promtool", "test", "rules", write(t, "rules_test.yaml", `
rule_files: ['`+file+`']
tests:
- interval: 1m
  input_series:
  - {series: 'decider_outcomes_total{job="decider",dependency="null",outcome="final_failure"}', values: 0+50x400}
  - {series: 'decider_outcomes_total{job="decider",dependency="null",outcome="first_try_success"}', values: 0+50x400}
  alert_rule_test:
  - eval_time: 400m
    alertname: DeciderCallsFailing
    exp_alerts:
    - exp_labels: {severity: critical, job: decider, dependency: "null", owner: '{{ $labels.job }}'}
      exp_annotations:
        summary: calls to null fail
        description: a {{ b. 50% of the calls failed in the end; the objective is that 99% do not.
        runbook_url: https://github.com/retrydecider/decider/blob/main/docs/runbook.md#decidercallsfailing
`))
}

// Every alert has a test in which it fires and one in which it does not.
func TestEveryAlertIsTested(t *testing.T) {
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, testsFile)), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				silent[a.Name] = true
			}
		}
	}
	for _, group := range rules(t, readFile(t, rulesFile)).Groups {
		for _, r := range group.Rules {
			if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
				t.Errorf("%s: tested firing %v, silent %v", r.Alert, fires[r.Alert], silent[r.Alert])
			}
		}
	}
}

// Each alert says what to do in a section of the runbook, and each section is
// of an alert.
func TestRunbook(t *testing.T) {
	const page = "docs/runbook.md"
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(readFile(t, root+"/"+page), -1) {
		sections[strings.ToLower(m[1])] = false
	}
	for _, group := range rules(t, readFile(t, rulesFile)).Groups {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			address, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if _, ok := sections[anchor]; !ok || !strings.HasSuffix(address, page) {
				t.Errorf("%s: no such section: %s", r.Alert, r.Annotations["runbook_url"])
			}
			sections[anchor] = true
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks a word: %v %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	for name, used := range sections {
		if !used {
			t.Errorf("%s#%s is of no alert", page, name)
		}
	}
}

// exports are the series of a real decider that has seen everything, by name,
// and the names of their labels.
func exports(t *testing.T) map[string]map[string]bool {
	t.Helper()
	listen := serve(t, redis(t))
	if err := traffic(listen, 3); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := get("http://"+listen+"/metrics", &text); err != nil {
		t.Fatal(err)
	}
	series := map[string]map[string]bool{}
	line := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+$`)
	label := regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
	for l := range strings.Lines(text) {
		m := line.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			continue
		}
		if series[m[1]] == nil {
			// What Prometheus adds.
			series[m[1]] = map[string]bool{"job": true, "instance": true, "namespace": true}
		}
		for _, one := range label.FindAllStringSubmatch(m[2], -1) {
			series[m[1]][one[1]] = true
		}
	}
	return series
}

// grafana fills in what Grafana does.
var grafana = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", `="$dependency"`, `="payments"`, "$dependency", ".*")

// Every expression is PromQL and asks for nothing that decider does not export
// or the rules do not record, by no label that the series do not have.
func TestExpressions(t *testing.T) {
	t.Parallel()
	series := exports(t)
	expressions := map[string]string{}
	for kind, text := range generated(t, "alerts", rulesFile) {
		for _, group := range rules(t, text).Groups {
			for i, r := range group.Rules {
				expressions[fmt.Sprintf("%s, %s %d %s%s", kind, group.Name, i, r.Record, r.Alert)] = r.Expr
				if r.Record != "" && series[r.Record] == nil {
					series[r.Record] = map[string]bool{"job": true, "namespace": true, "dependency": true, "http_route": true, "http_response_status_code": true}
				}
			}
		}
	}
	for kind, text := range generated(t, "dashboard", dashboardFile) {
		for _, p := range parse(t, text).Panels {
			for _, target := range p.Targets {
				expressions[kind+", "+p.Title+" "+target.RefID] = grafana.Replace(target.Expr)
			}
		}
	}
	promql := parser.NewParser(parser.Options{})
	for where, text := range expressions {
		expr, err := promql.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v\n%s", where, err, text)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				checkSelector(t, where, selector, series)
			}
			return nil
		})
	}
	if len(expressions) < 80 {
		t.Errorf("only %d expressions were found", len(expressions))
	}
}

// A stream lasts as long as somebody looks at it: among the times of requests it
// is no slow one.
func TestNoTimeOfAStream(t *testing.T) {
	t.Parallel()
	promql := parser.NewParser(parser.Options{})
	found := 0
	for _, p := range parse(t, readFile(t, dashboardFile)).Panels {
		for _, target := range p.Targets {
			expr, err := promql.ParseExpr(grafana.Replace(target.Expr))
			if err != nil {
				t.Fatalf("%s: %v", p.Title, err)
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				selector, ok := node.(*parser.VectorSelector)
				if !ok || selector.Name != "http_server_request_duration_seconds_bucket" {
					return nil
				}
				found++
				takes := map[string]bool{"/v1/decide": true, "/v1/decisions/stream": true}
				for _, m := range selector.LabelMatchers {
					for route := range takes {
						takes[route] = takes[route] && (m.Name != "http_route" || m.Matches(route))
					}
				}
				if !takes["/v1/decide"] || takes["/v1/decisions/stream"] {
					t.Errorf("%s: it shows %v", p.Title, takes)
				}
				return nil
			})
		}
	}
	if found < 3 {
		t.Errorf("only %d histograms were found", found)
	}
}

func checkSelector(t *testing.T, where string, selector *parser.VectorSelector, series map[string]map[string]bool) {
	t.Helper()
	known, ok := series[selector.Name]
	if !ok {
		t.Errorf("%s: nothing exports %s", where, selector.Name)
		return
	}
	for _, m := range selector.LabelMatchers {
		if m.Name != "__name__" && !known[m.Name] {
			t.Errorf("%s: %s has no label %s, but %v", where, selector.Name, m.Name, slices.Sorted(maps.Keys(known)))
		}
	}
}
