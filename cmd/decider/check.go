package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/retrydecider/decider/internal/policy"
)

// checkCommand checks policy files.
type checkCommand struct {
	Files            []string `arg:"" name:"file" help:"Policy files."`
	WarningsAsErrors bool     `help:"Exit with 1 where there are warnings too."`
	Output           string   `enum:"text,json,sarif,github" default:"text" help:"text, json, sarif for code scanning, or github for annotations in a workflow."`
}

// checked is what is said of one file.
type checked struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Rules    int       `json:"rules"`
	Mistakes []finding `json:"mistakes"`
	Warnings []finding `json:"warnings"`

	refused *policy.Error
	set     *policy.Set
}

// finding is a mistake or a warning in JSON; path is the JSON pointer of what is
// wrong, id the kind of a warning.
type finding struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	ID      string `json:"id,omitempty"`
	Message string `json:"message"`
}

func newFinding(id string, m policy.Mistake) finding {
	return finding{m.Line, m.Column, m.Path, id, m.Message}
}

// Run checks every file and fails where one is refused.
func (c *checkCommand) Run(io streams) error {
	all := make([]checked, 0, len(c.Files))
	failed := false
	for _, file := range c.Files {
		one, err := check(file)
		if err != nil {
			return err
		}
		failed = failed || !one.OK || c.WarningsAsErrors && len(one.Warnings) > 0
		all = append(all, one)
	}
	if err := c.print(io.out, all); err != nil {
		return err
	}
	if failed {
		return errFailed
	}
	return nil
}

// check reads one file. Its error is that the file cannot be read.
func check(file string) (checked, error) {
	result := checked{File: file, Mistakes: []finding{}, Warnings: []finding{}}
	set, err := policy.Load(file)
	if errors.As(err, &result.refused) {
		for _, m := range result.refused.Mistakes {
			result.Mistakes = append(result.Mistakes, newFinding("", m))
		}
		return result, nil
	}
	if err != nil {
		return checked{}, err
	}
	result.OK, result.set = true, set
	result.Rules = len(set.Rules()) - 1 // without the one for all other names
	for _, w := range set.Warnings() {
		result.Warnings = append(result.Warnings, newFinding(w.ID, w.Mistake))
	}
	return result, nil
}

func (c *checkCommand) print(w io.Writer, all []checked) error {
	switch c.Output {
	case "json":
		return writeJSON(w, all)
	case "sarif":
		return writeJSON(w, newSARIF(all))
	case "github":
		return printAnnotations(w, all)
	}
	for _, one := range all {
		printChecked(w, one)
	}
	return nil
}

func printChecked(w io.Writer, one checked) {
	if !one.OK {
		fmt.Fprint(w, one.refused.Excerpts())
		fmt.Fprintf(w, "%s: refused, %s\n", one.File, plural(len(one.Mistakes), "mistake"))
		return
	}
	for _, warning := range one.set.Warnings() {
		fmt.Fprint(w, warning.InContext())
	}
	also := ""
	if n := len(one.Warnings); n > 0 {
		also = ", " + plural(n, "warning")
	}
	fmt.Fprintf(w, "%s: good, %s%s\n", one.File, plural(one.Rules, "rule"), also)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
