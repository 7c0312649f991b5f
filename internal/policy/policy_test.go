package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrydecider/decider/internal/decide"
)

func fixtures(t testing.TB, glob string) []string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", glob, files, err)
	}
	return files
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func mustParse(t testing.TB, src string) *Set {
	t.Helper()
	set, err := Parse("policies.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func rule1(t testing.TB, body string) *decide.Policy {
	t.Helper()
	p, err := ParseRule([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGoodFilesAreRead(t *testing.T) {
	t.Parallel()
	for _, path := range append(fixtures(t, "testdata/good/*.yaml"), "policies.example.yaml") {
		set, err := Load(path)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, p := range set.Rules() {
			checkLimits(t, p)
		}
	}
}

func TestBadFilesAreRefusedWithAllMistakes(t *testing.T) {
	for _, path := range fixtures(t, "testdata/bad/*.yaml") {
		_, err := Parse(filepath.Base(path), read(t, path))
		var refused *Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", path, err)
			continue
		}
		golden(t, strings.TrimSuffix(path, ".yaml")+".txt", []byte(refused.Excerpts()))
	}
}

func TestEveryMistakeHasItsPlace(t *testing.T) {
	t.Parallel()
	body := func(words string) string { return "version: 1\ndependencies:\n  payments:\n    " + words + "\n" }
	for _, c := range []struct{ name, src, want string }{
		{"empty", "", "1:1: the file says nothing"},
		{"a comment", "# version: 1\n", "1:1: the file says nothing"},
		{"no mapping", "- version\n", "1:1: a policy file must be a mapping"},
		{"text of several lines", "version\n\n  \"\n", `1:1: a policy file must be a mapping of words such as "version: 1", not version `},
		{"no version", "max_unknown: 3\n", `1:1: the file must say "version: 1"`},
		{"version as text", "version: \"1\"\n", "1:10: version must be a whole number, not \"1\""},
		{"not UTF-8", "version: 1 # \xff\n", "1:14: the file is not UTF-8: byte 0xff"},
		{"a control character", "version: 1\nmax_unknown: \x00\n", "2:14: character U+0000"},
		{"two documents", "version: 1\n---\nversion: 1\n", "3:1: a policy file is one document"},
		{"a directive", "%YAML 1.1\n---\nversion: 1\n", "1:1: directives are not read"},
		{"no YAML", "version: [1\n", "1:10: this is not YAML"},
		{"deep", "version: " + strings.Repeat("[", 1<<20), "1:74: lists and mappings stand too deep"},
		{"deep mappings", strings.Repeat("{a: ", 1<<18), "1:257: lists and mappings stand too deep"},
		{"deep dashes", strings.Repeat("- ", 1<<19), "1:129: lists and mappings stand too deep"},
		{"deep question marks", strings.Repeat("? ", 1<<10), "1:1: a key is written as text"},
		{"deep tags", strings.Repeat("!a ", 1<<10), "1:1: tags are not read"},
		{"large", strings.Repeat(" ", MaxFileBytes+1), "1:1: the file has 4194305 bytes"},
		{"after a byte order mark", "\ufeffversion: 2\n", "1:10: version must be 1"},
		{"after CRLF", "version: 1\r\nmax_unknown: 0\r\n", "2:14: max_unknown must be from 1"},
		{"columns are characters", "version: 1\ndependencies: {ä: {}, payments: {max_attempts: 0}}", "2:16: no dependency can be named"},
		{"a rule that is nothing", body(""), "3:3: a rule must be a mapping of words, not nothing"},
		{"a list for a word", body("max_attempts: [4]"), "4:19: max_attempts must be a whole number, not a list"},
		{"a fraction of attempts", body("max_attempts: 1.5"), "4:19: max_attempts must be a whole number"},
		{"too many attempts", body("max_attempts: 2147483649"), "4:19: max_attempts must be from 1 to 2147483648"},
		{"infinite", body("backoff: {multiplier: .inf}"), "4:27: backoff.multiplier must be a number, and a finite one"},
		{"NaN", body("budget: {cost: {default: .nan}}"), "4:30: budget.cost.default must be a number, and a finite one"},
		{"a huge exponent", body("budget: {capacity: 1e999999999}"), "4:24: budget.capacity must be a number"},
		{"many digits", body("budget: {capacity: 1" + strings.Repeat("0", 200) + "}"), "4:24: budget.capacity must be a number"},
		{"underscores", body("max_attempts: 1_0"), "4:19: max_attempts must be a whole number"},
		{"a duration without a unit", body("min_attempt: 200"), "4:18: min_attempt needs a unit, such as 200ms"},
		{"finer than a millisecond", body("min_attempt: 1.5ms"), "4:18: min_attempt is finer than a millisecond"},
		{"negative wait", body("backoff: {base: -1ms}"), "4:21: backoff.base must be from 0 to 596h31m23.647s, not -1ms"},
		{"zero cap", body("backoff: {cap: 0s}"), "4:20: backoff.cap must be from 1ms"},
		{"zero bound", body("retry_after: {max: 0}"), "4:24: retry_after.max must be from 1ms"},
		{"a ratio in quotes", body(`budget: {ratio: "0.1"}`), "4:21: budget.ratio must be a ratio such as 10% or 0.1"},
		{"a ratio above one", body("budget: {caller_share: 1.1}"), "4:28: budget.caller_share must be from 0% to 100%"},
		{"jitter above one", body("backoff: {jitter: 200%}"), "4:23: backoff.jitter must be from 0% to 100%"},
		{"capacity with 7 decimals", body("budget: {capacity: 1.0000001}"), "4:24: budget.capacity has more than 6 decimals"},
		{"dear", body("budget: {cost: {default: 1001}}"), "4:30: budget.cost.default must be from 0.000001 to 1000"},
		{"an empty list of methods", body("repeat: []"), "4:13: repeat names no method"},
		{"a method twice", body("repeat: [GET, get]"), "4:19: repeat names get twice"},
		{"a failure twice", body(`unprocessed: [429, "429"]`), `4:24: unprocessed names "429" twice`},
		{"date", body("retry_after: {headers: [date]}"), "4:29: retry_after.headers: date is always read"},
		{"a header twice", body("retry_after: {headers: [retry-after, Retry-After]}"), "4:42: retry_after.headers names Retry-After twice"},
		{"below 400", body("retryable: {add: [399]}"), "4:23: retryable.add: 399 is not a failure"},
		{"canceled", body("retryable: {only: [canceled]}"), "4:24: retryable.only: canceled cannot be named"},
		{"breaker_open", body("retryable: {remove: [breaker_open]}"), "4:26: retryable.remove: breaker_open cannot be named"},
		{"removed with a wait", body("retryable: {remove: [413], with_retry_after: [413]}"), "4:51: retryable.with_retry_after names 413, and so does remove"},
		{"unprocessed and final", body("unprocessed: [418]"), "4:19: unprocessed names 418, which is never retried"},
		{"a mode of a later version", body("mode: canary"), "4:11: mode must be one of enforce, shadow, not canary"},
		{"a candidate's mode", body("candidate: {mode: shadow}"), `4:17: unknown word "candidate.mode"`},
		{"a candidate's mistake", body("candidate: {budget: {ratio: 200%}}"), "4:33: candidate.budget.ratio must be from 0% to 100%"},
		{"a candidate that contradicts its rule", body("budget: {capacity: 2}\n    candidate: {budget: {cost: {default: 3}}}"), "5:42: budget.cost.default 3 is more than budget.capacity 2"},
		{"a candidate's preset", body("candidate: {preset: awz-2026}"), `4:25: there is no preset "awz-2026"; did you mean "aws-2026"?`},
		{"less than no headroom", body("headroom: 0.5"), "4:15: headroom must be from 1 to 1000, not 0.5"},
		{"max_unknown in a rule", body("max_unknown: 5"), `4:5: unknown word "max_unknown"`},
		{"a wait above every timer", body("retry_after: {max: 500h, spread: 20%}"), "4:24: retry_after.max 500h0m0s and its spread"},
	} {
		_, err := Parse("f", []byte(c.src))
		var refused *Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: not refused: %v", c.name, err)
			continue
		}
		if first := refused.Mistakes[0].String(); !strings.HasPrefix(first, "f:"+c.want) {
			t.Errorf("%s: %s, want f:%s", c.name, first, c.want)
		}
	}
}

func TestAMistakeTellsItsPathAndLine(t *testing.T) {
	t.Parallel()
	_, err := Parse("f", []byte("version: 1\ndependencies:\n  a/b: {backoff: {cap: 0}}\n"))
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	want := []Mistake{{File: "f", Line: 3, Column: 24, Path: "/dependencies/a~1b/backoff/cap", Excerpt: "  a/b: {backoff: {cap: 0}}",
		Message: "backoff.cap must be from 1ms to 596h31m23.647s, not 0"}}
	if diff := cmp.Diff(want, refused.Mistakes); diff != "" {
		t.Error(diff)
	}
}

func TestLoadTellsWhichFileIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := Load("testdata/none.yaml"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none.yaml") {
		t.Error(err)
	}
	if _, err := Load("testdata"); err == nil {
		t.Error("a directory was read")
	}
}

func TestStandardHoldsWithoutAFile(t *testing.T) {
	t.Parallel()
	p, bucket, err := Standard().Find("payments")
	if err != nil || bucket != "payments" || Standard().Source() != "built-in" {
		t.Errorf("Find = %q, %v", bucket, err)
	}
	wait := decide.Backoff{Strategy: decide.FullJitter, Base: 100, Cap: 1000, Multiplier: 2, Jitter: 0.2}
	want := &decide.Policy{
		Name: DefaultName, Preset: "standard", MaxAttempts: 4,
		Backoff:    [3]decide.Backoff{wait, wait, wait},
		RetryAfter: decide.RetryAfter{Max: 60_000, Spread: 0.1, Headers: []decide.Header{decide.RetryAfterHeader}},
		Classes:    decide.StandardClasses,
		Budget: decide.BudgetRule{Ratio: 100_000, Capacity: 10_000_000, CapacityMillis: 1000, NanoPerSecond: 100_000_000,
			Cost: [3]decide.Micro{1_000_000, 1_000_000, 1_000_000}},
		Breaker: decide.BreakerRule{FailureRatio: 500_000, MinAttempts: 20, Window: 10_000, OpenFor: 5_000, Probes: 1},
	}
	if diff := cmp.Diff(want, p, cmp.Comparer(func(a, b *decide.Classes) bool { return *a == *b })); diff != "" {
		t.Error(diff)
	}
}

func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	p := rule1(t, `{"budget": {"ratio": "33.3333%", "capacity": 0.3, "capacity_seconds": 2.001, "min_per_second": 0.0011111111,
		"cost": {"default": 0.1, "throttle": 0.000003, "timeout": 2.5e-1}, "caller_share": 0.00005}, "breaker": {"failure_ratio": "66.66665%"}}`)
	want := decide.BudgetRule{Ratio: 333_333, Capacity: 300_000, CapacityMillis: 2001, NanoPerSecond: 1_111_111,
		Cost: [3]decide.Micro{100_000, 3, 250_000}, CallerShare: 50}
	if diff := cmp.Diff(want, p.Budget); diff != "" {
		t.Error(diff)
	}
	if p.Breaker.FailureRatio != 666_667 {
		t.Errorf("failure ratio %d: a half millionth rounds up", p.Breaker.FailureRatio)
	}
	if got := rule1(t, "budget: {min_per_second: 0.0000000015}").Budget.NanoPerSecond; got != 2 {
		t.Errorf("min_per_second rounds to %d", got)
	}
	if got := rule1(t, "{backoff: {jitter: 7%, multiplier: 1.1}}").Backoff[0]; got.Jitter != 0.07 || got.Multiplier != 1.1 {
		t.Errorf("floats are not the nearest: %v", got)
	}
}

