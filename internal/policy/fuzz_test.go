package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FuzzParse holds Parse to what it promises of any bytes: no panic, the same
// answer twice, mistakes at places of the file, and policies within decide's
// bounds.
func FuzzParse(f *testing.F) {
	for _, glob := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "policies.example.yaml"} {
		for _, path := range fixtures(f, glob) {
			f.Add(read(f, path))
		}
	}
	f.Add([]byte(builtInPresets))
	f.Fuzz(func(t *testing.T, src []byte) { checkParse(t, src) })
}

func checkParse(t testing.TB, src []byte) {
	t.Helper()
	set, err := Parse("f", src)
	again, err2 := Parse("f", src)
	if err != nil {
		var refused *Error
		if !errors.As(err, &refused) || err2 == nil || err.Error() != err2.Error() {
			t.Fatalf("%v, then %v", err, err2)
		}
		checkPlaces(t, refused, strings.Count(string(src), "\n")+1)
		return
	}
	if err2 != nil || set.Hash() != again.Hash() || !reflect.DeepEqual(set.Rules(), again.Rules()) {
		t.Fatalf("read differently the second time: %v", err2)
	}
	for _, p := range set.Rules() {
		checkLimits(t, p)
	}
}

func checkPlaces(t testing.TB, refused *Error, lines int) {
	t.Helper()
	if len(refused.Mistakes) == 0 || refused.Excerpts() == "" {
		t.Error("refused without a mistake")
	}
	line := 1
	for _, m := range refused.Mistakes {
		if m.Line < line || m.Line > lines+1 || m.Column < 1 || m.Message == "" || strings.Contains(m.Message, "\n") {
			t.Errorf("a mistake out of place: %+v", m)
		}
		line = m.Line
	}
}

// TestReadingIsDeterministic reads files made of the words with values of all
// sorts, most of them wrong.
func TestReadingIsDeterministic(t *testing.T) {
	t.Parallel()
	values := rapid.SampledFrom([]string{"0", "1", "-1", "0.5", "10%", "100ms", "2s", "off", "false", "[409]", "[500, timeout]", "{}", "any", "retries", "~", "'x'", ".nan", "1e9", "[GET]"})
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		b.WriteString("version: 1\ndefaults:\n")
		randomWords(rt, &b, "  ", reflect.TypeFor[ruleWords](), values)
		b.WriteString("dependencies:\n  payments:\n")
		randomWords(rt, &b, "    ", reflect.TypeFor[ruleWords](), values)
		checkParse(t, []byte(b.String()))
	})
}

func randomWords(rt *rapid.T, b *strings.Builder, indent string, of reflect.Type, values *rapid.Generator[string]) {
	for _, f := range wordsOf(of) {
		_, isValue := reflect.New(f.Type.Elem()).Interface().(value)
		switch pick := rapid.IntRange(0, 5).Draw(rt, f.Name); {
		case pick > 2:
		case pick == 0 && !isValue:
			b.WriteString(indent + wordName(f) + ":\n")
			randomWords(rt, b, indent+"  ", f.Type.Elem(), values)
		case pick == 1 && f.Tag.Get("example") != "":
			b.WriteString(indent + wordName(f) + ": " + f.Tag.Get("example") + "\n")
		default:
			b.WriteString(indent + wordName(f) + ": " + values.Draw(rt, "value") + "\n")
		}
	}
}

// TestALargeFileIsRead reads as many rules as a fleet has.
func TestALargeFileIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	var b strings.Builder
	b.WriteString("version: 1\ndependencies:\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "  dependency-%d: {max_attempts: 3}\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Load(path)
	if err != nil || len(set.Rules()) != 5001 {
		t.Fatal(err)
	}
}
