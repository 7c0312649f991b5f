package main

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
)

// One call to Redis answers many requests, each with a trace of its own. It is a
// span of the first of them, with links to the others; how long each of them waited
// is a span of its own (askedFleet).

// requested makes spans of what a request asked for alone. Heartbeats and probes
// would be traces of their own, for ever.
type requested struct{ trace.TracerProvider }

// Tracer is the provider's, but for spans that would begin a trace.
func (r requested) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return requestedTracer{r.TracerProvider.Tracer(name, options...)}
}

type requestedTracer struct{ trace.Tracer }

// Start begins a span below another, with what carrySpans has linked to it.
func (r requestedTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, noop.Span{}
	}
	if links := linksOf(ctx); links != nil {
		options = append(options, trace.WithLinks(links...))
		ctx = context.WithValue(ctx, linksKey{}, nil) // once is enough
	}
	return r.Tracer.Start(ctx, name, options...)
}

// linksKey finds the links that a call's spans are to have.
type linksKey struct{}

func linksOf(ctx context.Context) []trace.Link {
	links, _ := ctx.Value(linksKey{}).([]trace.Link)
	return links
}

// maxLinks bounds the links of a call.
const maxLinks = 32

// carrySpans lets a call be of the trace of the first request that waits for it
// and is sampled, and link to the others.
func carrySpans(call context.Context, waiting []context.Context) context.Context {
	var spans []trace.SpanContext
	add := func(span trace.SpanContext) {
		if span.IsSampled() && len(spans) <= maxLinks && !slices.ContainsFunc(spans, span.Equal) {
			spans = append(spans, span)
		}
	}
	for _, ctx := range waiting {
		add(trace.SpanContextFromContext(ctx))
		for _, link := range linksOf(ctx) {
			add(link.SpanContext)
		}
	}
	if len(spans) == 0 {
		return call
	}
	links := make([]trace.Link, 0, len(spans)-1)
	for _, span := range spans[1:] {
		links = append(links, trace.Link{SpanContext: span})
	}
	return context.WithValue(trace.ContextWithSpanContext(call, spans[0]), linksKey{}, links)
}

// askedFleet makes a span of each question to a fleet that requests share: its wait
// for the others, for Redis, and the local answer where that is out of reach.
type askedFleet struct {
	*budget.Fleet
	tracer trace.Tracer
}

// fleet is what decisions ask: f itself where there are no traces.
func (t tracing) fleet(f *budget.Fleet) decide.Fleet {
	if t.provider == nil {
		return f
	}
	return askedFleet{f, requested{t.provider}.Tracer("github.com/retrydecider/decider")}
}

// Ask asks within a span.
func (f askedFleet) Ask(ctx context.Context, q *decide.Question) decide.Answer {
	ctx, span := f.tracer.Start(ctx, "ask the fleet")
	defer span.End()
	a := f.Fleet.Ask(ctx, q)
	span.SetAttributes(attribute.Bool("decider.degraded", a.Degraded))
	return a
}

// AskAll asks within one span.
func (f askedFleet) AskAll(ctx context.Context, list []decide.Question, answers []decide.Answer) {
	ctx, span := f.tracer.Start(ctx, "ask the fleet")
	defer span.End()
	f.Fleet.AskAll(ctx, list, answers)
}
