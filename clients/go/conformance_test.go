package decider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// conformanceStart is what clients/conformance says of a case.
type conformanceStart struct {
	Client struct {
		AskTimeout     int64  `json:"ask_timeout_ms"`
		AttemptTimeout int64  `json:"attempt_timeout_ms"`
		Caller         string `json:"caller"`
		Dependency     string `json:"dependency"`
		MakeKeys       bool   `json:"make_keys"`
	} `json:"client"`
	DeciderURL string            `json:"decider_url"`
	ResultsURL string            `json:"results_url"`
	Calls      []conformanceCall `json:"calls"`
}

type conformanceCall struct {
	Method      string            `json:"method"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"`
	Body        string            `json:"body"`
	BodyOnce    bool              `json:"body_once"`
	Timeout     int64             `json:"timeout_ms"`
	CancelAfter int64             `json:"cancel_after_ms"`
	Pause       int64             `json:"pause_ms"`
	FlushBefore bool              `json:"flush_before"`
}

type conformanceResult struct {
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	Error  string `json:"error,omitempty"`
	Took   int64  `json:"took_ms"`
}

// startConformance builds and starts the conformance server of all languages.
func startConformance(t *testing.T) (url string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "conformance")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = "../conformance"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.Command(binary, "-cases", "../testdata")
	in, err := server.StdinPipe() // the server ends when this does
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := server.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatal(err)
	}
	return said.URL
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := startConformance(t)
	var ids []string
	control := &http.Client{Transport: own(t)}
	conformanceJSON(t, control, http.MethodGet, server+"/cases", nil, &ids)
	if len(ids) < 40 {
		t.Errorf("%d cases", len(ids))
	}
	t.Run("cases", func(t *testing.T) {
		for _, id := range ids {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				var start conformanceStart
				conformanceJSON(t, control, http.MethodPost, server+"/cases/"+id, nil, &start)
				var verdict struct {
					Pass     bool     `json:"pass"`
					Failures []string `json:"failures"`
				}
				conformanceJSON(t, control, http.MethodPost, start.ResultsURL, map[string]any{"results": start.run(t)}, &verdict)
				if !verdict.Pass {
					t.Error(strings.Join(verdict.Failures, "\n"))
				}
			})
		}
	})
}

// run makes the calls of a case through a client as it says.
func (s *conformanceStart) run(t *testing.T) (results []conformanceResult) {
	client, err := NewClient(s.DeciderURL, WithTimeout(time.Duration(s.Client.AskTimeout)*time.Millisecond), WithCaller(s.Client.Caller),
		WithReportInterval(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	options := []TransportOption{
		WithBase(own(t)), WithDependency(func(*http.Request) string { return s.Client.Dependency }),
		WithAttemptTimeout(time.Duration(s.Client.AttemptTimeout) * time.Millisecond),
	}
	if s.Client.MakeKeys {
		options = append(options, WithIdempotencyKey(nil))
	}
	transport := NewTransport(client, options...)
	for _, each := range s.Calls {
		if each.FlushBefore {
			for range 2 { // a report that fails is sent again with the next
				_ = client.Flush(t.Context())
			}
		}
		time.Sleep(time.Duration(each.Pause) * time.Millisecond)
		results = append(results, each.make(t, transport))
	}
	_ = client.Close(t.Context())
	return results
}

func (c *conformanceCall) make(t *testing.T, transport *Transport) (r conformanceResult) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if c.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.Timeout)*time.Millisecond)
		defer cancel()
	}
	if c.CancelAfter > 0 {
		time.AfterFunc(time.Duration(c.CancelAfter)*time.Millisecond, cancel)
	}
	req := request(t, ctx, c.Method, c.URL, c.Body)
	if c.BodyOnce {
		req.GetBody = nil
	}
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	begin := time.Now()
	response, err := transport.RoundTrip(req)
	r.Took = time.Since(begin).Milliseconds()
	var shed *ShedError
	switch {
	case err == nil:
		r.Status, r.Body = response.StatusCode, text(t, response)
	case errors.As(err, &shed):
		r.Error = "shed"
	case errors.Is(err, context.Canceled):
		r.Error = "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		r.Error = "timeout"
	default:
		r.Error = "other"
	}
	return r
}

func conformanceJSON(t *testing.T, client *http.Client, method, url string, document, answer any) {
	t.Helper()
	body, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", url, response.Status, said, err)
	}
	if err := json.Unmarshal(said, answer); err != nil {
		t.Fatal(err)
	}
}
