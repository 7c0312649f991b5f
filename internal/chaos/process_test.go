//go:build linux

package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/programtest"
)

// TestMain lets go of the program that the tests ran. Most of their time is
// waiting, so more of them run side by side than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	programtest.Remove()
	os.Exit(code)
}

// patience bounds everything that a test waits for.
const patience = programtest.Patience

// process is a decider that serves.
type process struct {
	*programtest.Process
	URL string
}

// serve starts a decider on a free port, which must end well with the test.
func serve(t testing.TB, args ...string) *process {
	t.Helper()
	return serveWith(t, nil, args...)
}

// serveWith is serve with more in its environment.
func serveWith(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{Process: programtest.Start(t, programtest.Environment(env...), append([]string{"--listen=127.0.0.1:0"}, args...)...)}
	p.URL = "http://" + p.WaitFor(t, programtest.Address)
	return p
}

// eventually waits until nothing is wrong any more, or fails with what is.
func eventually(t testing.TB, what string, limit time.Duration, wrong func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(limit); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if err = wrong(); err == nil {
			return
		}
	}
	t.Fatalf("%s, after %s: %v", what, limit, err)
}

// call makes one request and decodes its answer of the status that is wanted.
func call(method, url, body string, want int, answer any) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := web.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("%s %s %s: %s, %s", method, url, body, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// web is the tests' HTTP client; it keeps a connection for each of many.
var web = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

// dependency is what the tests look at of a dependency's state.
type dependency struct {
	Breaker  string
	Degraded bool
	Budget   struct{ Tokens, Capacity float64 }
	Override *struct{ Mode, Reason, Author string }
	CoolDown int64 `json:"cool_down_ms"`
}

func (p *process) dependency(t testing.TB, name string) (d dependency) {
	t.Helper()
	if err := call(http.MethodGet, p.URL+"/v1/dependencies/"+name, "", http.StatusOK, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// status is what the tests look at of a replica's status.
type status struct {
	Drift    bool
	Replicas []struct {
		Config string
		Self   bool
	}
	Store struct {
		State, Means    string
		Since           time.Time
		MaxmemoryPolicy string `json:"maxmemory_policy"`
	}
}

func (p *process) status(t testing.TB) (s status) {
	t.Helper()
	if err := call(http.MethodGet, p.URL+"/v1/status", "", http.StatusOK, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// storeIs says what is wrong where the store is not degraded for a reason that
// holds the word.
func storeIs(s status, word string) error {
	if s.Store.State != "degraded" || !strings.Contains(s.Store.Means, word) {
		return fmt.Errorf("%+v", s.Store)
	}
	return nil
}

// know waits until each replica knows of all.
func know(t testing.TB, replicas []*process) {
	t.Helper()
	for _, p := range replicas {
		eventually(t, "the replicas", patience, func() error {
			if n := len(p.status(t).Replicas); n != len(replicas) {
				return fmt.Errorf("%d of %d are known", n, len(replicas))
			}
			return nil
		})
	}
}

// metric is the value of a metric without labels.
func (p *process) metric(t testing.TB, name string) float64 {
	t.Helper()
	response, err := web.Get(p.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
