package handlers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bodiesCase is a file of raw bodies with what each must be answered.
type bodiesCase struct {
	AfterEach *bodiesStep `json:"after_each"`
	Steps     []bodiesStep
}

type bodiesStep struct {
	Post, Get string
	Raw       json.RawMessage
	Body      json.RawMessage
	Headers   map[string]string
	Expect    struct {
		Status      json.RawMessage
		ErrorFields []string          `json:"error_fields"`
		HeaderHas   map[string]string `json:"header_has"`
	}
}

// rawBytes is a text, a list of parts, or a part: a text so many times, or base64.
func rawBytes(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) == nil {
		var all strings.Builder
		for _, part := range parts {
			all.WriteString(rawBytes(t, part))
		}
		return all.String()
	}
	var part struct {
		Text  string
		Times int
		B64   []byte
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if part.B64 != nil {
		return string(part.B64)
	}
	return strings.Repeat(part.Text, part.Times)
}

// Bodies that are not valid, each followed by a good one: none may leave the
// service unwell.
func TestGivenBodies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bad-input-given.json", "re-key-collision.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var given bodiesCase
		if err := json.Unmarshal(text, &given); err != nil {
			t.Fatal(err)
		}
		if len(given.Steps) < 20 {
			t.Fatalf("%s has %d steps", name, len(given.Steps))
		}
		for _, chunked := range []bool{false, true} {
			c := newCaller(t, onFakes(t))
			for i, step := range given.Steps {
				step.check(t, c, chunked, name, i)
				if given.AfterEach != nil {
					given.AfterEach.check(t, c, chunked, name+", after", i)
				}
			}
		}
	}
}

func (step *bodiesStep) check(t *testing.T, c *caller, chunked bool, name string, i int) {
	t.Helper()
	r := c.request(http.MethodGet, step.Get, nil)
	if step.Post != "" {
		body := string(step.Body)
		if step.Body == nil {
			body = rawBytes(t, step.Raw)
		}
		r = c.request(http.MethodPost, step.Post, strings.NewReader(body))
		if chunked {
			r.ContentLength = -1
		}
	}
	for key, value := range step.Headers {
		r.Header.Set(key, value)
	}
	got := c.do(r)
	if want := statuses(t, step.Expect.Status); !slices.Contains(want, got.status) {
		t.Errorf("%s, step %d: status %d, want %d: %.200s", name, i, got.status, want, got.body)
		return
	}
	if step.Expect.ErrorFields != nil {
		fields := got.fields(t)
		slices.Sort(fields)
		if !slices.Equal(fields, step.Expect.ErrorFields) {
			t.Errorf("%s, step %d: fields %q, want %q", name, i, fields, step.Expect.ErrorFields)
		}
	}
	for key, part := range step.Expect.HeaderHas {
		if value := strings.Join(got.header.Values(key), ", "); !strings.Contains(value, part) {
			t.Errorf("%s, step %d: %s is %q", name, i, key, value)
		}
	}
}

func statuses(t *testing.T, raw json.RawMessage) []int {
	t.Helper()
	var one int
	if raw == nil {
		return []int{http.StatusOK}
	}
	if json.Unmarshal(raw, &one) == nil {
		return []int{one}
	}
	var several []int
	if err := json.Unmarshal(raw, &several); err != nil {
		t.Fatal(err)
	}
	return several
}

// A body that stalls is told of, within the server's time for it.
func TestABodyThatStalls(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(onFakes(t))
	server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = 30*time.Second, 300*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	c := &caller{t, server}
	for _, path := range []string{"/v1/decide", "/v1/decide/batch", "/v1/outcomes", "/v1/explain"} {
		body, writer := io.Pipe()
		go io.WriteString(writer, `{"dependency":`) //nolint:errcheck // the server may have answered before
		got := c.do(c.request(http.MethodPost, path, body))
		if got.status != http.StatusRequestTimeout || got.member(t, "type") != problemURN+"too-slow" {
			t.Errorf("%s: %d: %s", path, got.status, got.body)
		}
		writer.Close()
	}
}
