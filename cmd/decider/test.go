package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrydecider/decider/internal/handlers"
	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/policytest"
)

// testCommand runs the cases beside policy files.
type testCommand struct {
	Files    []string `arg:"" name:"file" help:"Files of cases, such as policies.test.yaml; a policy file stands for the cases beside it."`
	Policies string   `placeholder:"FILE" help:"The policy file to test, whatever the cases name."`
	JUnit    string   `name:"junit" placeholder:"FILE" help:"Write the results as JUnit's XML too."`
	Trace    bool     `help:"Tell every question of an attempt that fails."`
	Output   string   `enum:"text,json" default:"text" help:"text or json."`
}

// Run runs every test and fails where one does.
func (c *testCommand) Run(io streams) error {
	suites := make([]*policytest.Suite, 0, len(c.Files))
	failed := false
	for _, file := range c.Files {
		suite, err := c.suite(casesBeside(file))
		if err != nil {
			return tellMistakes(err, io)
		}
		failed = failed || suite.Failed() > 0
		suites = append(suites, suite)
	}
	if err := c.print(suites, io); err != nil {
		return err
	}
	if failed {
		return errFailed
	}
	return nil
}

// casesBeside is the file of cases that a file stands for: its own, or that
// beside a policy file.
func casesBeside(file string) string {
	ext := filepath.Ext(file)
	stem := strings.TrimSuffix(file, ext)
	if strings.HasSuffix(stem, casesMark) {
		return file
	}
	if beside := stem + casesMark + ext; isFile(beside) {
		return beside
	}
	return file
}

const casesMark = ".test"

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

func (c *testCommand) suite(file string) (*policytest.Suite, error) {
	cases, err := policy.LoadCases(file, wrongAttempt, wrongOutcome)
	if err != nil {
		return nil, err
	}
	set, err := policy.Load(c.policies(file, cases))
	if err != nil {
		return nil, err
	}
	return policytest.Run(file, cases, set, policytest.Contract{
		ReadAttempt: handlers.ReadAttempt, ReadOutcome: handlers.ReadOutcome, AppendDecision: handlers.AppendDecision,
	})
}

// policies is the policy file that cases test.
func (c *testCommand) policies(file string, cases *policy.Cases) string {
	switch {
	case c.Policies != "":
		return c.Policies
	case cases.Policies != "" && filepath.IsAbs(cases.Policies):
		return cases.Policies
	case cases.Policies != "":
		return filepath.Join(filepath.Dir(file), cases.Policies)
	}
	ext := filepath.Ext(file)
	return strings.TrimSuffix(strings.TrimSuffix(file, ext), casesMark) + ext
}

// wrongAttempt is what the contract finds wrong with an attempt.
func wrongAttempt(body []byte) []policy.FormError {
	_, err := handlers.ReadAttempt(body)
	return formErrors(err)
}

func wrongOutcome(body []byte) []policy.FormError {
	_, _, err := handlers.ReadOutcome(body)
	return formErrors(err)
}

func formErrors(err error) (list []policy.FormError) {
	if err == nil {
		return nil
	}
	for _, f := range handlers.WrongFields(err) {
		list = append(list, policy.FormError{Pointer: f.Field, Detail: f.Detail})
	}
	if list == nil {
		list = []policy.FormError{{Detail: err.Error()}}
	}
	return list
}

// tellMistakes prints a refused file's mistakes as check does.
func tellMistakes(err error, io streams) error {
	var refused *policy.Error
	if !errors.As(err, &refused) {
		return err
	}
	fmt.Fprint(io.err, refused.Excerpts())
	fmt.Fprintf(io.err, "%s: refused, %s\n", refused.Mistakes[0].File, plural(len(refused.Mistakes), "mistake"))
	return errFailed
}

func (c *testCommand) print(suites []*policytest.Suite, io streams) error {
	if c.JUnit != "" {
		if err := writeJUnit(c.JUnit, suites); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return writeJSON(io.out, suites)
	}
	for _, suite := range suites {
		if err := suite.Print(io.out, c.Trace); err != nil {
			return err
		}
	}
	return nil
}

func writeJUnit(path string, suites []*policytest.Suite) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(policytest.WriteJUnit(file, suites), file.Close())
}
