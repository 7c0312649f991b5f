package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

func TestDecisionID(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"the same id spends once and is answered the same", nil, []step{
			{0, ask(withID("r1", 1), waits(70, 130), serverDelay(50)), "granted 9/10 cool 50"},
			{0, ask(withID("r1", 1), waits(20, 20)), "granted 9/10 cool 50 replayed 70 130 50"},
			{0, ask(), "granted 8/10 cool 50"},
			{0, ask(withID("r1", 1)), "granted 9/10 cool 50 replayed 70 130 50"},
			{0, looks(""), "8/10 cool 50"},
		}},
		{"another attempt is asked anew", nil, []step{
			{0, ask(withID("r1", 1)), "granted 9/10"},
			{0, ask(withID("r1", 2)), "granted 8/10"},
			{0, ask(withID("r1", 1)), "granted 9/10 replayed 100 100 0"},
			{0, ask(withID("r1", 2)), "granted 8/10 replayed 100 100 0"},
		}},
		{"attempt and id are not run together", nil, []step{
			{0, ask(withID("1", 11)), "granted 9/10"},
			{0, ask(withID("11", 1)), "granted 8/10"},
			{0, ask(withID("1-1", 1)), "granted 7/10"},
		}},
		{"what was refused is not kept", nil, []step{
			{0, asks(10), "10 granted"},
			{0, ask(withID("r1", 1)), "no tokens 0/10"},
			{0, success(10), ""},
			{0, ask(withID("r1", 1)), "granted 0/10"},
			{0, ask(withID("r1", 1)), "granted 0/10 replayed 100 100 0"},
		}},
		{"a replay stands above what holds now", func(p *decide.Policy) { p.Breaker.Mode = decide.BreakerModeRetries }, []step{
			{0, ask(withID("r1", 1)), "granted 9/10 closed"},
			{0, overrides(decide.OverridePause, 1000), ""},
			{0, ask(withID("r1", 1)), "granted 9/10 closed replayed 100 100 0"},
			{0, ask(withID("r2", 1)), "paused again 1000 closed"},
		}},
		{"a replay counts no failure and deposits nothing", func(p *decide.Policy) {
			p.Breaker.Mode, p.Budget.DepositOnRequest, p.Budget.Ratio = decide.BreakerModeRetries, true, token/2
		}, []step{
			{0, ask(first, withID("r1", 1)), "granted 9/10 closed"},
			{0, asks(20, first, withID("r1", 1)), "20 granted"},
			{0, looks(""), "9/10 closed"},
		}},
		{"expires after a minute", nil, []step{
			{0, ask(withID("r1", 1)), "granted 9/10"},
			{minute - 20_000, ask(withID("r1", 1)), "granted 9/10 replayed 100 100 0"}, // a server's own clock goes on meanwhile
			{20_000, ask(withID("r1", 1)), "granted 8/10 report"},
			{minute - 20_000, ask(withID("r1", 1)), "granted 8/10 report replayed 100 100 0"},
		}},
		{"a grant by an override is kept", nil, []step{
			{0, overrides(decide.OverrideAllow, 100), ""},
			{0, ask(withID("r1", 1)), "granted"},
			{100, ask(withID("r1", 1)), "granted replayed 100 100 0"},
			{0, looks(""), "10/10"},
		}},
	})
}

func TestDecisionIDWithinOneCall(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, _ *clock) {
		p := testRule(nil)
		q := question{failures: failures{count: 1}, cost: token, id: idKey("r1", 1), own: 5, delay: 7}
		ops := run(t, b, p.Name, p, op{ask: &q}, op{ask: &q}, op{look: &look{}})
		if got := said(ops[0].answer); got != "granted 9/10" {
			t.Error(got)
		}
		if got := said(ops[1].answer); got != "granted 9/10 replayed 5 7 0" {
			t.Error(got)
		}
		if got := shown(ops[2].state); got != "9/10" {
			t.Error(got)
		}
	})
}

