package handlers

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what this package tells Prometheus of requests; counters.go has
// what it tells of decisions, and states.go of the fleet's state.
type metrics struct {
	refused   *prometheus.CounterVec
	durations *prometheus.HistogramVec
	handler   http.Handler

	byRoute sync.Map // of a route to its prometheus.Observer
}

// route is what a request's duration is told apart by. The scheme is that of the
// connection: what a proxy says of the client's, the client can say too.
type route struct {
	method, path string
	status       int
	tls          bool
}

func (r route) scheme() string {
	if r.tls {
		return "https"
	}
	return "http"
}

func newMetrics(registry *prometheus.Registry, version string) (*metrics, error) {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decider_requests_refused_total",
			Help: "Requests that were not let in, by why: unidentified, role, dependency, cross_site, handshake (of TLS), rate, concurrent (limits of the identity) or overloaded (the limit of this replica). Items of a batch or a report are not among them."}, []string{"why"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_server_request_duration_seconds",
			Help:    "Time from a request's header to the end of its answer.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}},
			[]string{"http_request_method", "http_route", "http_response_status_code", "url_scheme"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "decider_build_info",
		Help: "Always 1; the labels tell the version."}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	for _, each := range []prometheus.Collector{m.refused, m.durations, build} {
		if err := registry.Register(each); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	for _, word := range refusalWords {
		m.refused.WithLabelValues(word)
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: registry})
	return m, nil
}

// measure times every request. The answer to an error is written here, so that
// its status is known.
func (s *server) measure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begun := s.Now()
		nameSpan(c)
		if err := next(c); err != nil {
			c.Error(err)
		}
		took := s.Now().Sub(begun)
		s.metrics.observer(c).Observe(took.Seconds())
		s.logAccess(c, begun.Add(took), took)
		return nil
	}
}

func (m *metrics) observer(c echo.Context) prometheus.Observer {
	r := route{knownMethod(c.Request().Method), c.Path(), c.Response().Status, c.Request().TLS != nil}
	if r.path == "" {
		r.path = otherLabel
	}
	if observer, ok := m.byRoute.Load(r); ok {
		return observer.(prometheus.Observer)
	}
	made := m.durations.WithLabelValues(r.method, r.path, strconv.Itoa(r.status), r.scheme())
	observer, _ := m.byRoute.LoadOrStore(r, made)
	return observer.(prometheus.Observer)
}

// knownMethod keeps clients from making labels of methods; the word for the
// others is OpenTelemetry's.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "_OTHER"
}

// GetMetrics answers GET /metrics.
func (s *server) GetMetrics(c echo.Context) error {
	if s.HideMetrics {
		return echo.ErrNotFound
	}
	c.Response().Header()["Cache-Control"] = noStore
	s.metrics.handler.ServeHTTP(c.Response(), c.Request())
	return nil
}
