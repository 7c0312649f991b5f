package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/retrydecider/decider/api"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// fakeFleet answers as its functions do; nil ones grant, and know of nothing.
type fakeFleet struct {
	ask    func(q *decide.Question) decide.Answer
	report func(o *decide.Outcome) decide.State
	state  func(bucket string, p *decide.Policy, caller string) decide.State
	// setOverride is told what is set; nil takes it.
	setOverride func(bucket string, o decide.Override) (decide.State, error)
}

func (f *fakeFleet) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

func (f *fakeFleet) Ask(_ context.Context, q *decide.Question) decide.Answer {
	if f.ask == nil {
		return decide.Answer{Budget: decide.Budget{Asked: true, Tokens: 9_100_000, Capacity: 10_000_000, Cost: 1_000_000}}
	}
	return f.ask(q)
}

func (f *fakeFleet) Tell(*decide.Failed) {}

func (f *fakeFleet) Report(_ context.Context, o *decide.Outcome) decide.State {
	if f.report == nil {
		return decide.State{}
	}
	return f.report(o)
}

func (f *fakeFleet) State(_ context.Context, bucket string, p *decide.Policy, caller string) decide.State {
	if f.state == nil {
		return decide.State{}
	}
	return f.state(bucket, p, caller)
}

func (f *fakeFleet) SetOverride(_ context.Context, bucket string, _ *decide.Policy, o decide.Override) (decide.State, error) {
	if f.setOverride == nil {
		return decide.State{Override: o}, nil
	}
	return f.setOverride(bucket, o)
}

// fakePolicies has one rule for payments, one for svc-*, one for everything
// else, and refuses names that begin with refused.
type fakePolicies struct{ payments, services, others *decide.Policy }

func newFakePolicies() *fakePolicies {
	return &fakePolicies{testPolicy("payments"), testPolicy("svc-*"), testPolicy("default")}
}

func (f *fakePolicies) Find(dependency string) (*decide.Policy, string, error) {
	switch {
	case strings.HasPrefix(dependency, "refused"):
		return nil, "", decide.ErrUnknownDependency
	case dependency == "payments":
		return f.payments, dependency, nil
	case strings.HasPrefix(dependency, "svc-"):
		return f.services, dependency, nil
	}
	return f.others, dependency, nil
}

func (f *fakePolicies) Rules() []*decide.Policy {
	return []*decide.Policy{f.payments, f.services, f.others}
}

// testPolicy waits a constant 200 ms, so that answers are the same each time.
func testPolicy(name string) *decide.Policy {
	p := &decide.Policy{
		Name: name, Preset: "standard", MaxAttempts: 4,
		RetryAfter: decide.RetryAfter{Max: 60_000, Headers: []decide.Header{decide.RetryAfterHeader, decide.RetryAfterMSHeader}},
		Classes:    decide.StandardClasses,
		Budget:     decide.BudgetRule{Ratio: 100_000, Capacity: 10_000_000, CapacityMillis: 1000, NanoPerSecond: 100_000_000},
	}
	for kind := range p.Backoff {
		p.Backoff[kind] = decide.Backoff{Strategy: decide.Constant, Base: 200, Cap: 1000, Multiplier: 2}
		p.Budget.Cost[kind] = decide.MicroPerToken
	}
	return p
}

var epoch = time.Date(2026, 11, 30, 15, 4, 5, 0, time.UTC)

// testConfig stands on fakes alone.
func testConfig(fleet *fakeFleet) Config {
	policies := newFakePolicies()
	var ids atomic.Int64
	return Config{
		Decider: &decide.Decider{
			Policies: policies, Fleet: fleet,
			Now:    func() time.Time { return epoch },
			Random: func() float64 { return 0.5 },
			NewID:  func() string { ids.Add(1); return "made-by-the-server" },
		},
		Policies: policies,
		Fleet:    fleet,
		Status: func() Status {
			return Status{
				StartedAt: epoch,
				Policies:  PoliciesStatus{Hash: "sha256:0", AppliedAt: epoch, Source: "built-in"},
				Store:     StoreStatus{Kind: "memory", Since: epoch, Means: "Budgets are this process's own."},
				Replicas:  []Replica{{ID: "one", Version: "test", Config: "0", Since: epoch, Self: true}},
			}
		},
		Version:      "test",
		PolicySchema: []byte(`{"title":"policies"}`),
	}
}

