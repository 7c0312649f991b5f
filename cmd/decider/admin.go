package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/retrydecider/decider/internal/identity"
)

// admin is what the admin listener serves: profiles, the log's level, metrics.
type admin struct {
	door    *identity.Door // nil: nobody has to say who they are
	level   *slog.LevelVar
	metrics *prometheus.Registry
	log     *slog.Logger
}

// handler serves /debug/pprof/, GET and PUT of /log-level to operators, and
// /metrics and /livez to everybody who reaches the listener.
func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, // and no cmdline: it may hold the password of a Redis
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		"GET /log-level": a.showLevel, "PUT /log-level": a.setLevel,
	} {
		mux.Handle(path, a.operators(handler))
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

// operators lets in those who have the role operate.
func (a *admin) operators(next http.Handler) http.Handler {
	if a.door == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.door.Identify(r)
		switch {
		case err != nil:
			w.Header().Add("WWW-Authenticate", `Bearer realm="decider"`)
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case !who.Has(identity.Operate):
			http.Error(w, "the role operate is needed", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (a *admin) showLevel(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, a.level.Level()) }

// longestLevel is more than any level has letters.
const longestLevel = 64

// setLevel takes DEBUG, INFO, WARN or ERROR as the body.
func (a *admin) setLevel(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, longestLevel))
	var level slog.Level
	if err == nil {
		err = level.UnmarshalText([]byte(strings.TrimSpace(string(body))))
	}
	if err != nil {
		http.Error(w, "the body must be DEBUG, INFO, WARN or ERROR", http.StatusUnprocessableEntity)
		return
	}
	before := a.level.Level()
	a.level.Set(level)
	a.log.Warn("log level changed", "before", before.String(), "now", level.String(), "from", r.RemoteAddr)
	fmt.Fprintln(w, level)
}

// server is one for the admin listener: a profile takes as long as is asked for.
func (a *admin) server() *http.Server {
	return &http.Server{Handler: a.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: 2 * time.Minute,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)}
}
