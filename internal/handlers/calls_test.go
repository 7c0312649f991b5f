package handlers

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// contractCall is one row of the table of every call. The same table runs over
// every store: it says nothing that a budget could change.
type contractCall struct {
	name, method, path, body string
	status                   int
	fields                   []string          // that the problem names, in order
	members                  map[string]any    // of the answer, by paths with dots
	headers                  map[string]string // a part of each header of the answer
}

const failed = `{"dependency":"payments","method":"GET","status":503,"attempt":1,"remaining_ms":8000}`

var contractCalls = []contractCall{
	{name: "decide: retry", path: "/v1/decide", body: failed, status: 200,
		members: map[string]any{"decision": "retry", "delay_ms": 200.0, "reason": "backoff", "next_attempt": 2.0, "remaining_ms": 7800.0,
			"retry_after": "absent", "policy": "payments", "degraded": false, "ask_again_in_ms": nil, "server_delay_ms": nil}},
	{name: "decide: the server's wait", path: "/v1/decide", status: 200,
		body:    `{"dependency":"payments","method":"GET","status":503,"retry_after":"2"}`,
		members: map[string]any{"delay_ms": 2000.0, "reason": "retry_after", "server_delay_ms": 2000.0, "retry_after": "used", "remaining_ms": nil}},
	{name: "decide: give up", path: "/v1/decide", status: 200,
		body:    `{"dependency":"payments","method":"POST","outcome":"timeout","retry_after":"soon","decision_id":"mine"}`,
		members: map[string]any{"decision": "give_up", "delay_ms": 0.0, "reason": "not_safe_to_repeat", "retry_after": "malformed", "budget": nil, "decision_id": "mine", "next_attempt": nil}},
	{name: "decide: the member wins over the header", path: "/v1/decide", status: 200,
		body:    `{"dependency":"payments","method":"GET","status":503,"retry_after":"3","headers":{"RETRY-AFTER":"9"}}`,
		members: map[string]any{"delay_ms": 3000.0}},
	{name: "decide: the member wins, whichever comes first", path: "/v1/decide", status: 200,
		body:    `{"headers":{"Retry-After":"9","Date":"x"},"response_date":"y","retry_after":"3","dependency":"payments","method":"GET","status":503}`,
		members: map[string]any{"delay_ms": 3000.0}},
	{name: "decide: a header in any case", path: "/v1/decide", status: 200,
		body:    `{"dependency":"payments","method":"GET","status":503,"headers":{"Retry-After-MS":"1500"}}`,
		members: map[string]any{"delay_ms": 1500.0}},
	{name: "decide: a name with escapes", path: "/v1/decide", status: 200,
		body:    `{"dependen\u0063y":"pay\u006Dents","method":"get","status":5.03e2}`,
		members: map[string]any{"dependency": "payments", "reason": "backoff"}},
	{name: "decide: a refused dependency", path: "/v1/decide", status: 404, fields: []string{"/dependency"},
		body: `{"dependency":"refused","method":"GET","status":503}`, members: map[string]any{"type": "urn:decider:problem:unknown-dependency"}},

	{name: "batch", path: "/v1/decide/batch", body: `{"attempts":[` + failed + `,{"dependency":"payments","method":"GET","status":200}]}`, status: 200},
	{name: "batch: no attempts", path: "/v1/decide/batch", body: `{"attempts":[]}`, status: 422, fields: []string{"/attempts"}},
	{name: "batch: too many", path: "/v1/decide/batch", body: `{"attempts":[` + strings.Repeat("{},", 1000) + `{}]}`, status: 422, fields: []string{"/attempts"}},
	{name: "batch: no list", path: "/v1/decide/batch", body: `{"attempts":{}}`, status: 422, fields: []string{"/attempts"}},
	{name: "batch: an attempt alone", path: "/v1/decide/batch", body: `{"dependency":"payments"}`, status: 422, fields: []string{"/dependency", "/attempts"}},
	{name: "batch: a list alone", path: "/v1/decide/batch", body: `[` + failed + `]`, status: 422, fields: []string{""}},
	{name: "batch: not JSON inside", path: "/v1/decide/batch", body: `{"attempts":[{"dependency":"p","dependency":"q"}]}`, status: 400, fields: []string{"/attempts/0/dependency"}},
	{name: "batch: wrong within and without", path: "/v1/decide/batch", body: `{"x":1,"attempts":[{}],"y":2}`, status: 422, fields: []string{"/x", "/y"}},

	{name: "outcomes", path: "/v1/outcomes", status: 200,
		body: `{"caller":"checkout","report_id":"r-1","outcomes":[{"dependency":"payments","first_try_successes":118,"retry_successes":2,"final_failures":1},{"dependency":"svc-a"}]}`},
	{name: "outcomes: a refused dependency spoils no other", path: "/v1/outcomes", status: 200,
		body: `{"outcomes":[{"dependency":"refused-1"},{"dependency":"payments"}]}`},
	{name: "outcomes: everything wrong", path: "/v1/outcomes", status: 422,
		body: `{"caller":"","report_id":"a b","when":0,"outcomes":[{"dependency":"p","first_try_successes":-1},{"dependency":"p","retry_successes":2147483648,"final_failures":1.5,"lost":1},{},7]}`,
		fields: []string{"/caller", "/report_id", "/when", "/outcomes/0/first_try_successes", "/outcomes/1/retry_successes", "/outcomes/1/final_failures",
			"/outcomes/1/lost", "/outcomes/1/dependency", "/outcomes/2/dependency", "/outcomes/3"}},
	{name: "outcomes: none", path: "/v1/outcomes", body: `{"caller":"checkout"}`, status: 422, fields: []string{"/outcomes"}},
	{name: "outcomes: an empty list", path: "/v1/outcomes", body: `{"outcomes":[]}`, status: 422, fields: []string{"/outcomes"}},
	{name: "outcomes: null", path: "/v1/outcomes", body: `null`, status: 422, fields: []string{""}},
	{name: "outcomes: too large", path: "/v1/outcomes", body: `{"outcomes":[{"dependency":"p"}]}` + strings.Repeat(" ", 1<<20), status: 413},

	{name: "explain", path: "/v1/explain", body: failed, status: 200, members: map[string]any{"decision": "retry"}},
	{name: "explain: a give-up", path: "/v1/explain", body: `{"dependency":"payments","method":"GET","status":404}`, status: 200, members: map[string]any{"reason": "not_retryable"}},
	{name: "explain: not valid", path: "/v1/explain", body: `{}`, status: 422, fields: []string{"/dependency", "/method", "/status"}},

	{name: "dependencies", method: "GET", path: "/v1/dependencies", status: 200, headers: map[string]string{"Cache-Control": "no-store"}},
	{name: "dependencies: a wrong caller", method: "GET", path: "/v1/dependencies?caller=%20", status: 422, fields: []string{"/caller"}},
	{name: "dependency", method: "GET", path: "/v1/dependencies/payments?caller=checkout", status: 200, members: map[string]any{"policy.name": "payments", "policy.budget.ratio": 0.1}},
	{name: "dependency: a slash", method: "GET", path: "/v1/dependencies/svc-a%2Fb:c", status: 200, members: map[string]any{"dependency": "svc-a/b:c", "policy.name": "svc-*"}},
	{name: "dependency: a slash as it is, which people type", method: "GET", path: "/v1/dependencies/svc-a/b", status: 200, members: map[string]any{"dependency": "svc-a/b"}},
	{name: "dependency: no name", method: "GET", path: "/v1/dependencies/", status: 404, members: map[string]any{"type": "urn:decider:problem:not-found"}},
	{name: "dependency: an escape of an escape", method: "GET", path: "/v1/dependencies/a%252Fb", status: 422, fields: []string{"/dependency"}},
	{name: "dependency: all wrong", method: "GET", path: "/v1/dependencies/-p?caller=-c", status: 422, fields: []string{"/dependency", "/caller"}},
	{name: "dependency: refused", method: "GET", path: "/v1/dependencies/refused", status: 404, fields: []string{"/dependency"}},
	{name: "override: pause", method: "PUT", path: "/v1/dependencies/payments/override", body: `{"mode":"pause","expires_in_ms":600000,"reason":"payments fails over"}`, status: 200,
		members: map[string]any{"dependency": "payments", "override.mode": "pause", "override.expires_in_ms": 600000.0, "override.reason": "payments fails over",
			"override.author": "anonymous", "degraded": false, "fallback.on_failure": "local"}},
	{name: "override: allow, the shortest", method: "PUT", path: "/v1/dependencies/payments%2Fcapture/override", body: `{"mode":"allow","expires_in_ms":1e0,"reason":"x"}`, status: 200,
		members: map[string]any{"dependency": "payments/capture", "override.mode": "allow", "override.reason": "x"}},
	{name: "override: a slash as it is, which people type", method: "PUT", path: "/v1/dependencies/payments/capture/override", body: `{"mode":"allow","expires_in_ms":1000,"reason":"x"}`, status: 200,
		members: map[string]any{"dependency": "payments/capture", "override.mode": "allow"}},
	{name: "override: lifted, a slash as it is", method: "DELETE", path: "/v1/dependencies/payments/capture/override", status: 200,
		members: map[string]any{"dependency": "payments/capture", "override": nil}},
	{name: "override: PUT elsewhere", method: "PUT", path: "/v1/dependencies/payments/capture", body: `{}`, status: 404},
	{name: "override: the longest", method: "PUT", path: "/v1/dependencies/payments/override", status: 200,
		body: `{"mode":"pause","expires_in_ms":86400000,"reason":"` + strings.Repeat("ü", 256) + `"}`, members: map[string]any{"override.expires_in_ms": 86400000.0}},
	{name: "override: lifted", method: "DELETE", path: "/v1/dependencies/payments/override", status: 200,
		members: map[string]any{"dependency": "payments", "override": nil}},
	{name: "override: nothing of it", method: "PUT", path: "/v1/dependencies/payments/override", body: `{}`, status: 422, fields: []string{"/mode", "/expires_in_ms", "/reason"}},
	{name: "override: all wrong", method: "PUT", path: "/v1/dependencies/-/override", status: 422,
		body: `{"author":"me","mode":"stop","expires_in_ms":0,"reason":""}`, fields: []string{"/author", "/mode", "/expires_in_ms", "/reason", "/dependency"}},
	{name: "override: wrong types", method: "PUT", path: "/v1/dependencies/payments/override", status: 422,
		body: `{"mode":true,"expires_in_ms":"1","reason":7}`, fields: []string{"/mode", "/expires_in_ms", "/reason"}},
	{name: "override: too long", method: "PUT", path: "/v1/dependencies/payments/override", status: 422,
		body: `{"mode":"none","expires_in_ms":86400001,"reason":"` + strings.Repeat("ü", 257) + `"}`, fields: []string{"/mode", "/expires_in_ms", "/reason"}},
	{name: "override: no object", method: "PUT", path: "/v1/dependencies/payments/override", body: `[]`, status: 422, fields: []string{""}},
	{name: "override: null", method: "PUT", path: "/v1/dependencies/-/override", body: `null`, status: 422, fields: []string{"", "/dependency"}},
	{name: "override: given twice", method: "PUT", path: "/v1/dependencies/payments/override", body: `{"mode":"pause","mode":"allow"}`, status: 400, fields: []string{"/mode"}},
	{name: "override: no dependency, set", method: "PUT", path: "/v1/dependencies/-/override", body: `{"mode":"pause","expires_in_ms":1,"reason":"x"}`, status: 422, fields: []string{"/dependency"}},
	{name: "override: no dependency, lifted", method: "DELETE", path: "/v1/dependencies/-/override", status: 422, fields: []string{"/dependency"}},
	{name: "override: a refused dependency, set", method: "PUT", path: "/v1/dependencies/refused/override", body: `{"mode":"pause","expires_in_ms":1,"reason":"x"}`, status: 404, fields: []string{"/dependency"}},
	{name: "override: a refused dependency, lifted", method: "DELETE", path: "/v1/dependencies/refused/override", status: 404, fields: []string{"/dependency"}},
	{name: "GET of an override", method: "GET", path: "/v1/dependencies/payments/override", status: 405, headers: map[string]string{"Allow": "DELETE, PUT"}},

	{name: "status", method: "GET", path: "/v1/status", status: 200},
	{name: "livez", method: "GET", path: "/livez", status: 200, members: map[string]any{"state": "alive"}},
	{name: "readyz", method: "GET", path: "/readyz", status: 200, members: map[string]any{"state": "ready"}},
	{name: "metrics", method: "GET", path: "/metrics", status: 200, headers: map[string]string{"Content-Type": "text/plain", "Cache-Control": "no-store"}},
	{name: "openapi.yaml", method: "GET", path: "/openapi.yaml", status: 200, headers: map[string]string{"Content-Type": "application/yaml"}},
	{name: "policies.schema.json", method: "GET", path: "/policies.schema.json", status: 200, headers: map[string]string{"Content-Type": "application/schema+json"}},
	{name: "docs", method: "GET", path: "/docs", status: 200, headers: map[string]string{"Content-Type": "text/html", "Content-Security-Policy": "default-src 'none'"}},

	{name: "no such path", path: "/v1/decided", body: failed, status: 404},
	{name: "no such path for GET", method: "GET", path: "/", status: 404},
	{name: "GET of a POST", method: "GET", path: "/v1/decide", status: 405, headers: map[string]string{"Allow": "POST"}},
	{name: "PUT of a POST", method: "PUT", path: "/v1/decide/batch", body: `{}`, status: 405, headers: map[string]string{"Allow": "POST"}},
	{name: "POST of a GET", path: "/livez", body: `{}`, status: 405, headers: map[string]string{"Allow": "GET"}},
	{name: "HEAD of a GET", method: "HEAD", path: "/v1/status", status: 200},
	{name: "OPTIONS", method: "OPTIONS", path: "/v1/decide", status: 204, headers: map[string]string{"Allow": "POST"}},
}