func TestTheLastLayerWins(t *testing.T) {
	t.Parallel()
	set, err := Load("testdata/good/presets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) *decide.Policy {
		p, _, err := set.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := find("plain")
	if plain.Preset != "patient" || plain.MaxAttempts != 6 || plain.Owner != "platform" || plain.Backoff[0].Cap != 10_000 || plain.Backoff[decide.Throttle].Base != 2000 {
		t.Errorf("plain is not written over the defaults: %+v", plain)
	}
	gentle := find("gentle")
	if gentle.Preset != "gentle" || gentle.MaxAttempts != 6 || gentle.Owner != "" || gentle.Budget.Ratio != 50_000 || gentle.Budget.Capacity != 10_000_000 {
		t.Errorf("gentle: maps do not merge, or the defaults reach a rule that names a preset: %+v", gentle)
	}
	for status, want := range map[int]decide.Class{409: decide.Ambiguous, 500: decide.Ambiguous, 423: decide.Final, 599: decide.Ambiguous} {
		f, _ := decide.Status(status)
		if got := gentle.Classes.Of(f, false); got != want {
			t.Errorf("gentle: %d is %s, want %s: edits add up and the last word wins", status, got, want)
		}
	}
	if got := find("stripe"); !reflect.DeepEqual(got.Repeat.Methods, []string{"GET", "POST"}) {
		t.Errorf("stripe: %v", got.Repeat)
	}
	if find("search-a").Classes != find("plain").Classes {
		t.Error("rules with the same edits do not share their table")
	}
}

func TestOffIsReadAsWordAndAsFalse(t *testing.T) {
	t.Parallel()
	set, err := Load("testdata/good/off.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Rules() {
		if p.Breaker.Mode != decide.BreakerModeOff || p.CoolDown != decide.CoolDownOff {
			t.Errorf("%s: breaker %s, cool-down %s", p.Name, p.Breaker.Mode, p.CoolDown)
		}
		if on := p.Name == "d"; p.Budget.Off == on {
			t.Errorf("%s: budget off %t", p.Name, p.Budget.Off)
		}
	}
}

func TestADescriptionIsOfItsOwnRule(t *testing.T) {
	t.Parallel()
	if p := rule1(t, "{preset: stripe}"); p.Description != "" {
		t.Errorf("the preset's sentence became the rule's: %q", p.Description)
	}
}

func TestPresetsAreDescribedAndSound(t *testing.T) {
	t.Parallel()
	want := []string{"standard", "aws-2026", "aws-standard", "grpc", "envoy", "google", "dotnet", "urllib3", "stripe", "none"}
	if diff := cmp.Diff(want, Presets()); diff != "" {
		t.Error(diff)
	}
	for _, p := range BuiltInPresets() {
		if p.Description == "" {
			t.Errorf("%s is not described", p.Name)
		}
		compiled := rule1(t, "preset: "+p.Name)
		if compiled.Preset != p.Name {
			t.Errorf("%s says it is %s", p.Name, compiled.Preset)
		}
		checkLimits(t, compiled)
	}
}

func TestAPresetMayStandOverOnlySoManyOthers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("version: 1\npresets:\n  p0: {}\n")
	for i := range 40 {
		fmt.Fprintf(&b, "  p%d: {preset: p%d}\n", i+1, i)
	}
	_, err := Parse("f", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "stands over 17 others, at most 16 may") {
		t.Error(err)
	}
}

