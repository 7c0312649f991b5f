package main

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/retrydecider/decider/internal/policy"
)

// printAnnotations writes findings as the commands that a GitHub workflow shows
// at their lines.
func printAnnotations(w io.Writer, all []checked) error {
	for _, one := range all {
		for _, group := range []struct {
			level    string
			findings []finding
		}{{"error", one.Mistakes}, {"warning", one.Warnings}} {
			for _, f := range group.findings {
				_, err := fmt.Fprintf(w, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", group.level, inProperty.Replace(one.File), f.Line, f.Column, inProperty.Replace(titleOf(f)), inMessage.Replace(f.Message))
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// What a workflow command cannot hold as it is.
var (
	inMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func titleOf(f finding) string {
	if f.ID == "" {
		return "decider check"
	}
	return "decider check: " + f.ID
}

// The parts of SARIF 2.1.0 (OASIS) that a code scanner shows.
type (
	sarif struct {
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		// ColumnKind: a column is one character.
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		PhysicalLocation struct {
			ArtifactLocation struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region struct {
				StartLine   int `json:"startLine"`
				StartColumn int `json:"startColumn"`
			} `json:"region"`
		} `json:"physicalLocation"`
	}
)

// mistakeRule is the id of every mistake: a file with one is refused whole.
const mistakeRule = "refused"

func newSARIF(all []checked) sarif {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "decider check", Version: version,
		Rules: []sarifRule{{mistakeRule, sarifText{"a mistake, for which the file is refused"}}}}
	for _, kind := range policy.WarningKinds {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{kind.ID, sarifText{kind.About}})
	}
	for _, one := range all {
		for _, f := range one.Mistakes {
			run.Results = append(run.Results, newSARIFResult(one.File, mistakeRule, "error", f))
		}
		for _, f := range one.Warnings {
			run.Results = append(run.Results, newSARIFResult(one.File, f.ID, "warning", f))
		}
	}
	return sarif{Version: "2.1.0", Runs: []sarifRun{run}}
}

func newSARIFResult(file, rule, level string, f finding) sarifResult {
	var at sarifLocation
	uri := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		uri.Scheme = "file"
	}
	at.PhysicalLocation.ArtifactLocation.URI = uri.String()
	at.PhysicalLocation.Region.StartLine, at.PhysicalLocation.Region.StartColumn = f.Line, f.Column
	return sarifResult{RuleID: rule, Level: level, Message: sarifText{f.Message}, Locations: []sarifLocation{at}}
}
