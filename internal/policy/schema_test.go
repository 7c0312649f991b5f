package policy

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrydecider/decider/internal/decide"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("decider.schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("decider.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func validate(t *testing.T, s *jsonschema.Schema, src []byte) error {
	t.Helper()
	text := src
	if !json.Valid(src) {
		var err error
		if text, err = yaml.YAMLToJSON(src); err != nil {
			t.Fatal(err)
		}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(document)
}

func TestTheSchemaTakesWhatIsRead(t *testing.T) {
	t.Parallel()
	s := compiledSchema(t)
	for _, path := range append(fixtures(t, "testdata/good/*.yaml"), "policies.example.yaml") {
		src := read(t, path)
		if strings.Contains(path, "limits") { // a name in any case is read, the schema knows the lower one
			src = bytes.Replace(src, []byte("Retry-After"), []byte("retry-after"), 1)
		}
		if err := validate(t, s, src); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTheSchemaRefusesWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := compiledSchema(t)
	if err := validate(t, s, []byte("max_unknown: 5")); err == nil {
		t.Error("a file without a version passes")
	}
	for _, body := range []string{
		"max_atempts: 3", "max_attempts: 0", "max_attempts: 2.5", `max_attempts: "3"`, "max_attempts: 2147483649",
		"backoff: {strategy: random}", "backoff: {base: 100}", "backoff: {base: -1s}", "backoff: {cap: 0}", `backoff: {cap: "0"}`, "backoff: {multiplier: 0.5}",
		"backoff: {jitter: 200%}", "backoff: {throttle: {throttle: {}}}", "retry_after: {spread: -10%}", "retry_after: {headers: [date]}",
		"retry_after: {headers: [retry-after, retry-after]}", "retryable: {add: [200]}", "retryable: {add: [canceled]}", "retryable: {add: 429}",
		"repeat: []", "repeat: always", "retry_layer: [\"a b\"]", "budget: on", "budget: {ratio: 1.5}", "budget: {ratio: 101%}", "budget: {capacity: 0}",
		"budget: {cost: {default: 0}}", "budget: {off: true}", "breaker: {mode: on}", "breaker: {probes: 0}", "cool_down: true",
		"on_store_failure: deny", "mode: off", "candidate: {mode: shadow}", "candidate: {candidate: {}}", "candidate: off", "headroom: 0.9", "headroom: 130%", "description: 5", "only_first_inbound: 1",
	} {
		src := []byte("version: 1\ndependencies:\n  payments: {" + body + "}\n")
		if _, err := Parse("f", src); err == nil {
			t.Errorf("%s is read", body)
		}
		if err := validate(t, s, src); err == nil {
			t.Errorf("%s passes the schema", body)
		}
	}
	for _, top := range []string{"presets: {standard: {}}", "dependencies: {\"a b\": {}}", "dependencies: {\"a**\": {}}", "dependencies: {default: {}}", "unknown: 1", "unknown_dependencies: no", "max_unknown: 0"} {
		if err := validate(t, s, []byte("version: 1\n"+top)); err == nil {
			t.Errorf("%s passes the schema", top)
		}
	}
}

// TestWordsAreDocumented holds the tags to each other and to decide.
func TestWordsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, group := range groups {
		of := reflect.TypeOf(group)
		for _, f := range wordsOf(of) {
			tag := f.Tag
			if tag.Get("doc") == "" || !strings.HasSuffix(tag.Get("doc"), ".") {
				t.Errorf("%s.%s has no sentence", of, f.Name)
			}
			if _, isValue := reflect.New(f.Type.Elem()).Interface().(value); isValue && tag.Get("example") == "" && wordName(f) != "dependencies" {
				t.Errorf("%s.%s has no example", of, f.Name)
			}
			for bound, parse := range map[string]func(string) bool{
				"*policy.count": isNumber, "*policy.number": isNumber,
				"*policy.ratio":  func(s string) bool { _, ok := parseRatio(s); return ok },
				"*policy.millis": func(s string) bool { _, ok := parseMillis(s); return ok },
			} {
				if f.Type.String() == bound && (!parse(tag.Get("min")) || tag.Get("max") != "" && !parse(tag.Get("max"))) {
					t.Errorf("%s.%s has no bounds", of, f.Name)
				}
			}
		}
	}
	strategies, _ := wordsOf(reflect.TypeFor[waitWords]()).find("strategy")
	if want := strings.Join(decide.Strategies(), ","); strategies.Tag.Get("enum") != want {
		t.Errorf("strategies are %s, decide has %s", strategies.Tag.Get("enum"), want)
	}
}

// TestDefaultsAreThoseOfStandard writes every default of the schema as a rule,
// which must come to what a rule that says nothing does.
func TestDefaultsAreThoseOfStandard(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	defaultsOf(&body, "", reflect.TypeFor[ruleWords]())
	said, silent := rule1(t, body.String()), rule1(t, "{}")
	if *said.Classes != *silent.Classes {
		t.Error("the classes differ")
	}
	said.Classes, said.RetryLayer = silent.Classes, silent.RetryLayer
	if !reflect.DeepEqual(said, silent) {
		t.Errorf("\n%+v\n%+v", said, silent)
	}
}

func defaultsOf(b *strings.Builder, indent string, of reflect.Type) {
	for _, f := range wordsOf(of) {
		_, isValue := reflect.New(f.Type.Elem()).Interface().(value)
		switch said := f.Tag.Get("default"); {
		case said != "":
			b.WriteString(indent + wordName(f) + ": " + said + "\n")
		case !isValue && f.Type != reflect.TypeFor[*waitWords]():
			b.WriteString(indent + wordName(f) + ":\n")
			defaultsOf(b, indent+"  ", f.Type.Elem())
		}
	}
}
