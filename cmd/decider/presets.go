package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/retrydecider/decider/internal/policy"
)

// described is a built-in preset in JSON.
type described struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Sources     []string      `json:"sources,omitempty"`
	Says        []string      `json:"says,omitempty"`
	Fleet       string        `json:"fleet,omitempty"`
	Cannot      []string      `json:"cannot,omitempty"`
	Words       []describedIn `json:"words,omitempty"`
}

// describedIn is a word of the policy file with its value.
type describedIn struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// listPresets lists the built-in presets.
func (c *explainCommand) listPresets(io streams) error {
	if c.Output == "json" {
		var list []described
		for _, p := range policy.BuiltInPresets() {
			list = append(list, described{Name: p.Name, Description: p.Description})
		}
		return writeJSON(io.out, list)
	}
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	for _, p := range policy.BuiltInPresets() {
		fmt.Fprintf(table, "%s\t%s\n", p.Name, p.Description)
	}
	return table.Flush()
}

// printPreset prints what one means.
func (c *explainCommand) printPreset(io streams) error {
	p, err := policy.FindPreset(c.Preset)
	if err != nil {
		return misuse{err}
	}
	d := described{p.Name, p.Description, p.Sources, policy.PlainWords(p.Policy), p.Fleet, p.Cannot, nil}
	for _, w := range policy.Describe(p.Policy) {
		d.Words = append(d.Words, describedIn(w))
	}
	if c.Output == "json" {
		return writeJSON(io.out, d)
	}
	fmt.Fprintf(io.out, "%s: %s\n\n", d.Name, d.Description)
	for _, sentence := range d.Says {
		fmt.Fprintf(io.out, "%s\n", sentence)
	}
	if d.Fleet != "" {
		fmt.Fprintf(io.out, "\n%s\n", d.Fleet)
	}
	printList(io, "What it cannot say", d.Cannot)
	printList(io, "Published in", d.Sources)
	fmt.Fprintf(io.out, "\nIn the words of a policy file:\n")
	for _, w := range d.Words {
		fmt.Fprintf(io.out, "  %s: %s\n", w.Key, w.Value)
	}
	return nil
}

func printList(io streams, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(io.out, "\n%s:\n", title)
	for _, item := range items {
		fmt.Fprintf(io.out, "  - %s\n", item)
	}
}
