// Package handlers is HTTP in and HTTP out: the contract of api/openapi.yaml
// over package decide.
//
// A request to decide goes down one line and comes back one line: body.go reads
// it within its bound, reader.go and attempt.go turn it into a decide.Attempt in
// one pass and name every wrong field, decide.go asks, decision.go writes the
// answer. That path uses no reflection; the other calls speak in the generated
// models, which convert.go fills. problem.go alone chooses the status of
// everything that is not an answer.
//
// The package holds no state of the fleet and no policies; it counts what it
// answered (tally.go, counters.go, metrics.go). echo is named here and nowhere else.
package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/identity"
	"github.com/retrydecider/decider/internal/trial"
)

// Decider answers failed attempts; [decide.Decider] is the one.
type Decider interface {
	Decide(ctx context.Context, a *decide.Attempt) (decide.Decision, error)
	DecideAll(ctx context.Context, attempts []*decide.Attempt, answered func(i int, d decide.Decision, err error))
	Explain(ctx context.Context, a *decide.Attempt, t *decide.Trace) (decide.Decision, error)
}

// Policies are the policies in force. They may change between two calls.
type Policies interface {
	// Find returns the rule of a dependency and the name of its bucket, or
	// [decide.ErrUnknownDependency].
	Find(dependency string) (p *decide.Policy, bucket string, err error)
	// Peek is Find for whoever only looks.
	Peek(dependency string) (p *decide.Policy, bucket string, err error)
	// Rules lists the rules of the policy file, patterns included.
	Rules() []*decide.Policy
}

// Fleet is what the calls beside decide need of the fleet's state. Where the
// shared state is out of reach it answers by a local rule; an override alone
// fails then, because a replica cannot stop the others.
type Fleet interface {
	// Bounded bounds all that a request asks of the store by one timeout.
	Bounded(ctx context.Context) (context.Context, context.CancelFunc)
	// Report counts an outcome and returns the state after it.
	Report(ctx context.Context, o *decide.Outcome) decide.State
	// State returns the state of a bucket as it concerns the caller; "" is the
	// unnamed one.
	State(ctx context.Context, bucket string, p *decide.Policy, caller string) decide.State
	// SetOverride sets an override for o.ExpiresIn ms, or lifts it where its
	// mode is OverrideNone, and returns the state after it. An error says that
	// the store did not say so in time.
	SetOverride(ctx context.Context, bucket string, p *decide.Policy, o decide.Override) (decide.State, error)
}

// Status is the state of this replica.
type Status struct {
	// StartedAt is when the process started.
	StartedAt time.Time
	Policies  PoliciesStatus
	Store     StoreStatus
	// Replicas are those that share the store, this one among them.
	Replicas []Replica
}

// Replica is one decider of the fleet.
type Replica struct {
	ID, Version string
	// Config is the hash of its policies.
	Config string
	// Since is when it started.
	Since time.Time
	// Self: it is this one.
	Self bool
}

// PoliciesStatus tells of the policies in force.
type PoliciesStatus struct {
	// Hash is the same where the policies are.
	Hash string
	// AppliedAt is since when they are in force.
	AppliedAt time.Time
	// Source is the file they came from, or "built-in".
	Source string
	// Refused is why the file as it is now was refused and these stayed in
	// force; "": it was not.
	Refused string
	// RefusedAt is when.
	RefusedAt time.Time
	// ReloadedAt is when the file was read last after the start, zero where it
	// never was; Taken and Refusals count what became of it.
	ReloadedAt      time.Time
	Taken, Refusals int64
	// Warnings is how much of what the policies say is legal and unwise.
	Warnings int
}

// StoreStatus tells of the store of the fleet's state.
type StoreStatus struct {
	// Kind is "memory" or "redis".
	Kind string
	// Degraded: it is out of reach and a local rule answers.
	Degraded bool
	// Since is when it came to be so.
	Since time.Time
	// Means is what that means for decisions.
	Means string
	// MaxmemoryPolicy is what Redis does when its memory is full; "": unknown.
	MaxmemoryPolicy string
}

