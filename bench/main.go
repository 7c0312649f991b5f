// Command bench measures decider beside its peers and against what the machine
// can do, all of it on loopback, in one run.
//
//	bench peers      decider, a bare echo handler, envoyproxy/ratelimit and gubernator in turn
//	bench growth     what decisions cost as connections, dependencies, callers, rules and replicas grow
//	bench layers     Go's benchmarks of each layer
//	bench echo       the bare handler alone
//
// Numbers of different runs are not compared: another run is another machine.
// Within one run the servers take turns, several rounds of them, the bare handler
// twice in each, so that its two numbers show how far the machine is to be
// believed. wrk makes the load and shares the processors with who is measured.
//
// servers.go starts what is measured, load.go runs wrk, peers.go and growth.go
// have the order of events, goals.go what must be reached, page.go and picture.go
// what is told of it.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options are the flags of every command.
type options struct {
	decider, ratelimit, gubernator string
	seconds, rounds                int
	address, out, page             string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("say peers, growth, layers or echo, then its flags")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.decider, "decider", "bin/decider", "the decider to measure")
	flags.StringVar(&o.ratelimit, "ratelimit", "", "envoyproxy/ratelimit's service; none: it is left out")
	flags.StringVar(&o.gubernator, "gubernator", "", "gubernator; none: it is left out")
	flags.IntVar(&o.seconds, "seconds", 2, "how long each server is asked in each round")
	flags.IntVar(&o.rounds, "rounds", 3, "how many rounds")
	flags.StringVar(&o.address, "address", "127.0.0.1:8081", "echo: where to listen")
	flags.StringVar(&o.out, "out", ".cache/bench", "directory for what was measured: JSON and a picture")
	flags.StringVar(&o.page, "page", "", "a Markdown page whose part between the marks is written anew")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "echo":
		return serveBareEcho(ctx, o.address)
	case "peers":
		return inScratch(ctx, &o, peers)
	case "growth":
		return inScratch(ctx, &o, growth)
	case "layers":
		return layers(ctx, &o)
	}
	return errUsage
}

//go:embed scripts/decide.lua
var decideLua []byte

// inScratch runs a measurement with a directory of its own, and ends what it
// has started.
func inScratch(ctx context.Context, o *options, measure func(context.Context, *options, *lab) error) error {
	for _, binary := range []*string{&o.decider, &o.ratelimit, &o.gubernator} {
		if *binary == "" {
			continue
		}
		whole, err := filepath.Abs(*binary)
		if err != nil {
			return err
		}
		*binary = whole
	}
	dir, err := os.MkdirTemp("", "decider-bench-")
	if err != nil {
		return err
	}
	l := &lab{dir: dir, options: o}
	defer l.close()
	if err := os.WriteFile(l.script(), decideLua, 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	return measure(ctx, o, l)
}
