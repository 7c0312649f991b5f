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

// traceDecision keeps what was decided with the span of its request. The caller's
// identity and the raw headers of the attempt are not among it.
func traceDecision(ctx context.Context, d *decide.Decision) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(decisionAttributes(d)...)
	}
}

// maxItemSpans bounds the spans of one batch: the first items have them.
const maxItemSpans = 100

// traceBatch tells the span of a batch how many items it has. It says when they
// began, zero where there is no span.
func traceBatch(ctx context.Context, items int, now func() time.Time) (begun time.Time) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return time.Time{}
	}
	span.SetAttributes(attribute.Int("decider.items", items))
	return now()
}

// traceItem makes a span of a batch's item, below that of the request.
func traceItem(ctx context.Context, i int, begun time.Time, d *decide.Decision) {
	if begun.IsZero() || i >= maxItemSpans {
		return
	}
	_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/retrydecider/decider").Start(ctx, "decision",
		trace.WithTimestamp(begun), trace.WithAttributes(decisionAttributes(d)...), trace.WithAttributes(attribute.Int("decider.item", i)))
	span.End()
}

func decisionAttributes(d *decide.Decision) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("decider.dependency", d.Dependency),
		attribute.String("decider.decision", d.Word()),
		attribute.String("decider.reason", d.Reason.String()),
		attribute.Int64("decider.delay_ms", d.Delay),
		attribute.String("decider.policy", d.Policy),
		attribute.String("decider.decision_id", d.DecisionID),
		attribute.Bool("decider.degraded", d.Degraded),
	}
}

// logAccess logs some of the requests that need a role, and how many it did not
// since the last; never their query or a header.
func (s *server) logAccess(c echo.Context, now time.Time, took time.Duration) {
	if s.AccessLog == 0 || roleOf[callOf(c.Request().Method, c.Path())] == open || !s.Log.Enabled(requestContext(c), slog.LevelInfo) {
		return
	}
	skipped, ok := s.accesses.Next(now, time.Second/time.Duration(s.AccessLog))
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
