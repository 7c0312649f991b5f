package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/identity"
)

// Every call has the role that it is tagged with in the contract, and a call that
// is tagged open asks for nothing.
func TestRolesAreTheContracts(t *testing.T) {
	t.Parallel()
	braces := regexp.MustCompile(`\{(\w+)\}`)
	inContract := map[call]bool{}
	for path, item := range contract.Paths.Map() {
		for method, operation := range item.Operations() {
			c := call{method, braces.ReplaceAllString(path, ":$1")}
			inContract[c] = true
			role, known := roleOf[c]
			word := "open"
			if role != open {
				word = role.String()
			}
			if !known || !slices.Contains(operation.Tags, word) {
				t.Errorf("%v is tagged %v, its role is %v", c, operation.Tags, word)
			}
			if asks := operation.Security != nil && len(*operation.Security) > 0; asks != (role != open) {
				t.Errorf("%v: security %v", c, operation.Security)
			}
		}
	}
	for c, role := range roleOf {
		if like, ok := strings.CutSuffix(c.path, "*"); ok && role != open {
			c.path = like + ":dependency"
			if role == identity.Operate {
				c.path += "/override"
			}
			if roleOf[c] != role {
				t.Errorf("%v: %v with a slash in the name, %v without", c, role, roleOf[c])
			}
			continue
		}
		if !inContract[c] && role != open {
			t.Errorf("%v is not in the contract", c)
		}
	}
}

// someone is one row of the matrix: what a key, or none, may do.
type someone struct {
	name                  string
	key                   string // "" sends none
	known                 bool
	report, read, operate bool
	touches               []string // of matrixNames; nil: all
}

// matrixNames are the dependencies of the matrix: the policy file names one, has
// a pattern for one, and the rule of all others for one.
var matrixNames = []string{"payments", "svc-a/b", "elsewhere"}

// newDoor writes an auth file and opens it.
func newDoor(t testing.TB, text string) *identity.Door {
	t.Helper()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	live, err := identity.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return &identity.Door{Keys: live}
}

// matrix makes an identity of every set of roles, bound to no dependency, to a
// name and to a pattern, and those whom nobody knows.
func matrix(t testing.TB) ([]someone, *identity.Door) {
	var all []someone
	file := "version: 1\nidentities:\n"
	for roles := identity.Role(1); roles <= identity.Report|identity.Read|identity.Operate; roles++ {
		for _, bound := range []struct {
			words   string
			touches []string
		}{
			{"", nil},
			{", dependencies: [payments]", []string{"payments"}},
			{`, dependencies: ["svc-*", nobody]`, []string{"svc-a/b"}},
		} {
			one := someone{name: strings.NewReplacer("+", "-", "/", "-").Replace(roles.String() + ":" + strings.Join(bound.touches, "")), key: identity.NewKey(), known: true,
				touches: bound.touches, report: roles&identity.Report != 0, read: roles&identity.Read != 0, operate: roles&identity.Operate != 0}
			var words []string
			for _, each := range []identity.Role{identity.Report, identity.Read, identity.Operate} {
				if roles&each != 0 {
					words = append(words, each.String())
				}
			}
			file += fmt.Sprintf("  %q: {keys: [%q], roles: [%s]%s}\n", one.name, identity.Digest(one.key), strings.Join(words, ", "), bound.words)
			all = append(all, one)
		}
	}
	all = append(all, someone{name: "nobody"}, someone{name: "unknown", key: identity.NewKey()}, someone{name: "no key", key: "Bearer"})
	return all, newDoor(t, file)
}

// matrixCall is one column of the matrix.
type matrixCall struct {
	name, method, path, body string
	may                      func(s *someone) bool
	// touches: the call is one on the dependency. itemwise: its refusal is a problem
	// within a 200.
	touches, itemwise bool
}

func mayReport(s *someone) bool  { return s.report }
func mayRead(s *someone) bool    { return s.read }
func mayOperate(s *someone) bool { return s.operate }
func mayAll(*someone) bool       { return true }

