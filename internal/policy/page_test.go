package policy

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// generatePage is the manual of the policy file, from the structs that read it.
func generatePage() []byte {
	var b bytes.Buffer
	b.WriteString(pageBegin)
	pageGroup(&b, "The file", "At the top of the file:", "", reflect.TypeFor[fileWords]())
	pageGroup(&b, "A rule", "A rule below `dependencies`, a preset below `presets`, and `defaults`:", "", reflect.TypeFor[ruleWords]())
	b.WriteString(pageEnd)
	for _, kind := range WarningKinds {
		fmt.Fprintf(&b, "| `%s` | %s |\n", kind.ID, kind.About)
	}
	b.WriteString(pageReload)
	return b.Bytes()
}

// pageGroup is a table of words, and those of the groups in it.
func pageGroup(b *bytes.Buffer, title, intro, prefix string, of reflect.Type) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| word | takes | default | |\n|---|---|---|---|\n", title, intro)
	var inside []reflect.StructField
	for _, field := range wordsOf(of) {
		tag := field.Tag
		if tag.Get("doc") == "" {
			continue
		}
		isGroup := tag.Get("example") == "" && field.Type.Elem().Kind() == reflect.Struct
		if isGroup {
			inside = append(inside, field)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", prefix+wordName(field), takes(field), code(tag.Get("default")), strings.ReplaceAll(tag.Get("doc"), "|", "\\|"))
	}
	for _, field := range inside {
		name := prefix + wordName(field)
		pageGroup(b, "`"+name+"`", field.Tag.Get("doc"), name+".", field.Type.Elem())
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// takes tells what a word takes, with its bounds.
func takes(field reflect.StructField) string {
	tag := field.Tag
	between := ""
	switch low, high := tag.Get("min"), tag.Get("max"); {
	case low != "" && low == high:
		between = ", always " + low
	case low != "" && high != "":
		between = ", " + low + " to " + high
	case low != "":
		between = ", at least " + low
	}
	if unit := tag.Get("unit"); unit != "" {
		between += " " + unit
	}
	switch reflect.New(field.Type.Elem()).Interface().(type) {
	case *text:
		return "text"
	case *truth:
		return "`true` or `false`"
	case *count:
		return "a whole number" + between
	case *number:
		return "a number" + between
	case *word:
		return "`" + strings.ReplaceAll(tag.Get("enum"), ",", "`, `") + "`"
	case *millis:
		return "a duration" + between
	case *ratio:
		return "a ratio" + between
	case *names:
		return "a list of callers"
	case *headers:
		return "a list of `" + strings.Join(headerNames(), "`, `") + "`"
	case *failures:
		return "a list of statuses and outcomes"
	case *repeat:
		return "`idempotent`, `any`, or a list of methods"
	case *candidate:
		return "a rule, such as " + code(tag.Get("example"))
	case *rule:
		return "a rule"
	case *rules:
		return "rules by name"
	case switchable:
		return "words, or `off`"
	}
	return "words"
}

const pageBegin = `# The policy file

Generated from the same structs as the JSON Schema; ` + "`make generate`" + ` writes it anew, and a test fails where it has drifted.

One file says for each dependency which failures are retried, how long to wait, and how much retrying the whole fleet may
do. ` + "`decider serve --policies FILE`" + ` reads it and puts each change in force by itself. Its first line names the schema, so
that an editor completes every word and marks every mistake; ` + "`GET /policies.schema.json`" + ` serves the schema of a running
decider.

` + "```yaml file=policies.yaml" + `
# yaml-language-server: $schema=./decider.schema.json
version: 1
defaults: {preset: standard}
presets:
  patient: {preset: standard, max_attempts: 6}
dependencies:
  payments:
    description: card payments
    owner: team-payments
    preset: patient
    retryable: {add: [409]}
    budget: {ratio: 5%}
    headroom: 1.3
  "search-*": {preset: none}
` + "```" + `

` + "```sh" + `
decider check policies.yaml
` + "```" + `

` + "```text" + `
policies.yaml: good, 2 rules
` + "```" + `

A mistake refuses the whole file, with every mistake at its place:

` + "```yaml file=wrong.yaml" + `
version: 1
dependencies:
  payments: {max_atempts: 3, retry_after: {max: 60}}
` + "```" + `

` + "```sh exit=1" + `
decider check wrong.yaml
` + "```" + `

` + "```text" + `
wrong.yaml:3:14: unknown word "max_atempts"; did you mean "max_attempts"?
      payments: {max_atempts: 3, retry_after: {max: 60}}
                 ^
wrong.yaml:3:49: retry_after.max needs a unit, such as 60ms
      payments: {max_atempts: 3, retry_after: {max: 60}}
                                                    ^
wrong.yaml: refused, 2 mistakes
` + "```" + `

- **Layers.** A rule is written over the preset that it names, one that names none over ` + "`defaults`" + `. The last word wins:
  maps merge, lists replace, and ` + "`add` and `remove`" + ` add up.
- **Names.** A dependency is served by the rule of exactly its name, else by the matching pattern with the longest literal
  beginning (` + "`*`" + ` stands for any text), else by ` + "`defaults`" + `. Each dependency has a bucket of its own, those of one pattern too.
- **Values.** Durations are Go's (` + "`100ms`, `1m30s`" + `), ratios ` + "`10%` or `0.1`" + `. A failure is a status from 400 to 999 or an
  outcome of the transport; ` + "`decider explain --classes`" + ` prints what becomes of each.
`

const pageEnd = `
## Shadow and candidate

` + "`mode: shadow`" + ` asks and charges the fleet's state as if the rule were enforced, and lets through what it refuses: the budget,
the breaker and the cool-down refuse nothing then. What is not the state's word holds: what is final, not safe to repeat, at its
last attempt or past its deadline is not retried in shadow either, and an operator's pause is obeyed. An answer names in
` + "`shadow_reason`" + ` what an enforced rule would have given up for.

` + "`candidate`" + ` is judged on the same attempts with the same floats and a bucket of its own, which starts full. Nobody is told its
answers. GET /v1/dependencies/NAME counts where it differs, by both reasons, with the calls that it would have saved or
added; /metrics has the same, and ` + "`decider explain`" + ` asks it as its tenth question. [tightening.md](tightening.md) uses it.

## Warnings

What is legal and unwise is warned of by ` + "`decider check`" + `, which fails on it only with ` + "`--warnings-as-errors`" + `. Only what the file
itself says is warned of. ` + "`--output`" + ` writes ` + "`json`, `sarif`" + ` for code scanning, and ` + "`github`" + ` for annotations.

| warning | of |
|---|---|
`

const pageReload = `
## Reloading

The file's folder is watched from before the file is read at the start, links that a ConfigMap swaps included. What no event
tells of (a network's file system, a folder that took another's place, no watch left to have) is seen within a second; SIGHUP
reads the file at once, and every 30 s it is read unasked. A good file is in force between two decisions, and what changed is
logged word by word. A bad one changes nothing: the log names every mistake, /readyz and /v1/status say since when, and
` + "`decider_policies_last_reload_successful`" + ` is 0. Buckets keep their tokens, clamped to the new capacity.

[presets.md](presets.md) has the built-in presets against what is published.
`
