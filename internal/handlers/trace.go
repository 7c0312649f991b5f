package handlers

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrydecider/decider/internal/decide"
)

// nameSpan tells the span of a request its route, which whoever began the span
// did not know.
func nameSpan(c echo.Context) {
	span := trace.SpanFromContext(requestContext(c))
	if !span.IsRecording() || c.Path() == "" {
		return
	}
	span.SetName(knownMethod(c.Request().Method) + " " + c.Path())
	span.SetAttributes(attribute.String("http.route", c.Path()))
}

// traceDecision keeps what was decided with the span of its request: as an event,
// since a batch decides many times. The caller's identity and the raw headers of
// the attempt are not among it.
func traceDecision(ctx context.Context, d *decide.Decision) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent("decision", trace.WithAttributes(
		attribute.String("decider.dependency", d.Dependency),
		attribute.String("decider.decision", d.Word()),
		attribute.String("decider.reason", d.Reason.String()),
		attribute.Int64("decider.delay_ms", d.Delay),
		attribute.String("decider.policy", d.Policy),
		attribute.String("decider.decision_id", d.DecisionID),
		attribute.Bool("decider.degraded", d.Degraded),
	))
}

// logAccess logs some of the requests that need a role, and how many it did not
// since the last; never their query or a header.
func (s *server) logAccess(c echo.Context, now time.Time, took time.Duration) {
	if s.AccessLog == 0 || roleOf[callOf(c.Request().Method, c.Path())] == open || !s.Log.Enabled(requestContext(c), slog.LevelInfo) {
		return
	}
	skipped, ok := s.accesses.next(now, time.Second/time.Duration(s.AccessLog))
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", knownMethod(c.Request().Method)), slog.String("route", c.Path()), slog.Int("status", c.Response().Status),
		slog.Float64("took_ms", float64(took.Microseconds())/1e3), slog.String("from", c.RealIP()), slog.Int64("not_logged_before", skipped),
	}
	if name := nameIfKnown(c); name != "" {
		attrs = append(attrs, slog.String("identity", name))
	}
	if span := trace.SpanContextFromContext(requestContext(c)); span.IsValid() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	s.Log.LogAttrs(requestContext(c), slog.LevelInfo, "a request was answered", attrs...)
}