func TestReportID(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"counts once", nil, []step{
			{0, asks(10), "10 granted"},
			{0, reports(report{id: "p1", caller: "checkout", firstTries: 10}), ""},
			{0, reports(report{id: "p1", caller: "checkout", firstTries: 10}), ""},
			{0, looks(""), "1/10"},
			{0, reports(report{id: "p2", caller: "checkout", firstTries: 10}), ""},
			{0, looks(""), "2/10"},
		}},
		{"once per caller", nil, []step{
			{0, asks(10), "10 granted"},
			{0, reports(report{id: "p1", caller: "checkout", firstTries: 10}), ""},
			{0, reports(report{id: "p1", caller: "search", firstTries: 10}), ""},
			{0, reports(report{id: "p1", firstTries: 10}), ""},
			{0, looks(""), "3/10"},
		}},
		{"without an id each counts", nil, []step{
			{0, asks(10), "10 granted"},
			{0, success(10), ""},
			{0, success(10), ""},
			{0, looks(""), "2/10"},
		}},
		{"also minutes later", nil, []step{
			{0, asks(10), "10 granted"},
			{0, reports(report{id: "p1", firstTries: 10}), ""},
			{9 * minute, reports(report{id: "p1", firstTries: 10}), ""},
			{0, looks(""), "1/10"},
		}},
	})
}

// A dry run says what would be answered, and a look what is; both leave the
// bucket as it was.
func TestDryRunAndLookChangeNothing(t *testing.T) {
	t.Parallel()
	everything := func(p *decide.Policy) {
		p.Breaker.Mode, p.Breaker.MinAttempts = decide.BreakerModeRetries, 1
		p.Budget.DepositOnRequest, p.Budget.Ratio = true, token
		p.Budget.CallerShare = token
	}
	play(t, []script{
		{"tokens", nil, []step{
			{0, asks(3, dryRun), "3 granted"},
			{0, ask(dryRun), "granted 9/10"},
			{0, ask(), "granted 9/10"},
			{0, ask(dryRun), "granted 8/10"},
			{0, looks(""), "9/10"},
		}},
		{"deposits, breaker, cool-down and shares", everything, []step{
			{0, ask(from("checkout"), cost(2*token)), "open breaker again 500 open"},
			{500, ask(dryRun), "granted 9/10 half_open"},
			{0, ask(dryRun), "granted 9/10 half_open"}, // no lease was taken
			{0, ask(dryRun, first, serverDelay(900), from("checkout")), "granted 9/10 cool 900 half_open"},
			{0, looks("checkout"), "10/10 half_open"},
		}},
		{"ids: none is kept, one that is known is answered", nil, []step{
			{0, ask(dryRun, withID("r1", 1)), "granted 9/10"},
			{0, ask(withID("r1", 1)), "granted 9/10"},
			{0, ask(dryRun, withID("r1", 1)), "granted 9/10 replayed 100 100 0"},
			{0, looks(""), "9/10"},
		}},
		{"a quiet minute goes on", nil, []step{
			{0, ask(), "granted 9/10"},
			{minute, ask(dryRun), "granted 8/10 report"},
			{0, looks(""), "9/10"},
			{0, ask(), "granted 8/10 report"},
		}},
	})
}

func TestDryRunAmongOthers(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, _ *clock) {
		p := testRule(nil)
		one := func(dry bool) op {
			return op{ask: &question{failures: failures{count: 1}, cost: token, dryRun: dry}}
		}
		var got []string
		for _, o := range run(t, b, p.Name, p, one(true), one(false), one(true), one(true), one(false)) {
			got = append(got, tokens(o.answer.Budget))
		}
		for i, want := range []string{"9/10", "9/10", "8/10", "8/10", "8/10"} {
			if got[i] != want {
				t.Errorf("all of them: %q; the one at %d should be %q", got, i, want)
			}
		}
	})
}
