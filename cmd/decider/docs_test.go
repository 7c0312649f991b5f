//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestDocs runs every block of README.md and docs/*.md as a reader would, in
// order, and compares what it prints with what the page says. See docsRunner
// for what a block may say.
func TestDocs(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin := buildDecider(t)
	for _, page := range append([]string{filepath.Join(root, "README.md")}, pages...) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			runner := docsRunner{t: t, root: root, dir: t.TempDir(), bin: bin}
			for _, problem := range runner.run(string(text)) {
				t.Errorf("%s:%s", filepath.Base(page), problem)
			}
		})
	}
}

// buildDecider builds this package into a directory that holds nothing else.
func buildDecider(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "decider")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}