// Config is what the handlers stand on. Decider, Policies, Fleet and Status
// must be set.
type Config struct {
	Decider  Decider
	Policies Policies
	Fleet    Fleet
	Status   func() Status
	// Door knows who asks. nil: nobody has to say who they are.
	Door *identity.Door
	// LoopbackOnly: nobody has to, because only this machine reaches the listener. So
	// pages that came to it by another name than a loopback one are refused.
	LoopbackOnly bool
	// MaxConcurrent is how many requests are answered at once, streams and open calls
	// aside. 0: [DefaultMaxConcurrent].
	MaxConcurrent int64
	// AccessLog is how many requests a second are logged, open calls aside. 0: none.
	AccessLog int
	// HideMetrics: /metrics is 404, because it is served elsewhere.
	HideMetrics bool
	// Ready says whether the process takes requests, false while it shuts down.
	// nil: always.
	Ready func() bool
	// Stopping is closed when the process is about to end; what would never end by
	// itself ends then. nil: it never is.
	Stopping <-chan struct{}
	// Console finds the page for operators, and below /console/ what it loads; ok is
	// false where there is nothing. nil: there is no console.
	Console func(path string) (h http.Handler, ok bool)
	// Trials tells what candidates and rules in shadow would have done. nil: nothing.
	Trials *trial.Book
	// Decided hears of every decision, on the path of the request: it must not wait
	// for anything, and what it is given is good until it returns. nil: nobody does.
	Decided func(at time.Time, a *decide.Attempt, d *decide.Decision)
	// Reported hears of every outcome that was counted, under the same terms.
	Reported func(at time.Time, dependency string, o *decide.Outcome)
	// Metrics is where the handlers register their metrics, and what /metrics
	// shows. nil: a registry of their own.
	Metrics *prometheus.Registry
	// Version of the program; "": "unknown".
	Version string
	// PolicySchema is the JSON Schema of the policy file. nil: 404.
	PolicySchema []byte
	// Log takes what no client is told. nil: nothing is logged.
	Log *slog.Logger
	// Records takes what is kept whatever the level of Log: overrides and refusals.
	// nil: Log.
	Records *slog.Logger
	// Now is the clock by which requests are timed. nil: time.Now.
	Now func() time.Time
}

// DefaultMaxConcurrent is how many requests are answered at once where nothing
// else is said: more than a replica can have in hand while it keeps its time, so
// that it is met only when something is wrong.
const DefaultMaxConcurrent = 4096

var errIncomplete = errors.New("handlers: Decider, Policies, Fleet and Status must be set")

// API is the handler of every call of the contract.
type API struct {
	http.Handler
	refusals *refusals
	log      *slog.Logger
}

// New makes the handler of every call of the contract. Its errors are a Config
// that lacks something, or a registry that has these metrics already.
func New(config Config) (*API, error) {
	if config.Decider == nil || config.Policies == nil || config.Fleet == nil || config.Status == nil {
		return nil, errIncomplete
	}
	config.setDefaults()
	m, err := newMetrics(config.Metrics, config.Version)
	if err != nil {
		return nil, err
	}
	s := &server{Config: config, metrics: m, counters: &dependencyCounters{policies: config.Policies, since: config.Now()}, tally: newTally(), ring: new(ring)}
	s.refusals = &refusals{count: m.refused, log: config.Records, now: config.Now}
	for _, each := range []prometheus.Collector{s.counters, &states{server: s}} {
		if err := config.Metrics.Register(each); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	s.run = strconv.FormatInt(config.Now().UnixNano(), 36)
	s.pulse = &pulse{every: beatEvery, newBeat: s.newBeat}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect() // echo's default believes the client's X-Forwarded-For
	e.HTTPErrorHandler = s.answerError
	e.Use(s.measure, s.recover, s.admit)
	routes := withHead{e}
	gen.RegisterHandlers(routes, s)
	routes.GET("/docs/:file", s.docsFile)
	routes.GET("/console/*", s.GetConsole)
	routes.asTyped(s)
	for _, r := range e.Routes() {
		if _, known := roleOf[callOf(r.Method, r.Path)]; !known {
			return nil, fmt.Errorf("handlers: %s %s has no role", r.Method, r.Path)
		}
	}
	return &API{e, s.refusals, config.Log}, nil
}

func (c *Config) setDefaults() {
	if c.Ready == nil {
		c.Ready = func() bool { return true }
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = DefaultMaxConcurrent
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Records == nil {
		c.Records = c.Log
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// server implements the generated interface, one method for each call.
type server struct {
	Config
	metrics  *metrics
	counters *dependencyCounters
	tally    *tally
	ring     *ring
	pulse    *pulse
	// run names this process in the ids of events.
	run string
	// under is how many requests are under way.
	under    atomic.Int64
	refusals *refusals
	accesses Sampler
}

var _ gen.ServerInterface = (*server)(nil)

// withHead serves HEAD wherever there is a GET (RFC 9110 §9.1).
type withHead struct{ *echo.Echo }

func (r withHead) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	r.HEAD(path, h, m...)
	return r.Echo.GET(path, h, m...)
}
