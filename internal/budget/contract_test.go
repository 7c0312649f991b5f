package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

const (
	token  = decide.MicroPerToken
	minute = 60_000
	day    = 86_400_000
	// perSecond is one token a second.
	perSecond = 1_000_000_000
)

// refill is the tests' rule with so many billionths of a token per second.
func refill(nanoPerSecond int64) func(p *decide.Policy) {
	return func(p *decide.Policy) { p.Budget.NanoPerSecond = nanoPerSecond }
}

// holds is the tests' rule with another capacity and refill.
func holds(capacity decide.Micro, nanoPerSecond int64) func(p *decide.Policy) {
	return func(p *decide.Policy) { p.Budget.Capacity, p.Budget.NanoPerSecond = capacity, nanoPerSecond }
}

func TestTokens(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"absent is full", nil, []step{
			{0, looks(""), "10/10"},
			{0, ask(), "granted 9/10"},
		}},
		{"spend to the last", nil, []step{
			{0, asks(10), "10 granted"},
			{0, ask(), "no tokens 0/10"},
			{0, ask(), "no tokens 0/10"},
		}},
		{"costs", nil, []step{
			{0, ask(cost(token / 2)), "granted 9.5/10"},
			{0, ask(cost(8 * token)), "granted 1.5/10"},
			{0, ask(cost(2 * token)), "no tokens 1.5/10"},
			{0, ask(cost(1)), "granted 1.499999/10"},
			{0, ask(cost(1_499_999)), "granted 0/10"},
		}},
		{"off", func(p *decide.Policy) { p.Budget.Off = true }, []step{
			{0, asks(20), "20 granted"},
			{0, ask(), "granted"},
			{0, success(100), ""},
			{0, looks(""), "no budget"},
			{2 * minute, ask(), "granted"},
		}},
		{"a cost above the capacity is never there", holds(token, perSecond), []step{
			{0, ask(cost(2 * token)), "no tokens 1/1"},
			{minute, ask(cost(2 * token)), "no tokens 1/1 report"},
		}},
	})
}

func TestRefillByTime(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"exact to the millionth", refill(333_333_333), []step{
			{0, asks(10), "10 granted"},
			{1000, ask(), "no tokens 0.333333/10 again 2001"},
			{2000, ask(), "no tokens 0.999999/10 again 1"},
			{1, ask(), "granted 0.000333/10"},
		}},
		{"no fraction is lost", refill(1_111_111), []step{
			{0, asks(10), "10 granted"},
			{0, asksEvery(50, 7), "0 of 50 granted"},
			{0, ask(), "no tokens 0.000388/10 again 899651"},
			{899_650, ask(), "no tokens 0.999999/10 again 1 report"},
			{1, ask(), "granted 0.000001/10 report"},
		}},
		{"a rate below a millionth", refill(999), []step{
			{0, asks(10), "10 granted"},
			{1000, ask(), "no tokens 0/10 again 1001001002"},
			{1, ask(), "no tokens 0/10 again 1001001002"},
			{1, ask(), "no tokens 0.000001/10 again 1001000000"},
		}},
		{"a refused ask loses no time: tb-frequent-calls-starve", refill(perSecond), []step{
			{0, asks(10), "10 granted"},
			{0, asksEvery(27, 37), "0 of 27 granted"},
			{1, ask(), "granted 0/10"},
		}},
		{"tb-lost-fraction", refill(perSecond), []step{
			{0, asks(11), "10 granted, 1 no tokens"},
			{2500, asks(4), "2 granted, 2 no tokens"},
			{300, ask(), "no tokens 0.8/10 again 200"},
			{400, asks(3), "1 granted, 2 no tokens"},
		}},
		{"tb-remaining-above-limit", holds(5*token, 100*perSecond), []step{
			{0, ask(), "granted 4/5"},
			{60, ask(), "granted 4/5"},
			{0, success(1000), ""},
			{0, looks(""), "5/5"},
			{day, looks(""), "5/5"},
		}},
		{"tb-window-edge", holds(60*token, perSecond), []step{
			{0, asks(61), "60 granted, 1 no tokens"},
			{1000, asks(60), "1 granted, 59 no tokens"},
			{1000, asks(60), "1 granted, 59 no tokens"},
		}},
		{"when to ask again", refill(100_000_000), []step{
			{0, asks(10), "10 granted"},
			{0, ask(), "no tokens 0/10 again 10000"},
			{0, ask(cost(2 * token)), "no tokens 0/10 again 20000"},
			{9999, ask(), "no tokens 0.9999/10 again 1"},
			{1, ask(), "granted 0/10"},
		}},
		{"tb-idle-overflow", holds(decide.MaxCapacity, decide.MaxNanoPerSecond), []step{
			{0, ask(), "granted 999999/1000000"},
			{30 * day, ask(), "granted 999999/1000000"},
			{3653 * day, ask(), "granted 999999/1000000"},
			{0, ask(), "granted 999998/1000000"},
		}},
		{"re-ttl-too-short: not full early", holds(3*token, 1_111_111), []step{
			{0, asks(3), "3 granted"},
			{14 * minute, ask(), "no tokens 0.933333/3 again 60001 report"},
			{2 * minute, asks(2), "1 granted, 1 no tokens"},
		}},
		{"re-ttl-too-short: kept until it is full", refill(1_111_111), []step{
			{0, asks(10), "10 granted"},
			{61 * minute, asks(10), "4 granted, 6 no tokens"},
		}},
		{"without refill a day", nil, []step{
			{0, asks(10), "10 granted"},
			{day, ask(), "no tokens 0/10 report"},
			{day + minute, ask(), "granted 9/10"},
		}},
	})
}

