package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares JSON with a file of testdata, both indented.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	pretty.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pretty.Bytes(), want) {
		t.Errorf("%s is now\n%s\nwant\n%s", name, pretty.Bytes(), want)
	}
}

func TestProblemsAsTheyAreSent(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	for name, body := range map[string]string{
		"problem-not-valid.json": `{"dependency":".p","method":"GET /","status":99,"outcome":"lost","grpc_status":14,"idempotent":"yes","has_idempotency_key":null,
			"retry_after":2,"response_date":"` + strings.Repeat("x", 65) + `","headers":{"Retry-After":"1","retry-after":"2","a/b~c":3},"attempt":0,
			"remaining_ms":1e400,"min_attempt_ms":-1,"previous_delay_ms":1.5,"caller":"-","inbound_attempt":0,"retried_below":[],"decision_id":"",
			"retry-after":"2","<b>":{"a":[1,{"b":2}]}}`,
		"problem-duplicate.json":   `{"dependency":"p","method":"GET","status":503,"status":200}`,
		"problem-incomplete.json":  `{"dependency":"p","method":"GET"`,
		"problem-trailing.json":    `{"dependency":"p","method":"GET","status":503}x`,
		"problem-not-unicode.json": "{\"dependency\":\"p\xff\"}",
		"problem-deep.json":        `{"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
		"problem-empty.json":       "",
		"problem-null.json":        `null`,
		"problem-refused.json":     `{"dependency":"refused","method":"GET","status":503}`,
	} {
		golden(t, name, c.post("/v1/decide", body).body)
	}
	golden(t, "problem-too-large.json", c.post("/v1/decide", strings.Repeat(" ", maxBody+1)).body)
	golden(t, "problem-not-found.json", c.get("/v2").body)
	golden(t, "problem-method.json", c.get("/v1/decide").body)
}

// What JSON allows and the contract refuses, at the very bound.
func TestDepth(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	for depth, want := range map[int]int{63: 422, 64: 400, 10_000: 400, 20_000: 400} { // below the body's own object
		body := `{"dependency":"p","method":"GET","status":503,"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
		if got := c.post("/v1/decide", body); got.status != want {
			t.Errorf("depth %d: status %d, want %d", depth+1, got.status, want)
		}
	}
}

// An answer names what is wrong; a flood of unknown members is not echoed whole.
func TestWrongFieldsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	var members []string
	for i := range 5000 {
		members = append(members, `"m`+itemPlace("", i)[1:]+`":0`)
	}
	got := c.post("/v1/decide", "{"+strings.Join(members, ",")+"}")
	if fields := got.fields(t); got.status != 422 || len(fields) != maxWrong || !strings.Contains(got.member(t, "detail").(string), "and 4747 more") {
		t.Errorf("status %d, %d fields, %.100v", got.status, len(fields), got.member(t, "detail"))
	}
}

func TestPanicIsAProblemAndIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := testConfig(&fakeFleet{ask: func(*decide.Question) decide.Answer { panic("a defect") }})
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	c := newCaller(t, newHandler(t, config))
	for _, call := range []struct{ path, body string }{
		{"/v1/decide", failed},
		{"/v1/decide/batch", `{"attempts":[` + failed + `]}`},
		{"/v1/decide/batch", `{"attempts":[` + failed + `,` + failed + `]}`},
	} {
		log.Reset()
		got := c.post(call.path, call.body)
		if got.status != http.StatusInternalServerError || strings.Contains(string(got.body), "defect\"") {
			t.Errorf("%s: %d %s", call.path, got.status, got.body)
		}
		if text := log.String(); !strings.Contains(text, "a defect") || !strings.Contains(text, "problem_test.go") || !strings.Contains(text, "path="+call.path) {
			t.Errorf("%s: logged %s", call.path, text)
		}
	}
	golden(t, "problem-internal.json", c.post("/v1/decide", failed).body)
	if got := c.get("/livez"); got.status != 200 {
		t.Errorf("/livez answered %d afterwards", got.status)
	}
}

func TestConfigMustBeWhole(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); !errors.Is(err, errIncomplete) {
		t.Errorf("error %v", err)
	}
	config := testConfig(new(fakeFleet))
	h := newHandler(t, config)
	_ = h
	config.Metrics = newRegistry()
	newHandler(t, config)
	if _, err := New(config); err == nil {
		t.Error("two handlers share one registry")
	}
}
