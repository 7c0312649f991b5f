package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/retrydecider/decider/internal/policy"
	"github.com/retrydecider/decider/internal/watch"
)

// serveCommand answers over HTTP.
type serveCommand struct {
	Listen string `default:"127.0.0.1:8080" help:"Address to listen on."`
	identityFlags
	AdminListen   string        `placeholder:"ADDRESS" help:"Second address, for operators: /debug/pprof/, /log-level (GET, PUT), /metrics."`
	Metrics       string        `enum:"public,admin" default:"public" help:"Where /metrics is: public, at --listen (and at --admin-listen), or at --admin-listen alone."`
	MaxConcurrent int64         `default:"4096" help:"How many requests are answered at once; more are told 503 and to ask again."`
	Policies      string        `type:"path" placeholder:"FILE" help:"Policy file; without one the built-in policy holds for every dependency."`
	Store         string        `enum:"memory,redis," default:"" help:"Where the fleet's state is kept: memory, of this process, or redis. Default: redis where a URL is given."`
	RedisURL      string        `name:"redis-url" placeholder:"URL" help:"redis://user:password@host:6379/0, rediss:// for TLS; with ?master_name=NAME&addr=… Sentinel, with ?cluster=true&addr=… Cluster."`
	StoreTimeout  time.Duration `default:"50ms" help:"Bound of every question to the store; when it has passed a local rule answers."`
	StoreClock    string        `enum:"redis,local" default:"redis" help:"The fleet's clock: Redis TIME, or local where a host forbids that in scripts."`
	Replicas      int           `default:"1" help:"How many deciders share the store, until they know each other."`
	Seed          *uint32       `placeholder:"N" help:"Make every draw reproducible (mulberry32)."`
	ShutdownDelay time.Duration `default:"0s" help:"How long to go on answering, not ready, after SIGTERM; 5s where a load balancer needs that."`
	DecisionLog   string        `placeholder:"FILE" help:"Write every decision and every reported outcome to this file, a line of JSON each; - is standard output. SIGHUP opens it anew."`
	AccessLog     int           `default:"1" placeholder:"N" help:"How many requests a second are logged at INFO; 0: none. Health, metrics and pages never are."`
	LogFormat     string        `enum:"text,json" default:"text" help:"text or json, on standard error."`
	LogLevel      slog.Level    `default:"INFO" help:"DEBUG, INFO, WARN or ERROR."`
}

// Bounds of one connection; nobody holds one open for nothing.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 15 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 16 << 10
	drainTimeout  = 10 * time.Second
	// lastWords is what of drainTimeout is kept for what is still to be told and to
	// be logged, however slow those are who read their answers.
	lastWords = 2 * time.Second
)

