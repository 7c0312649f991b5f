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
	Files  []string `arg:"" name:"file" help:"Policy files."`
	Output string   `enum:"text,json" default:"text" help:"text or json."`
}

// checked is what is said of one file.
type checked struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Rules    int       `json:"rules"`
	Mistakes []mistake `json:"mistakes"`
}

// mistake is one mistake in JSON; path is the JSON pointer of what is wrong.
type mistake struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Run checks every file and fails where one is refused.
func (c *checkCommand) Run(io streams) error {
	refused := false
	all := make([]checked, 0, len(c.Files))
	for _, file := range c.Files {
		set, err := policy.Load(file)
		result := checked{File: file, OK: err == nil, Mistakes: []mistake{}}
		var wrong *policy.Error
		switch {
		case err == nil:
			result.Rules = len(set.Rules()) - 1 // without the one for all other names
		case errors.As(err, &wrong):
			for _, m := range wrong.Mistakes {
				result.Mistakes = append(result.Mistakes, mistake{m.Line, m.Column, m.Path, m.Message})
			}
		default:
			return err
		}
		refused = refused || !result.OK
		all = append(all, result)
		if c.Output == "text" {
			printChecked(io, result, wrong)
		}
	}
	if c.Output == "json" {
		if err := writeJSON(io.out, all); err != nil {
			return err
		}
	}
	if refused {
		return errFailed
	}
	return nil
}

func printChecked(io streams, result checked, wrong *policy.Error) {
	if result.OK {
		fmt.Fprintf(io.out, "%s: good, %s\n", result.File, plural(result.Rules, "rule"))
		return
	}
	fmt.Fprint(io.out, wrong.Excerpts())
	fmt.Fprintf(io.out, "%s: refused, %s\n", result.File, plural(len(result.Mistakes), "mistake"))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
