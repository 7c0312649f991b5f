package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/retrydecider/decider/internal/handlers"
	"github.com/retrydecider/decider/internal/identity"
)

// admin is what the admin listener serves: profiles, the log's level, metrics.
type admin struct {
	door    *identity.Door // nil: nobody has to say who they are
	level   *slog.LevelVar
	app     *app
	log     *slog.Logger
	records *slog.Logger
}

// handler serves /debug/pprof/, GET and PUT of /log-level to operators, and
// /metrics and /livez to everybody who reaches the listener.
func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.app.metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, // and no cmdline: it may hold the password of a Redis
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		"GET /log-level": a.showLevel, "PUT /log-level": a.setLevel,
	} {
		mux.Handle(path, a.operators(handler))
	}
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.refused(r, handlers.WhyCrossSite, "", "")
		http.Error(w, "a page of another site sent the request", http.StatusForbidden)
	}))
	return sameSite.Handler(mux)
}

// refused counts a request that was not let in, and tells the log of it.
func (a *admin) refused(r *http.Request, why, identity, cause string) {
	_, route, _ := strings.Cut(r.Pattern, "/") // "GET /log-level", and "" for a request that has met no route
	a.app.api.Refused(r.Context(), handlers.Refusal{Why: why, From: hostOf(r), Method: r.Method, Route: "/" + route, Identity: identity, Cause: cause})
}

func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
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
			a.refused(r, handlers.WhyUnidentified, "", err.Error())
			w.Header().Add("WWW-Authenticate", `Bearer realm="decider"`)
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case !who.Has(identity.Operate):
			a.refused(r, handlers.WhyRole, who.Name(), "")
			http.Error(w, "the role operate is needed", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operator{}, who.Name())))
		}
	})
}

// operator is the key of who asks in a request's context.
type operator struct{}

// author is who asks.
func author(r *http.Request) string {
	if name, ok := r.Context().Value(operator{}).(string); ok {
		return name
	}
	return identity.Anonymous.Name()
}

func (a *admin) showLevel(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, a.level.Level()) }

// longestLevel is more than any level has letters.
const longestLevel = 64

// levels are those that can be set; slog also reads INFO+1.
var levels = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// setLevel takes DEBUG, INFO, WARN or ERROR as the body.
func (a *admin) setLevel(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, longestLevel))
	var level slog.Level
	if err == nil {
		err = level.UnmarshalText([]byte(strings.TrimSpace(string(body))))
	}
	if err != nil || !slices.Contains(levels, level) {
		http.Error(w, "the body must be DEBUG, INFO, WARN or ERROR", http.StatusUnprocessableEntity)
		return
	}
	a.records.Warn("log level changed", "before", a.level.Level().String(), "now", level.String(), "author", author(r), "from", hostOf(r))
	a.level.Set(level)
	fmt.Fprintln(w, level)
}

// server is one for the admin listener: a profile takes as long as is asked for.
func (a *admin) server() *http.Server {
	return &http.Server{Handler: a.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: 2 * time.Minute,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes, ErrorLog: a.app.api.ServerLog()}
}
