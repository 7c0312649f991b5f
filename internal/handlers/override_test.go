package handlers

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/retrydecider/decider/internal/decide"
)

func (c *caller) put(path, body string) *reply {
	c.t.Helper()
	return c.do(c.request(http.MethodPut, path, strings.NewReader(body)))
}

func TestOverrideReachesTheFleet(t *testing.T) {
	t.Parallel()
	var told []decide.Override
	var inForce decide.Override
	var log bytes.Buffer
	config := testConfig(&fakeFleet{state: func(string, *decide.Policy, string) decide.State { return decide.State{Override: inForce} }, setOverride: func(bucket string, o decide.Override) (decide.State, error) {
		if bucket != "payments" {
			t.Errorf("the fleet was told of %q", bucket)
		}
		told = append(told, o)
		o.Since = epoch
		inForce = o
		return decide.State{Override: o, Breaker: decide.BreakerClosed}, nil
	}})
	config.Records = slog.New(slog.NewTextHandler(&log, nil))
	c := newCaller(t, newHandler(t, config))
	golden(t, "override.json", c.put("/v1/dependencies/payments/override", `{"mode":"pause","expires_in_ms":540000,"reason":"fails over\nsoon"}`).body)
	c.do(c.request(http.MethodDelete, "/v1/dependencies/payments/override", nil))
	c.do(c.request(http.MethodDelete, "/v1/dependencies/payments/override", nil))
	want := []decide.Override{
		{Mode: decide.OverridePause, ExpiresIn: 540_000, Author: "anonymous", Reason: "fails over\nsoon"},
		{Author: "anonymous"}, {Author: "anonymous"},
	}
	if !slices.Equal(told, want) {
		t.Errorf("the fleet was told %+v, want %+v", told, want)
	}
	for _, line := range []string{
		`msg="an override was set" dependency=payments author=anonymous from=127.0.0.1 mode=pause expires_in_ms=540000 reason="fails over\nsoon"`,
		`msg="an override was lifted" dependency=payments author=anonymous from=127.0.0.1`,
		`msg="no override was there to be lifted" dependency=payments author=anonymous from=127.0.0.1`,
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("no %q in the log:\n%s", line, &log)
		}
	}
}

func TestOverrideThatTheStoreDoesNotTake(t *testing.T) {
	t.Parallel()
	var log, records bytes.Buffer
	config := testConfig(&fakeFleet{setOverride: func(string, decide.Override) (decide.State, error) {
		return decide.State{}, errors.New("dial tcp: connection refused")
	}})
	config.Log, config.Records = slog.New(slog.NewTextHandler(&log, nil)), slog.New(slog.NewTextHandler(&records, nil))
	c := newCaller(t, newHandler(t, config))
	for _, got := range []*reply{
		c.put("/v1/dependencies/payments/override", `{"mode":"pause","expires_in_ms":1,"reason":"x"}`),
		c.do(c.request(http.MethodDelete, "/v1/dependencies/payments/override", nil)),
	} {
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" {
			t.Errorf("answered %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
		}
		golden(t, "problem-store.json", got.body)
		if strings.Contains(string(got.body), "dial tcp") {
			t.Errorf("the client is told of the store's address: %s", got.body)
		}
	}
	for _, line := range []string{
		`msg="an override may have been set" dependency=payments author=anonymous from=127.0.0.1 mode=pause expires_in_ms=1 reason=x result=unknown error="dial`,
		`msg="an override may have been lifted" dependency=payments author=anonymous from=127.0.0.1 result=unknown error="dial`,
	} {
		if !strings.Contains(records.String(), line) || strings.Contains(log.String(), line) {
			t.Errorf("no %q in the records alone:\n%s", line, &records)
		}
	}
}

// What the contract's own filter refuses is refused, and nothing else, for every
// combination of values that members may have.
func TestOverrideAgreesWithTheFilter(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	modes := []string{"", `"mode":"pause",`, `"mode":"allow",`, `"mode":"Pause",`, `"mode":null,`}
	times := []string{"", `"expires_in_ms":1,`, `"expires_in_ms":0,`, `"expires_in_ms":86400000,`, `"expires_in_ms":86400000.5,`, `"expires_in_ms":1e400,`}
	reasons := []string{"", `"reason":"x",`, `"reason":"",`, `"reason":" \t ",`, `"reason":" x ",`, `"reason":"` + strings.Repeat("\U0001F4A5", 256) + `",`, `"reason":"` + strings.Repeat("x", 257) + `",`}
	others := []string{"", `"author":"me",`}
	for _, mode := range modes {
		for _, expires := range times {
			for _, reason := range reasons {
				for _, other := range others {
					body := "{" + strings.TrimSuffix(mode+expires+reason+other, ",") + "}"
					want := http.StatusOK
					if !overrideFilterAccepts(t, body) {
						want = http.StatusUnprocessableEntity
					}
					if got := c.put("/v1/dependencies/payments/override", body); got.status != want {
						t.Errorf("%.120s: status %d, want %d: %s", body, got.status, want, got.body)
					}
				}
			}
		}
	}
}

// overrideFilterAccepts asks kin-openapi's filter, which goes by the document
// alone; a number that no double holds it cannot read at all.
func overrideFilterAccepts(t *testing.T, body string) bool {
	t.Helper()
	r, err := http.NewRequest(http.MethodPut, "/v1/dependencies/payments/override", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonType)
	route, params, err := contractRouter.FindRoute(r)
	if err != nil {
		t.Fatal(err)
	}
	return openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}) == nil
}