func TestEveryCall(t *testing.T) {
	t.Parallel()
	runContractCalls(t, onFakes)
}

// runContractCalls runs the table, each row against a handler of its own.
func runContractCalls(t *testing.T, build func(t testing.TB) http.Handler) {
	for _, row := range contractCalls {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := newCaller(t, build(t))
			row.check(t, c)
		})
	}
}

func (row *contractCall) check(t *testing.T, c *caller) {
	method := row.method
	if method == "" {
		method = http.MethodPost
	}
	r := c.request(method, row.path, nil)
	if row.body != "" {
		r = c.request(method, row.path, strings.NewReader(row.body))
	}
	got := c.do(r)
	if got.status != row.status {
		t.Fatalf("status %d, want %d: %s", got.status, row.status, got.body)
	}
	if got.status >= 400 {
		if fields := got.fields(t); !slices.Equal(fields, row.fields) {
			t.Errorf("fields %q, want %q", fields, row.fields)
		}
	}
	for path, want := range row.members {
		if value := got.member(t, path); value != want {
			t.Errorf("%s is %v, want %v", path, value, want)
		}
	}
	for name, part := range row.headers {
		if value := strings.Join(got.header.Values(name), ", "); !strings.Contains(value, part) {
			t.Errorf("%s is %q, want %q in it", name, value, part)
		}
	}
	if r.Method == http.MethodGet && got.status == 200 && !strings.Contains(got.header.Get("Cache-Control"), "no-store") {
		t.Errorf("Cache-Control is %q", got.header.Get("Cache-Control"))
	}
}

