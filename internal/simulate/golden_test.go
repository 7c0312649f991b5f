package simulate

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden holds what is shown to the byte: the same on every machine.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/golden/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go test -run Golden -update writes it anew:\n%s", name, got)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/checkout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := ParseFile("checkout.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	burst := scenarioE()
	burst.Compared = []string{"none", "fixed", "full-jitter", "grpc", "aws-2026", "finagle", "decider", "decider-breaker-all"}
	for _, s := range []*Scenario{burst, file.Scenario} {
		s.Seeds = 2
		list, err := ByName(s.Compared...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Play(context.Background(), s, list, nil)
		if err != nil {
			t.Fatal(err)
		}
		table, charts := r.Table(), r.Charts()
		for ending, write := range map[string]func(*bytes.Buffer) error{
			".txt":  func(b *bytes.Buffer) error { return table.WriteText(b) },
			".csv":  func(b *bytes.Buffer) error { return table.WriteCSV(b) },
			".md":   func(b *bytes.Buffer) error { return table.WriteMarkdown(b) },
			".svg":  func(b *bytes.Buffer) error { return WriteSVG(b, charts) },
			".html": func(b *bytes.Buffer) error { return WritePage(b, []Outcome{{[]*Table{table}, charts[:1]}}) },
			".json": func(b *bytes.Buffer) error {
				text, err := table.MarshalJSON()
				b.Write(text)
				return err
			},
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, s.Name+ending, b.Bytes())
		}
	}
}
