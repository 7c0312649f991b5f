package policytest_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/handlers"
	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/policytest"
)

var update = flag.Bool("update", false, "write the golden files anew")

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

// forms are what the contract finds wrong.
func forms(read func([]byte) error) policy.Form {
	return func(body []byte) (list []policy.FormError) {
		for _, f := range handlers.WrongFields(read(body)) {
			list = append(list, policy.FormError{Pointer: f.Field, Detail: f.Detail})
		}
		return list
	}
}

var (
	attempts = forms(func(b []byte) error { _, err := handlers.ReadAttempt(b); return err })
	outcomes = forms(func(b []byte) error { _, _, err := handlers.ReadOutcome(b); return err })
	contract = policytest.Contract{ReadAttempt: handlers.ReadAttempt, ReadOutcome: handlers.ReadOutcome, AppendDecision: handlers.AppendDecision}
)

func suite(t *testing.T, name string) *policytest.Suite {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := policy.ParseCases(name, src, attempts, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", cases.Policies))
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(cases.Policies, text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := policytest.Run(name, cases, set, contract)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func printed(t *testing.T, s *policytest.Suite, trace bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Print(&b, trace); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatIsExpectedPasses(t *testing.T) {
	t.Parallel()
	const want = "policies.yaml:10: untouched: rule search-*\npolicies.test.yaml: 9 tests, 0 failed; 1 of 2 rules touched\n"
	if got := printed(t, suite(t, "policies.test.yaml"), true); got != want {
		t.Errorf("it says\n%s", got)
	}
}

func TestWhatDiffersIsTold(t *testing.T) {
	s := suite(t, "failing.test.yaml")
	golden(t, "failing.txt", printed(t, s, false))
	golden(t, "failing-trace.txt", printed(t, s, true))
	var b bytes.Buffer
	if err := policytest.WriteJUnit(&b, []*policytest.Suite{s, suite(t, "policies.test.yaml")}); err != nil {
		t.Fatal(err)
	}
	golden(t, "failing.xml", b.String())
	var read struct {
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &read); err != nil || read.Failures != 2 || len(read.Suites) != 2 || read.Suites[0].Cases[0].Failure == nil || read.Suites[0].Cases[2].Failure != nil {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestAMistakeIsToldAtItsPlace(t *testing.T) {
	src, err := os.ReadFile("testdata/bad.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = policy.ParseCases("bad.test.yaml", src, attempts, outcomes)
	var refused *policy.Error
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	golden(t, "bad.txt", refused.Excerpts())
}

func TestDependenciesThatThePoliciesRefuse(t *testing.T) {
	t.Parallel()
	set, err := policy.Parse("p", []byte("{version: 1, unknown_dependencies: refuse}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []string{
		"attempt: {dependency: gone, method: GET, status: 503}, expect: {}",
		"report: {dependency: gone}",
		"state: {gone: {}}, wait: 1s",
	} {
		cases, err := policy.ParseCases("f", []byte("{version: 1, tests: [{name: x, "+test+"}]}"), attempts, outcomes)
		if err != nil {
			t.Fatalf("%s: %v", test, err)
		}
		if _, err := policytest.Run("f", cases, set, contract); err == nil || !strings.HasPrefix(err.Error(), "f:1: ") || !strings.Contains(err.Error(), "no rule of the policy file") {
			t.Errorf("%s: %v", test, err)
		}
	}
}

func FuzzCases(f *testing.F) {
	for _, name := range []string{"policies.test.yaml", "bad.test.yaml", "failing.test.yaml"} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	set := policy.Standard()
	f.Fuzz(func(t *testing.T, src []byte) {
		cases, err := policy.ParseCases("f", src, attempts, outcomes)
		if err != nil {
			return
		}
		if len(cases.Tests) > 10 {
			return
		}
		for i := range cases.Tests {
			for j := range cases.Tests[i].Steps {
				cases.Tests[i].Steps[j].Times = min(cases.Tests[i].Steps[j].Times, 3)
			}
		}
		if _, err := policytest.Run("f", cases, set, contract); err != nil {
			t.Errorf("%v of\n%s", err, src)
		}
	})
}
