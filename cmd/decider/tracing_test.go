//go:build linux

package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// collector takes traces as an OTLP collector does.
func collector(t *testing.T) (url string, taken func() []*tracepb.Span) {
	t.Helper()
	var mu sync.Mutex
	var spans []*tracepb.Span
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &data) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, from := range data.GetResourceSpans() {
			for _, scope := range from.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []*tracepb.Span {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(spans)
	}
}

// tracingTo is the environment of a decider that sends traces, and soon.
func tracingTo(url string, more ...string) []string {
	return programtest.Environment(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=100"}, more...)...)
}

// attributesOf are a span's attributes as texts.
func attributesOf(s *tracepb.Span) map[string]string {
	all := map[string]string{}
	for _, each := range s.GetAttributes() {
		switch v := each.GetValue(); {
		case v.GetStringValue() != "":
			all[each.GetKey()] = v.GetStringValue()
		default:
			all[each.GetKey()] = v.String()
		}
	}
	return all
}

// traced sends a request that is part of a trace.
func traced(t *testing.T, url, trace, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	response, err := web.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Error(response, err)
		return
	}
	response.Body.Close()
}

// theOne is the one span that a test is about.
func theOne(t *testing.T, spans []*tracepb.Span, what string, is func(*tracepb.Span) bool) *tracepb.Span {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(spans), func(s *tracepb.Span) bool { return !is(s) })
	if len(found) != 1 {
		t.Fatalf("%d spans are %s:\n%v", len(found), what, spans)
	}
	return found[0]
}

func named(name string) func(*tracepb.Span) bool {
	return func(s *tracepb.Span) bool { return s.GetName() == name }
}

// isScript is true for the script alone and for several in a pipeline.
func isScript(s *tracepb.Span) bool { return strings.Contains(s.GetName(), "eval") }

