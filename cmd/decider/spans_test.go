package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestPropagators(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"":                       {"traceparent", "tracestate", "baggage"},
		"tracecontext":           {"traceparent", "tracestate"},
		"Baggage ,":              {"baggage"},
		"none":                   nil,
		"b3":                     {"traceparent", "tracestate", "baggage"},
		"b3,tracecontext,jaeger": {"traceparent", "tracestate"},
	} {
		got, want := propagators(list).Fields(), slices.Sorted(slices.Values(want))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q takes %v, want %v", list, got, want)
		}
	}
	seen := propagators("none").Extract(t.Context(), propagation.HeaderCarrier(http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}))
	if trace.SpanContextFromContext(seen).IsValid() {
		t.Error("none has taken a traceparent")
	}
}

func spanOf(n byte, sampled bool) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}, TraceFlags: trace.TraceFlags(0).WithSampled(sampled)})
}

// A call has the first sampled of those who wait above it, and links to the
// others; a call of calls those of all.
func TestCarrySpans(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	tracer := requested{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))}.Tracer("test")
	waits := func(spans ...trace.SpanContext) (list []context.Context) {
		for _, span := range spans {
			ended, end := context.WithCancel(t.Context())
			end()
			list = append(list, trace.ContextWithSpanContext(ended, span))
		}
		return list
	}
	nobody := trace.SpanContext{}
	one := carrySpans(t.Context(), waits(nobody, spanOf(1, false), spanOf(2, true), spanOf(3, true), spanOf(2, true)))
	other := carrySpans(t.Context(), waits(spanOf(4, true), spanOf(3, true)))
	for _, each := range []struct {
		name  string
		ctx   context.Context
		above byte // 0: there is no span
		links []byte
	}{
		{"nobody waits", carrySpans(t.Context(), nil), 0, nil},
		{"nobody's request", carrySpans(t.Context(), waits(nobody)), 0, nil},
		{"nobody is sampled", carrySpans(t.Context(), waits(spanOf(1, false))), 0, nil},
		{"one waits", carrySpans(t.Context(), waits(spanOf(1, true))), 1, nil},
		{"some wait", one, 2, []byte{3}},
		{"calls go together", carrySpans(other, []context.Context{one, other}), 2, []byte{3, 4}},
	} {
		before := len(recorder.Ended())
		ctx, span := tracer.Start(each.ctx, each.name)
		_, below := tracer.Start(ctx, "below")
		below.End()
		span.End()
		ended := recorder.Ended()[before:]
		if each.above == 0 {
			if len(ended) != 0 {
				t.Errorf("%s: %v", each.name, ended)
			}
			continue
		}
		var links []byte
		for _, link := range ended[1].Links() {
			links = append(links, link.SpanContext.SpanID()[0])
		}
		if above := ended[1].Parent().SpanID()[0]; above != each.above || !slices.Equal(links, each.links) || len(ended[0].Links()) != 0 {
			t.Errorf("%s: below %d with links to %v, want %d and %v", each.name, above, links, each.above, each.links)
		}
		if each.ctx.Err() != nil {
			t.Errorf("%s: who waits has left, and the call ends", each.name)
		}
	}
	many := waits()
	for n := range byte(100) {
		many = append(many, waits(spanOf(n+1, true))...)
	}
	if links := linksOf(carrySpans(t.Context(), many)); len(links) != maxLinks {
		t.Errorf("a hundred wait, and %d are linked", len(links))
	}
}

// stuck is a collector that never answers.
type stuck struct{ end chan struct{} }

func (s stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-s.end
	return nil
}

func (stuck) Shutdown(context.Context) error { return nil }

// A stop does not wait long for a collector.
func TestFlushIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		collector, log := stuck{make(chan struct{})}, new(bytes.Buffer)
		traces := tracing{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(collector))}
		_, span := traces.provider.Tracer("test").Start(t.Context(), "a request")
		span.End()
		begun := time.Now()
		traces.flush(slog.New(slog.NewTextHandler(log, nil)))
		if took := time.Since(begun); took != 2*time.Second || !strings.Contains(log.String(), "the last traces were not sent") {
			t.Errorf("it took %s and logged %q", took, log)
		}
		close(collector.end)
	})
}

func TestSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := seldom{log: slog.New(slog.NewTextHandler(&log, nil)), message: "it fails", every: time.Minute}
		for _, each := range []struct {
			after time.Duration
			want  string
		}{{0, "not_logged_before=0"}, {time.Second, ""}, {58 * time.Second, ""}, {time.Second, "not_logged_before=2"}, {time.Second, ""}} {
			time.Sleep(each.after)
			log.Reset()
			s.warn(io.ErrUnexpectedEOF)
			if got := log.String(); (got == "") != (each.want == "") || !strings.Contains(got, each.want) {
				t.Errorf("after %s more: %q, want %q", each.after, got, each.want)
			}
		}
	})
}

// A failure is told when it happens, not when the last try has failed, and names
// no URL.
func TestOTLPTellsTheFirstFailure(t *testing.T) {
	t.Parallel()
	c, err := newOTLP(variables("OTEL_EXPORTER_OTLP_ENDPOINT=http://user:pa55word@127.0.0.1:1/?key=secret"))
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Hour
	told := make(chan error, 1)
	c.unsent = func(err error) { told <- err }
	ctx, end := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() { sent <- c.UploadTraces(ctx, oneSpan) }()
	first := <-told
	end()
	for _, err := range []error{first, <-sent} {
		if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "127.0.0.1:1/") || strings.Contains(err.Error(), "pa55word") {
			t.Errorf("it is told %v", err)
		}
	}
	if _, err := newOTLP(variables("OTEL_EXPORTER_OTLP_ENDPOINT=http://user:pa55word@:x/")); err == nil || strings.Contains(err.Error(), "pa55word") {
		t.Errorf("a wrong endpoint: %v", err)
	}
	if got := withoutURL(errors.ErrUnsupported); !errors.Is(got, errors.ErrUnsupported) {
		t.Errorf("another error became %v", got)
	}
}
