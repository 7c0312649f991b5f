package otel_test

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	decider "github.com/retrydecider/decider/clients/go"
	"github.com/retrydecider/decider/clients/go/examples/internal/standin"
	"github.com/retrydecider/decider/clients/go/examples/otel"
)

func TestEveryRetryIsSeen(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	tracer := provider.Tracer("test")
	reader := metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")

	d := standin.Start(t, 3, decider.WithHTTPClient(otel.NewHTTPClient(otelhttp.WithTracerProvider(provider))))
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

	ended := spans.Ended() // the three questions, and the call
	if len(ended) != 4 || len(ended[3].Events()) != 3 {
		t.Fatalf("spans %+v", ended)
	}
	call := ended[3].SpanContext()
	for i, question := range d.Questions() {
		span := ended[i].SpanContext()
		if ended[i].Parent().SpanID() != call.SpanID() || question.Traceparent != "00-"+call.TraceID().String()+"-"+span.SpanID().String()+"-01" {
			t.Errorf("question %d came with %q", i+1, question.Traceparent)
		}
	}
	last := attribute.NewSet(ended[3].Events()[2].Attributes...)
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
