//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

const (
	repository = "../.."
	casesDir   = repository + "/testdata/cases"
)

// given is a case file: what went wrong in some system once, and must not here.
type given struct {
	ID, Kind string
	// Steps are what testdata/cases/run.py runs. A case without any is a
	// scenario, told in words for whoever writes a test of it.
	Steps []json.RawMessage
}

func readCases(t *testing.T) (executable, scenarios []given) {
	t.Helper()
	files, err := filepath.Glob(casesDir + "/given/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", casesDir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c given
		if err := json.Unmarshal(text, &c); err != nil || c.ID+".json" != filepath.Base(file) {
			t.Fatalf("%s: case %q, %v", file, c.ID, err)
		}
		if len(c.Steps) > 0 {
			executable = append(executable, c)
		} else {
			scenarios = append(scenarios, c)
		}
	}
	return executable, scenarios
}

// TestCases runs every executable case from outside, over both stores. Some have
// a pace of their own, so it runs before the tests that run side by side.
func TestCases(t *testing.T) {
	executable, scenarios := readCases(t)
	for name, args := range map[string]func(t *testing.T) []string{
		"memory": func(t *testing.T) []string { return []string{"--bin", programtest.Program(t)} },
		"redis":  casesOnRedis,
	} {
		t.Run(name, func(t *testing.T) {
			complaints, summary := runCases(t, args(t)...)
			for _, c := range executable {
				t.Run(c.ID, func(t *testing.T) {
					if complaint, bad := complaints[c.ID]; bad {
						t.Error(complaint)
					}
				})
			}
			if want := fmt.Sprintf("%d passed, %d failed, %d scenarios not run", len(executable)-len(complaints), len(complaints), len(scenarios)); summary != want {
				t.Errorf("the runner says %q, want %q", summary, want)
			}
		})
	}
}

// casesOnRedis lets the runner start deciders whose bound of the store no busy
// machine misses, for it takes a degraded answer for a mistake, and each on an
// empty Redis, for a case that runs in several time zones has the same names in
// all of them.
func casesOnRedis(t *testing.T) []string {
	redis := redistest.Start(t)
	script := fmt.Sprintf(`#!/bin/sh
set -e
[ "$1" != serve ] || redis-cli -u '%s' flushall >/dev/null
DECIDER_STORE_TIMEOUT=20s exec '%s' "$@"
`, redis.URL, programtest.Program(t))
	bin := filepath.Join(t.TempDir(), "decider")
	if err := os.WriteFile(bin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"--bin", bin, "--redis-url", redis.URL}
}

// runCases runs run.py by tools/cases and returns its complaints by case, and its
// last line.
func runCases(t *testing.T, args ...string) (complaints map[string]string, summary string) {
	t.Helper()
	cmd := exec.Command(repository+"/tools/cases", append(args, casesDir+"/given")...)
	cmd.Env = programtest.Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || errs.Len() > 0 {
		t.Fatalf("tools/cases: %v\n%s", err, errs.String())
	}
	t.Log(out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	complaints = map[string]string{}
	for _, line := range lines {
		if fail, ok := strings.CutPrefix(line, "FAIL "); ok {
			id, complaint, _ := strings.Cut(fail, ": ")
			complaints[id] = complaint
		}
	}
	return complaints, lines[len(lines)-1]
}

// TestScenarios: none is forgotten. A test shows a scenario when its doc
// comment has the scenario's id, when a row of it is named by the id, alone or
// with ": " and more behind it, or when it is called TestCase and the id in
// camel case. The clients' cases, which a client in any language runs, have the
// ids of scenarios for their own.
func TestScenarios(t *testing.T) {
	t.Parallel()
	_, scenarios := readCases(t)
	shown := testsByScenario(t)
	for _, s := range scenarios {
		t.Run(s.ID, func(t *testing.T) {
			if shown[s.ID] == nil {
				t.Errorf("%s: no test names it", s.Kind)
			}
		})
	}
}

// testsByScenario are the tests of the whole repository that name a scenario.
func testsByScenario(t *testing.T) map[string][]string {
	t.Helper()
	shown := map[string][]string{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(name, ".") && path != repository:
			return fs.SkipDir
		case strings.HasPrefix(path, filepath.Join(repository, "clients", "testdata")) && strings.HasSuffix(name, ".json"):
			return clientCases(path, shown)
		case entry.IsDir(), !strings.HasSuffix(name, "_test.go"), name == "cases_test.go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for id, test := range scenariosOf(file) {
			shown[id] = append(shown[id], strings.TrimPrefix(path, repository+"/")+": "+test)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// clientCases notes the ids of a file of the clients' cases.
func clientCases(path string, shown map[string][]string) error {
	text, err := os.ReadFile(path)
	for _, id := range caseID.FindAllSubmatch(text, -1) {
		shown[string(id[1])] = append(shown[string(id[1])], strings.TrimPrefix(path, repository+"/"))
	}
	return err
}

var (
	caseID       = regexp.MustCompile(`"id": "([a-z0-9-]+)"`)
	capital      = regexp.MustCompile(`[A-Z]`)
	scenarioID   = regexp.MustCompile(`\b[a-z]{2}(?:-[a-z0-9]+)+`)
	scenarioName = regexp.MustCompile(`^"([a-z]{2}(?:-[a-z0-9]+)+)(?:: .*)?"$`)
)

// scenariosOf are the ids that the tests of a file name, and more that are no
// ids, each with its test.
func scenariosOf(file *ast.File) map[string]string {
	tests := map[string]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		if camel, ok := strings.CutPrefix(f.Name.Name, "TestCase"); ok {
			tests[strings.TrimPrefix(strings.ToLower(capital.ReplaceAllString(camel, "-$0")), "-")] = f.Name.Name
		}
		for _, id := range scenarioID.FindAllString(f.Doc.Text(), -1) {
			tests[id] = f.Name.Name
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok {
				if m := scenarioName.FindStringSubmatch(text.Value); m != nil {
					tests[m[1]] = f.Name.Name
				}
			}
			return true
		})
	}
	return tests
}
