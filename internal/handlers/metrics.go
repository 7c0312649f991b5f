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

	"github.com/retrydecider/decider/internal/decide"
)

// otherLabel stands for every dependency that the policy file does not name
// exactly, so that clients cannot make labels.
const otherLabel = "_other"

// labelOf is the label of a dependency under the rule that matched it.
func labelOf(dependency, policy string) string {
	if dependency == policy {
		return dependency
	}
	return otherLabel
}

// metrics are what this package tells Prometheus.
type metrics struct {
	decisions, malformed, degraded, outcomes *prometheus.CounterVec
	refused, deposits, spent                 *prometheus.CounterVec
	firsts, asked, granted                   *prometheus.CounterVec
	durations                                *prometheus.HistogramVec
	handler                                  http.Handler

	byLabel sync.Map // of a dependency's label to its *counters
	byRoute sync.Map // of a route to its prometheus.Observer
}

// route is what a request's duration is told apart by.
type route struct {
	method, path string
	status       int
}

func newMetrics(registry *prometheus.Registry, version string) (*metrics, error) {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decider_decisions_total",
			Help: "Decisions, by dependency, decision and reason."}, []string{"dependency", "decision", "reason"}),
		malformed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decider_retry_after_malformed_total",
			Help: "Attempts whose Retry-After, or what stands for it, could not be read."}, []string{"dependency"}),
		degraded: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decider_degraded_decisions_total",
			Help: "Decisions that a local rule made while the fleet's state was out of reach."}, []string{"dependency"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decider_outcomes_total",
			Help: "Calls reported without a decision, by dependency and outcome."}, []string{"dependency", "outcome"}),
		firsts: dependencyCounter("decider_first_attempts_total",
			"First attempts: those that were reported as outcomes and those whose failure was brought to decide."),
		asked: dependencyCounter("decider_retries_asked_total",
			"Retries that clients would have made by themselves: attempts brought to decide, but those that had not failed, were canceled or failed for good (not_retryable)."),
		granted: dependencyCounter("decider_retries_granted_total",
			"Retries that were granted; one that is asked for again by its decision_id counts once. First attempts and these are the load that a dependency gets; first attempts and the retries asked for what it would get without decider."),
		deposits: dependencyCounter("decider_budget_deposits_total",
			"Calls reported as outcomes that deposited the policy's ratio of a token. Under deposit_on: request failed first attempts that are brought to decide deposit too; they are in decider_first_attempts_total."),
		spent: dependencyCounter("decider_budget_spent_tokens_total", "Tokens that granted retries took from budgets."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decider_requests_refused_total",
			Help: "Requests that were not let in, by why: unidentified, role, dependency, cross_site, handshake (of TLS), rate, concurrent (limits of the identity) or overloaded (the limit of this replica). Items of a batch or a report are not among them."}, []string{"why"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_server_request_duration_seconds",
			Help:    "Time from a request's header to the end of its answer.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}},
			[]string{"http_request_method", "http_route", "http_response_status_code"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "decider_build_info",
		Help: "Always 1; the labels tell the version."}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	for _, each := range []prometheus.Collector{m.decisions, m.malformed, m.degraded, m.outcomes, m.refused, m.firsts, m.asked, m.granted, m.deposits, m.spent, m.durations, build} {
		if err := registry.Register(each); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: registry})
	return m, nil
}

// dependencyCounter makes a counter by dependency.
func dependencyCounter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"dependency"})
}

// counters are those of one label, kept so that a decision looks up one name.
type counters struct {
	reasons                                 [reasonCount]prometheus.Counter
	malformed, degraded                     prometheus.Counter
	firsts, asked, granted, deposits, spent prometheus.Counter
}

func (m *metrics) decided(a *decide.Attempt, d *decide.Decision) {
	c := m.counters(labelOf(d.Dependency, d.Policy))
	c.reasons[d.Reason].Inc()
	if d.Degraded {
		c.degraded.Inc()
	}
	if d.Replayed { // the attempt was counted, and the retry paid for, when it was granted
		return
	}
	if a.Number <= 1 {
		c.firsts.Inc()
	}
	switch d.Reason {
	case decide.ReasonNotAFailure, decide.ReasonCanceled, decide.ReasonNotRetryable: // nobody would have repeated it
	default:
		c.asked.Inc()
	}
	if d.Retry() {
		c.granted.Inc()
		if d.Budget.Asked {
			c.spent.Add(tokens(d.Budget.Cost))
		}
	}
	if d.ServerDelayUse == decide.DelayMalformed {
		c.malformed.Inc()
	}
}

func (m *metrics) counters(label string) *counters {
	if known, ok := m.byLabel.Load(label); ok {
		return known.(*counters)
	}
	made := &counters{
		malformed: m.malformed.WithLabelValues(label), degraded: m.degraded.WithLabelValues(label),
		firsts: m.firsts.WithLabelValues(label), asked: m.asked.WithLabelValues(label), granted: m.granted.WithLabelValues(label),
		deposits: m.deposits.WithLabelValues(label), spent: m.spent.WithLabelValues(label),
	}
	for _, reason := range decide.Reasons() {
		word := (&decide.Decision{Reason: reason}).Word()
		made.reasons[reason] = m.decisions.WithLabelValues(label, word, reason.String())
	}
	known, _ := m.byLabel.LoadOrStore(label, made)
	return known.(*counters)
}

func (m *metrics) reported(label string, o *decide.Outcome) {
	m.counters(label).firsts.Add(float64(o.FirstTrySuccesses + o.FinalFailures))
	calls := o.FirstTrySuccesses + o.RetrySuccesses
	if o.Policy.Budget.DepositOnRequest {
		calls += o.FinalFailures
	}
	if !o.Policy.Budget.Off {
		m.counters(label).deposits.Add(float64(calls))
	}
	for _, each := range []struct {
		outcome string
		calls   int64
	}{
		{"first_try_success", o.FirstTrySuccesses},
		{"retry_success", o.RetrySuccesses},
		{"final_failure", o.FinalFailures},
	} {
		if each.calls > 0 {
			m.outcomes.WithLabelValues(label, each.outcome).Add(float64(each.calls))
		}
	}
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
	r := route{knownMethod(c.Request().Method), c.Path(), c.Response().Status}
	if r.path == "" {
		r.path = otherLabel
	}
	if observer, ok := m.byRoute.Load(r); ok {
		return observer.(prometheus.Observer)
	}
	made := m.durations.WithLabelValues(r.method, r.path, strconv.Itoa(r.status))
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