var matrixCalls = []matrixCall{
	{"decide", "POST", "/v1/decide", `{"dependency":"NAME","method":"GET","status":503}`, mayReport, true, false},
	{"batch", "POST", "/v1/decide/batch", `{"attempts":[{"dependency":"NAME","method":"GET","status":503}]}`, mayReport, true, true},
	{"outcomes", "POST", "/v1/outcomes", `{"outcomes":[{"dependency":"NAME","first_try_successes":1}]}`, mayReport, true, true},
	{"explain", "POST", "/v1/explain", `{"dependency":"NAME","method":"GET","status":503}`, mayRead, false, false},
	{"dependencies", "GET", "/v1/dependencies", "", mayRead, false, false},
	{"dependency", "GET", "/v1/dependencies/ESCAPED", "", mayRead, false, false},
	{"dependency as typed", "GET", "/v1/dependencies/NAME", "", mayRead, false, false},
	{"HEAD of a dependency", "HEAD", "/v1/dependencies/ESCAPED", "", mayRead, false, false},
	{"set", "PUT", "/v1/dependencies/ESCAPED/override", `{"mode":"pause","expires_in_ms":1000,"reason":"x"}`, mayOperate, true, false},
	{"set as typed", "PUT", "/v1/dependencies/NAME/override", `{"mode":"pause","expires_in_ms":1000,"reason":"x"}`, mayOperate, true, false},
	{"lift", "DELETE", "/v1/dependencies/ESCAPED/override", "", mayOperate, true, false},
	{"lift as typed", "DELETE", "/v1/dependencies/NAME/override", "", mayOperate, true, false},
	{"decisions", "GET", "/v1/decisions", "", mayRead, false, false},
	{"stream", "HEAD", "/v1/decisions/stream", "", mayRead, false, false},
	{"status", "GET", "/v1/status", "", mayRead, false, false},
	{"livez", "GET", "/livez", "", mayAll, false, false},
	{"readyz", "GET", "/readyz", "", mayAll, false, false},
	{"metrics", "GET", "/metrics", "", mayAll, false, false},
	{"contract", "GET", "/openapi.yaml", "", mayAll, false, false},
	{"schema", "GET", "/policies.schema.json", "", mayAll, false, false},
	{"docs", "GET", "/docs", "", mayAll, false, false},
}

// want is the cell: the status, and the status of the item where that is what is refused.
func (m *matrixCall) want(s *someone, dependency string) (status, item int) {
	isOpen := strings.HasPrefix(m.path, "/v1/")
	switch {
	case !isOpen:
		return 200, 0
	case !s.known:
		return 401, 0
	case !m.may(s):
		return 403, 0
	case m.touches && s.touches != nil && !slices.Contains(s.touches, dependency):
		if m.itemwise {
			return 200, 403
		}
		return 403, 0
	}
	return 200, 0
}

// TestMatrix: key × role × dependency × call, every cell, and nothing reaches the
// fleet that should not.
func TestMatrix(t *testing.T) {
	t.Parallel()
	people, door := matrix(t)
	var reached atomic.Int64
	config := testConfig(&fakeFleet{
		ask:    func(*decide.Question) decide.Answer { reached.Add(1); return decide.Answer{} },
		report: func(*decide.Outcome) decide.State { reached.Add(1); return decide.State{} },
		setOverride: func(_ string, o decide.Override) (decide.State, error) {
			reached.Add(1)
			return decide.State{Override: o}, nil
		},
	})
	config.Door = door
	c := newCaller(t, newHandler(t, config))
	cells, changing := 0, []string{"decide", "batch", "outcomes", "set", "set as typed", "lift", "lift as typed"}
	for i := range people {
		for j := range matrixCalls {
			for _, dependency := range matrixNames {
				one, m := &people[i], &matrixCalls[j]
				before := reached.Load()
				got := c.do(matrixRequest(c, one, m, dependency))
				status, item := m.want(one, dependency)
				cells++
				name := fmt.Sprintf("%s, %s, %s", one.name, m.name, dependency)
				if got.status != status {
					t.Errorf("%s: %d, want %d: %s", name, got.status, status, got.body)
				}
				if status == 401 && len(got.header["Www-Authenticate"]) != 2 {
					t.Errorf("%s: WWW-Authenticate %q", name, got.header["Www-Authenticate"])
				}
				if n := itemStatus(t, m, got); n != item {
					t.Errorf("%s: an item of %d, want %d: %s", name, n, item, got.body)
				}
				want := status == 200 && item == 0 && slices.Contains(changing, m.name)
				if m.name != "explain" && reached.Load() > before != want { // explain only looks
					t.Errorf("%s: reached the fleet: %v", name, !want)
				}
			}
		}
	}
	t.Logf("%d cells", cells)
	if cells < 1500 {
		t.Errorf("%d cells are not every one", cells)
	}
}

func matrixRequest(c *caller, one *someone, m *matrixCall, dependency string) *http.Request {
	fill := strings.NewReplacer("NAME", dependency, "ESCAPED", strings.ReplaceAll(dependency, "/", "%2F"))
	var body io.Reader
	if m.body != "" {
		body = strings.NewReader(fill.Replace(m.body))
	}
	r := c.request(m.method, fill.Replace(m.path), body)
	if one.key != "" {
		r.Header.Set("Authorization", "Bearer "+one.key)
	}
	return r
}

