package policytest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes a suite for people: the tests that failed with what differs, then
// what no test has touched. trace tells every question of a failed attempt.
func (s *Suite) Print(w io.Writer, trace bool) error {
	for i := range s.Tests {
		if len(s.Tests[i].Failed) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s:%d: FAIL: %s\n%s", s.File, s.Tests[i].Line, s.Tests[i].Name, s.Tests[i].text(s.File, trace)); err != nil {
			return err
		}
	}
	for _, u := range s.Untouched {
		if _, err := fmt.Fprintf(w, "%s:%d: untouched: %s\n", s.Policies, u.Line, u.text()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %d tests, %d failed; %d of %d rules touched\n", s.File, len(s.Tests), s.Failed(), s.Touched, s.Rules)
	return err
}

func (u *Untouched) text() string {
	if u.Word == "" {
		return "rule " + u.Rule
	}
	return u.Rule + ": " + u.Word + ": " + u.Because
}

// text is what differs, member by member.
func (r *Result) text(file string, trace bool) string {
	var b strings.Builder
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "  %s:%d: ", file, f.Line)
		if f.Time > 1 {
			fmt.Fprintf(&b, "time %d: ", f.Time)
		}
		fmt.Fprintf(&b, "%s\n", f.Attempt)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, d := range f.Differ {
			fmt.Fprintf(table, "    %s\texpected %s\tgot %s\n", d.Member, d.Expected, d.Got)
		}
		_ = table.Flush() // a builder takes everything
		fmt.Fprintf(&b, "    it answered: %s\n", f.Message)
		if trace {
			for _, line := range f.Trace {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
	}
	return b.String()
}

// The parts of JUnit's XML that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes suites as JUnit does.
func WriteJUnit(w io.Writer, suites []*Suite) error {
	var all junitSuites
	for _, s := range suites {
		one := junitSuite{Name: s.File, Tests: len(s.Tests), Failures: s.Failed()}
		for i := range s.Tests {
			t := &s.Tests[i]
			c := junitCase{Name: t.Name, Class: s.Policies, File: s.File, Line: t.Line}
			if len(t.Failed) > 0 {
				c.Failure = &junitFailure{fmt.Sprintf("%s is not what was expected", t.Failed[0].Differ[0].Member), t.text(s.File, true)}
			}
			one.Cases = append(one.Cases, c)
		}
		all.Tests, all.Failures = all.Tests+one.Tests, all.Failures+one.Failures
		all.Suites = append(all.Suites, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