// checkLimits holds a policy to what decide and budget count on.
func checkLimits(t testing.TB, p *decide.Policy) {
	t.Helper()
	within := func(what string, value, low, high int64) {
		if value < low || value > high {
			t.Errorf("%s: %s is %d, not from %d to %d", p.Name, what, value, low, high)
		}
	}
	within("max_attempts", p.MaxAttempts, 1, decide.MaxAttempt+1)
	for _, b := range p.Backoff {
		within("base", b.Base, 0, decide.MaxDelayMillis)
		within("cap", b.Cap, 1, decide.MaxDelayMillis)
		within("min", b.Min, 0, decide.MaxDelayMillis)
		if !(b.Multiplier >= 1 && b.Multiplier <= 1000) || !(b.Jitter >= 0 && b.Jitter <= 1) {
			t.Errorf("%s: multiplier %v, jitter %v", p.Name, b.Multiplier, b.Jitter)
		}
		if b.Min > b.Cap && b.Strategy != decide.Constant {
			t.Errorf("%s: min %d above cap %d", p.Name, b.Min, b.Cap)
		}
	}
	within("retry_after.max", p.RetryAfter.Max, 1, decide.MaxDelayMillis)
	if longest := float64(p.RetryAfter.Max) * (1 + p.RetryAfter.Spread); !(p.RetryAfter.Spread >= 0) || longest > decide.MaxDelayMillis+1 {
		t.Errorf("%s: spread %v", p.Name, p.RetryAfter.Spread)
	}
	within("min_attempt", p.MinAttempt, 0, decide.MaxDelayMillis)
	within("ratio", p.Budget.Ratio, 0, decide.MaxRatio)
	within("capacity", p.Budget.Capacity, 1, decide.MaxCapacity)
	within("capacity_seconds", p.Budget.CapacityMillis, 0, decide.MaxCapacityMillis)
	within("min_per_second", p.Budget.NanoPerSecond, 0, decide.MaxNanoPerSecond)
	within("caller_share", p.Budget.CallerShare, 0, decide.MicroPerToken)
	for _, cost := range p.Budget.Cost {
		within("cost", cost, 1, decide.MaxCost)
		if !p.Budget.Off {
			within("cost beside capacity", cost, 1, p.Budget.Capacity)
		}
	}
	within("failure_ratio", p.Breaker.FailureRatio, 1, decide.MicroPerToken)
	within("min_attempts", p.Breaker.MinAttempts, 1, 1000)
	within("window", p.Breaker.Window, 1000, 3_600_000)
	within("open_for", p.Breaker.OpenFor, 1, 3_600_000)
	within("probes", p.Breaker.Probes, 1, 100)
	if p.Classes == nil {
		t.Errorf("%s has no classes", p.Name)
	}
}
