package otel_test

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/retrydecider/decider/clients/go/examples/internal/standin"
	"github.com/retrydecider/decider/clients/go/examples/otel"
)

func TestEveryRetryIsSeen(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	reader := metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")

	d := standin.Start(t, 3)
	url, _ := standin.Dependency(t, 503, 502, 500)
	transport, err := otel.NewTransport(d.Client, tracer, meter)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()

	ended := spans.Ended()
	if len(ended) != 1 || len(ended[0].Events()) != 3 {
		t.Fatalf("spans %+v", ended)
	}
	last := attribute.NewSet(ended[0].Events()[2].Attributes...)
	for key, want := range map[attribute.Key]attribute.Value{
		"http.response.status_code": attribute.IntValue(500),
		"http.request.resend_count": attribute.IntValue(2),
		"decider.retry":             attribute.BoolValue(false),
		"decider.reason":            attribute.StringValue("attempts_exhausted"),
	} {
		if got, _ := last.Value(key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	sum, ok := metrics.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64])
	if !ok || len(sum.DataPoints) != 2 {
		t.Errorf("metrics %+v", metrics)
	}
}
