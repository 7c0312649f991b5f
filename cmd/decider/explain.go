package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// explainCommand explains one decision, in this process or at a server.
type explainCommand struct {
	Attempt  string        `arg:"" optional:"" help:"The failed attempt in JSON, as POST /v1/decide takes it; - reads standard input."`
	Policies string        `type:"path" placeholder:"FILE" help:"Policy file to decide by, in this process."`
	Server   string        `placeholder:"URL" help:"Ask a running decider instead, with the fleet's state as it is."`
	Preset   string        `placeholder:"NAME" help:"Print in plain words what a built-in preset means instead, its source and what it cannot say."`
	Presets  bool          `help:"List the built-in presets instead."`
	KeyFile  string        `type:"path" placeholder:"FILE" help:"With --server: a file with the key to say who asks (role read)."`
	Classes  bool          `help:"Print the class of every failure instead."`
	For      string        `default:"default" placeholder:"DEPENDENCY" help:"With --classes: the dependency whose policy is printed."`
	Seed     *uint32       `placeholder:"N" help:"Make every draw reproducible (mulberry32)."`
	Timeout  time.Duration `default:"5s" help:"How long to wait for a server."`
	Output   string        `enum:"text,json" default:"text" help:"text or json."`
}

// Run explains.
func (c *explainCommand) Run(ctx context.Context, io streams) error {
	switch {
	case c.Classes:
		return c.printClasses(io)
	case c.Presets:
		return c.listPresets(io)
	case c.Preset != "":
		return c.printPreset(io)
	}
	body, err := c.body(io.in)
	if err != nil {
		return err
	}
	status, answer, err := c.ask(ctx, body, io)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		_, err = fmt.Fprintln(io.out, strings.TrimSpace(string(answer)))
	} else if status == http.StatusOK {
		err = printExplanation(io.out, answer)
	}
	if err == nil && status != http.StatusOK {
		return c.refused(status, answer, io)
	}
	return err
}

// body is the attempt as it was given.
func (c *explainCommand) body(in io.Reader) ([]byte, error) {
	switch {
	case c.Server != "" && c.Policies != "":
		return nil, misuse{errors.New("--server decides by its own policies: leave --policies out")}
	case c.Attempt == "":
		return nil, misuse{errors.New(`an attempt is needed, such as '{"dependency":"payments","method":"GET","status":503}', or --classes, --preset or --presets`)}
	case c.Attempt == "-":
		return io.ReadAll(in)
	}
	return []byte(c.Attempt), nil
}

// ask posts the attempt to a server, or to a handler of this process, so that
// both read it alike.
func (c *explainCommand) ask(ctx context.Context, body []byte, io streams) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	base := c.Server
	if base == "" {
		base = "http://decider"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(base, "/")+"/v1/explain", bytes.NewReader(body))
	if err != nil {
		return 0, nil, misuse{err}
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Server != "" {
		if err := c.sign(request); err != nil {
			return 0, nil, err
		}
		return post(request)
	}
	policies, err := openPolicies(c.Policies, io.err)
	if err != nil {
		return 0, nil, err
	}
	a, err := newApp(policies, storeConfig{}, newChance(c.Seed), slog.New(slog.DiscardHandler), appConfig{})
	if err != nil {
		return 0, nil, err
	}
	defer a.close(ctx)
	recorder := httptest.NewRecorder()
	a.handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.Bytes(), nil
}

// sign says who asks. The key is in a file, for others can see a command's flags.
func (c *explainCommand) sign(request *http.Request) error {
	if c.KeyFile == "" {
		return nil
	}
	key, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	return nil
}

// longestAnswer bounds what is read of a server's answer.
const longestAnswer = 1 << 20

func post(request *http.Request) (status int, answer []byte, err error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	return response.StatusCode, answer, err
}

// refused tells a problem in lines.
func (c *explainCommand) refused(status int, answer []byte, io streams) error {
	var problem gen.Problem
	if json.Unmarshal(answer, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the server answered %d: %.200s", status, answer)
	}
	fmt.Fprintf(io.err, "decider: %s\n", problem.Detail)
	if problem.Errors != nil {
		for _, e := range *problem.Errors {
			fmt.Fprintf(io.err, "  %s %s\n", e.Field, e.Detail)
		}
	}
	return errFailed
}

func printExplanation(w io.Writer, answer []byte) error {
	var e gen.Explanation
	if err := json.Unmarshal(answer, &e); err != nil {
		return fmt.Errorf("an answer that is none: %w", err)
	}
	fmt.Fprintf(w, "%s (%s)\n%s\n\n", e.Decision, e.Reason, e.Message)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, step := range e.Trace {
		fmt.Fprintf(table, "%d\t%s\t%s\n", step.Step, step.Question, step.Answer)
	}
	return table.Flush()
}

// classed is one row of the table of classes.
type classed struct {
	Failure string `json:"failure"`
	Class   string `json:"class"`
	Kind    string `json:"kind"`
	Repeat  string `json:"repeat"`
	Once    bool   `json:"once"`
	// OnlyWithWait: final unless a readable wait came along.
	OnlyWithWait bool `json:"only_with_retry_after"`
}

// printClasses prints the whole table that holds for a dependency.
func (c *explainCommand) printClasses(io streams) error {
	policies, err := openPolicies(c.Policies, io.err)
	if err != nil {
		return err
	}
	p, _, err := policies.Find(c.For)
	if err != nil {
		return fmt.Errorf("%s: %w", c.For, err)
	}
	rows := classTable(p)
	if c.Output == "json" {
		return writeJSON(io.out, rows)
	}
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "FAILURE\tCLASS\tKIND\tWHO MAY REPEAT IT\n")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Failure, r.Class, r.Kind, r.Repeat)
	}
	return table.Flush()
}

func classTable(p *decide.Policy) []classed {
	var rows []classed
	for _, f := range decide.Failures() {
		class := p.Classes.Of(f, true)
		row := classed{Failure: f.String(), Class: class.String(), Kind: f.Kind().String(), Once: f.OneShot(), OnlyWithWait: p.Classes.OnlyWithWait(f)}
		row.Repeat = whoRepeats(p, class, row)
		rows = append(rows, row)
	}
	return rows
}

func whoRepeats(p *decide.Policy, class decide.Class, row classed) string {
	who := "nobody"
	switch {
	case class == decide.NeverSent, class == decide.Ambiguous && p.Repeat.Any:
		who = "any method"
	case class == decide.Ambiguous && len(p.Repeat.Methods) > 0:
		who = strings.Join(p.Repeat.Methods, ", ") + ", or a key"
	case class == decide.Ambiguous:
		who = "an idempotent method, or a key"
	default:
		return who
	}
	if row.Once {
		who += ", once"
	}
	if row.OnlyWithWait {
		who += ", where a readable Retry-After came along"
	}
	return who
}