// Traces are off until the standard variables ask for them; then a request is a
// span that goes on from the caller's, says what was decided, and has below it
// what Redis was asked. What no request asked for is no span.
func TestTraces(t *testing.T) {
	t.Parallel()
	url, taken := collector(t)
	p := serveWith(t, tracingTo(url), append(stores["redis"](t), "--listen=127.0.0.1:0", "--access-log=1000000")...)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, path := range []string{"/", "/console/console.js", "/docs", "/livez", "/readyz", "/healthz", "/metrics"} {
		if _, _, err := send(t.Context(), web, http.MethodGet, p.URL+path, "", ""); err != nil {
			t.Error(err)
		}
	}
	var status struct{ Replicas []struct{ ID string } }
	eventually(t, "a heartbeat was answered", func() bool {
		get(t, p.URL+"/v1/status", http.StatusOK, &status)
		return len(status.Replicas) == 1
	})
	traced(t, p.URL+"/v1/decide", trace, failed503)
	p.Stop(t)
	var spans []*tracepb.Span
	for _, s := range taken() {
		switch {
		case fmt.Sprintf("%x", s.GetTraceId()) == trace:
			spans = append(spans, s)
		case s.GetName() != "GET /v1/status":
			t.Errorf("nobody asked for %v", s)
		}
		if strings.Contains(s.String(), "decider:{") || strings.Contains(s.String(), "setinfo") {
			t.Errorf("it says too much: %v", s)
		}
	}
	request := theOne(t, spans, "the request", named("POST /v1/decide"))
	got := attributesOf(request)
	for name, want := range map[string]string{"http.route": "/v1/decide", "decider.dependency": "payments", "decider.decision": "retry", "decider.reason": "backoff",
		"decider.degraded": "bool_value:false"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if !strings.HasPrefix(got["decider.delay_ms"], "int_value:") || got["decider.decision_id"] == "" || fmt.Sprintf("%x", request.GetParentSpanId()) != "b7ad6b7169203331" {
		t.Errorf("the request is %v", request)
	}
	ask := theOne(t, spans, "the question", named("ask the fleet"))
	if string(ask.GetParentSpanId()) != string(request.GetSpanId()) {
		t.Errorf("the question is not below the request: %v", ask)
	}
	asked := slices.ContainsFunc(spans, func(s *tracepb.Span) bool {
		return isScript(s) && string(s.GetParentSpanId()) == string(ask.GetSpanId())
	})
	if !asked {
		t.Errorf("no call of Redis is below the question:\n%v", spans)
	}
	if !strings.Contains(p.Log.String(), "trace_id="+trace) {
		t.Errorf("no trace_id in:\n%s", p.Log)
	}
}

// The items of a batch have spans of their own, so many and no more.
func TestTracesOfABatch(t *testing.T) {
	t.Parallel()
	url, taken := collector(t)
	p := serveWith(t, tracingTo(url), "--store=memory", "--listen=127.0.0.1:0")
	items := strings.Repeat(failed503+",", 119) + `{"dependency":"search","method":"GET","status":404}`
	traced(t, p.URL+"/v1/decide/batch", "0af7651916cd43dd8448eb211c80319c", `{"attempts":[`+`{"dependency":"first","method":"GET","status":404},`+items+`]}`)
	p.Stop(t)
	spans := taken()
	request := theOne(t, spans, "the request", named("POST /v1/decide/batch"))
	if got := attributesOf(request); got["decider.items"] != "int_value:121" || got["decider.reason"] != "" {
		t.Errorf("the request says %v", got)
	}
	n := 0
	for _, s := range spans {
		if s.GetName() != "decision" {
			continue
		}
		n++
		if string(s.GetParentSpanId()) != string(request.GetSpanId()) || attributesOf(s)["decider.reason"] == "" {
			t.Errorf("an item is %v", s)
		}
	}
	if n != 100 {
		t.Errorf("%d items have spans, want 100", n)
	}
	first := theOne(t, spans, "the first item", func(s *tracepb.Span) bool { return attributesOf(s)["decider.item"] == "int_value:0" })
	if got := attributesOf(first); got["decider.dependency"] != "first" || got["decider.decision"] != "give_up" {
		t.Errorf("the first item says %v", got)
	}
}

// A call to Redis that many requests share is below one of them and linked to the
// others, so that each leads to it.
func TestTracesOfManyAtOnce(t *testing.T) {
	t.Parallel()
	url, taken := collector(t)
	server := redistest.Start(t)
	slow := redistest.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", server.Port()))
	slow.Delay(20 * time.Millisecond)
	p := serveWith(t, tracingTo(url), "--redis-url="+slow.URL, exactly, "--listen=127.0.0.1:0")
	const atOnce = 20
	rounds := 0
	shared := func() bool {
		return slices.ContainsFunc(taken(), func(s *tracepb.Span) bool { return isScript(s) && len(s.GetLinks()) > 1 })
	}
	eventually(t, "a call is shared", func() bool {
		rounds++
		var done sync.WaitGroup
		for i := range atOnce {
			done.Go(func() {
				traced(t, p.URL+"/v1/decide", fmt.Sprintf("%016x%016x", rounds, i+1), strings.Replace(failed503, "payments", fmt.Sprint("svc-", i%4), 1))
			})
		}
		done.Wait()
		return shared()
	})
	p.Stop(t)
	spans := taken()
	led := map[string]bool{}
	for _, s := range spans {
		if !isScript(s) {
			continue
		}
		led[string(s.GetParentSpanId())] = true
		for _, link := range s.GetLinks() {
			led[string(link.GetSpanId())] = true
		}
	}
	asked := 0
	for _, s := range spans {
		if s.GetName() == "ask the fleet" {
			asked++
			if !led[string(s.GetSpanId())] {
				t.Errorf("nothing leads from %v to Redis", s)
			}
		}
	}
	if asked != rounds*atOnce {
		t.Errorf("%d questions have spans, want %d", asked, rounds*atOnce)
	}
}

// Variables of a whole fleet end nobody's start, and tell no secret.
func TestWrongVariablesOfTraces(t *testing.T) {
	t.Parallel()
	url, _ := collector(t)
	for _, each := range []struct {
		name string
		env  []string
		log  string
		sent bool
	}{
		{"gRPC", tracingTo(url, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"), `decider speaks http/protobuf alone, and OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\"`, false},
		{"another exporter", programtest.Environment("OTEL_TRACES_EXPORTER=zipkin"), "OTEL_TRACES_EXPORTER is otlp or none", false},
		{"attributes", tracingTo(url, "OTEL_RESOURCE_ATTRIBUTES=abc,team=x"), "OTEL_RESOURCE_ATTRIBUTES", true},
		{"sampler", tracingTo(url, "OTEL_TRACES_SAMPLER=some"), "unsupported sampler", true},
		{"propagators", tracingTo(url, "OTEL_PROPAGATORS=tracecontext,b3"), `tracecontext, baggage and none, not \"b3\"`, true},
		{"endpoint", tracingTo("http://user:pa55word@:x/"), "OTEL_EXPORTER_OTLP_ENDPOINT is not http://host:port", false},
		{"time", tracingTo(url, "OTEL_EXPORTER_OTLP_TIMEOUT=10s"), "OTEL_EXPORTER_OTLP_TIMEOUT is a number of ms", false},
		{"off", tracingTo(url, "OTEL_SDK_DISABLED=TRUE"), "", false},
	} {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			p := serveWith(t, each.env, "--store=memory", "--listen=127.0.0.1:0")
			traced(t, p.URL+"/v1/decide", "0af7651916cd43dd8448eb211c80319c", failed503)
			p.Stop(t)
			log := p.Log.String()
			warned := strings.Contains(log, "level=WARN")
			if !strings.Contains(log, each.log) || warned != (each.log != "") || strings.Contains(log, "pa55word") || strings.Contains(log, `msg="traces are sent"`) != each.sent {
				t.Errorf("it logs:\n%s", log)
			}
		})
	}
}

// A collector that is not there is told of at the first spans, while they are
// sent again.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	p := serveWith(t, tracingTo(fmt.Sprintf("http://user:pa55word@127.0.0.1:%d", redistest.FreePort(t))), "--store=memory", "--listen=127.0.0.1:0")
	traced(t, p.URL+"/v1/decide", "0af7651916cd43dd8448eb211c80319c", failed503)
	eventually(t, "the log tells of it", func() bool { return strings.Contains(p.Log.String(), "traces cannot be sent") })
	p.Stop(t)
	if log := p.Log.String(); strings.Contains(log, "pa55word") || !strings.Contains(log, "connection refused") {
		t.Errorf("it logs:\n%s", log)
	}
}