func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"by little: time stands still", refill(perSecond), []step{
			{0, asks(10), "10 granted"},
			{5000, ask(), "granted 4/10"},
			{-5000, ask(), "granted 3/10"},
			{5000, ask(), "granted 2/10"},
			{1000, ask(), "granted 2/10"},
			{-10_000, ask(), "granted 1/10"},
			{10_000, ask(), "granted 0/10"},
		}},
		{"by more: nothing is credited, and time goes on", refill(perSecond), []step{
			{0, asks(10), "10 granted"},
			{-10_001, ask(), "no tokens 0/10 again 1000"},
			{1000, ask(), "granted 0/10"},
			{9001, ask(), "granted 8.001/10"},
		}},
		{"by years", refill(perSecond), []step{
			{0, asks(10), "10 granted"},
			{-3653 * day, ask(), "no tokens 0/10 again 1000"},
			{1000, ask(), "granted 0/10"},
		}},
		{"what was to last a second more still does", func(p *decide.Policy) { p.Breaker.Mode = decide.BreakerModeRetries }, []step{
			{0, overrides(decide.OverridePause, 5000), ""},
			{0, tells(failures{serverDelay: 4000}), ""},
			{0, tells(failures{caller: "checkout", serverDelay: 4500, forCaller: true}), ""},
			{0, tells(failures{count: 6}), ""},
			{-day, looks("checkout"), "10/10 cool 4500 open pause for 5000 by ann: the moon"},
			{0, ask(), "paused again 5000 open"},
			{499, looks(""), "10/10 cool 3501 open pause for 4501 by ann: the moon"},
			{1, looks(""), "10/10 cool 3500 half_open pause for 4500 by ann: the moon"},
			{4000, looks("checkout"), "10/10 half_open pause for 500 by ann: the moon"},
			{500, looks("checkout"), "10/10 half_open"},
		}},
		{"the last report was as long ago", nil, []step{
			{0, success(1), ""},
			{minute - 1, ask(), "granted 9/10"},
			{-day, ask(), "granted 8/10"},
			{1, ask(), "granted 7/10 report"},
		}},
	})
}

func TestRuleChanges(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"lowered clamps, raised keeps", nil, []step{
			{0, ask(), "granted 9/10"},
			{0, rule(holds(3*token, 0)), ""},
			{0, ask(), "granted 2/3"},
			{0, rule(holds(10*token, 0)), ""},
			{0, ask(), "granted 1/10"},
		}},
		{"lowered by a look alone clamps nothing", nil, []step{
			{0, ask(), "granted 9/10"},
			{0, rule(holds(3*token, 0)), ""},
			{0, looks(""), "3/3"},
			{0, rule(holds(10*token, 0)), ""},
			{0, looks(""), "9/10"},
		}},
		{"bu-config-replace", holds(100*token, 1_000_000), []step{
			{0, ask(), "granted 99/100"},
			{1500, rule(holds(10*token, 1_000_000)), ""},
			{0, asks(20), "10 granted, 10 no tokens"},
		}},
		{"bu-config-raise-denied", holds(15*token, 1_000_000), []step{
			{0, asks(16), "15 granted, 1 no tokens"},
			{0, rule(holds(15*token, 50*perSecond)), ""},
			{1500, ask(), "granted 14/15"},
		}},
		{"the fraction outlives a change of the rate", refill(333_333_333), []step{
			{0, asks(10), "10 granted"},
			{1, asks(1), "1 no tokens"}, // 333.333333 millionths
			{0, rule(refill(666_667)), ""},
			{1, ask(), "no tokens 0.000334/10 again 1499499"},
		}},
		{"a budget switched off and on keeps its tokens", nil, []step{
			{0, asks(7), "7 granted"},
			{0, rule(func(p *decide.Policy) { p.Budget.Off = true }), ""},
			{0, ask(), "granted"},
			{0, rule(func(p *decide.Policy) { p.Budget.Off = false }), ""},
			{0, ask(), "granted 2/10"},
		}},
	})
}

