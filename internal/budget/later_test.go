package budget

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/retrydecider/decider/internal/decide"
)

// withCandidate is the tests' rule with a candidate of half its capacity.
func withCandidate() *decide.Policy {
	return testRule(func(p *decide.Policy) { p.Candidate = testRule(holds(5*token, 0)) })
}

// toCandidate is a question to the candidate's own bucket.
func toCandidate(p *decide.Policy) *decide.Question {
	q := asked(p.Candidate)
	q.Bucket = decide.CandidateBucket(q.Bucket)
	return q
}

// heard keeps answers.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) hear(a decide.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, said(a))
}

func (h *heard) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Candidates are asked in few calls, in order, from buckets of their own, and
// nobody who is enforced waits for them or pays.
func TestCandidatesAreAskedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p := bubbleFleet(t, NewMemory(time.Now), 1), withCandidate()
		var got heard
		for range 7 {
			f.AskLater(toCandidate(p), got.hear)
		}
		if len(got.list()) > 0 {
			t.Error("somebody waited")
		}
		time.Sleep(laterAfter)
		synctest.Wait()
		want := []string{"granted 4/5", "granted 3/5", "granted 2/5", "granted 1/5", "granted 0/5", "no tokens 0/5", "no tokens 0/5"}
		if !slices.Equal(got.list(), want) {
			t.Errorf("answered %q", got.list())
		}
		if s := f.Stats(); s.Calls != 1 || s.Operations != 7 {
			t.Errorf("%+v; want one call", s)
		}
		if s := said(f.Ask(t.Context(), asked(p))); s != "granted 9/10" {
			t.Errorf("the rule's own bucket: %s", s)
		}
	})
}

// A candidate's bucket is fed by the reports that feed its rule's, once each.
func TestCandidatesAreFedByReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, f := range map[string]*Fleet{"memory": NewFleet(NewMemory(time.Now)), "shared": bubbleFleet(t, NewMemory(time.Now), 1)} {
			p := withCandidate()
			var got heard
			ask := func(n int) {
				for range n {
					f.AskLater(toCandidate(p), got.hear)
				}
				time.Sleep(laterAfter)
				synctest.Wait()
			}
			ask(6)
			for range 2 { // the second is the first, sent again
				f.Report(t.Context(), &decide.Outcome{Bucket: asked(p).Bucket, Policy: p, FirstTrySuccesses: 15, RetrySuccesses: 5, ReportID: "r-1"})
			}
			time.Sleep(laterAfter)
			synctest.Wait()
			ask(1)
			if last := got.list()[6]; last != "granted 1/5" {
				t.Errorf("%s: after 20 successes %s, want two tokens and one of them spent", name, last)
			}
		}
	})
}

// What is too much is dropped: a store that stalls must not fill the memory.
func TestTooManyQuestionsToCandidatesAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p := bubbleFleet(t, NewMemory(time.Now), 1), withCandidate()
		answered := 0
		for range maxLater + 5 {
			f.AskLater(toCandidate(p), func(decide.Answer) { answered++ })
		}
		f.later.close(t.Context())
		if answered != maxLater || f.Dropped() != 5 {
			t.Errorf("%d answered, %d dropped", answered, f.Dropped())
		}
		if f.AskLater(toCandidate(p), func(decide.Answer) { t.Error("asked after the end") }); f.Dropped() != 6 {
			t.Error("a question after the end is not counted")
		}
	})
}

// In Redis a candidate's keys stand beside its rule's, under one hash tag.
func TestACandidatesKeysHaveTheHashTagOfItsRule(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := miniredis.RunT(t)
	p := withCandidate()
	b := NewRedis(newClient(t, "redis://"+m.Addr()), c.now)
	for _, q := range []*decide.Question{asked(p), toCandidate(p)} {
		q.ID = "id-1"
		if err := b.Run(t.Context(), q.Bucket, q.Policy, []op{{ask: newQuestion(q)}}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"decider:{payments}:candidate:id:2:id-1", "decider:{payments}:candidate:state", "decider:{payments}:id:2:id-1", "decider:{payments}:state"}
	if got := m.Keys(); !slices.Equal(got, want) {
		t.Errorf("keys %q", got)
	}
}
