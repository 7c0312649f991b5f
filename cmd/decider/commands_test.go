//go:build linux

package main_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/programtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not %s (go test -update writes it anew), but:\n%s", path, got)
	}
}

// badPolicies has a mistake at each of badPlaces.
const badPolicies = `version: 1
defaults: {preset: standart}
dependencies:
  payments:
    max_attempts: 0
    backof: {base: 1s}
    budget: {ratio: 10%, capacity: -1}
`

var badPlaces = []string{"2:20: ", "5:19: ", "6:5: ", "7:36: "}

const goodPolicies = "version: 1\ndependencies:\n  payments: {max_attempts: 2}\n  search-*: {preset: none}\n"

// Exit code 2: the question was bad, and the answer names what is wrong with it.
func TestMisuse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line, env string
		names     string
	}{
		{"serve --no-such-flag", "", "--no-such-flag"},
		{"serve payments", "", "payments"},
		{"sreve", "", "sreve"},
		{"serve --listen=nonsense", "", "--listen must be host:port"},
		{"serve", "DECIDER_LISTEN=nonsense", "--listen must be host:port"},
		{"serve --listen=0.0.0.0:0", "", "--allow-anonymous"},
		{"serve --listen=:0", "", "--allow-anonymous"},
		{"serve --listen=[::]:0", "", "--allow-anonymous"},
		{"serve --listen=decider.example:8080", "", "--allow-anonymous"},
		{"serve --store=disk", "", "--store"},
		{"serve --store=redis", "", "--store redis needs --redis-url"},
		{"serve --store=memory --redis-url=redis://127.0.0.1:1", "", "--store memory and --redis-url"},
		{"serve --store=memory", "DECIDER_REDIS_URL=redis://127.0.0.1:1", "--store memory and --redis-url"},
		{"serve --listen=127.0.0.1:0 --redis-url=http://127.0.0.1:1", "", "--redis-url"},
		{"serve --store-timeout=0s", "", "--store-timeout"},
		{"serve --store-timeout=soon", "", "--store-timeout"},
		{"serve --store-clock=sundial", "", "--store-clock"},
		{"serve --replicas=0", "", "--replicas"},
		{"serve --shutdown-delay=-1s", "", "--shutdown-delay"},
		{"serve --seed=-1", "", "--seed"},
		{"serve --seed=4294967296", "", "--seed"},
		{"serve --log-format=xml", "", "--log-format"},
		{"serve --log-level=LOUD", "", "--log-level"},
		{"check", "", "<file>"},
		{"check --output=xml x", "", "--output"},
		{"explain", "", "--classes"},
		{"explain --server=http://127.0.0.1:1 --policies=x {}", "", "--policies"},
		{"healthcheck --listen=nonsense", "", "--listen must be host:port"},
		{"version --output=xml", "", "--output"},
	}
	for _, test := range tests {
		t.Run(test.env+" "+test.line, func(t *testing.T) {
			t.Parallel()
			r := command{args: strings.Fields(test.line), env: strings.Fields(test.env)}.run(t)
			if r.code != 2 || r.out != "" || !strings.Contains(r.err, test.names) {
				t.Errorf("exit code %d, standard output %q, standard error %q; want 2, nothing, %q", r.code, r.out, r.err, test.names)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                      "healthcheck",
		"--help":                "Usage: decider <command>",
		"serve --help":          "$DECIDER_STORE_TIMEOUT",
		"version":               "decider v1.2.3\n",
		"version --output=json": `"version": "v1.2.3"`,
	} {
		if r := decides(t, strings.Fields(line)...); r.code != 0 || r.err != "" || !strings.Contains(r.out, want) {
			t.Errorf("decider %s: %+v, want %q", line, r, want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good, bad := programtest.PolicyFile(t, goodPolicies), programtest.PolicyFile(t, badPolicies)
	if r := decides(t, "check", good); r != (result{0, good + ": good, 2 rules\n", ""}) {
		t.Errorf("%+v", r)
	}
	r := decides(t, "check", good, bad)
	if r.code != 1 || r.err != "" || !strings.Contains(r.out, good+": good") || !strings.Contains(r.out, bad+": refused, 4 mistakes\n") {
		t.Errorf("%+v", r)
	}
	for _, place := range badPlaces {
		if !strings.Contains(r.out, bad+":"+place) {
			t.Errorf("no mistake at %s in:\n%s", place, r.out)
		}
	}

	r = decides(t, "check", "--output=json", good, bad)
	var files []struct {
		File     string
		OK       bool
		Rules    int
		Mistakes []struct {
			Line, Column  int
			Path, Message string
		}
	}
	if err := json.Unmarshal([]byte(r.out), &files); err != nil || r.code != 1 || r.err != "" || len(files) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if files[0].File != good || !files[0].OK || files[0].Rules != 2 || files[0].Mistakes == nil {
		t.Errorf("%+v", files[0])
	}
	if files[1].File != bad || files[1].OK || len(files[1].Mistakes) != 4 {
		t.Fatalf("%+v", files[1])
	}
	if m := files[1].Mistakes[1]; m.Line != 5 || m.Column != 19 || m.Path != "/dependencies/payments/max_attempts" || m.Message == "" {
		t.Errorf("%+v", m)
	}

	if r := decides(t, "check", good+".gone"); r.code != 1 || r.out != "" || !strings.Contains(r.err, good+".gone") {
		t.Errorf("a file that is not there: %+v", r)
	}
}

const failed = `{"dependency":"payments","method":"GET","status":503}`

// explained is an explanation in JSON.
type explained struct {
	decision
	Policy string
	Trace  []struct {
		Step             int
		Question, Answer string
	}
}

func explain(t *testing.T, c command) explained {
	t.Helper()
	c.args = append([]string{"explain", "--output=json"}, c.args...)
	r := c.run(t)
	var e explained
	if err := json.Unmarshal([]byte(r.out), &e); err != nil || r.code != 0 || r.err != "" {
		t.Fatalf("%q: %+v, %v", c.args, r, err)
	}
	return e
}

func TestExplain(t *testing.T) {
	t.Parallel()
	r := decides(t, "explain", "--seed=11", failed)
	if r.code != 0 || r.err != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "explain.golden", r.out)

	if e := explain(t, command{args: []string{"--seed=11", "-"}, stdin: failed}); e.DelayMs != 51 || len(e.Trace) != 9 || e.Trace[8].Step != 9 {
		t.Errorf("from standard input: %+v", e)
	}
	file := programtest.PolicyFile(t, goodPolicies)
	if e := explain(t, command{args: []string{"--policies=" + file, `{"dependency":"search-1","method":"GET","status":503}`}}); e.Reason != "attempts_exhausted" || e.Policy != "search-*" {
		t.Errorf("by a policy file: %+v", e)
	}
	if e := explain(t, command{args: []string{failed}, env: []string{"DECIDER_POLICIES=" + file}}); e.Policy != "payments" {
		t.Errorf("by a policy file named by a variable: %+v", e)
	}

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{`{"dependency":"payments","methd":"GET","status":503}`}, "  /methd is unknown\n  /method is required\n"},
		{[]string{`{"dependency":`}, "decider: "},
		{[]string{"--server=http://127.0.0.1:1", failed}, "connection refused"},
		{[]string{"--policies=" + file + ".gone", failed}, file + ".gone"},
		{[]string{"--policies=" + programtest.PolicyFile(t, badPolicies), failed}, "refused, 4 mistakes"},
	} {
		if r := decides(t, append([]string{"explain"}, test.args...)...); r.code != 1 || r.out != "" || !strings.Contains(r.err, test.want) {
			t.Errorf("explain %q: %+v, want exit code 1 and %q", test.args, r, test.want)
		}
	}
}

// Explaining at a server tells of the fleet's state as it is, and spends nothing.
func TestExplainAtServer(t *testing.T) {
	t.Parallel()
	p := serve(t, "--policies="+programtest.PolicyFile(t, "version: 1\ndependencies:\n  payments: {budget: {capacity: 2, capacity_seconds: 0, min_per_second: 0}}\n"))
	server := "--server=" + p.URL
	mustDecide(t, p.URL, got503("payments"))
	for range 3 {
		if e := explain(t, command{args: []string{server, failed}}); e.Decision != "retry" || e.Budget.Tokens != 0 || len(e.Trace) != 9 {
			t.Errorf("%+v", e)
		}
	}
	if left := tokens(t, p.URL, "payments"); left != 1 {
		t.Errorf("%v tokens left, want 1", left)
	}
	mustDecide(t, p.URL, got503("payments"))
	if e := explain(t, command{args: []string{server + "/", failed}}); e.Reason != "budget_exhausted" {
		t.Errorf("%+v", e)
	}
	if r := decides(t, "explain", server, "{}"); r.code != 1 || r.out != "" || !strings.Contains(r.err, "/dependency is required") {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "explain", server, failed); r.code != 0 || !strings.HasPrefix(r.out, "give_up (budget_exhausted)\n") {
		t.Errorf("%+v", r)
	}
}

// The whole table of classes, as it is printed for whoever reads a policy.
func TestClasses(t *testing.T) {
	t.Parallel()
	r := decides(t, "explain", "--classes")
	if r.code != 0 || r.err != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "classes.golden", r.out)

	file := programtest.PolicyFile(t, "version: 1\ndependencies:\n  payments: {retryable: {add: [409], remove: [500]}, repeat: [POST]}\n")
	r = decides(t, "explain", "--classes", "--output=json", "--policies="+file, "--for=payments")
	var rows []struct{ Failure, Class, Repeat string }
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || r.code != 0 || r.err != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	classes := map[string]string{}
	for _, row := range rows {
		classes[row.Failure] = row.Class + ": " + row.Repeat
	}
	for failure, want := range map[string]string{
		"409": "ambiguous: POST, or a key", "500": "final: nobody", "connection_refused": "never_sent: any method", "404": "final: nobody", "200": "not_a_failure: nobody",
	} {
		if classes[failure] != want {
			t.Errorf("%s is %q, want %q", failure, classes[failure], want)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	p := serve(t)
	if r := decides(t, "healthcheck", "--listen="+p.Listen); r != (result{0, "ready\n", ""}) {
		t.Errorf("%+v", r)
	}
	if r := (command{args: []string{"healthcheck"}, env: []string{"DECIDER_LISTEN=" + p.Listen}}).run(t); r.code != 0 {
		t.Errorf("by the variable of serve: %+v", r)
	}
	if r := decides(t, "healthcheck", "--listen=127.0.0.1:1"); r.code != 1 || r.out != "" || !strings.Contains(r.err, "connection refused") {
		t.Errorf("nobody listens: %+v", r)
	}
	get(t, p.URL+"/livez", http.StatusOK, &struct{}{})
}