func TestDeposits(t *testing.T) {
	t.Parallel()
	onRequest := func(ratio decide.Micro) func(p *decide.Policy) {
		return func(p *decide.Policy) { p.Budget.DepositOnRequest, p.Budget.Ratio = true, ratio }
	}
	play(t, []script{
		{"each success deposits the ratio", nil, []step{
			{0, asks(10), "10 granted"},
			{0, success(9), ""},
			{0, ask(), "no tokens 0.9/10"},
			{0, success(1), ""},
			{0, ask(), "granted 0/10"},
		}},
		{"successes with a retry count, failures and first attempts do not", nil, []step{
			{0, asks(10), "10 granted"},
			{0, reports(report{firstTries: 3, retries: 7, finals: 50}), ""},
			{0, ask(first), "granted 0/10"},
			{0, tells(failures{count: 40, firsts: 40}), ""},
			{0, ask(first), "no tokens 0/10"},
		}},
		{"never above the capacity", nil, []step{
			{0, success(decide.MaxDepositsPerOutcome), ""},
			{0, ask(), "granted 9/10"},
		}},
		{"a full bucket keeps no fraction of a millionth either", refill(333_333_333), []step{
			{0, ask(), "granted 9/10"},
			{20, ask(), "granted 8.006666/10"},
			{0, success(100), ""},
			{0, ask(), "granted 9/10"},
			{20, ask(), "granted 8.006666/10"},
		}},
		{"bu-never-refilled", refill(1_000_000), []step{
			{0, asks(12), "10 granted, 2 no tokens"},
			{0, reports(report{firstTries: 30, retries: 20}), ""},
			{0, asks(6), "5 granted, 1 no tokens"},
		}},
		{"re-rate-zero-ttl", holds(5*token, 0), []step{
			{0, asks(10), "5 granted, 5 no tokens"},
			{0, ask(), "no tokens 0/5"},
			{0, success(10), ""},
			{0, asks(3), "1 granted, 2 no tokens"},
		}},
		{"on request: deposit first, then spend", onRequest(token), []step{
			{0, asks(10), "10 granted"},
			{0, ask(), "no tokens 0/10"},
			{0, ask(first), "granted 0/10"},
		}},
		{"on request: kept when refused", onRequest(token / 2), []step{
			{0, asks(10), "10 granted"},
			{0, ask(first), "no tokens 0.5/10"},
			{0, ask(first), "granted 0/10"},
			{0, overrides(decide.OverridePause, 1000), ""},
			{0, ask(first), "paused again 1000"},
			{1000, ask(first), "granted 0/10"},
		}},
		{"on request: reports and what is told deposit too", onRequest(token / 10), []step{
			{0, asks(10), "10 granted"},
			{0, reports(report{firstTries: 1, retries: 2, finals: 3}), ""},
			{0, tells(failures{count: 9, firsts: 4}), ""},
			{0, ask(), "granted 0/10"},
		}},
		{"bu-shrinking-base", onRequest(token / 5), []step{
			{0, asks(100, first), "29 granted, 71 no tokens"},
			{0, asks(20), "20 no tokens"},
			{0, ask(), "no tokens 0.8/10"},
		}},
		{"a quiet minute asks for reports", nil, []step{
			{0, success(1), ""},
			{minute - 1, ask(), "granted 9/10"},
			{1, ask(), "granted 8/10 report"},
			{0, reports(report{finals: 1}), ""},
			{0, ask(), "granted 7/10"},
			{0, rule(onRequest(0)), ""},
			{minute, ask(), "granted 6/10"},
		}},
	})
}

// A busy dependency's bucket holds one second of what is deposited, and a quiet
// one's the rule's capacity again.
func TestCapacityFollowsDeposits(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, c *clock) {
		p := testRule(func(p *decide.Policy) { p.Budget.CapacityMillis = 1000 })
		busy := func(seconds int) {
			for range seconds {
				c.advance(1000)
				succeed(t, b, p, 1000) // a hundred tokens
			}
		}
		within := func(when string, low, high decide.Micro) {
			t.Helper()
			if full := lookAt(t, b, p, "").Budget.Capacity; full < low*token || full > high*token {
				t.Errorf("%s the capacity is %s, want %d to %d", when, decide.FormatMicro(full), low, high)
			}
		}
		within("at first", 10, 10)
		busy(5)
		within("after five busy seconds", 38, 43) // 100 · (1 − 0.9^5) = 41
		busy(60)
		within("after a busy minute", 98, 100)
		if got, full := askMany(t, b, p, 105, nil), 100; got < full-2 || got > full {
			t.Errorf("%d granted at once, want one second of deposits, %d", got, full)
		}
		c.advance(10_000)
		within("after ten quiet seconds", 33, 36) // 100 · 0.9^10
		c.advance(30_000)
		within("after forty", 10, 10)
	})
}