func newHandler(t testing.TB, config Config) http.Handler {
	t.Helper()
	h, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func onFakes(t testing.TB) http.Handler { return newHandler(t, testConfig(new(fakeFleet))) }

// call sends one request through a real server and returns its answer, which it
// holds to the contract where the contract knows the call.
type caller struct {
	t      testing.TB
	server *httptest.Server
}

func newCaller(t testing.TB, h http.Handler) *caller {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &caller{t, server}
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

// member is a member of the JSON body, by a path with dots; nil where absent.
func (r *reply) member(t testing.TB, path string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(r.body, &value); err != nil {
		t.Fatalf("not JSON: %v: %s", err, r.body)
	}
	for _, name := range strings.Split(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// fields are those that the problem names.
func (r *reply) fields(t testing.TB) []string {
	t.Helper()
	var p gen.Problem
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("not a problem: %v: %s", err, r.body)
	}
	fields := []string{}
	if p.Errors != nil {
		for _, each := range *p.Errors {
			if each.Detail == "" {
				t.Errorf("no detail for %q", each.Field)
			}
			fields = append(fields, each.Field)
		}
	}
	return fields
}

func (c *caller) do(r *http.Request) *reply {
	c.t.Helper()
	resp, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	out := &reply{resp.StatusCode, resp.Header, body}
	if r.Method != http.MethodHead {
		c.holdToContract(r, out)
	}
	return out
}

func (c *caller) request(method, path string, body io.Reader) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", jsonType)
	}
	return r
}

func (c *caller) get(path string) *reply {
	c.t.Helper()
	return c.do(c.request(http.MethodGet, path, nil))
}

func (c *caller) post(path, body string) *reply {
	c.t.Helper()
	return c.do(c.request(http.MethodPost, path, strings.NewReader(body)))
}

var contract, contractRouter = loadContract()

func loadContract() (*openapi3.T, routers.Router) {
	for _, text := range []string{"text/html", "application/schema+json", "application/openmetrics-text"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.RegisteredBodyDecoder("text/plain"))
	}
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.RegisteredBodyDecoder("text/plain"))
	openapi3filter.RegisterBodyDecoder("application/schema+json", openapi3filter.RegisteredBodyDecoder(jsonType))
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		panic(err)
	}
	doc.Servers = nil
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	return doc, router
}

// models are what the answers of 200 decode into without a member left over.
var models = map[string]func() any{
	"decide":           func() any { return new(gen.Decision) },
	"explain":          func() any { return new(gen.Explanation) },
	"decideBatch":      func() any { return new(gen.BatchAnswers) },
	"reportOutcomes":   func() any { return new(gen.OutcomeAnswer) },
	"listDependencies": func() any { return new(gen.DependencyList) },
	"getDependency":    func() any { return new(gen.Dependency) },
	"setOverride":      func() any { return new(gen.DependencyState) },
	"liftOverride":     func() any { return new(gen.DependencyState) },
	"getStatus":        func() any { return new(gen.Status) },
	"getLiveness":      func() any { return new(gen.Liveness) },
	"getReadiness":     func() any { return new(gen.Readiness) },
}

// holdToContract checks an answer against the document: that its status and
// media type are declared, that it validates, and that no member is undeclared.
func (c *caller) holdToContract(r *http.Request, got *reply) {
	c.t.Helper()
	if got.status >= 400 {
		c.holdToProblem(got)
	}
	lookup := r.Clone(r.Context())
	lookup.URL = &url.URL{Path: strings.ReplaceAll(r.URL.EscapedPath(), "%2F", "-"), RawQuery: r.URL.RawQuery}
	route, params, err := contractRouter.FindRoute(lookup)
	if err != nil {
		return // no call of the contract
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: lookup, PathParams: params, Route: route},
		Status:                 got.status, Header: got.header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(got.body)
	if err := openapi3filter.ValidateResponse(c.t.Context(), input); err != nil {
		c.t.Errorf("%s %s answered %d against the contract: %v\n%s", r.Method, r.URL.Path, got.status, err, got.body)
	}
	model, ok := models[route.Operation.OperationID]
	if !ok || got.status != http.StatusOK {
		return
	}
	if kind := got.header.Get("Content-Type"); kind != jsonType {
		c.t.Errorf("%s %s: Content-Type %q", r.Method, r.URL.Path, kind)
	}
	decodeWhole(c.t, got.body, model())
}

func decodeWhole(t testing.TB, body []byte, model any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(model); err != nil {
		t.Errorf("%v in %s", err, body)
	}
}

func (c *caller) holdToProblem(got *reply) {
	c.t.Helper()
	if kind := got.header.Get("Content-Type"); kind != problemType {
		c.t.Errorf("%d with Content-Type %q: %s", got.status, kind, got.body)
		return
	}
	var p problem
	decodeWhole(c.t, got.body, &p)
	if p.Status != got.status || p.Type == "" || p.Title == "" || p.Detail == "" {
		c.t.Errorf("%d with an unsound problem: %s", got.status, got.body)
	}
}

func (f *fakePolicies) Peek(dependency string) (*decide.Policy, string, error) {
	return f.Find(dependency)
}
