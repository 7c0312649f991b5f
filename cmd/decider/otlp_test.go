package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// variables are an environment of these alone.
func variables(list ...string) func(string) string {
	return func(name string) string {
		for _, each := range list {
			if value, ok := strings.CutPrefix(each, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

var oneSpan = []*tracepb.ResourceSpans{{SchemaUrl: "one"}}

func TestOTLPSendsAsTheVariablesSay(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	t.Cleanup(collector.Close)
	for _, each := range []struct {
		name, path, header string
		packed             bool
		variables          []string
	}{
		{"below an endpoint of everything", "/base/v1/traces", "", false, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL + "/base/"}},
		{"at an endpoint of traces", "/as/it/is", "", false, []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + collector.URL + "/as/it/is", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}},
		{"headers and gzip", "/v1/traces", "a key, b", true, []string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_HEADERS=other=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=team=x, api-key = a%20key%2C%20b",
			"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_TIMEOUT=5000",
		}},
	} {
		c, err := newOTLP(variables(each.variables...))
		if err != nil {
			t.Fatalf("%s: %v", each.name, err)
		}
		if err := c.UploadTraces(t.Context(), oneSpan); err != nil {
			t.Fatalf("%s: %v", each.name, err)
		}
		if got.URL.Path != each.path || got.Header.Get("Api-Key") != each.header || got.Header.Get("Other") != "" || got.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s: %s %v", each.name, got.URL, got.Header)
		}
		if each.packed {
			r, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil || got.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("%s: %v %v", each.name, err, got.Header)
			}
			body, _ = io.ReadAll(r)
		}
		var sent tracepb.TracesData
		if err := proto.Unmarshal(body, &sent); err != nil || len(sent.GetResourceSpans()) != 1 || sent.GetResourceSpans()[0].GetSchemaUrl() != "one" {
			t.Errorf("%s: %v %v", each.name, err, &sent)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestOTLPRefusesVariables(t *testing.T) {
	t.Parallel()
	for _, each := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://", "OTEL_EXPORTER_OTLP_TIMEOUT=1s",
		"OTEL_EXPORTER_OTLP_TIMEOUT=0", "OTEL_EXPORTER_OTLP_COMPRESSION=zstd", "OTEL_EXPORTER_OTLP_HEADERS=secret", "OTEL_EXPORTER_OTLP_HEADERS=a=%zz",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/ca.pem", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/nowhere/c.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere/k.pem",
	} {
		_, err := newOTLP(variables(each))
		if err == nil || !strings.HasPrefix(err.Error(), "OTEL_EXPORTER_OTLP_") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", each, err)
		}
	}
	c, err := newOTLP(variables())
	if err != nil || c.url != "http://localhost:4318/v1/traces" {
		t.Errorf("by default: %+v, %v", c, err)
	}
}

// Spans that a collector cannot take now are sent again; those that it will not
// take are not.
func TestOTLPSendsAgain(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		name     string
		statuses []int
		want     string
	}{
		{"taken", []int{200}, ""},
		{"accepted", []int{202}, ""},
		{"busy, then taken", []int{503, 200}, ""},
		{"refused", []int{400, 200}, "the collector answered 400 Bad Request"},
		{"unknown there", []int{404, 200}, "the collector answered 404 Not Found"},
	} {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(each.statuses[asked.Add(1)-1])
			}))
			t.Cleanup(collector.Close)
			c, err := newOTLP(variables("OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL))
			if err != nil {
				t.Fatal(err)
			}
			c.pause = time.Millisecond
			got := ""
			if err := c.UploadTraces(t.Context(), oneSpan); err != nil {
				got = err.Error()
			}
			if got != each.want {
				t.Errorf("got %q, want %q", got, each.want)
			}
		})
	}
	c, err := newOTLP(variables("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if err := c.UploadTraces(over, oneSpan); err == nil {
		t.Error("nobody was there, and it is no error")
	}
}
