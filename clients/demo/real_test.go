package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	decider "github.com/retrydecider/decider/clients/go"
)

// startReal starts a real decider under a policy file, its state in memory.
func startReal(t *testing.T, policies string) *decider.Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(deciderProgram.build(t), "serve", "--listen", address, "--policies", file, "--log-level", "ERROR")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	if err := until(t.Context(), "decider", func() bool { return answers(t.Context(), "http://"+address+"/readyz") }); err != nil {
		t.Fatal(err)
	}
	client, err := decider.NewClient("http://"+address, decider.WithTimeout(5*time.Second), decider.WithReportInterval(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// to calls a named dependency through a real HTTP stack.
func to(client *decider.Client, dependency string, opts ...decider.TransportOption) *http.Client {
	return &http.Client{Transport: decider.NewTransport(client,
		append(opts, decider.WithDependency(func(*http.Request) string { return dependency }))...)}
}

func do(t *testing.T, ctx context.Context, client *http.Client, method, url string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

const fast = "backoff: {strategy: constant, base: 1ms}, budget: {capacity: 100}"

func TestCaseLaStackedSdkWithARealDecider(t *testing.T) {
	t.Parallel()
	client := startReal(t, `
version: 1
dependencies:
  first: {max_attempts: 4, `+fast+`}
  second: {max_attempts: 4, only_first_inbound: true, `+fast+`}
`)
	var firsts, seconds atomic.Int32
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seconds.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(second.Close)
	inner := to(client, "second")
	passOn := func(w http.ResponseWriter, r *http.Request) {
		firsts.Add(1)
		status, err := do(t, r.Context(), inner, http.MethodGet, second.URL)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}
	// As the case has it, the inbound attempt alone is passed on.
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := len(r.Header.Get(decider.AttemptHeader))
		if n > 0 {
			n = int(r.Header.Get(decider.AttemptHeader)[0] - '0')
		}
		passOn(w, r.WithContext(decider.WithCall(r.Context(), decider.Call{InboundAttempt: n})))
	}))
	t.Cleanup(first.Close)
	if status, err := do(t, t.Context(), to(client, "first"), http.MethodGet, first.URL); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("%d, %v", status, err)
	}
	if firsts.Load() != 4 || seconds.Load() != 7 {
		t.Errorf("the first server saw %d requests and the second %d, want 4 and 7", firsts.Load(), seconds.Load())
	}

	// With Inbound the answer says besides that it was retried below, so that
	// the layer above does not repeat it at all.
	firsts.Store(0)
	seconds.Store(0)
	told := httptest.NewServer(decider.Inbound(http.HandlerFunc(passOn)))
	t.Cleanup(told.Close)
	if _, err := do(t, t.Context(), to(client, "first"), http.MethodGet, told.URL); err != nil {
		t.Error(err)
	}
	if firsts.Load() != 1 || seconds.Load() != 4 {
		t.Errorf("the first server saw %d requests and the second %d, want 1 and 4", firsts.Load(), seconds.Load())
	}
}

func TestCaseUnRetryZeroStillSentWithARealDecider(t *testing.T) {
	t.Parallel()
	client := startReal(t, `
version: 1
dependencies:
  pay: {max_attempts: 4, `+fast+`}
`)
	for _, c := range []struct {
		kept bool
		key  string
		want int32
	}{{false, "", 1}, {false, "k1", 4}, {true, "", 1}, {true, "k2", 4}} {
		var posts atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Method == http.MethodPost {
				posts.Add(1)
				panic(http.ErrAbortHandler)
			}
		}))
		base := &http.Transport{}
		pay := to(client, "pay", decider.WithBase(base))
		if c.kept {
			if _, err := do(t, t.Context(), pay, http.MethodGet, server.URL); err != nil {
				t.Error(err)
			}
		}
		ctx := decider.WithCall(t.Context(), decider.Call{IdempotencyKey: c.key})
		if _, err := do(t, ctx, pay, http.MethodPost, server.URL); err == nil {
			t.Error("an answer from a server that gives none")
		}
		if posts.Load() != c.want {
			t.Errorf("kept %t, key %q: %d arrivals, want %d", c.kept, c.key, posts.Load(), c.want)
		}
		base.CloseIdleConnections()
		server.Close()
	}
}

// A breaker in mode all, from the policy file to the call that is not made, and back.
func TestBreakerInModeAllWithARealDecider(t *testing.T) {
	t.Parallel()
	client := startReal(t, `
version: 1
dependencies:
  search: {max_attempts: 2, `+fast+`, breaker: {mode: all, min_attempts: 10, window: 2s, open_for: 1s}}
`)
	var down atomic.Bool
	down.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	search := to(client, "search")
	call := func() (status int, shed bool) {
		status, err := do(t, t.Context(), search, http.MethodGet, server.URL)
		var s *decider.ShedError
		if err != nil && !errors.As(err, &s) {
			t.Fatal(err)
		}
		return status, s != nil
	}
	waitFor := func(what string, so func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("never ", what)
			}
		}
	}
	waitFor("shed", func() bool { _, shed := call(); return shed })
	down.Store(false)
	waitFor("called again", func() bool { status, _ := call(); return status == http.StatusOK })
}
