//go:build linux

package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// soakFor is how long TestSoak goes on: 20 s, or SOAK_SECONDS (make soak: 30 min).
func soakFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK_SECONDS")
	switch {
	case text == "" && testing.Short():
		return 5 * time.Second
	case text == "":
		return 20 * time.Second
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 5 {
		t.Fatalf("SOAK_SECONDS=%s", text)
	}
	return time.Duration(seconds) * time.Second
}

// soakers is how many ask at once.
const soakers = 16

// TestSoak lets a decider work at half of what it can do at most, while its Redis
// dies and comes back, its policy file changes, and clients break off. Memory,
// goroutines and file descriptors must stay flat, and come back to what they were
// when the work ends. The peak is measured beside whatever else the machine does,
// so it is a load and no result.
func TestSoak(t *testing.T) {
	t.Parallel()
	span := soakFor(t)
	redis := redistest.Start(t)
	file := programtest.PolicyFile(t, soakPolicies(2))
	p := serve(t, "--redis-url="+redis.URL, "--policies="+file, "--access-log=0")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * soakers}}
	mustSend(t, client, http.MethodGet, p.URL+"/readyz", "", "", 200)

	s := &soak{t: t, client: client, url: p.URL}
	peak := s.run(2*time.Second, 0)
	client.CloseIdleConnections()
	atRest := settled(t, p)
	t.Logf("%.0f requests a second at most; %s at half of that; at rest %s", peak, span, atRest)

	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { disturb(ctx, t, p, redis, file, span/10) })
	group.Go(func() { s.followAndLeave(ctx) })
	var during []footprint
	group.Go(func() {
		for every := max(span/60, 200*time.Millisecond); ctx.Err() == nil; time.Sleep(every) {
			during = append(during, measure(t, p))
		}
	})
	got := s.run(span, peak/2)
	stop()
	group.Wait()
	client.CloseIdleConnections()
	t.Logf("%.0f requests a second; %d answered, %d otherwise than they should be", got, s.good.Load(), s.bad.Load())
	if s.bad.Load() > 0 || s.good.Load() == 0 {
		t.Errorf("%d good answers, %d bad", s.good.Load(), s.bad.Load())
	}
	isFlat(t, during, span)
	pool := float64(10 * runtime.NumCPU()) // connections to Redis that the client may keep
	if end := settled(t, p); end.goroutines > atRest.goroutines+10 || end.files > atRest.files+pool+5 {
		t.Errorf("%s when the work is done, %s before", end, atRest)
	} else {
		t.Logf("%s when the work is done", end)
	}
}

func soakPolicies(attempts int) string {
	return fmt.Sprintf("version: 1\ndependencies:\n  payments: {max_attempts: %d, breaker: {mode: retries}}\n  search: {budget: {deposit_on: request}}\n  \"svc-*\": {max_attempts: 3}\n", attempts)
}

// soak is the work.
type soak struct {
	t         *testing.T
	client    *http.Client
	url       string
	turn      atomic.Int64
	good, bad atomic.Int64
}

