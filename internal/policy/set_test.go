package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/retrydecider/decider/internal/decide"
)

func TestTheNearestRuleServes(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `
version: 1
dependencies:
  search: {}
  "search*": {}
  "search-*-eu": {}
  "search-*-us": {}
  "*-eu": {}
  "*:443": {}
  "a*b*c": {}
  "search-exact-eu": {}
`)
	for name, want := range map[string]string{
		"search":          "search",
		"searches":        "search*",
		"search-1":        "search*",
		"search-1-eu":     "search-*-eu",
		"search--us":      "search-*-us",
		"search-eu":       "search*", // the star of search-*-eu stands for any text, the dashes for themselves
		"search-exact-eu": "search-exact-eu",
		"stock-eu":        "*-eu",
		"stock:443":       "*:443",
		"abc":             "a*b*c",
		"axbxbxc":         "a*b*c",
		"acb":             DefaultName,
		"ac":              DefaultName,
		"Search":          DefaultName,
		"stock":           DefaultName,
	} {
		p, bucket, err := set.Find(name)
		if err != nil || p.Name != want || bucket != name {
			t.Errorf("%s: %v, bucket %q, %v; want %s", name, p.Name, bucket, err, want)
		}
	}
}

func TestRulesAreInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `{"version": 1, "dependencies": {"z": {}, "a*": {}, "default-a": {"max_attempts": 2}, "m": {}}}`)
	var names []string
	for _, p := range set.Rules() {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"z", "a*", "default-a", "m", DefaultName}, names); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	t.Parallel()
	set := mustParse(t, "{version: 1, unknown_dependencies: refuse, dependencies: {known: {}}}")
	if p, _, err := set.Find("unknown"); p != nil || !errors.Is(err, decide.ErrUnknownDependency) {
		t.Errorf("Find = %v, %v", p, err)
	}
	if _, _, err := set.Find("known"); err != nil || !set.RefusesUnknown() {
		t.Error(err)
	}
}

func TestUnknownNamesBeyondTheBoundShareABucket(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `{version: 1, max_unknown: 2, dependencies: {known: {}, "k-*": {}}}`)
	if set.MaxUnknown() != 2 || mustParse(t, "version: 1").MaxUnknown() != 1000 {
		t.Errorf("MaxUnknown = %d", set.MaxUnknown())
	}
	for i, step := range []struct{ name, bucket string }{
		{"known", "known"}, {"k-1", "k-1"}, {"one", "one"}, {"two", "two"}, {"three", OtherBucket}, {"one", "one"},
		{"four", OtherBucket}, {"two", "two"}, {"k-2", "k-2"}, {"three", OtherBucket},
	} {
		if p, bucket, err := set.Find(step.name); err != nil || bucket != step.bucket || p == nil {
			t.Errorf("step %d: %s has bucket %q, %v; want %q", i, step.name, bucket, err, step.bucket)
		}
	}
}

func TestSeenNamesKeepTheirBucketsUnderTheNextFile(t *testing.T) {
	t.Parallel()
	before := mustParse(t, "{version: 1, max_unknown: 3}")
	for _, name := range []string{"one", "two", "three"} {
		if _, _, err := before.Find(name); err != nil {
			t.Fatal(err)
		}
	}
	after := mustParse(t, "{version: 1, max_unknown: 2, dependencies: {one: {}}}")
	after.CarryOver(before)
	for name, want := range map[string]string{"new": OtherBucket, "one": "one", "two": "two", "three": "three"} {
		if _, bucket, _ := after.Find(name); bucket != want {
			t.Errorf("%s has bucket %q, want %q: a rule of its own makes room", name, bucket, want)
		}
	}
}

func TestTheBoundHoldsForManyAtOnce(t *testing.T) {
	t.Parallel()
	set := mustParse(t, "{version: 1, max_unknown: 10}")
	var buckets sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				_, bucket, _ := set.Find(fmt.Sprintf("name-%d", (i*31+j)%100))
				buckets.Store(bucket, true)
			}
		})
	}
	all.Wait()
	count := 0
	buckets.Range(func(any, any) bool { count++; return true })
	if count != 11 {
		t.Errorf("%d buckets, want 10 and the shared one", count)
	}
}

