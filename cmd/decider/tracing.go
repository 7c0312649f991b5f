package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// tracing sends spans where the standard variables of OpenTelemetry say. Its zero
// value does nothing.
type tracing struct{ provider *sdktrace.TracerProvider }

// wantsTraces says whether the variables ask for traces. By OpenTelemetry's
// defaults they would be sent to this machine without being asked for; decider
// sends none until an endpoint or the exporter is named.
func wantsTraces(getenv func(string) string) (bool, error) {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	named := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch {
	case getenv("OTEL_SDK_DISABLED") == "true", exporter == "none", exporter == "" && !named:
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is otlp or none, not %q", exporter)
	}
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf, not %q", protocol)
	}
	return true, nil
}

// startTracing begins to send spans, where the variables ask for that. The other
// variables (sampler, headers, attributes of the resource) are heeded by the
// libraries.
func startTracing(ctx context.Context, getenv func(string) string, log *slog.Logger) (tracing, error) {
	if wants, err := wantsTraces(getenv); err != nil || !wants {
		return tracing{}, err
	}
	client, err := newOTLP(getenv)
	if err != nil {
		return tracing{}, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return tracing{}, fmt.Errorf("exporter of traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "decider"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return tracing{}, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces cannot be sent", "error", err) }))
	t := tracing{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))}
	log.Info("traces are sent")
	return t, nil
}

// handler makes a span of each request, which goes on from the traceparent that
// came with it. Health and metrics are asked too often to be traced.
func (t tracing) handler(next http.Handler) http.Handler {
	if t.provider == nil {
		return next
	}
	return otelhttp.NewHandler(next, "decider", otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/livez" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics"
		}))
}

// redis makes a span of each call to Redis, without its arguments.
func (t tracing) redis(client redis.UniversalClient) error {
	if t.provider == nil || client == nil {
		return nil
	}
	return redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(t.provider), redisotel.WithDBStatement(false))
}

// close sends what is still to be sent, no longer than the context lasts.
func (t tracing) close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}
