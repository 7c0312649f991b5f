package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/retrydecider/decider/internal/budget"
)

// tracing sends spans where the standard variables of OpenTelemetry say. Its zero
// value does nothing.
type tracing struct {
	provider    *sdktrace.TracerProvider
	propagators propagation.TextMapPropagator
}

// wantsTraces says whether the variables ask for traces. By OpenTelemetry's
// defaults they would be sent to this machine without being asked for; decider
// sends none until an endpoint or the exporter is named. An error is why none can
// be sent although they are asked for.
func wantsTraces(getenv func(string) string) (bool, error) {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	named := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && !named:
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is otlp or none, not %q", exporter)
	}
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("decider speaks http/protobuf alone, and OTEL_EXPORTER_OTLP_PROTOCOL is %q", protocol)
	}
	return true, nil
}

// startTracing begins to send spans, where the variables ask for that. The other
// variables (sampler, headers, attributes of the resource) are heeded by the
// libraries. What is wrong with them is a warning, as OpenTelemetry wants it: they
// are often set for a whole fleet, and decide nothing.
func startTracing(ctx context.Context, getenv func(string) string, log *slog.Logger) tracing {
	wants, err := wantsTraces(getenv)
	var client *otlp
	if wants {
		client, err = newOTLP(getenv)
	}
	if err != nil {
		log.Warn("no traces are sent", "error", err)
	}
	if err != nil || !wants {
		return tracing{}
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("a variable of OpenTelemetry is wrong", "error", err) }))
	t := tracing{propagators: propagators(getenv("OTEL_PROPAGATORS"))}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "decider"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		otel.Handle(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)) // all else of it is there
	}
	unsent := &seldom{log: log, message: "traces cannot be sent", every: time.Minute}
	client.unsent = unsent.warn
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(otlptrace.NewUnstarted(client)), sdktrace.WithResource(about))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(unsent.warn)) // from here on it is the exporter's
	log.Info("traces are sent", "to", client.host)
	return t
}

// propagators are those of the list that are known, and of no list OpenTelemetry's
// defaults. What is not known is told and passed over.
func propagators(list string) propagation.TextMapPropagator {
	var chosen []propagation.TextMapPropagator
	none := false
	for name := range strings.SplitSeq(list, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "":
		case "none":
			none = true
		case "tracecontext":
			chosen = append(chosen, propagation.TraceContext{})
		case "baggage":
			chosen = append(chosen, propagation.Baggage{})
		default:
			otel.Handle(fmt.Errorf("OTEL_PROPAGATORS: decider knows tracecontext, baggage and none, not %q", name))
		}
	}
	if chosen == nil && !none {
		chosen = []propagation.TextMapPropagator{propagation.TraceContext{}, propagation.Baggage{}}
	}
	return propagation.NewCompositeTextMapPropagator(chosen...)
}

// handler makes a span of each request of the API, which goes on from the
// traceparent that came with it. Health, metrics and pages are asked too often to
// be traced.
func (t tracing) handler(next http.Handler) http.Handler {
	if t.provider == nil {
		return next
	}
	return otelhttp.NewHandler(next, "decider", otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(t.propagators),
		otelhttp.WithFilter(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }))
}

// redis makes a span of each call to Redis that a request waits for, without its
// arguments.
func (t tracing) redis(client redis.UniversalClient) error {
	if t.provider == nil {
		return nil
	}
	return redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(requested{TracerProvider: t.provider}), redisotel.WithDBStatement(false))
}

// carry is nil where there are no traces.
func (t tracing) carry() budget.Carry {
	if t.provider == nil {
		return nil
	}
	return carrySpans
}

// flushTimeout bounds how long a stop waits for the collector.
const flushTimeout = 2 * time.Second

// flush sends what is still to be sent.
func (t tracing) flush(log *slog.Logger) {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Warn("the last traces were not sent", "error", err)
	}
}
