package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var buildTo string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "decider-demo-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildTo = directory
	code := m.Run()
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

// program builds a command of this repository, once.
type program struct {
	name, module, pkg string
	once              sync.Once
}

var (
	deciderProgram = program{name: "decider", module: "../..", pkg: "./cmd/decider"}
	demoProgram    = program{name: "demo", module: ".", pkg: "."}
)

func (p *program) build(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(buildTo, p.name)
	p.once.Do(func() {
		command := exec.Command("go", "build", "-o", path, p.pkg)
		command.Dir = p.module
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	return path
}

// The storm, from real processes and a real Redis, in a quarter of a minute. The
// demo is a program of its own, as it is for who runs it: in a test's process the
// race detector would take the time that its clients need to keep their pace.
func TestShortDemo(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "demo.svg")
	out, err := exec.CommandContext(t.Context(), demoProgram.build(t), "-short", "-decider", deciderProgram.build(t), "-out", picture).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for decoder := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "polyline" {
			lines++
		}
	}
	if want := 2 * len(shortPlan.fleets()); lines != want {
		t.Errorf("%d lines in the picture, want %d", lines, want)
	}
}

// Numbers that are not what they should be are said, each.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := shortPlan
	var results []*result
	for _, f := range p.fleets() {
		r := &result{fleet: f, tokens: 10, returned: p.Healthy + p.ReturnAt}
		for at := time.Duration(0); at < p.total(); at += 10 * time.Millisecond {
			r.arrivals = append(r.arrivals, arrived{at, true}, arrived{at, false}, arrived{at, false}) // load 3
			r.report.Calls = append(r.report.Calls, callRecord{At: at, Took: time.Second})
		}
		results = append(results, r)
	}
	wrong := strings.Join(check(p, results), "\n")
	for _, want := range []string{
		"three retries, 160 clients: load 3.000, by the formula", "three retries, 160 clients: load 3.000, want 3.7 at least",
		"decider, 160 clients: load 3.000, want", "decider, killed and back, 40 clients: load 3.000, want 1.1 at most",
		"no decision fell alone", "0.0 % success after the outage", "with more clients",
	} {
		if !strings.Contains(wrong, want) {
			t.Errorf("not said: %s\nin\n%s", want, wrong)
		}
	}
}

// The goals' values are those of the right fleets.
func TestReadGoals(t *testing.T) {
	t.Parallel()
	p := goalsPlan
	var results []*result
	for i, f := range goalsFleets() {
		r := &result{fleet: f}
		for at, n := time.Duration(0), 0; at < p.total(); at, n = at+10*time.Millisecond, n+1 {
			r.arrivals = append(r.arrivals, arrived{at, true})
			if n%(100-10*i) == 0 {
				r.arrivals = append(r.arrivals, arrived{at, false})
			}
			r.report.Calls = append(r.report.Calls, callRecord{At: at, Good: n%1000 != 999})
		}
		results = append(results, r)
	}
	got := readGoals(&p, results)
	want := map[string]string{"G1": "1.010 to 1.012", "G2": "load 1.020", "G2b": "load 1.020", "G3": "99.91 %, 1.020"}
	for id, value := range want {
		if got[id].Value != value {
			t.Errorf("%s is %q, want %q", id, got[id].Value, value)
		}
	}
	if !got["G1"].Met || got["G3"].Met {
		t.Errorf("%+v", got)
	}
}

// 64 that ask two deciders at once are granted what the bucket holds.
func TestAskAtOnce(t *testing.T) {
	d := &demo{plan: shortPlan, deciderPath: deciderProgram.build(t), redisPath: "redis-server", progress: io.Discard}
	t.Cleanup(d.stop)
	deciders, err := d.startForGoals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exact, err := askAtOnce(t.Context(), deciders)
	if err != nil || !exact.Met {
		t.Errorf("%+v, %v", exact, err)
	}
}
