package main

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/retrydecider/decider/internal/policy"
)

//go:generate go test -run ^TestMetricsDocument$ -update .

// metricsDocument is generated from the program's own metrics.
const metricsDocument = "../../docs/metrics.md"

const metricsPreface = `# Metrics

Generated from the program by ` + "`make generate`" + `; a test fails where the two differ.

` + "`/metrics`" + ` is at ` + "`--listen`" + ` and at ` + "`--admin-listen`" + `, or with ` + "`--metrics admin`" + ` at the latter alone. A label
` + "`dependency`" + ` is the name of a dependency that the policy file names exactly; all others are ` + "`_other`" + `, so that clients cannot
make labels. Counters are of this replica; sum them over replicas. The state of a budget and a breaker is the fleet's, so that
every replica tells the same: take the maximum, not the sum. Beside these there are ` + "`go_…`" + ` and ` + "`process_…`" + ` of the Go client
library. Metrics of the store are there with Redis alone.

Counters begin at 0 with the process, and these are there from the first scrape on, so that ` + "`rate`" + ` and ` + "`increase`" + ` see the first
burst too:

- ` + "`decider_requests_refused_total`" + ` with each ` + "`why`" + `, and ` + "`decider_store_call_duration_seconds`" + ` with each ` + "`result`" + `;
- of ` + "`_other`" + ` and of each dependency that the policy file in force names exactly: ` + "`decider_first_attempts_total`" + `,
  ` + "`decider_retries_asked_total`" + `, ` + "`decider_retries_granted_total`" + `, ` + "`decider_budget_deposits_total`" + `, ` + "`decider_budget_spent_tokens_total`" + `,
  ` + "`decider_retry_after_malformed_total`" + `, ` + "`decider_degraded_decisions_total`" + `, ` + "`decider_outcomes_total`" + ` with each ` + "`outcome`" + ` and
  ` + "`decider_decisions_total`" + ` with each ` + "`reason`" + `, 27 series in all.

Of a file that names more than 200 dependencies, each has the first three of these alone until something of it is counted;
from then on it has all. The histogram of requests, and what tells of candidates and of rules in shadow, are there once they
have counted something.

| metric | type | labels | what it tells |
|---|---|---|---|
`

// TestMetricsDocument holds the page to the program.
func TestMetricsDocument(t *testing.T) {
	a := exercised(t)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		a.metrics.Describe(descriptions)
		close(descriptions)
	}()
	kinds := kindsOf(t, a.metrics)
	var rows []string
	for d := range descriptions {
		m := descPattern.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("not read: %s", d)
		}
		name, help, labels := m[1], strings.ReplaceAll(m[2], `\"`, `"`), strings.Trim(m[4], "{}")
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		var all []string
		for _, label := range slices.Concat(constLabels.FindAllString(m[3], -1), strings.FieldsFunc(labels, func(r rune) bool { return r == ',' || r == ' ' })) {
			all = append(all, "`"+strings.TrimSuffix(label, "=")+"`")
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", "`"+name+"`", kindOf(kinds, name), strings.Join(all, ", "), help))
	}
	slices.Sort(rows)
	got := []byte(metricsPreface + strings.Join(slices.Compact(rows), ""))
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(filepath.FromSlash(metricsDocument), got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.FromSlash(metricsDocument))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/metrics.md has drifted; make generate writes it anew. It should be:\n%s", got)
	}
}

var (
	descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)",(?: unit: "[^"]*",)? constLabels: (\{[^}]*\}), variableLabels: (\{[^}]*\})`)
	constLabels = regexp.MustCompile(`\w+=`)
)

// kindOf is a metric's type; where it has no sample yet, its name tells.
func kindOf(kinds map[string]string, name string) string {
	switch {
	case kinds[name] != "":
		return kinds[name]
	case strings.HasSuffix(name, "_total"):
		return "counter"
	}
	return "gauge"
}

func kindsOf(t *testing.T, r *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, each := range families {
		kinds[each.GetName()] = strings.ToLower(dto.MetricType_name[int32(each.GetType())])
	}
	return kinds
}

// exercised is a decider on a Redis that is not there, which has answered a little.
func exercised(t *testing.T) *app {
	t.Helper()
	policies, err := policy.Open("", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newApp(policies, storeConfig{redisURL: "redis://127.0.0.1:1/0", timeout: time.Second, replicas: 1}, newChance(nil), slog.New(slog.DiscardHandler), appConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.close(t.Context()) })
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/decide", strings.NewReader(`{"dependency":"payments","method":"GET","status":503}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return a
}