// Run serves until the context ends, then drains.
func (c *serveCommand) Run(ctx context.Context, io streams) error {
	if err := c.check(); err != nil {
		return misuse{err}
	}
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	log, records := newLogger(io.err, c.LogFormat, level)
	policyFile := watch.Begin(c.Policies) // before it is read, so that no change is missed
	policies, err := openPolicies(c.Policies, io.err)
	if err != nil {
		return err
	}
	guard, err := c.open(io.err)
	if err != nil {
		return err
	}
	traces := startTracing(ctx, os.Getenv, log)
	defer traces.flush(log)
	// The listeners open first: a port that is taken ends the start at once.
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	adminListener, err := c.listenAdmin()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	store := storeConfig{redisURL: c.RedisURL, timeout: c.StoreTimeout, localClock: c.StoreClock == "local", replicas: c.Replicas}
	a, err := newApp(policies, store, newChance(c.Seed), log, appConfig{
		guard: *guard, tracing: traces, records: records, maxConcurrent: c.MaxConcurrent, accessLog: c.AccessLog, hideMetrics: c.Metrics == "admin",
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := a.openDecisions(c.DecisionLog, log); err != nil {
		return errors.Join(err, listener.Close())
	}
	collectSeldom(os.Getenv)
	go policyFile.Run(ctx, hangups(ctx), log, func(asked bool) { policies.ReloadAndLog(log, asked) })
	guard.watch(ctx, log)
	// From here on a SIGHUP is heard, and not the end of the process.
	log.Info("decider answers", "address", guard.scheme()+"://"+listener.Addr().String(), "version", version, "policies", policies.Set().Source(), "config", policies.Set().Hash(), "store", c.store(), "memory_limit", heedMemory("", os.Getenv))
	policies.LogWarnings(log)
	guard.warn(listener.Addr(), log)
	go a.fleet.Watch(ctx)
	if adminListener != nil {
		defer c.serveAdmin(adminListener, &admin{guard.door, level, a, log, records}, guard)()
	}
	return c.serve(ctx, a, guard.listen(listener), log)
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
	case c.Metrics == "admin" && c.AdminListen == "":
		return errors.New("--metrics admin needs --admin-listen")
	case c.MaxConcurrent < 1:
		return fmt.Errorf("--max-concurrent must be at least 1, not %d", c.MaxConcurrent)
	case c.AccessLog < 0:
		return fmt.Errorf("--access-log must not be negative: %d", c.AccessLog)
	}
	if c.AdminListen != "" {
		if err := c.checkAddress("--admin-listen", c.AdminListen); err != nil {
			return err
		}
	}
	return errors.Join(c.identityFlags.check(), c.checkAddress("--listen", c.Listen))
}

// listenAdmin opens the second address, nil where there is none.
func (c *serveCommand) listenAdmin() (net.Listener, error) {
	if c.AdminListen == "" {
		return nil, nil
	}
	return net.Listen("tcp", c.AdminListen)
}

// serveAdmin serves the second address, until what it returns is called.
func (c *serveCommand) serveAdmin(l net.Listener, a *admin, g *guard) (end func()) {
	server := a.server()
	a.log.Info("operators are answered", "admin_address", g.scheme()+"://"+l.Addr().String())
	go func() {
		if err := server.Serve(g.listen(l)); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the admin listener has ended", "error", err)
		}
	}()
	return func() { _ = server.Close() } // whoever still reads a profile is cut off
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
		MaxHeaderBytes: headerBytes, ErrorLog: a.api.ServerLog(),
	}
	server.RegisterOnShutdown(func() { close(a.draining) })
	connections := countConnections(server)
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
	log.Info("decider stops", "answers_for_ms", c.ShutdownDelay.Milliseconds(), "then_drains_for_at_most_ms", drainTimeout.Milliseconds())
	time.Sleep(c.ShutdownDelay)
	end, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	err := drain(end, lastWords, server, connections, log)
	a.close(end)
	return err
}

// drain answers whom the server has, and cuts off who is not done when no more than
// kept is left until the end: one slow reader is no failure of the stop.
func drain(end context.Context, kept time.Duration, server *http.Server, connections *atomic.Int64, log *slog.Logger) error {
	deadline, _ := end.Deadline()
	patient, cancel := context.WithDeadline(end, deadline.Add(-kept))
	defer cancel()
	err := server.Shutdown(patient)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	log.Warn("connections were cut off, for their answers were not read or their requests not sent in time", "connections", connections.Load())
	_ = server.Close() // its error is that of a connection that is gone
	return nil
}

// countConnections keeps count of a server's open connections.
func countConnections(server *http.Server) *atomic.Int64 {
	count := new(atomic.Int64)
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			count.Add(1)
		case http.StateClosed, http.StateHijacked:
			count.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	return count
}

// hangups asks for a reload at every SIGHUP until the context ends. The signal is
// caught for longer, to the end of the process: a rotation of logs that falls into
// a restart must not end it before it has drained.
func hangups(ctx context.Context) <-chan struct{} {
	signals, again := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
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

// newLogger makes the program's log, and a second one on the same lines for records
// of what was done and who was refused, which no level silences.
func newLogger(w io.Writer, format string, level slog.Leveler) (log, records *slog.Logger) {
	var every slog.Handler = slog.NewTextHandler(w, nil)
	if format == "json" {
		every = slog.NewJSONHandler(w, nil)
	}
	return slog.New(fromLevel{every, level}), slog.New(every)
}

// fromLevel is a handler that takes what has a level, or is above it.
type fromLevel struct {
	slog.Handler
	level slog.Leveler
}

// Enabled is for [slog.Handler].
func (h fromLevel) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs is for [slog.Handler].
func (h fromLevel) WithAttrs(attrs []slog.Attr) slog.Handler {
	return fromLevel{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup is for [slog.Handler].
func (h fromLevel) WithGroup(name string) slog.Handler {
	return fromLevel{h.Handler.WithGroup(name), h.level}
}

// healthcheckCommand asks a running decider whether it is ready.
type healthcheckCommand struct {
	Listen  string        `default:"127.0.0.1:8080" help:"Address that decider listens on."`
	TLSCert string        `name:"tls-cert" placeholder:"FILE" help:"The --tls-cert of that decider: it is asked by HTTPS."`
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
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return misuse{err}
	}
	// The certificate is for the names that callers use, not for this machine's own
	// address, and nothing secret is said: as a kubelet, this does not check it.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
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