// itemStatus is the status of the problem of the one item of an answer, 0 where
// the item is none or there are no items.
func itemStatus(t *testing.T, m *matrixCall, got *reply) int {
	t.Helper()
	if !m.itemwise || got.status != 200 {
		return 0
	}
	var answer struct {
		Answers      []problem
		Dependencies []struct{ Problem problem }
	}
	if err := json.Unmarshal(got.body, &answer); err != nil {
		t.Fatal(err)
	}
	p := problem{}
	if len(answer.Answers) == 1 {
		p = answer.Answers[0]
	} else if len(answer.Dependencies) == 1 {
		p = answer.Dependencies[0].Problem
	}
	if p.Status == 403 && (len(p.Errors) != 1 || !strings.HasSuffix(p.Errors[0].Field, "/0/dependency")) {
		t.Errorf("%s: errors %v", m.name, p.Errors)
	}
	return p.Status
}

// An override is its identity's, and the status tells an identity what it may do.
func TestIdentityIsTold(t *testing.T) {
	t.Parallel()
	key := identity.NewKey()
	var log bytes.Buffer
	config := testConfig(new(fakeFleet))
	config.Door = newDoor(t, "version: 1\nidentities:\n  jo@ops: {keys: ["+fmt.Sprintf("%q", identity.Digest(key))+"], roles: [read, operate]}\n")
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	c := newCaller(t, newHandler(t, config))
	send := func(method, path, body string) *reply {
		r := c.request(method, path, strings.NewReader(body))
		r.SetBasicAuth("jo@ops", key)
		return c.do(r)
	}
	if got := send("PUT", "/v1/dependencies/payments/override", `{"mode":"pause","expires_in_ms":1000,"reason":"why"}`); got.member(t, "override.author") != "jo@ops" {
		t.Errorf("%s", got.body)
	}
	send("DELETE", "/v1/dependencies/payments/override", "")
	if got := send("GET", "/v1/status", ""); fmt.Sprint(got.member(t, "roles")) != "[read operate]" {
		t.Errorf("%s", got.body)
	}
	send("POST", "/v1/decide", failed)
	for _, want := range []string{`msg="an override was set" dependency=payments author=jo@ops from=127.0.0.1 mode=pause expires_in_ms=1000 reason=why`,
		`msg="no override was there to be lifted" dependency=payments author=jo@ops`, `level=WARN msg="a request was refused" why=role from=127.0.0.1 method=POST route=/v1/decide identity=jo@ops`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), key) {
		t.Error("the key is in the log")
	}
}

// A page of another site cannot use what a browser sends by itself.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	for _, site := range []struct {
		name, value string
		want        int
	}{
		{"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403}, {"Sec-Fetch-Site", "same-origin", 200}, {"Origin", "https://evil.example", 403}, {"X-Other", "x", 200},
	} {
		r := c.request("POST", "/v1/decide", strings.NewReader(failed))
		r.Header.Set(site.name, site.value)
		if got := c.do(r); got.status != site.want {
			t.Errorf("%v: %d", site, got.status)
		}
	}
}

