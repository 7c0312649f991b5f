package decider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const granted = `{"decision":"retry","delay_ms":2070,"reason":"retry_after","message":"Retry in 2070 ms.","decision_id":"7f3c9a52",
	"dependency":"payments","policy":"default","next_attempt":2,"remaining_ms":5930,"server_delay_ms":2000,"retry_after":"used",
	"budget":{"tokens":9.1,"capacity":10,"cost":1,"source":"fleet"},"breaker":"off","degraded":false,"hints":["same_idempotency_key"],"shadow_reason":"budget_exhausted"}`

// asked starts a server of answer and makes a client of it.
func asked(t *testing.T, answer http.HandlerFunc, opts ...Option) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	// Long, so that a slow machine does not fail a test that is not about time.
	c, err := NewClient(server.URL, append([]Option{WithTimeout(10 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// says answers every request alike.
func says(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var failed = Attempt{Dependency: "payments", Method: "GET", Status: 503}

func TestDecide(t *testing.T) {
	t.Parallel()
	var request, body string
	c := asked(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		request, body = r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"), string(text)
		says(200, "application/json", granted)(w, r)
	}, WithCaller("checkout"))

	got, err := c.Decide(t.Context(), failed)
	if err != nil {
		t.Fatal(err)
	}
	want := Decision{
		Retry: true, Delay: 2070 * time.Millisecond, Reason: ReasonRetryAfter, Message: "Retry in 2070 ms.", DecisionID: "7f3c9a52",
		Dependency: "payments", Policy: "default", NextAttempt: 2, Remaining: new(5930 * time.Millisecond), ServerDelay: new(2 * time.Second),
		RetryAfter: "used", Budget: &Budget{Tokens: 9.1, Capacity: 10, Cost: 1, Source: "fleet"}, Breaker: "off", Hints: []Hint{SameIdempotencyKey},
		ShadowReason: ReasonBudgetExhausted,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decision %+v\nwant     %+v", got, want)
	}
	if request != "POST /v1/decide application/json" || body != `{"caller":"checkout","dependency":"payments","method":"GET","status":503}` {
		t.Errorf("asked %s with %s", request, body)
	}
}

func TestDecideGiveUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       Decision
	}{
		{
			"with a reason of today", `{"decision":"give_up","delay_ms":0,"reason":"budget_exhausted","ask_again_in_ms":800,"retry_after":"absent"}`,
			Decision{Reason: ReasonBudgetExhausted, AskAgainIn: new(800 * time.Millisecond), RetryAfter: "absent"},
		},
		{
			"with words and members of tomorrow", `{"decision":"give_up","reason":"bad_weather","breaker":"humming","hints":["take_a_walk"],"mood":{"a":1}}`,
			Decision{Reason: "bad_weather", Breaker: "humming", Hints: []Hint{"take_a_walk"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := asked(t, says(200, "application/json", c.body)).Decide(t.Context(), failed)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("decision %+v, %v\nwant     %+v", got, err, c.want)
			}
		})
	}
}

func TestDecideTakesTheContextsDeadline(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	c := asked(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies <- string(text)
		says(200, "application/json", granted)(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, each := range []struct {
		own  *time.Duration
		want string
	}{{nil, `"remaining_ms":35`}, {new(4 * time.Second), `"remaining_ms":4000`}} {
		a := failed
		a.Remaining = each.own
		if _, err := c.Decide(ctx, a); err != nil {
			t.Fatal(err)
		}
		if body := <-bodies; !strings.Contains(body, each.want) {
			t.Errorf("asked with %s, want %s", body, each.want)
		}
	}
	if failed.Remaining != nil {
		t.Error("the caller's attempt was changed")
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	const refused = `{"type":"urn:decider:problem:not-valid","title":"The request is not valid","status":422,"detail":"Wrong: /attempt, /method.",
		"errors":[{"field":"/attempt","detail":"must be at least 1"},{"field":"/method","detail":"is missing"}]}`
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   Problem
		text   string
	}{
		{
			"a problem document", says(422, "Application/Problem+JSON; charset=utf-8", refused),
			Problem{
				Type: "urn:decider:problem:not-valid", Title: "The request is not valid", Status: 422, Detail: "Wrong: /attempt, /method.",
				Errors: []FieldError{{"/attempt", "must be at least 1"}, {"/method", "is missing"}},
			},
			"decider: 422 The request is not valid: Wrong: /attempt, /method. (/attempt must be at least 1; /method is missing)",
		},
		{
			"a proxy's page", says(502, "text/html", "<h1>oops</h1>"),
			Problem{Title: "Bad Gateway", Status: 502}, "decider: 502 Bad Gateway",
		},
		{
			"a problem document that is none", says(503, "application/problem+json", "oops"),
			Problem{Title: "Service Unavailable", Status: 503}, "decider: 503 Service Unavailable",
		},
		{
			"a status in the document that is not the answer's", says(500, "application/problem+json", `{"title":"x","status":200}`),
			Problem{Title: "x", Status: 500}, "decider: 500 x",
		},
		{
			"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
			},
			Problem{Title: "Permanent Redirect", Status: 308}, "decider: 308 Permanent Redirect",
		},
		{
			"a success without content", says(204, "", ""),
			Problem{Title: "No Content", Status: 204}, "decider: 204 No Content",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := asked(t, c.answer).Decide(t.Context(), failed)
			var got *Problem
			if !errors.As(err, &got) || !reflect.DeepEqual(*got, c.want) || err.Error() != c.text {
				t.Errorf("error %#v %q\nwant  %#v %q", got, err, c.want, c.text)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"not JSON", "oops", "not what the contract says"},
		{"no decision", "{}", `no decision: it says ""`},
		{"a third word", `{"decision":"perhaps"}`, `no decision: it says "perhaps"`},
		{"a delay that is no number", `{"decision":"retry","delay_ms":"2070"}`, "not what the contract says"},
		{"null", "null", "no decision"},
		{"too long", strings.Repeat(" ", maxAnswer) + granted, "longer than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := asked(t, says(200, "application/json", c.body)).Decide(t.Context(), failed)
			if err == nil || !strings.Contains(err.Error(), c.want) || !reflect.DeepEqual(got, Decision{}) {
				t.Errorf("decision %+v, error %v; want none and %q", got, err, c.want)
			}
		})
	}
}

func TestDecideIsBoundedAndNeverSentAgain(t *testing.T) {
	t.Parallel()
	var questions atomic.Int32
	hang := func(_ http.ResponseWriter, r *http.Request) {
		questions.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client leaves
		<-r.Context().Done()
	}
	for _, c := range []struct {
		name    string
		timeout time.Duration
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		want    error
	}{
		{"by its own timeout", 30 * time.Millisecond, context.WithCancel, context.DeadlineExceeded},
		{"by the context's deadline", time.Hour, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 30*time.Millisecond)
		}, context.DeadlineExceeded},
		{"by the context's end", time.Hour, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(30*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			questions.Store(0)
			ctx, cancel := c.ctx(t.Context())
			defer cancel()
			begin := time.Now()
			_, err := asked(t, hang, WithTimeout(c.timeout)).Decide(ctx, failed)
			if !errors.Is(err, c.want) || questions.Load() > 1 { // 0 where the machine is too slow to send it
				t.Errorf("error %v after %d questions, want %v after at most 1", err, questions.Load(), c.want)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// A connection that dies without an answer may have brought a token's spend.
func TestDecideIsNotSentAgainOnABrokenConnection(t *testing.T) {
	t.Parallel()
	var questions atomic.Int32
	c := asked(t, func(w http.ResponseWriter, r *http.Request) {
		if questions.Add(1) == 1 {
			says(200, "application/json", granted)(w, r)
			return
		}
		panic(http.ErrAbortHandler)
	})
	if _, err := c.Decide(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	var problem *Problem
	if _, err := c.Decide(t.Context(), failed); err == nil || errors.As(err, &problem) {
		t.Errorf("error %v, want one that is no Problem", err)
	}
	if n := questions.Load(); n != 2 {
		t.Errorf("%d questions reached the server, want 2", n)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := NewClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Decide(t.Context(), failed); err == nil {
		t.Error("a decision came from nobody")
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	server := httptest.NewUnstartedServer(says(404, "application/problem+json", `{"title":"Unknown dependency"}`))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c, err := NewClient(server.URL, WithTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	for range 20 {
		if _, err := c.Decide(t.Context(), failed); err == nil {
			t.Fatal("no problem")
		}
	}
	if n := made.Load(); n != 1 {
		t.Errorf("%d connections for 20 questions in turn, want 1", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := asked(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/outcomes") {
			says(200, "application/json", `{"dependencies":[]}`)(w, r)
			return
		}
		says(200, "application/json", granted)(w, r)
	}, WithCaller("checkout"))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if d, err := c.Decide(t.Context(), failed); err != nil || !d.Retry {
				t.Errorf("decision %+v, %v", d, err)
			}
			if _, err := c.Report(t.Context(), OutcomeReport{Outcomes: []Outcomes{{Dependency: "payments"}}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestReport(t *testing.T) {
	t.Parallel()
	var request string
	c := asked(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		request = r.Method + " " + r.URL.Path + " " + string(text)
		says(200, "application/json", `{"dependencies":[
			{"dependency":"payments","breaker":"closed","budget":{"tokens":9.9,"capacity":10,"source":"fleet"},"cool_down_ms":1500,"degraded":true,
			 "override":{"mode":"pause","expires_in_ms":540000,"reason":"fails over","author":"on-call","since":"2026-11-30T15:04:05Z"},
			 "fallback":{"on_failure":"local","max_attempts":4,"ratio":0.1,"burst":1,"retry_after_max_ms":60000,"min_attempt_ms":200,
			  "backoff":{"strategy":"full_jitter","base_ms":100,"cap_ms":1000,"min_ms":5,"multiplier":2,"jitter":0.2}}},
			{"dependency":"unheard","problem":{"type":"urn:decider:problem:unknown-dependency","title":"Unknown dependency","status":404,"detail":"No rule."}}]}`)(w, r)
	}, WithCaller("checkout"))

	got, err := c.Report(t.Context(), OutcomeReport{ReportID: "r1", Outcomes: []Outcomes{{Dependency: "payments", FirstTrySuccesses: 3}, {Dependency: "unheard"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []DependencyState{{
		Dependency: "payments", Breaker: "closed", Admit: 1, Budget: &Budget{Tokens: 9.9, Capacity: 10, Source: "fleet"}, CoolDown: 1500 * time.Millisecond, Degraded: true,
		Override: &Override{Mode: "pause", ExpiresIn: 9 * time.Minute, Reason: "fails over", Author: "on-call", Since: time.Date(2026, 11, 30, 15, 4, 5, 0, time.UTC)},
		Fallback: Fallback{
			OnFailure: "local", MaxAttempts: 4, Ratio: new(0.1), Burst: new(1.0), RetryAfterMax: time.Minute, MinAttempt: 200 * time.Millisecond,
			Backoff: Backoff{"full_jitter", 100 * time.Millisecond, time.Second, 5 * time.Millisecond, 2, 0.2},
		},
	}, {
		Dependency: "unheard", Admit: 1,
		Problem: &Problem{Type: "urn:decider:problem:unknown-dependency", Title: "Unknown dependency", Status: 404, Detail: "No rule."},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("states %+v\nwant   %+v", got, want)
	}
	if request != `POST /v1/outcomes {"caller":"checkout","outcomes":[{"dependency":"payments","first_try_successes":3},{"dependency":"unheard"}],"report_id":"r1"}` {
		t.Errorf("reported %s", request)
	}
}

func TestNewClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base string
		opts []Option
		want string // where it asks; "" where it is refused
	}{
		{"http://127.0.0.1:8080", nil, "http://127.0.0.1:8080/v1/decide"},
		{"http://127.0.0.1:8080/", nil, "http://127.0.0.1:8080/v1/decide"},
		{"https://mesh.example/decider", nil, "https://mesh.example/decider/v1/decide"},
		{"http://[::1]:8080", []Option{WithTimeout(time.Second)}, "http://[::1]:8080/v1/decide"},
		{"", nil, ""},
		{"127.0.0.1:8080", nil, ""},
		{"localhost:8080", nil, ""},
		{"ftp://127.0.0.1", nil, ""},
		{"http://", nil, ""},
		{"http://127.0.0.1?x=1", nil, ""},
		{"http://127.0.0.1", []Option{WithTimeout(0)}, ""},
		{"http://127.0.0.1", []Option{WithTimeout(-1)}, ""},
		{"http://127.0.0.1", []Option{WithKey("dk_x")}, "http://127.0.0.1/v1/decide"},
		{"http://127.0.0.1", []Option{WithKey("dk_x\n")}, ""},
		{"http://127.0.0.1", []Option{WithKey("dk x")}, ""},
	} {
		client, err := NewClient(c.base, c.opts...)
		got := ""
		if err == nil {
			got = client.decideURL
		}
		if got != c.want {
			t.Errorf("NewClient(%q) asks %q, %v; want %q", c.base, got, err, c.want)
		}
	}
}

// Questions and reports say who asks, and a redirect takes the key nowhere.
func TestWithKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string][]string{}
	take := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.URL.Path] = append(keys[r.URL.Path], r.Header.Get("Authorization"))
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		take(r)
		if r.URL.Path == "/v1/decide" {
			says(200, "application/json", granted)(w, r)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}
	c := asked(t, answer, WithKey("dk_secret"))
	if _, err := c.Decide(t.Context(), failed); err != nil {
		t.Error(err)
	}
	if _, err := c.Report(t.Context(), OutcomeReport{}); err == nil || strings.Contains(err.Error(), "dk_secret") {
		t.Errorf("a redirect is no answer: %v", err)
	}
	if _, err := asked(t, answer).Decide(t.Context(), failed); err != nil {
		t.Error(err)
	}
	want := map[string][]string{"/v1/decide": {"Bearer dk_secret", ""}, "/v1/outcomes": {"Bearer dk_secret"}}
	if !reflect.DeepEqual(keys, want) {
		t.Errorf("sent %q, want %q", keys, want)
	}
	if _, err := NewClient("http://decider", WithKey("dk_secret\n")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestWithHTTPClient(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	own := &http.Client{Transport: transportFunc(func(*http.Request) (*http.Response, error) {
		sent.Add(1)
		return nil, fmt.Errorf("the transport's own word")
	})}
	c, err := NewClient("http://decider.example", WithHTTPClient(own))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Decide(t.Context(), failed); err == nil || !strings.Contains(err.Error(), "the transport's own word") || sent.Load() != 1 {
		t.Errorf("error %v after %d sent", err, sent.Load())
	}
	if own.CheckRedirect != nil {
		t.Error("the caller's http.Client was changed")
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
