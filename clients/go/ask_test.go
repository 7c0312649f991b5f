package decider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a decider without a network, for tests in virtual time. A nil
// function hangs.
type fake struct {
	mu        sync.Mutex
	decide    func(n int, q question) (status int, answer string, err error)
	outcomes  func(n int, r *counted) (status int, answer string, err error)
	questions []question
	reports   []*counted
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, answer := 0, ""
	switch {
	case strings.HasSuffix(r.URL.Path, "/decide"):
		var q question
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.questions = append(f.questions, q)
		n, decide := len(f.questions), f.decide
		f.mu.Unlock()
		if decide == nil {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		status, answer, err = decide(n, q)
	default:
		c := new(counted)
		if err := json.Unmarshal(body, c); err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.reports = append(f.reports, c)
		n, outcomes := len(f.reports), f.outcomes
		f.mu.Unlock()
		if outcomes == nil {
			return nil, io.EOF
		}
		status, answer, err = outcomes(n, c)
	}
	if err != nil {
		return nil, err
	}
	kind := "application/json"
	if status != 200 {
		kind = "application/problem+json"
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// report changes how reports are answered; nil does not answer.
func (f *fake) report(outcomes func(int, *counted) (int, string, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcomes = outcomes
}

func (f *fake) client(t *testing.T, opts ...Option) *Client {
	t.Helper()
	c, err := NewClient("http://decider.example", append([]Option{WithHTTPClient(&http.Client{Transport: f})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ok answers alike.
func ok(answer string) func(int, question) (int, string, error) {
	return func(int, question) (int, string, error) { return 200, answer, nil }
}

// states answers a report with the same state for every dependency in it.
func states(members string) func(int, *counted) (int, string, error) {
	return func(_ int, r *counted) (int, string, error) {
		var list []string
		for _, o := range r.Outcomes {
			list = append(list, fmt.Sprintf(`{"dependency":%q,"cool_down_ms":0,"degraded":false,"breaker":"off",
				"fallback":{"on_failure":"local","max_attempts":3,"ratio":0.5,"burst":1,"retry_after_max_ms":60000,"min_attempt_ms":0,
				"backoff":{"strategy":"constant","base_ms":70,"cap_ms":1000,"min_ms":0,"multiplier":2,"jitter":0}}%s}`, o.Dependency, members))
		}
		return 200, `{"dependencies":[` + strings.Join(list, ",") + `]}`, nil
	}
}

var failedGet = Attempt{Dependency: "payments", Method: "GET", Status: 503, Number: 1}

func TestAskIsBoundedAndAnswersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.client(t, WithReportInterval(0))
		begin := time.Now()
		first := c.Ask(t.Context(), failedGet)
		if took := time.Since(begin); took != DefaultTimeout {
			t.Errorf("asking took %s, want %s", took, DefaultTimeout)
		}
		if !first.Retry || !first.Local || !first.Degraded || first.Delay > 100*time.Millisecond || first.NextAttempt != 2 || first.Reason != ReasonBackoff {
			t.Errorf("first answer %+v", first)
		}
		// The bucket holds one token, and successes fill it by a tenth each.
		if d := c.Ask(t.Context(), failedGet); d.Retry || d.Reason != ReasonBudgetExhausted {
			t.Errorf("second answer %+v", d)
		}
		for range 9 {
			c.Succeeded("payments", 1)
		}
		if d := c.Ask(t.Context(), failedGet); d.Retry {
			t.Errorf("after nine successes %+v", d)
		}
		c.Succeeded("payments", 1)
		if d := c.Ask(t.Context(), failedGet); !d.Retry {
			t.Errorf("after ten successes %+v", d)
		}
		if n := len(f.questions); n != 3 { // the third one in a row without an answer
			t.Errorf("%d questions, want 3", n)
		}
		if s := c.Stats(); s.Asked != 3 || s.AskedAgain != 0 || s.Unanswered != 3 || s.GrantedAlone != 2 || s.RefusedAlone != 2 || !s.Down {
			t.Errorf("%s", s)
		}
	})
}

func TestAskAgainOnceWithTheSameID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		first  func() (int, string, error)
		asked  int
		local  bool
		reason Reason
	}{
		{"a connection that breaks", func() (int, string, error) { return 0, "", io.EOF }, 2, false, ReasonBackoff},
		{"an answer that is none", func() (int, string, error) { return 200, "{}", nil }, 2, false, ReasonBackoff},
		{"a decider that fails", func() (int, string, error) { return 500, `{"title":"x"}`, nil }, 2, false, ReasonBackoff},
		{"a question that is refused", func() (int, string, error) { return 422, `{"title":"x"}`, nil }, 1, true, ReasonBackoff},
		{"a key that is not known", func() (int, string, error) { return 401, `{"title":"x"}`, nil }, 1, true, ReasonBackoff},
		{"a dependency without a rule", func() (int, string, error) { return 404, `{"type":"` + unknownDependency + `"}`, nil }, 1, false, ReasonNotRetryable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{decide: func(n int, _ question) (int, string, error) {
					if n == 1 {
						return c.first()
					}
					return 200, say(true, 51), nil
				}}
				client := f.client(t, WithReportInterval(0))
				d := client.Ask(t.Context(), failedGet)
				if len(f.questions) != c.asked || d.Local != c.local || d.Reason != c.reason {
					t.Errorf("%d questions, answer %+v", len(f.questions), d)
				}
				if n := len(f.questions); n == 2 && (f.questions[0].DecisionID == "" || f.questions[0].DecisionID != f.questions[1].DecisionID) {
					t.Errorf("ids of %+v", f.questions)
				}
			})
		})
	}
}

func TestAskNeverAThirdTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{decide: func(int, question) (int, string, error) { return 0, "", io.EOF }}
		d := f.client(t, WithReportInterval(0)).Ask(t.Context(), failedGet)
		if len(f.questions) != 2 || !d.Local {
			t.Errorf("%d questions, answer %+v", len(f.questions), d)
		}
	})
}

func TestAskNotWhileDeciderIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.client(t, WithReportInterval(0))
		for range downAfter {
			c.Ask(t.Context(), failedGet)
		}
		begin := time.Now()
		for range 1000 {
			c.Ask(t.Context(), failedGet)
		}
		if len(f.questions) != downAfter || time.Since(begin) != 0 {
			t.Errorf("%d questions, and waited %s", len(f.questions), time.Since(begin))
		}
		// One question a second looks whether it is back.
		time.Sleep(downFor)
		for range 10 {
			c.Ask(t.Context(), failedGet)
		}
		if len(f.questions) != downAfter+1 {
			t.Errorf("%d questions, want %d", len(f.questions), downAfter+1)
		}
		f.decide = ok(say(true, 0))
		time.Sleep(downFor)
		for range 10 {
			if d := c.Ask(t.Context(), failedGet); d.Local {
				t.Errorf("answer %+v though decider is back", d)
			}
		}
	})
}

// The report, which nobody waits for, finds that decider is back before a call does.
func TestReportFindsDeciderBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.client(t)
		for range downAfter {
			c.Ask(t.Context(), failedGet)
		}
		f.decide = ok(say(true, 0))
		f.report(states(""))
		time.Sleep(1200 * time.Millisecond)
		if c.Stats().Down || c.Ask(t.Context(), failedGet).Local {
			t.Errorf("%s", c.Stats())
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAskNotWhereTheAnswerIsKnown(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	cancel()
	canceled, over := failedGet, failedGet
	canceled.Status, canceled.Outcome = 0, Canceled
	over.Remaining = new(time.Duration(0))
	for want, c := range map[Reason][]struct {
		ctx context.Context
		a   Attempt
	}{
		ReasonCanceled: {{t.Context(), canceled}, {gone, failedGet}},
		ReasonDeadline: {{t.Context(), over}, {late, failedGet}},
	} {
		for _, each := range c {
			f := &fake{}
			if d := f.client(t, WithReportInterval(0)).Ask(each.ctx, each.a); d.Retry || d.Reason != want || len(f.questions) != 0 {
				t.Errorf("answer %+v after %d questions, want %s", d, len(f.questions), want)
			}
		}
	}
}

func TestAskHeedsAStopForASecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		asked  int // of 10 questions at once, then 10 more after a second
	}{{"paused", 2}, {"breaker_open", 2}, {"budget_exhausted", 20}} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{decide: ok(`{"decision":"give_up","reason":"` + c.reason + `","ask_again_in_ms":60000}`)}
			client := f.client(t, WithReportInterval(0))
			for range 2 {
				for range 10 {
					if d := client.Ask(t.Context(), failedGet); d.Retry || string(d.Reason) != c.reason {
						t.Errorf("answer %+v", d)
					}
				}
				time.Sleep(quietFor)
			}
			if len(f.questions) != c.asked {
				t.Errorf("%s: %d questions, want %d", c.reason, len(f.questions), c.asked)
			}
		})
	}
}

func TestReportsOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcomes: states("")}
		c := f.client(t, WithCaller("checkout"))
		begin := time.Now()
		for range 300 {
			c.Succeeded("payments", 1)
			c.Succeeded("search", 2)
			time.Sleep(10 * time.Millisecond)
		}
		c.Failed("payments")
		time.Sleep(time.Minute)
		synctest.Wait()
		firsts, retries, finals := f.sum()
		if firsts != 300 || retries != 300 || finals != 1 {
			t.Errorf("reported %d, %d and %d", firsts, retries, finals)
		}
		// 3 s of calls, and a few reports after the last to know the state.
		if n := len(f.reports); n < 4 || n > 8 {
			t.Errorf("%d reports within %s", n, time.Since(begin))
		}
		ids := map[string]bool{}
		for _, r := range f.reports {
			if r.Caller != "checkout" || r.ReportID == "" || ids[r.ReportID] {
				t.Errorf("report %+v", r)
			}
			ids[r.ReportID] = true
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (f *fake) sum() (firsts, retries, finals int) {
	for _, r := range f.reports {
		for _, o := range r.Outcomes {
			firsts, retries, finals = firsts+o.Firsts, retries+o.Retries, finals+o.Finals
		}
	}
	return firsts, retries, finals
}

func TestReportIsSentAgainWithItsID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{} // no answer, though it may have been counted
		c := f.client(t)
		c.Succeeded("payments", 1)
		time.Sleep(1500 * time.Millisecond)
		c.Succeeded("payments", 1)
		f.report(states(""))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(f.reports) < 3 || f.reports[0].ReportID != f.reports[1].ReportID || f.reports[1].Outcomes[0].Firsts != 1 ||
			f.reports[2].ReportID == f.reports[1].ReportID || f.reports[2].Outcomes[0].Firsts != 1 {
			t.Errorf("reports %+v", f.reports)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What is older than 10 s would feed a budget with the traffic of another time.
func TestReportDropsWhatIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.client(t)
		for range 600 {
			c.Succeeded("payments", 1)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		failing := len(f.reports)
		f.report(states(""))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		late := 0
		for _, r := range f.reports[failing:] {
			for _, o := range r.Outcomes {
				late += o.Firsts
			}
		}
		if late < 5 || late > 140 {
			t.Errorf("%d successes were reported after a minute without an answer, want those of half a second to 14 s", late)
		}
		if s := c.Stats(); s.Dropped != int64(600-late) || s.ReportsFailed < 50 || s.ReportsFailed > 70 {
			t.Errorf("%s; %d late", s, late)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcomes: states("")}
		c := f.client(t)
		for i := range 3000 {
			c.Succeeded(fmt.Sprintf("dependency-%d", i), 1)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		firsts, _, _ := f.sum()
		for _, r := range f.reports {
			if len(r.Outcomes) > maxOutcomes {
				t.Errorf("a report of %d dependencies", len(r.Outcomes))
			}
		}
		if firsts != maxDependencies || len(f.reports) != maxDependencies/maxOutcomes || len(c.book.of) != maxDependencies {
			t.Errorf("%d successes in %d reports, %d entries", firsts, len(f.reports), len(c.book.of))
		}
		c.Succeeded("dependency-1", 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(f.reports) != maxDependencies/maxOutcomes {
			t.Errorf("%d reports after Close", len(f.reports))
		}
	})
}

func TestIdleDependenciesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcomes: states("")}
		c := f.client(t)
		c.Succeeded("once", 1)
		for range forgetIdle + 10 {
			c.Succeeded("often", 1)
			time.Sleep(1200 * time.Millisecond)
		}
		if c.book.of["once"] != nil || c.book.of["often"] == nil {
			t.Errorf("%d entries", len(c.book.of))
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLearnsTheFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcomes: states("")} // constant 70 ms, 3 attempts, half a token for a success
		c := f.client(t, WithReportInterval(time.Second))
		c.Succeeded("payments", 1)
		time.Sleep(1200 * time.Millisecond)
		if d := c.Ask(t.Context(), failedGet); !d.Retry || d.Delay != 70*time.Millisecond {
			t.Errorf("answer %+v", d)
		}
		c.Succeeded("payments", 1)
		c.Succeeded("payments", 1)
		third := failedGet
		third.Number = 3
		if d := c.Ask(t.Context(), third); d.Reason != ReasonAttemptsExhausted {
			t.Errorf("answer %+v", d)
		}
		if d := c.Ask(t.Context(), failedGet); !d.Retry {
			t.Errorf("answer %+v", d)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLearnsFromReports(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, members string
		reason        Reason
		asked         bool
		delay         time.Duration // alone, at least
	}{
		{name: "a pause", members: `,"override":{"mode":"pause","expires_in_ms":60000}`, reason: ReasonPaused},
		{name: "a pause that has ended", members: `,"override":{"mode":"pause","expires_in_ms":1}`, reason: ReasonBackoff, asked: true},
		{name: "a word of tomorrow", members: `,"override":{"mode":"dance","expires_in_ms":60000}`, reason: ReasonBackoff, asked: true},
		{name: "a cool-down", members: `,"cool_down_ms":30000`, reason: ReasonCoolDown, asked: true, delay: 25 * time.Second},
		{name: "no rule", members: `,"fallback":{"on_failure":"give_up","max_attempts":1,"backoff":{"strategy":"constant"}}`, reason: ReasonAttemptsExhausted, asked: true},
		{name: "a fallback that gives up", members: `,"fallback":{"on_failure":"give_up","max_attempts":3,"retry_after_max_ms":1000,"ratio":0.1,"burst":1}`, reason: ReasonStoreUnavailable, asked: true},
		{name: "a fallback without a budget", members: `,"fallback":{"on_failure":"allow","max_attempts":3,"retry_after_max_ms":1000}`, reason: ReasonBackoff, asked: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{outcomes: states(c.members)}
				client := f.client(t)
				client.Succeeded("payments", 1)
				if err := client.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
				d := client.Ask(t.Context(), failedGet)
				if d.Reason != c.reason || (len(f.questions) > 0) != c.asked || d.Delay < c.delay {
					t.Errorf("answer %+v after %d questions", d, len(f.questions))
				}
				if err := client.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestShedsWhileABreakerOfModeAllIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{outcomes: states(`,"admit":0`)}
		c := f.client(t)
		made := 0
		base := transportFunc(func(r *http.Request) (*http.Response, error) {
			made++
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		var seen events
		tr := NewTransport(c, WithBase(base), WithObserver(&seen), WithDependency(func(*http.Request) string { return "payments" }))
		get := func() error {
			body := &closeCount{Reader: bytes.NewReader(nil)}
			r := request(t, t.Context(), "POST", "http://x.example", "")
			r.Body = body
			response, err := tr.RoundTrip(r)
			if response != nil {
				response.Body.Close()
			}
			if err != nil && body.closed != 1 {
				t.Errorf("the body of a call that was not made was closed %d times", body.closed)
			}
			return err
		}
		if err := get(); err != nil { // nothing is known yet
			t.Fatal(err)
		}
		time.Sleep(1200 * time.Millisecond)
		var shed *ShedError
		for range 100 {
			if err := get(); !errors.As(err, &shed) || shed.Dependency != "payments" {
				t.Fatalf("error %v", err)
			}
		}
		if e := seen.all()[0]; made != 1 || e.Attempt != 0 || e.Outcome != BreakerOpen || e.Decision.Reason != ReasonBreakerOpen {
			t.Errorf("%d calls were made, event %+v", made, e)
		}
		// Half open: a few calls go through.
		f.report(states(`,"admit":0.05,"breaker":"half_open"`))
		time.Sleep(1200 * time.Millisecond)
		for range 1000 {
			_ = get()
		}
		if made < 10 || made > 150 {
			t.Errorf("%d of 1000 calls were made at 5 %%", made-1)
		}
		// Closed: all of them, and what was shed has fed nobody's breaker.
		f.report(states(""))
		time.Sleep(1200 * time.Millisecond)
		if err := get(); err != nil {
			t.Error(err)
		}
		if _, _, finals := f.sum(); finals != 0 {
			t.Errorf("%d failures were reported of calls that were not made", finals)
		}
		// A decider that goes away with the breaker open must not stop calls for ever.
		f.report(states(`,"admit":0`))
		time.Sleep(1200 * time.Millisecond)
		if err := get(); err == nil {
			t.Error("not shed")
		}
		f.report(nil)
		for range 6 {
			time.Sleep(time.Second)
			_ = c.Admit("payments")
		}
		if err := get(); err != nil {
			t.Error(err)
		}
		_ = c.Close(t.Context())
	})
}

type closeCount struct {
	io.Reader
	closed int
}

func (c *closeCount) Close() error {
	c.closed++
	return nil
}
