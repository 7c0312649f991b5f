// Package policy reads the policy file: the rules of a fleet, one per
// dependency, and what they are written over.
//
// The order of events is: source.go turns the text into a tree of nodes that
// know their line and column (node.go); read.go reads the tree into the words
// of words.go and notes every mistake at its place; layers.go lays rule over
// preset over the built-in rule, the last word winning; check.go notes where
// what they come to contradicts itself; compile.go makes a [decide.Policy] of
// it; set.go finds the policy of a dependency. A file with one mistake is
// refused whole, with all its mistakes.
//
// What is elsewhere: presets.go has the built-in presets, glob.go the patterns,
// values.go how numbers, durations and ratios are written, lists.go how
// failures, headers and names are, mistake.go what a refused file is told,
// live.go the reading anew while the service runs, describe.go a policy in the
// words of the file. The JSON Schema and the example that editors read are
// generated from words.go into decider.schema.json and policies.example.yaml, and
// docs/policies.md too; published.go and plainwords.go tell of the presets,
// advise.go of what is legal and unwise.
package policy

//go:generate go test -run ^(TestGenerated|TestPresetsAgainstPublishedNumbers)$ -update .