// A page that came to a loopback listener by a name of its own is of another site,
// though its Origin is that of the Host.
func TestHostsThatAreNotThisMachine(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	open := newCaller(t, newHandler(t, config))
	config.LoopbackOnly = true
	config.Metrics = nil
	c := newCaller(t, newHandler(t, config))
	put := func(c *caller, host, origin string) *reply {
		r := c.request(http.MethodPut, "/v1/dependencies/payments/override", strings.NewReader(`{"mode":"pause","expires_in_ms":1000,"reason":"it is down"}`))
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		return c.do(r)
	}
	for _, host := range []string{"localhost", "localhost:8080", "LocalHost:1", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3:1", "[::1]", "[::1]:8080"} {
		if got := put(c, host, "http://"+host); got.status != 200 {
			t.Errorf("%s: %d %s", host, got.status, got.body)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example:1", "192.0.2.1", "[2001:db8::1]:1", "0.0.0.0:8080"} {
		got := put(c, host, "http://"+host)
		if got.status != 403 || got.member(t, "type") != problemURN+"forbidden" || !strings.Contains(string(got.body), "no loopback name or address") {
			t.Errorf("%s: %d %s", host, got.status, got.body)
		}
		if got := put(c, host, ""); got.status != 200 {
			t.Errorf("%s, sent by no page: %d", host, got.status)
		}
		if got := put(open, host, "http://"+host); got.status != 200 {
			t.Errorf("%s, where others are let in: %d", host, got.status)
		}
	}
	if text := string(c.get("/metrics").body); !strings.Contains(text, `decider_requests_refused_total{why="cross_site"} 7`) {
		t.Error("the refusals are not counted as cross_site")
	}
}

// The limits of an identity are its own, and this replica's hold for everybody.
func TestLimitsOfRequests(t *testing.T) {
	t.Parallel()
	slow, fast, one := identity.NewKey(), identity.NewKey(), identity.NewKey()
	hold, held := make(chan struct{}), make(chan struct{}, 2)
	config := testConfig(&fakeFleet{ask: func(q *decide.Question) decide.Answer {
		if q.Bucket == "payments" {
			held <- struct{}{}
			<-hold
		}
		return decide.Answer{}
	}})
	config.Now, config.MaxConcurrent = func() time.Time { return epoch }, 2
	config.Door = newDoor(t, fmt.Sprintf("version: 1\nidentities:\n  slow: {keys: [%q], roles: [report], requests_per_second: 2}\n  fast: {keys: [%q], roles: [report]}\n  one: {keys: [%q], roles: [report], concurrent: 1}\n",
		identity.Digest(slow), identity.Digest(fast), identity.Digest(one)))
	c := newCaller(t, newHandler(t, config))
	send := func(key, dependency string) *reply {
		r := c.request("POST", "/v1/decide", strings.NewReader(`{"dependency":"`+dependency+`","method":"GET","status":503}`))
		r.Header.Set("Authorization", "Bearer "+key)
		return c.do(r)
	}
	expect := func(what string, got *reply, status int, kind string) {
		t.Helper()
		if got.status != status || status != 200 && (got.member(t, "type") != problemURN+kind || got.header.Get("Retry-After") != "1") {
			t.Errorf("%s: %d, Retry-After %q: %s", what, got.status, got.header.Get("Retry-After"), got.body)
		}
	}
	for range 2 {
		expect("within the rate", send(slow, "elsewhere"), 200, "")
	}
	expect("above the rate", send(slow, "elsewhere"), 429, "too-many-requests")
	expect("another's rate", send(fast, "elsewhere"), 200, "")

	var group sync.WaitGroup
	group.Go(func() { expect("the one at once", send(one, "payments"), 200, "") })
	<-held
	expect("a second at once", send(one, "elsewhere"), 429, "too-many-requests")
	expect("another's second", send(fast, "elsewhere"), 200, "")
	group.Go(func() { expect("the replica's second", send(fast, "payments"), 200, "") })
	<-held
	expect("the replica's third", send(fast, "elsewhere"), 503, "overloaded")
	if got := c.get("/readyz"); got.status != 200 {
		t.Errorf("readyz of a busy replica: %d", got.status)
	}
	close(hold)
	group.Wait()
	expect("when there is room again", send(one, "elsewhere"), 200, "")

	text := string(c.get("/metrics").body)
	for why, n := range map[string]int{"rate": 1, "concurrent": 1, "overloaded": 1} {
		if want := fmt.Sprintf("decider_requests_refused_total{why=%q} %d\n", why, n); !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// Whoever tries keys fills no log: one line a second tells how many there were. Nor
// do they hide what else is refused meanwhile.
func TestRefusalsAreSampled(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var now atomic.Int64
	config := testConfig(new(fakeFleet))
	reader := identity.NewKey()
	config.Door = newDoor(t, fmt.Sprintf("version: 1\nidentities:\n  reader: {keys: [%q], roles: [read]}\n", identity.Digest(reader)))
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	config.Now = func() time.Time { return epoch.Add(time.Duration(now.Load())) }
	h := newHandler(t, config)
	for i := range 250 {
		now.Store(int64(i) * int64(10*time.Millisecond))
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/status", nil)
		key := identity.NewKey()
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 401 || strings.Contains(log.String()+w.Body.String(), key) {
			t.Fatalf("%d: %s\n%s", w.Code, w.Body, log.String())
		}
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodDelete, "/v1/dependencies/payments/override", nil)
	r.Header.Set("Authorization", "Bearer "+reader)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !strings.Contains(log.String(), "why=role") {
		t.Errorf("bad keys hide a refused override:\n%s", log.String())
	}
	if n := strings.Count(log.String(), "why=unidentified"); n != 3 || strings.Count(log.String(), "not_logged_before=99") != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// A time in the log says its unit, the same in both forms: slog's own durations
// are text in one and bare nanoseconds in the other.
func TestLoggedTimesHaveAUnit(t *testing.T) {
	t.Parallel()
	for want, form := range map[string]func(io.Writer) slog.Handler{
		`took_ms=1.5`:   func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		`"took_ms":1.5`: func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var log bytes.Buffer
		var now atomic.Int64
		config := testConfig(new(fakeFleet))
		config.AccessLog, config.Log = 1, slog.New(form(&log))
		config.Now = func() time.Time { return epoch.Add(time.Duration(now.Load())) }
		status := config.Status
		config.Status = func() Status { now.Add(int64(1500 * time.Microsecond)); return status() }
		newHandler(t, config).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil))
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, &log)
		}
	}
}
