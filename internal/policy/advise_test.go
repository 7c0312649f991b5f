package policy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsUnwiseIsWarnedOfAtItsPlace(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range fixtures(t, "testdata/unwise/*.yaml") {
		set, err := Parse(filepath.Base(path), read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, w := range set.Warnings() {
			text.WriteString(w.InContext())
			seen[w.ID] = true
		}
		golden(t, strings.TrimSuffix(path, ".yaml")+".txt", []byte(text.String()))
	}
	for _, kind := range WarningKinds {
		if !seen[kind.ID] {
			t.Errorf("no file shows %s", kind.ID)
		}
		delete(seen, kind.ID)
	}
	if len(seen) > 0 {
		t.Errorf("not among the kinds: %v", seen)
	}
}

func TestARefusedFileIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	if set, err := Parse("f", []byte("{version: 1, dependencies: {a: {budget: off, max_attempts: 0}}}")); err == nil || set != nil {
		t.Errorf("%v, %v", set, err)
	}
}

func TestTheBuiltInPolicyIsWise(t *testing.T) {
	t.Parallel()
	if w := Standard().Warnings(); len(w) > 0 {
		t.Errorf("%v", w)
	}
	example, err := Parse("policies.example.yaml", Example())
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, w := range example.Warnings() {
		ids = append(ids, w.ID)
	}
	if !slices.Equal(ids, []string{"unused-preset"}) {
		t.Errorf("the example is warned of: %v", ids)
	}
}
