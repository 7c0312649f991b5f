//go:build linux

package main_test

import (
	"cmp"
	"net/http"
	"testing"

	"github.com/retrydecider/decider/internal/programtest"
)

// seedsPolicy has the policies of the published examples: an own backoff of
// 200 ms and no spread, and buckets that time does not fill. A Retry-After of an
// hour is readable to it, so that the deadline refuses it and not the bound.
const seedsPolicy = `
version: 1
presets:
  constant: {backoff: {strategy: constant, base: 200ms}, retry_after: {max: 2h, spread: 0%}}
dependencies:
  "ten-*": {preset: constant}
  "bounded-*": {preset: constant, retry_after: {max: 60s}}
  asked: {budget: {ratio: 10%, capacity: 10, capacity_seconds: 0, min_per_second: 0}}
  storm: {max_attempts: 3, budget: {ratio: 10%, capacity: 10, capacity_seconds: 0, min_per_second: 0, deposit_on: request}}
`

// TestTenFailures holds the published table of ten failures, to the millisecond.
// Every failure has a bucket of its own.
func TestTenFailures(t *testing.T) {
	t.Parallel()
	const deadline = 60_000
	tests := []struct {
		name string
		attempt
		want  string
		delay int64
		label string
	}{
		{"GET timeout", attempt{Method: "GET", Outcome: "timeout"}, "backoff", 200, "absent"},
		{"POST timeout", attempt{Method: "POST", Outcome: "timeout"}, "not_safe_to_repeat", 0, "absent"},
		{"POST with a key, timeout", attempt{Method: "POST", Outcome: "timeout", Key: true}, "backoff", 200, "absent"},
		{"GET 503, Retry-After 2", attempt{Method: "GET", Status: 503, RetryAfter: "2"}, "retry_after", 2_000, "used"},
		{"GET 429, Retry-After in 30 s", attempt{Method: "GET", Status: 429, RetryAfter: "Tue, 01 Jan 2030 09:00:30 GMT",
			ResponseDate: "Tue, 01 Jan 2030 09:00:00 GMT"}, "retry_after", 30_000, "used"},
		{"GET 429, Retry-After 3600", attempt{Method: "GET", Status: 429, RetryAfter: "3600"}, "deadline", 0, "used"},
		{"GET 429, Retry-After 3600, bounded", attempt{Method: "GET", Status: 429, RetryAfter: "3600", Dependency: "bounded-1"}, "server_delay_too_long", 0, "too_long"},
		{"GET 503, Retry-After soon", attempt{Method: "GET", Status: 503, RetryAfter: "soon"}, "backoff", 200, "malformed"},
		{"POST 500", attempt{Method: "POST", Status: 500}, "not_safe_to_repeat", 0, "absent"},
		{"GET 404", attempt{Method: "GET", Status: 404}, "not_retryable", 0, "absent"},
		{"PUT 400", attempt{Method: "PUT", Status: 400}, "not_retryable", 0, "absent"},
	}
	for store, flags := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(flags(t), "--policies="+programtest.PolicyFile(t, seedsPolicy))...)
			for i, test := range tests {
				a := test.attempt
				a.Dependency, a.RemainingMs = cmp.Or(a.Dependency, "ten-"+string(rune('a'+i))), deadline
				d := mustDecide(t, p.URL, a)
				word := "give_up"
				if test.delay > 0 {
					word = "retry"
				}
				if d.Decision != word || d.Reason != test.want || d.DelayMs != test.delay || d.RetryAfter != test.label || d.Degraded {
					t.Errorf("%s: %+v, want %s, %s, %d ms, %s", test.name, d, word, test.want, test.delay, test.label)
				}
				if word == "retry" && (d.RemainingMs == nil || *d.RemainingMs != deadline-test.delay) {
					t.Errorf("%s: remaining_ms %v, want %d", test.name, d.RemainingMs, deadline-test.delay)
				}
			}
		})
	}
}

// TestSeed: the built-in policy draws 51 and 105 ms from seed 11, and every
// process of one seed gives the same answers.
func TestSeed(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 2 {
		p := serve(t, "--seed=11")
		for i, want := range []int64{51, 105} {
			a := got503("payments")
			a.Attempt = int64(i + 1)
			d := mustDecide(t, p.URL, a)
			if d.DelayMs != want {
				t.Errorf("attempt %d: %d ms, want %d", a.Attempt, d.DelayMs, want)
			}
			ids = append(ids, d.DecisionID)
		}
	}
	if ids[0] != ids[2] || ids[1] != ids[3] || ids[0] == ids[1] {
		t.Errorf("ids of two processes with one seed: %q", ids)
	}
}

// TestFiftyAsks holds the published example of a bucket of ten.
func TestFiftyAsks(t *testing.T) {
	t.Parallel()
	for store, flags := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(flags(t), "--policies="+programtest.PolicyFile(t, seedsPolicy))...)
			for n := 1; n <= 50; n++ {
				d := mustDecide(t, p.URL, got503("asked"))
				if n <= 10 && d.Decision != "retry" || n > 10 && d.Reason != "budget_exhausted" {
					t.Errorf("ask %d of 50: %+v", n, d)
				}
			}
		})
	}
}

// TestThousandRequests holds the published storm: 1,000 requests that fail for
// good, three attempts each, a tenth of a token for every request.
func TestThousandRequests(t *testing.T) {
	t.Parallel()
	for store, flags := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(flags(t), "--policies="+programtest.PolicyFile(t, seedsPolicy))...)
			retries := 0
			for range 1_000 {
				a := attempt{Dependency: "storm", Method: http.MethodGet, Status: 503, Attempt: 1}
				for mustDecide(t, p.URL, a).Decision == "retry" {
					retries++
					a.Attempt++
				}
			}
			if retries != 109 {
				t.Errorf("%d retries, want 109", retries)
			}
		})
	}
}
