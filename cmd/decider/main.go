// Command decider answers, for a whole fleet, the question that follows a
// failed call: retry or give up, and after how long?
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is stamped by the build.
var version = "dev"

// Exit codes: 1 says that the answer is bad, 2 that the question was.
const (
	exitFailed = 1
	exitMisuse = 2
)

// commands is the command line. Every flag is also a variable DECIDER_….
type commands struct {
	Serve       serveCommand       `cmd:"" help:"Answer over HTTP. Without any flag: on 127.0.0.1:8080, state in memory, built-in policy."`
	Check       checkCommand       `cmd:"" help:"Check policy files; every mistake is named at file:line:column."`
	Test        testCommand        `cmd:"" help:"Run the cases beside policy files: attempts, and what is expected of them."`
	Explain     explainCommand     `cmd:"" help:"Explain what would be decided for one failed attempt, question by question. Spends nothing."`
	Simulate    simulateCommand    `cmd:"" help:"Play a fleet, a dependency and an outage in virtual time, with the code that decides in production."`
	Gen         genCommand         `cmd:"" help:"Write what others need to watch decider: a dashboard, alerts."`
	Replay      replayCommand      `cmd:"" help:"Put a decision log to another policy: which decisions flip, the budget over time, the load that is saved."`
	Key         keyCommand         `cmd:"" help:"Make keys for those who ask."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running decider whether it is ready; exits 1 where it is not."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// streams are what a command reads and writes: results on out, all else on err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// errFailed ends a command that has already said why.
var errFailed = errors.New("failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, io streams) int {
	exit := -1
	parser, err := kong.New(&commands{}, kong.Name("decider"), kong.DefaultEnvars("DECIDER"), kong.UsageOnError(),
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
		kong.Description("Retry or give up, and after how long? One answer for the whole fleet."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(io.out, io.err), kong.Exit(func(code int) { exit = code }),
		kong.Vars{"version": version})
	if err != nil {
		fmt.Fprintln(io.err, "decider:", err)
		return exitMisuse
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	line, err := parser.Parse(args)
	if exit >= 0 { // help has been printed
		return exit
	}
	if err != nil {
		fmt.Fprintf(io.err, "decider: %v\n", err)
		fmt.Fprintln(io.err, "decider --help lists the commands, decider COMMAND --help a command's flags")
		return exitMisuse
	}
	line.BindTo(ctx, (*context.Context)(nil))
	return exitCode(line.Run(io), io)
}

// decodePath reads the name of a file. An empty one, as of a variable that is set to
// nothing, is none; kong's own would take it for the working directory.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("file", &path); err != nil {
		return err
	}
	if path != "" {
		path = kong.ExpandPath(path)
	}
	target.SetString(path)
	return nil
}

// misuse is an error in how a command was called.
type misuse struct{ error }

func exitCode(err error, io streams) int {
	var wrong misuse
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFailed):
		return exitFailed
	case errors.As(err, &wrong):
		fmt.Fprintln(io.err, "decider:", err)
		return exitMisuse
	}
	fmt.Fprintln(io.err, "decider:", err)
	return exitFailed
}

// versionCommand prints the version.
type versionCommand struct {
	Output string `enum:"text,json" default:"text" help:"text or json."`
}

// Run prints it.
func (c *versionCommand) Run(io streams) error {
	if c.Output == "json" {
		return writeJSON(io.out, map[string]string{"version": version})
	}
	fmt.Fprintln(io.out, "decider", version)
	return nil
}