// run works for a while, at most so many requests a second (0: as many as can be),
// and returns how many there were.
func (s *soak) run(span time.Duration, perSecond float64) float64 {
	var group sync.WaitGroup
	var done atomic.Int64
	begun := time.Now()
	for range soakers {
		group.Go(func() {
			for n := 1.0; time.Since(begun) < span; n++ {
				s.ask()
				done.Add(1)
				if perSecond > 0 {
					time.Sleep(time.Until(begun.Add(time.Duration(n * soakers / perSecond * float64(time.Second)))))
				}
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds()
}

// ask makes the next of a round of requests. Names of dependencies are many, as
// they are where clients make them.
func (s *soak) ask() {
	n := s.turn.Add(1)
	method, path, body, want := http.MethodPost, "/v1/decide", failed503, 200
	switch n % 16 {
	case 0:
		path, body = "/v1/outcomes", `{"caller":"checkout","outcomes":[{"dependency":"payments","first_try_successes":50},{"dependency":"search","first_try_successes":5,"final_failures":1}]}`
	case 1:
		path, body = "/v1/decide/batch", `{"attempts":[`+failed503+`,{"dependency":"search","method":"GET","status":503},{}]}`
	case 2:
		body, want = `{"dependency":"payments","dependency":"x"`, 400
	case 3:
		body, want = `{}`, 422
	case 4:
		body = fmt.Sprintf(`{"dependency":"svc-%d","method":"GET","status":503,"decision_id":"%d"}`, n%5000, n)
	case 5:
		method, path, body = http.MethodGet, "/v1/dependencies/payments", ""
	case 6:
		path = "/v1/explain"
	case 7:
		if n%1600 == 7 { // it tells of up to a thousand
			method, path, body = http.MethodGet, "/metrics", ""
		}
	}
	status, _, err := send(context.Background(), s.client, method, s.url+path, "", body)
	if err != nil || status != want {
		if s.bad.Add(1) < 10 {
			s.t.Errorf("%s %s: %d, want %d, %v", method, path, status, want, err)
		}
		return
	}
	s.good.Add(1)
}

// followAndLeave opens streams and breaks them off.
func (s *soak) followAndLeave(ctx context.Context) {
	for ctx.Err() == nil {
		brief, leave := context.WithTimeout(ctx, 300*time.Millisecond)
		request, err := http.NewRequestWithContext(brief, http.MethodGet, s.url+"/v1/decisions/stream?snapshots=true", nil)
		if err == nil {
			if response, err := s.client.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body) // ends when the time is over
				response.Body.Close()
			}
		}
		leave()
	}
}

// disturb kills Redis and brings it back, stalls it, and changes the policy file.
func disturb(ctx context.Context, t *testing.T, p *process, redis *redistest.Server, file string, every time.Duration) {
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		switch turn % 3 {
		case 0:
			redis.Kill()
			time.Sleep(min(every/2, 3*time.Second))
			redis.Restart(t)
		case 1:
			redis.Pause(t)
			time.Sleep(min(every/2, 3*time.Second))
			redis.Resume(t)
		case 2:
			if err := os.WriteFile(file, []byte(soakPolicies(2+turn%3)), 0o600); err != nil {
				t.Error(err)
			}
			_ = p.Cmd.Process.Signal(syscall.SIGHUP) // one that has ended is told of elsewhere
		}
	}
}

// footprint is what a process holds.
type footprint struct {
	bytes, goroutines, files float64
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MiB, %.0f goroutines, %.0f file descriptors", f.bytes/(1<<20), f.goroutines, f.files)
}

// measure looks at a process from outside, and asks it for its goroutines.
func measure(t *testing.T, p *process) (f footprint) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			f.bytes = kib * 1024
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
	if err != nil {
		t.Error(err)
	}
	f.files = float64(len(files))
	_, text, err := send(context.Background(), web, http.MethodGet, p.URL+"/metrics", "", "")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			f.goroutines, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return f
}

// settled is the footprint when it has stopped to shrink.
func settled(t *testing.T, p *process) footprint {
	t.Helper()
	last := measure(t, p)
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		next := measure(t, p)
		if next.goroutines >= last.goroutines && next.files >= last.files {
			return next
		}
		last = next
	}
	return last
}

// isFlat holds the last third of the work to the middle one; the first is left out,
// since caches and pools fill. It prints how each has gone.
func isFlat(t *testing.T, during []footprint, span time.Duration) {
	t.Helper()
	if len(during) < 9 {
		t.Fatalf("measured %d times", len(during))
	}
	third := len(during) / 3
	for _, each := range []struct {
		what  string
		of    func(footprint) float64
		unit  float64
		slack float64 // beside a tenth of what there was
	}{
		{"MiB", func(f footprint) float64 { return f.bytes }, 1 << 20, 24 << 20},
		{"goroutines", func(f footprint) float64 { return f.goroutines }, 1, 64},
		{"file descriptors", func(f footprint) float64 { return f.files }, 1, 32},
	} {
		values := make([]float64, len(during))
		for i, f := range during {
			values[i] = each.of(f)
		}
		middle, last := median(values[third:2*third]), median(values[2*third:])
		slope := slopeOf(values[third:]) * float64(len(during)) / span.Hours()
		t.Logf("%s: first %.1f, middle third %.1f, last third %.1f, slope %+.1f an hour", each.what, values[0]/each.unit, middle/each.unit, last/each.unit, slope/each.unit)
		if last > middle*1.1+each.slack {
			t.Errorf("%s grow: %.1f, then %.1f", each.what, middle/each.unit, last/each.unit)
		}
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// slopeOf is the line of least squares' rise from one value to the next.
func slopeOf(values []float64) float64 {
	n := float64(len(values))
	var x, y, xx, xy float64
	for i, value := range values {
		x, y, xx, xy = x+float64(i), y+value, xx+float64(i*i), xy+float64(i)*value
	}
	return (n*xy - x*y) / (n*xx - x*x)
}
