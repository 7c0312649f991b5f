//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/programtest"
)

// unwisePolicies is good and has two warnings.
const unwisePolicies = "version: 1\ndependencies:\n  payments:\n    retryable: {add: [404]}\n    budget: off\n"

func TestCheckWarns(t *testing.T) {
	t.Parallel()
	unwise := programtest.PolicyFile(t, unwisePolicies)
	r := decides(t, "check", unwise)
	if r.code != 0 || r.err != "" || !strings.Contains(r.out, unwise+":4:23: warning: 404 is an answer") ||
		!strings.Contains(r.out, "\n        retryable: {add: [404]}\n                          ^\n") || !strings.HasSuffix(r.out, unwise+": good, 1 rule, 2 warnings\n") {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "check", "--warnings-as-errors", unwise); r.code != 1 || !strings.HasSuffix(r.out, "2 warnings\n") {
		t.Errorf("as errors: %+v", r)
	}
	if r := decides(t, "check", "--warnings-as-errors", programtest.PolicyFile(t, goodPolicies)); r.code != 0 {
		t.Errorf("as errors, and there are none: %+v", r)
	}
	if r := decides(t, "check", "--output=xml", unwise); r.code != 2 {
		t.Errorf("a form that there is not: %+v", r)
	}
}

func TestCheckForTools(t *testing.T) {
	t.Parallel()
	unwise, bad := programtest.PolicyFile(t, unwisePolicies), filepath.Join(t.TempDir(), "100%,a.yaml")
	if err := os.WriteFile(bad, []byte(badPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	r := decides(t, "check", "--output=github", unwise, bad)
	lines := strings.Split(r.out, "\n")
	if r.code != 1 || len(lines) != 7 || lines[6] != "" ||
		!strings.HasPrefix(lines[0], "::warning file="+unwise+",line=4,col=23,title=decider check%3A retries-final::404 is an answer") ||
		!strings.HasPrefix(lines[2], "::error file="+filepath.Dir(bad)+"/100%25%2Ca.yaml,line=2,col=20,title=decider check::there is no preset") {
		t.Errorf("%+v", r)
	}

	r = decides(t, "check", "--output=sarif", unwise, bad)
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out), &log); err != nil || r.code != 1 || log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Results) != 6 {
		t.Fatalf("%v: %+v", err, r)
	}
	var rules, used []string
	for _, rule := range log.Runs[0].Tool.Driver.Rules {
		rules = append(rules, rule.ID)
	}
	for _, result := range log.Runs[0].Results {
		used = append(used, result.RuleID+" "+result.Level)
		if !slices.Contains(rules, result.RuleID) {
			t.Errorf("no rule %s", result.RuleID)
		}
	}
	if want := []string{"retries-final warning", "no-bound warning", "refused error", "refused error", "refused error", "refused error"}; !slices.Equal(used, want) {
		t.Errorf("%q", used)
	}
	at := log.Runs[0].Results[2].Locations[0].PhysicalLocation
	if at.Region.StartLine != 2 || at.Region.StartColumn != 20 || at.ArtifactLocation.URI != "file://"+filepath.Dir(bad)+"/100%25,a.yaml" {
		t.Errorf("%+v", at)
	}
}
