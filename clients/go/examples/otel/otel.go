// Package otel shows every failed attempt and what was decided in OpenTelemetry:
// as an event of the call's span, and as a counter by dependency, decision and reason.
//
// With [NewHTTPClient] decider's own spans, and what it asked Redis, are in the
// call's trace as well:
//
//	client, err := decider.NewClient(url, decider.WithHTTPClient(otel.NewHTTPClient()))
//	…
//	transport, err := otel.NewTransport(client, tracer, meter)
package otel

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	decider "github.com/retrydecider/decider/clients/go"
)

// NewHTTPClient is for decider.WithHTTPClient. The client's own sends no
// traceparent, since it knows of the standard library alone; this one makes a span
// of each question, and decider goes on from that.
func NewHTTPClient(opts ...otelhttp.Option) *http.Client {
	opts = append([]otelhttp.Option{otelhttp.WithPropagators(propagation.TraceContext{})}, opts...)
	return &http.Client{Transport: otelhttp.NewTransport(&http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, // in an outage many ask at once
	}, opts...)}
}

// NewObserver makes an observer for decider.WithObserver.
func NewObserver(meter metric.Meter) (decider.Observer, error) {
	failed, err := meter.Int64Counter("decider.client.failed_attempts",
		metric.WithDescription("Failed attempts of calls, by what was decided."), metric.WithUnit("{attempt}"))
	if err != nil {
		return nil, err
	}
	return decider.ObserverFunc(func(ctx context.Context, e decider.Event) {
		d := &e.Decision
		// Few values each: a counter with the decision's id would have a series for each call.
		failed.Add(ctx, 1, metric.WithAttributes(
			attribute.String("decider.dependency", e.Dependency), attribute.Bool("decider.retry", d.Retry),
			attribute.String("decider.reason", string(d.Reason)), attribute.Bool("decider.local", d.Local),
		))
		trace.SpanFromContext(ctx).AddEvent("failed attempt", trace.WithAttributes(append(ending(&e),
			attribute.String("decider.dependency", e.Dependency), attribute.Int("http.request.resend_count", e.Attempt-1),
			attribute.Bool("decider.retry", d.Retry), attribute.String("decider.reason", string(d.Reason)),
			attribute.Int64("decider.delay_ms", d.Delay.Milliseconds()), attribute.Bool("decider.degraded", d.Degraded),
			attribute.Bool("decider.local", d.Local), attribute.String("decider.decision_id", d.DecisionID),
		)...))
	}), nil
}

// ending is how the attempt ended, in OpenTelemetry's own words.
func ending(e *decider.Event) []attribute.KeyValue {
	if e.Status != 0 {
		return []attribute.KeyValue{attribute.Int("http.response.status_code", e.Status), attribute.String("http.request.method", e.Method)}
	}
	return []attribute.KeyValue{attribute.String("error.type", string(e.Outcome)), attribute.String("http.request.method", e.Method)}
}

// NewTransport is a Transport whose calls are spans, with an event for each
// failed attempt. A base of otelhttp.NewTransport adds a span for each attempt.
func NewTransport(client *decider.Client, tracer trace.Tracer, meter metric.Meter, opts ...decider.TransportOption) (http.RoundTripper, error) {
	observer, err := NewObserver(meter)
	if err != nil {
		return nil, err
	}
	return &spans{tracer, decider.NewTransport(client, append(opts, decider.WithObserver(observer))...)}, nil
}

type spans struct {
	tracer trace.Tracer
	next   http.RoundTripper
}

// RoundTrip makes the call within a span.
func (s *spans) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := s.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	return s.next.RoundTrip(r.WithContext(ctx))
}
