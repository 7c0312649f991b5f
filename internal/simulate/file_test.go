package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const fileExample = `name: checkout
title: Checkout calls payments
clients: 40
rate: 200
capacity: 500
service: 20ms
timeout: 500ms
faults:
  - {kind: fail, from: 10s, to: 40s, p: 30%}
end: 60s
seeds: 2
compare: [none, full-jitter, decider]
policies: policies.yaml
dependency: payments
`

func TestFile(t *testing.T) {
	t.Parallel()
	f, err := ParseFile("checkout.yaml", []byte(fileExample))
	if err != nil {
		t.Fatal(err)
	}
	m := f.Scenario.Points[0].Model
	if m.Clients != 40 || m.Workers != 10 || m.Faults[0].P != 0.3 || m.From != 10*time.Second || m.To != 40*time.Second || f.Scenario.Seeds != 2 || f.Dependency != "payments" {
		t.Errorf("read as %+v of %+v", m, f)
	}
	r := played(t, f.Scenario, 1, nil, f.Scenario.Compared...)
	if got := r.Find("checkout", "full-jitter").Score.Load; !(got > 1.3 && got < 1.5) {
		t.Errorf("load %.3f", got)
	}
}

func TestFileVaries(t *testing.T) {
	t.Parallel()
	f, err := ParseFile("x.yaml", []byte("rate: 10\nend: 20s\nfaults: [{kind: fail, from: 1s, to: 19s}]\nvary: {what: p, over: [10%, 0.5]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Scenario.Points) != 2 || f.Scenario.Points[0].Model.Faults[0].P != 0.1 || f.Scenario.Points[1].Model.Faults[0].P != 0.5 {
		t.Errorf("%+v", f.Scenario.Points)
	}
}

// Every mistake is named at its line.
func TestFileMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ src, want string }{
		{"", "x.yaml:1:1: the file says nothing"},
		{"[]", "x.yaml:1:1: the file must be a mapping"},
		{"clients: 0", "x.yaml:1:10: clients must be a number from 1 to 1000000, not \"0\""},
		{"rate: 1\nclints: 3", "x.yaml:2:1: unknown word \"clints\""},
		{"rate: 1\nrate: 2", "x.yaml:2:1: this is not YAML"},
		{"rate: .nan", "x.yaml:1:7: rate must be"},
		{"rate: 1\nclients: 1.5", "x.yaml:2:10: clients must be a whole number"},
		{"service: soon", "x.yaml:1:10: service must be a duration"},
		{"service: -1s", "x.yaml:1:10: service must be a duration"},
		{"faults:\n  - {kind: rot}", "x.yaml:2:12: kind must be one of refuse"},
		{"faults:\n  - {kind: fail, from: 3s, to: 2s}", "x.yaml:2:5: a fault ends after it begins"},
		{"capacity: 100\nworkers: 3", "x.yaml:1:11: capacity and workers say the same"},
		{"capacity: 1\nservice: 1ms", "x.yaml:1:11: a capacity of 1/s"},
		{"end: 10s\nwindow: {from: 5s, to: 11s}", "x.yaml:2:9: the window of a run"},
		{"rate: 0", "x.yaml:1:7: nobody calls"},
		{"rate: 9999999\nend: 1h", "x.yaml:1:7: a run of"},
		{"policies: p.yaml", "x.yaml:1:11: policies and dependency go together"},
		{"compare: [nobody]", "x.yaml:1:11: no policy is called \"nobody\""},
		{"rates: [{at: 2s, rate: 1}, {at: 1s, rate: 2}]", "x.yaml:1:28: the steps of rates"},
		{"a: &b 1", "x.yaml:1:4: anchors"},
		{"rate: 1\n---\nrate: 2", "x.yaml:3:1: a scenario file is one document"},
		{"rate: {a: 1}", "x.yaml:1:7: rate must be a value"},
		{"zipf: maybe", "x.yaml:1:7: zipf must be true or false"},
		{"vary: {what: clients, over: [0]}", "x.yaml:1:7: clients cannot be 0"},
		{strings.Repeat("[", 100), "too deep"},
	} {
		_, err := ParseFile("x.yaml", []byte(c.src))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.src, err, c.want)
		}
	}
}

func TestFileNamesAllMistakes(t *testing.T) {
	t.Parallel()
	_, err := ParseFile("x.yaml", []byte("clients: 0\nrate: -1\nseeds: x\n"))
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("%v", err)
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(fileExample))
	examples, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range examples {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := ParseFile("x.yaml", src)
		if err != nil {
			return
		}
		for _, p := range file.Scenario.Points {
			m := &p.Model
			if m.Clients < 1 || m.Layers < 1 || m.Layers > maxLayers || m.End <= 0 || m.To > m.End || m.slot() <= 0 {
				t.Errorf("a model that cannot be played: %+v", m)
			}
			short := *m // a part of what was read plays without a panic
			short.End = min(short.End, 2*time.Second)
			short.From, short.To = 0, short.End
			short.Clients, short.Burst = min(short.Clients, 50), min(short.Burst, 50)
			if short.peakRate() <= 1000 && short.Workers <= 1000 {
				Run(&short, contenders[3], 1).score()
			}
		}
	})
}
