package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrydecider/decider/internal/policy"
)

// serveCommand answers over HTTP.
type serveCommand struct {
	Listen         string        `default:"127.0.0.1:8080" help:"Address to listen on."`
	AllowAnonymous bool          `help:"Listen on an address that others can reach though nobody has to say who they are."`
	Policies       string        `type:"path" placeholder:"FILE" help:"Policy file; without one the built-in policy holds for every dependency."`
	Store          string        `enum:"memory,redis," default:"" help:"Where the fleet's state is kept: memory, of this process, or redis. Default: redis where a URL is given."`
	RedisURL       string        `name:"redis-url" placeholder:"URL" help:"redis://user:password@host:6379/0, rediss:// for TLS; with ?master_name=NAME&addr=… Sentinel, with ?cluster=true&addr=… Cluster."`
	StoreTimeout   time.Duration `default:"50ms" help:"Bound of every question to the store; when it has passed a local rule answers."`
	StoreClock     string        `enum:"redis,local" default:"redis" help:"The fleet's clock: Redis TIME, or local where a host forbids that in scripts."`
	Replicas       int           `default:"1" help:"How many deciders share the store, until they know each other."`
	Seed           *uint32       `placeholder:"N" help:"Make every draw reproducible (mulberry32)."`
	ShutdownDelay  time.Duration `default:"0s" help:"How long to go on answering, not ready, after SIGTERM; 5s where a load balancer needs that."`
	DecisionLog    string        `placeholder:"FILE" help:"Write every decision and every reported outcome to this file, a line of JSON each; - is standard output. SIGHUP opens it anew."`
	LogFormat      string        `enum:"text,json" default:"text" help:"text or json, on standard error."`
	LogLevel       slog.Level    `default:"INFO" help:"DEBUG, INFO, WARN or ERROR."`
}

// Bounds of one connection; nobody holds one open for nothing.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 15 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 16 << 10
	drainTimeout  = 10 * time.Second
)

// Run serves until the context ends, then drains.
func (c *serveCommand) Run(ctx context.Context, io streams) error {
	if err := c.check(); err != nil {
		return misuse{err}
	}
	log := newLogger(io.err, c.LogFormat, c.LogLevel)
	policies, err := openPolicies(c.Policies, io.err)
	if err != nil {
		return err
	}
	// The listener opens first: a port that is taken ends the start at once.
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	store := storeConfig{redisURL: c.RedisURL, timeout: c.StoreTimeout, localClock: c.StoreClock == "local", replicas: c.Replicas}
	a, err := newApp(policies, store, newChance(c.Seed), log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := a.openDecisions(ctx, c.DecisionLog, log); err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info("decider answers", "address", "http://"+listener.Addr().String(), "version", version, "policies", policies.Set().Source(), "config", policies.Set().Hash(), "store", c.store())
	policies.LogWarnings(log)
	go policies.Watch(ctx, hangups(ctx), log)
	return c.serve(ctx, a, listener, log)
}

// check refuses flags that contradict each other.
func (c *serveCommand) check() error {
	switch {
	case c.Store == "redis" && c.RedisURL == "":
		return errors.New("--store redis needs --redis-url")
	case c.Store == "memory" && c.RedisURL != "":
		return errors.New("--store memory and --redis-url contradict each other")
	case c.StoreTimeout <= 0:
		return fmt.Errorf("--store-timeout must be above 0, not %s", c.StoreTimeout)
	case c.Replicas < 1:
		return fmt.Errorf("--replicas must be at least 1, not %d", c.Replicas)
	case c.ShutdownDelay < 0:
		return fmt.Errorf("--shutdown-delay must not be negative: %s", c.ShutdownDelay)
	}
	return c.checkAddress()
}

// checkAddress lets only this machine in, unless the operator says otherwise:
// whoever can report can spend every budget.
func (c *serveCommand) checkAddress() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen must be host:port: %w", err)
	}
	ip := net.ParseIP(host)
	if c.AllowAnonymous || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("refusing to listen on %s: others can reach it and nobody has to say who they are; say --allow-anonymous if that is meant", c.Listen)
}

func (c *serveCommand) store() string {
	if c.RedisURL != "" {
		return "redis"
	}
	return "memory"
}

// serve answers until the context ends: not ready first, then drained.
func (c *serveCommand) serve(ctx context.Context, a *app, listener net.Listener, log *slog.Logger) error {
	server := &http.Server{
		Handler: a.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(func() { close(a.draining) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	notify("READY=1", log)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	a.stopping.Store(true)
	notify("STOPPING=1", log)
	log.Info("decider stops", "answers_for", c.ShutdownDelay, "then_drains_for_at_most", drainTimeout)
	time.Sleep(c.ShutdownDelay)
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	a.close(drain)
	return err
}

// hangups asks for a reload at every SIGHUP.
func hangups(ctx context.Context) <-chan struct{} {
	signals, again := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				select {
				case again <- struct{}{}:
				case <-ctx.Done():
				}
			}
		}
	}()
	return again
}

// openPolicies reads the policy file; a refused one is printed with every mistake.
func openPolicies(file string, w io.Writer) (*policy.Live, error) {
	policies, err := policy.Open(file, time.Now)
	var wrong *policy.Error
	if errors.As(err, &wrong) {
		fmt.Fprint(w, wrong.Excerpts())
		fmt.Fprintf(w, "%s: refused, %s\n", file, plural(len(wrong.Mistakes), "mistake"))
		return nil, errFailed
	}
	return policies, err
}

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// healthcheckCommand asks a running decider whether it is ready.
type healthcheckCommand struct {
	Listen  string        `default:"127.0.0.1:8080" help:"Address that decider listens on."`
	Timeout time.Duration `default:"2s" help:"How long to wait for the answer."`
}

// Run fails where the answer is not 200. An address that means every interface
// is asked on this machine's own.
func (c *healthcheckCommand) Run(ctx context.Context, io streams) error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return misuse{fmt.Errorf("--listen must be host:port: %w", err)}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return misuse{err}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", response.Status)
	}
	fmt.Fprintln(io.out, "ready")
	return nil
}