func TestHashIsOfWhatAFileSays(t *testing.T) {
	t.Parallel()
	hash := mustParse(t, "version: 1\ndependencies:\n  a: {max_attempts: 3, owner: x}\n  b: {}\n").Hash()
	for src, same := range map[string]bool{
		`{"dependencies": {"b": {}, "a": {"owner": "x", "max_attempts": 3}}, "version": 1}`: false, // "x" is quoted: another text
		"# a comment\nversion: 1\r\ndependencies: {b: {}, a: {owner: x, max_attempts: 3}}":  true,
		"version: 1\ndependencies: {b: {}, a: {owner: x, max_attempts: 4}}":                 false,
		"version: 1\ndependencies: {a: {owner: x, max_attempts: 3}}":                        false,
		"version: 1\npresets: {b: {}, a: {owner: x, max_attempts: 3}}":                      false,
	} {
		if got := mustParse(t, src).Hash(); (got == hash) != same || len(got) != 16 {
			t.Errorf("%s: %s beside %s, want the same: %t", src, got, hash, same)
		}
	}
}

// TestPatternsOfOneBeginningAreToldApart compares the rule by which files are
// refused with asking every name.
func TestPatternsOfOneBeginningAreToldApart(t *testing.T) {
	t.Parallel()
	names := allNames("ab", 9)
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[ab]{0,2}`).Draw(t, "prefix")
		tails := rapid.SliceOfNDistinct(rapid.StringMatching(`\*([ab]{1,2}\*)?[ab]{0,2}`), 2, 2, rapid.ID).Draw(t, "tails")
		one, two := prefix+tails[0], prefix+tails[1]
		p, q := newPattern(one), newPattern(two)
		common := ""
		for _, name := range names {
			if p.matches(name) && q.matches(name) {
				common = name
				break
			}
		}
		_, err := Parse("f", fmt.Appendf(nil, "{version: 1, dependencies: {%q: {}, %q: {}}}", one, two))
		if (err != nil) != (common != "") {
			t.Fatalf("%s and %s: %v, but both match %q", one, two, err, common)
		}
	})
}

func allNames(letters string, longest int) []string {
	all, last := []string{}, []string{""}
	for range longest {
		var next []string
		for _, name := range last {
			for _, letter := range letters {
				next = append(next, name+string(letter))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

// TestFindAgreesWithAskingEveryRule compares the lookup with the sentence that
// it implements.
func TestFindAgreesWithAskingEveryRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{0,3}(\*[ab]{0,2})?(\*[ab]{1,2})?`), 1, 6, rapid.ID).Draw(t, "rules")
		var list []string
		set := Standard()
		for _, each := range patterns {
			if each == "" || strings.Contains(each, "**") {
				continue
			}
			longer := append(slices.Clip(list), fmt.Sprintf("%q: {}", each))
			taken, err := Parse("f", []byte("{version: 1, dependencies: {"+strings.Join(longer, ", ")+"}}"))
			if err == nil {
				set, list = taken, longer
			} else if !strings.Contains(each, "*") { // two patterns of one beginning are refused, a name never is
				t.Fatalf("%s: %v", each, err)
			}
		}
		name := rapid.StringMatching(`[ab]{1,7}`).Draw(t, "name")
		p, _, err := set.Find(name)
		if want := findSlowly(set.Rules(), name); err != nil || p.Name != want {
			t.Fatalf("%s: %s, want %s of %v", name, p.Name, want, list)
		}
	})
}

func findSlowly(rules []*decide.Policy, name string) string {
	best, longest := DefaultName, -1
	for _, p := range rules {
		if p.Name == name {
			return name
		}
		if at := strings.IndexByte(p.Name, '*'); at > longest && matchesSlowly(p.Name, name) {
			best, longest = p.Name, at
		}
	}
	return best
}

func matchesSlowly(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return matchesSlowly(pattern[1:], name) || name != "" && matchesSlowly(pattern, name[1:])
	}
	return name != "" && pattern[0] == name[0] && matchesSlowly(pattern[1:], name[1:])
}

func TestFindDoesNotAllocate(t *testing.T) {
	set := mustParse(t, `{version: 1, max_unknown: 1, dependencies: {payments: {}, "search-*-eu": {}}}`)
	for _, name := range []string{"payments", "search-1-eu", "first", "second"} {
		if n := testing.AllocsPerRun(100, func() { _, _, _ = set.Find(name) }); n > 0 && name != "first" {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, rules := range []int{1, 5000} {
		var src strings.Builder
		src.WriteString("version: 1\ndependencies:\n")
		for i := range rules {
			fmt.Fprintf(&src, "  dependency-%d: {}\n  \"pattern-%d-*\": {}\n", i, i)
		}
		set := mustParse(b, src.String())
		last := fmt.Sprint(rules - 1)
		for what, name := range map[string]string{"exact": "dependency-" + last, "pattern": "pattern-" + last + "-x", "unknown": "nobody"} {
			b.Run(fmt.Sprintf("%s/%d", what, rules), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _, _ = set.Find(name)
				}
			})
		}
	}
}