// What a client sends besides its body.
func TestMediaTypesAndFraming(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	for name, row := range map[string]struct {
		set    func(r *http.Request)
		status int
	}{
		"plain":                {func(*http.Request) {}, 200},
		"with a charset":       {func(r *http.Request) { r.Header.Set("Content-Type", "Application/JSON; charset=UTF-8") }, 200},
		"another parameter":    {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; profile=x") }, 200},
		"another charset":      {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=latin1") }, 415},
		"another +json":        {func(r *http.Request) { r.Header.Set("Content-Type", "application/merge-patch+json") }, 415},
		"a form":               {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		"nonsense":             {func(r *http.Request) { r.Header.Set("Content-Type", ";;") }, 415},
		"none":                 {func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		"two":                  {func(r *http.Request) { r.Header.Add("Content-Type", "application/json") }, 415},
		"an encoding":          {func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 415},
		"the identity as one":  {func(r *http.Request) { r.Header.Set("Content-Encoding", "identity") }, 415},
		"chunked":              {func(r *http.Request) { r.ContentLength = -1 }, 200},
		"an unwanted Accept":   {func(r *http.Request) { r.Header.Set("Accept", "text/html") }, 200},
		"a proxy's own header": {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "203.0.113.7") }, 200},
	} {
		r := c.request(http.MethodPost, "/v1/decide", strings.NewReader(failed))
		row.set(r)
		if got := c.do(r); got.status != row.status {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, row.status, got.body)
		}
	}
}

// A body that is too large is told before anything else that is wrong with it.
func TestTooLargeComesFirst(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	blanks := strings.Repeat(" ", maxBody)
	for name, row := range map[string]struct {
		path, body string
		status     int
	}{
		"just fits":             {"/v1/decide", failed + blanks[len(failed):], 200},
		"one byte more":         {"/v1/decide", failed + blanks[len(failed):] + " ", 413},
		"valid, and blanks":     {"/v1/decide", failed + blanks, 413},
		"not JSON, and blanks":  {"/v1/decide", failed + "x" + blanks, 413},
		"not valid, and blanks": {"/v1/explain", "{}" + blanks, 413},
		"a batch may be larger": {"/v1/decide/batch", `{"attempts":[` + failed + `]}` + blanks, 200},
	} {
		for _, chunked := range []bool{false, true} {
			r := c.request(http.MethodPost, row.path, strings.NewReader(row.body))
			if chunked {
				r.ContentLength = -1
			}
			got := c.do(r)
			if got.status != row.status {
				t.Errorf("%s, chunked %t: status %d, want %d: %.200s", name, chunked, got.status, row.status, got.body)
			}
		}
	}
}

func TestBatchAnswersInOrder(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	var attempts []string
	for i := range 300 {
		switch i % 3 {
		case 0:
			attempts = append(attempts, failed)
		case 1:
			attempts = append(attempts, `{"dependency":"payments","method":"GET","status":503,"attempt":0,"wait":1}`)
		case 2:
			attempts = append(attempts, `{"dependency":"refused","method":"GET","status":503}`)
		}
	}
	got := c.post("/v1/decide/batch", `{"attempts":[`+strings.Join(attempts, ",")+`]}`)
	answers, _ := got.member(t, "answers").([]any)
	if len(answers) != len(attempts) {
		t.Fatalf("%d answers: %s", len(answers), got.body)
	}
	for i, each := range answers {
		answer := each.(map[string]any)
		switch i % 3 {
		case 0:
			if answer["decision"] != "retry" || answer["status"] != nil {
				t.Errorf("answer %d: %v", i, answer)
			}
		case 1:
			if errs := answer["errors"].([]any); answer["status"] != 422.0 || len(errs) != 2 ||
				errs[0].(map[string]any)["field"] != itemPlace("/attempts", i)+"/attempt" || errs[1].(map[string]any)["field"] != itemPlace("/attempts", i)+"/wait" {
				t.Errorf("answer %d: %v", i, answer)
			}
		case 2:
			if errs := answer["errors"].([]any); answer["status"] != 404.0 || errs[0].(map[string]any)["field"] != itemPlace("/attempts", i)+"/dependency" {
				t.Errorf("answer %d: %v", i, answer)
			}
		}
	}
}

func TestOutcomesReachTheFleet(t *testing.T) {
	t.Parallel()
	seen := make(chan decide.Outcome, 1)
	c := newCaller(t, newHandler(t, testConfig(&fakeFleet{report: func(o *decide.Outcome) decide.State {
		seen <- *o
		return decide.State{
			Budget: decide.Budget{Asked: true, Tokens: 1_234_567, Capacity: 10_000_000, Local: true}, CoolDown: 70, Breaker: decide.BreakerOpen, Degraded: true,
			Override: decide.Override{Mode: decide.OverridePause, ExpiresIn: 5000, Reason: "fails over", Author: "on-call", Since: epoch},
		}
	}})))
	got := c.post("/v1/outcomes", `{"caller":"checkout","report_id":"r-1","outcomes":[{"dependency":"payments","first_try_successes":118,"retry_successes":2,"final_failures":1}]}`)
	golden(t, "outcomes.json", got.body)
	o := <-seen
	if o.Bucket != "payments" || o.Policy.Name != "payments" || o.Caller != "checkout" || o.ReportID != "r-1" ||
		o.FirstTrySuccesses != 118 || o.RetrySuccesses != 2 || o.FinalFailures != 1 {
		t.Errorf("the fleet was told %+v", o)
	}
}

func TestDependencyOfOneCaller(t *testing.T) {
	t.Parallel()
	config := testConfig(&fakeFleet{state: func(bucket string, _ *decide.Policy, caller string) decide.State {
		s := decide.State{Breaker: decide.BreakerClosed, Budget: decide.Budget{Asked: true, Tokens: 1, Capacity: 10_000_000}}
		if bucket == "payments" && caller == "checkout" {
			s.CoolDown = 40
		}
		return s
	}})
	payments := config.Policies.(*fakePolicies).payments
	payments.Description, payments.Owner = "card payments", "team-payments"
	payments.RetryLayer, payments.Repeat.Methods = []string{"checkout"}, []string{"POST"}
	payments.Backoff[decide.Throttle].Base = 1000
	payments.Breaker = decide.BreakerRule{Mode: decide.BreakerModeRetries, FailureRatio: 500_000, MinAttempts: 20, Window: 10_000, OpenFor: 5000, Probes: 1}
	c := newCaller(t, newHandler(t, config))
	for range 3 {
		c.post("/v1/decide", failed)
	}
	golden(t, "dependency.json", c.get("/v1/dependencies/payments?caller=checkout").body)
	if got := c.get("/v1/dependencies/payments").member(t, "cool_down_ms"); got != 0.0 {
		t.Errorf("the unnamed caller cools down for %v", got)
	}
}

func TestListHoldsExactNamesAndSeenOnes(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	c.post("/v1/decide", `{"dependency":"svc-b","method":"GET","status":503}`)
	c.post("/v1/decide", `{"dependency":"elsewhere","method":"GET","status":503}`)
	c.post("/v1/decide", `{"dependency":"refused","method":"GET","status":503}`)
	c.post("/v1/explain", `{"dependency":"explained","method":"GET","status":503}`)
	var names []string
	for _, each := range c.get("/v1/dependencies").member(t, "dependencies").([]any) {
		names = append(names, each.(map[string]any)["dependency"].(string))
	}
	if want := []string{"elsewhere", "payments", "svc-b"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

func TestReadinessDuringShutdown(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	config.Ready = func() bool { return false }
	status := config.Status
	config.Status = func() Status {
		s := status()
		s.Store.Degraded = true
		return s
	}
	c := newCaller(t, newHandler(t, config))
	got := c.get("/readyz")
	if got.status != http.StatusServiceUnavailable {
		t.Fatalf("status %d", got.status)
	}
	golden(t, "not-ready.json", got.body)
	if got := c.get("/livez"); got.status != 200 {
		t.Errorf("/livez answered %d", got.status)
	}
	if got := c.get("/v1/status").member(t, "store.state"); got != "degraded" {
		t.Errorf("store is %v", got)
	}
}

func TestDocsAskNobodyElse(t *testing.T) {
	t.Parallel()
	c := newCaller(t, onFakes(t))
	page := string(c.get("/docs").body)
	for _, file := range []string{"docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "docs/init.js"} {
		if !strings.Contains(page, `"`+file+`"`) {
			t.Errorf("the page does not load %s by a relative address", file)
		}
		got := c.get("/" + file)
		if got.status != 200 || len(got.body) == 0 {
			t.Errorf("/%s answered %d", file, got.status)
		}
		again := c.request(http.MethodGet, "/"+file, nil)
		again.Header.Set("If-None-Match", got.header.Get("ETag"))
		if got := c.do(again); got.status != http.StatusNotModified {
			t.Errorf("/%s with its ETag answered %d", file, got.status)
		}
	}
	unpacked := c.request(http.MethodGet, "/docs/swagger-ui.css", nil)
	unpacked.Header.Set("Accept-Encoding", "identity")
	plain := c.do(unpacked)
	for wants, packed := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "br": false, "": false} {
		r := c.request(http.MethodGet, "/docs/swagger-ui.css", nil)
		r.Header.Set("Accept-Encoding", wants)
		got := c.do(r)
		if got.header.Get("Content-Encoding") == "gzip" != packed || got.header.Get("ETag") == plain.header.Get("ETag") == packed {
			t.Errorf("to who takes %q: %v", wants, got.header)
		}
		body := got.body
		if packed {
			body, _ = unpack(body)
		}
		if !bytes.Equal(body, plain.body) {
			t.Errorf("to who takes %q: another file", wants)
		}
	}
	if strings.Contains(page, "//") {
		t.Error("the page names another host")
	}
	for _, file := range []string{"index.html", "nothing.js", "..%2Fdocs.go"} {
		if got := c.get("/docs/" + file); got.status != 404 {
			t.Errorf("/docs/%s answered %d", file, got.status)
		}
	}
}
