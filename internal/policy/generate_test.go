package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"

	"github.com/retrydecider/decider/internal/decide"
)

var update = flag.Bool("update", false, "write the generated and golden files anew")

// TestGenerated holds the schema, the example and the manual to the words that
// they are generated from; go generate writes them.
func TestGenerated(t *testing.T) {
	golden(t, "decider.schema.json", generateSchema(t))
	golden(t, "policies.example.yaml", generateExample())
	golden(t, filepath.Join("..", "..", "docs", "policies.md"), generatePage())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has drifted; go generate writes it anew. It should be:\n%s", path, got)
	}
}

// groups are the structs of words that the schema defines.
var groups = []any{fileWords{}, ruleWords{}, judgedWords{}, waitWords{}, backoffWords{}, retryAfterWords{}, retryableWords{}, budgetWords{}, costWords{}, breakerWords{}}

func generateSchema(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, Mapper: schemaOfValue, Namer: func(t reflect.Type) string {
		return strings.TrimSuffix(t.Name(), "Words")
	}}
	root := r.Reflect(fileWords{})
	rule := r.Reflect(ruleWords{}) // the file reaches rules by name alone
	for name, group := range rule.Definitions {
		root.Definitions[name] = group
	}
	rule.Version, rule.Definitions = "", nil
	root.Definitions["rule"] = rule
	judged := r.Reflect(judgedWords{})
	judged.Version, judged.Definitions = "", nil
	root.Definitions["judged"] = judged
	root.Title = "decider policies"
	root.Description = "The rules of a fleet's retries, one per dependency."
	for _, group := range groups {
		of := reflect.TypeOf(group)
		definition := root
		if of != reflect.TypeOf(fileWords{}) {
			definition = root.Definitions[strings.TrimSuffix(of.Name(), "Words")]
		}
		if definition == nil {
			t.Fatalf("the schema does not define %s", of)
		}
		for _, field := range wordsOf(of) {
			if property, ok := definition.Properties.Get(wordName(field)); ok {
				annotate(property, field)
			}
		}
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

func schemaOfValue(t reflect.Type) *jsonschema.Schema {
	matching := func(expression string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: expression}
	}
	listOf := func(items *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", UniqueItems: true, Items: items}
	}
	switch reflect.New(t).Interface().(type) {
	case *rule:
		return &jsonschema.Schema{Ref: "#/$defs/rule"}
	case *candidate:
		return &jsonschema.Schema{Ref: "#/$defs/judged"}
	case *rules:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/rule"}}
	case *text:
		return &jsonschema.Schema{Type: "string", MaxLength: ptr(uint64(maxTextLength))}
	case *truth:
		return &jsonschema.Schema{Type: "boolean"}
	case *count:
		return &jsonschema.Schema{Type: "integer"}
	case *number:
		return &jsonschema.Schema{Type: "number"}
	case *word:
		return &jsonschema.Schema{Type: "string"}
	case *millis:
		return matching(`^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$`)
	case *ratio:
		return matching(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)%$`)
	case *names:
		return listOf(matching(nameText.String()))
	case *headers:
		return listOf(&jsonschema.Schema{Type: "string", Enum: anyOf(headerNames())})
	case *failures:
		return listOf(&jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "400", Maximum: "999"}, matching("^[4-9][0-9][0-9]$"), {Type: "string", Enum: anyOf(editableOutcomes())}}})
	case *repeat:
		methods := listOf(matching(methodText.String()))
		methods.MinItems = ptr(uint64(1))
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Enum: []any{"idempotent", "any"}}, methods}}
	}
	return nil
}

func editableOutcomes() []string {
	var list []string
	for _, name := range decide.Outcomes() {
		if f, _ := decide.ParseOutcome(name); f.Editable() {
			list = append(list, name)
		}
	}
	return list
}

func anyOf(words []string) []any {
	var list []any
	for _, w := range words {
		list = append(list, w)
	}
	return list
}

// annotate writes into a property what the tags of its word say.
func annotate(p *jsonschema.Schema, field reflect.StructField) {
	tag := field.Tag
	zero := &jsonschema.Schema{Type: "integer", Const: 0}
	low, high := json.Number(tag.Get("min")), json.Number(tag.Get("max"))
	unit := tag.Get("unit")
	switch reflect.New(field.Type.Elem()).Interface().(type) {
	case *count, *number:
		p.Minimum, p.Maximum = low, high
	case *word:
		p.Enum = anyOf(strings.Split(tag.Get("enum"), ","))
		if tag.Get("off") != "" {
			allowed := *p
			*p = jsonschema.Schema{AnyOf: []*jsonschema.Schema{&allowed, {Type: "boolean", Const: false}}}
		}
	case *millis:
		unit = "a duration in whole milliseconds, such as 100ms or 1m30s"
		if low != "0" {
			p.Pattern = strings.Replace(p.Pattern, "0|", "", 1)
			break
		}
		allowed := *p
		*p = jsonschema.Schema{AnyOf: []*jsonschema.Schema{&allowed, zero}}
	case *ratio:
		unit = "a share of one, such as 10% or 0.1"
		percent := *p
		share := &jsonschema.Schema{Type: "number", Minimum: "0"}
		if high == "100%" {
			share.Maximum = "1"
			percent.Pattern = `^(100(\.0*)?|[0-9]{1,2}(\.[0-9]*)?|\.[0-9]+)%$`
		}
		if low != "0%" {
			share.Minimum = "0.000001"
		}
		*p = jsonschema.Schema{AnyOf: []*jsonschema.Schema{&percent, share}}
	case *rules:
		p.PropertyNames = &jsonschema.Schema{Pattern: nameText.String(), Not: &jsonschema.Schema{Enum: anyOf(Presets())}}
		if wordName(field) == "dependencies" {
			p.PropertyNames = &jsonschema.Schema{Pattern: patternText.String(), Not: &jsonschema.Schema{Pattern: `\*\*|^` + DefaultName + `$`}}
		}
	case switchable:
		ref := *p
		*p = jsonschema.Schema{AnyOf: []*jsonschema.Schema{&ref, {Type: "string", Const: "off"}, {Type: "boolean", Const: false}}}
	}
	p.Description = tag.Get("doc")
	if unit != "" {
		p.Description += " Unit: " + unit + "."
	}
	if said := tag.Get("default"); said != "" {
		p.Default = yamlValue(said)
	}
	if said := tag.Get("example"); said != "" {
		p.Examples = []any{yamlValue(said)}
	}
}

func yamlValue(text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

func generateExample() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, SchemaComment("./decider.schema.json"))
	fmt.Fprintln(&b, "# Every word of a policy file once. A rule says only what differs from its preset.")
	for _, field := range wordsOf(reflect.TypeOf(fileWords{})) {
		if wordName(field) != "dependencies" {
			exampleWord(&b, "", field)
			continue
		}
		fmt.Fprintf(&b, "\n# %s\ndependencies:\n  payments:\n", field.Tag.Get("doc"))
		exampleGroup(&b, "    ", reflect.TypeOf(ruleWords{}))
		fmt.Fprintf(&b, "\n  # A pattern; each dependency that it matches has its own budget.\n  \"search-*\": {preset: none}\n")
	}
	return b.Bytes()
}

func exampleGroup(b *bytes.Buffer, indent string, of reflect.Type) {
	for _, field := range wordsOf(of) {
		exampleWord(b, indent, field)
	}
}

func exampleWord(b *bytes.Buffer, indent string, field reflect.StructField) {
	tag := field.Tag
	if tag.Get("doc") == "" {
		return
	}
	if len(indent) == 0 || len(indent) == 4 { // a paragraph for each word of the file and of a rule
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "%s# %s\n", indent, tag.Get("doc"))
	said := tag.Get("example")
	switch {
	case said == "":
		fmt.Fprintf(b, "%s%s:\n", indent, wordName(field))
		exampleGroup(b, indent+"  ", field.Type.Elem())
	case tag.Get("apart") != "":
		fmt.Fprintf(b, "%s# %s: %s\n", indent, wordName(field), said)
	default:
		fmt.Fprintf(b, "%s%s: %s\n", indent, wordName(field), said)
	}
}
