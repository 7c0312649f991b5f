package decider

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// vectors is one file of the contract's, as far as the local rule goes.
type vectors struct {
	Kind   string `json:"kind"`
	Policy struct {
		Preset      string `json:"preset"`
		MaxAttempts int64  `json:"max_attempts"`
		MinAttempt  string `json:"min_attempt"`
		Backoff     struct {
			Strategy, Base, Cap, Min, Jitter string
			Multiplier                       float64
		} `json:"backoff"`
		RetryAfter struct {
			Max     string   `json:"max"`
			Spread  string   `json:"spread"`
			Headers []string `json:"headers"`
		} `json:"retry_after"`
	} `json:"policy"`
	Cases []struct {
		ID      string    `json:"id"`
		Attempt question  `json:"attempt"`
		Random  []float64 `json:"random"`
		Now     time.Time `json:"now"`
		Expect  struct {
			Decision string `json:"decision"`
			Reason   Reason `json:"reason"`
			Delay    *int64 `json:"delay_ms"`
			DelayMin *int64 `json:"delay_ms_min"`
			DelayMax *int64 `json:"delay_ms_max"`
		} `json:"expect"`
	} `json:"cases"`
}

// localVectors are the files whose policies say nothing that a client does not
// hear of, and read no header but Retry-After.
var localVectors = []string{
	"attempts", "backoff-*", "classes-outcomes", "classes-standard", "deadline*", "retry-after-against-backoff", "retry-after-limits",
	"retry-after-parse", "seeds-decorrelated-jitter-42", "seeds-doubling-from-1-s", "seeds-equal-jitter-42", "seeds-exponential",
	"seeds-full-jitter-42", "seeds-full-jitter-cap-250",
}

// The local rule decides as decider does, wherever it knows the policy.
func TestLocalRuleHoldsTheContractsVectors(t *testing.T) {
	t.Parallel()
	held := 0
	for _, pattern := range localVectors {
		files, err := filepath.Glob("../../testdata/vectors/" + pattern + ".json")
		if err != nil || len(files) == 0 {
			t.Fatalf("no vectors %s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var v vectors
			if err := json.Unmarshal(data, &v); err != nil {
				t.Fatal(err)
			}
			held += v.hold(t, filepath.Base(file))
		}
	}
	if held < 1500 {
		t.Errorf("%d cases held, want 1500 and more", held)
	}
}

func (v *vectors) hold(t *testing.T, file string) (held int) {
	f := v.fallback(t)
	for _, c := range v.Cases {
		a := c.Attempt.attempt()
		if a.GRPCStatus != "" || len(a.Headers) > 0 {
			continue
		}
		floats := slices.Clone(c.Random)
		if v.Policy.RetryAfter.Spread == "0%" {
			floats = append(floats, 0)
		}
		random := func() float64 {
			if len(floats) == 0 {
				return 0.5
			}
			r := floats[0]
			floats = floats[1:]
			return r
		}
		now := c.Now
		if now.IsZero() {
			now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		}
		if strings.HasSuffix(f.Backoff.Strategy, "jitter") || v.Policy.RetryAfter.Spread != "0%" {
			// the spread's float is the second one
		} else {
			random = func() float64 { return 0 }
		}
		delay, reason := f.plan(&a, 0, now, random)
		if got := (map[bool]string{true: "retry", false: "give_up"})[reason.retries()]; c.Expect.Decision != "" && got != c.Expect.Decision || c.Expect.Reason != "" && reason != c.Expect.Reason {
			t.Errorf("%s %s: %s for %s, want %s for %s", file, c.ID, got, reason, c.Expect.Decision, c.Expect.Reason)
		}
		ms := delay.Milliseconds()
		if c.Expect.Delay != nil && ms != *c.Expect.Delay || c.Expect.DelayMin != nil && ms < *c.Expect.DelayMin || c.Expect.DelayMax != nil && ms > *c.Expect.DelayMax {
			t.Errorf("%s %s: delay %d ms, want %v (%v to %v)", file, c.ID, ms, value(c.Expect.Delay), value(c.Expect.DelayMin), value(c.Expect.DelayMax))
		}
		held++
	}
	return held
}

func (v *vectors) fallback(t *testing.T) *Fallback {
	f := defaultFallback
	p := &v.Policy
	if p.MaxAttempts > 0 {
		f.MaxAttempts = p.MaxAttempts
	}
	set := func(d *time.Duration, text string) {
		if text == "" {
			return
		}
		parsed, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		*d = parsed
	}
	set(&f.MinAttempt, p.MinAttempt)
	set(&f.RetryAfterMax, p.RetryAfter.Max)
	set(&f.Backoff.Base, p.Backoff.Base)
	set(&f.Backoff.Cap, p.Backoff.Cap)
	set(&f.Backoff.Min, p.Backoff.Min)
	if p.Backoff.Strategy != "" {
		f.Backoff.Strategy = p.Backoff.Strategy
	}
	if p.Backoff.Multiplier != 0 {
		f.Backoff.Multiplier = p.Backoff.Multiplier
	}
	if percent, ok := strings.CutSuffix(p.Backoff.Jitter, "%"); ok {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil {
			t.Fatal(err)
		}
		f.Backoff.Jitter = n / 100
	}
	return &f
}

func (q *question) attempt() Attempt {
	a := Attempt{
		Dependency: q.Dependency, Method: q.Method, Status: q.Status, Outcome: q.Outcome, GRPCStatus: q.GRPCStatus, Idempotent: q.Idempotent,
		HasIdempotencyKey: q.HasKey, RetryAfter: q.RetryAfter, ResponseDate: q.ResponseDate, Headers: q.Headers, Number: q.Attempt,
		PreviousDelay: duration(q.PreviousDelay), Caller: q.Caller, InboundAttempt: q.Inbound, RetriedBelow: q.RetriedBelow,
		Remaining: durationIf(q.Remaining), MinAttempt: durationIf(q.MinAttempt),
	}
	return a
}
