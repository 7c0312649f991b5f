package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

func coolDown(scope decide.CoolDown) func(p *decide.Policy) {
	return func(p *decide.Policy) { p.CoolDown = scope }
}

func TestCoolDown(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"one caller's wait holds for the fleet until it is over", nil, []step{
			{0, ask(from("checkout"), serverDelay(2000)), "granted 9/10 cool 2000"},
			{500, ask(from("search")), "granted 8/10 cool 1500"},
			{1499, looks("search"), "8/10 cool 1"},
			{1, ask(from("search")), "granted 7/10"},
		}},
		{"the longest wait holds", nil, []step{
			{0, tells(failures{count: 1, serverDelay: 3000}), ""},
			{1000, ask(serverDelay(1000)), "granted 9/10 cool 2000"},
			{0, ask(serverDelay(2001)), "granted 8/10 cool 2001"},
		}},
		{"a caller's own wait holds for that caller", nil, []step{
			{0, ask(from("checkout"), forCaller(2000)), "granted 9/10 cool 2000"},
			{0, ask(from("search")), "granted 8/10"},
			{500, ask(from("checkout")), "granted 7/10 cool 1500"},
			{0, looks("search"), "7/10"},
			{1500, ask(from("checkout")), "granted 6/10"},
		}},
		{"the longer of the fleet's and the caller's holds", nil, []step{
			{0, tells(failures{caller: "checkout", serverDelay: 3000, forCaller: true}), ""},
			{0, tells(failures{serverDelay: 1000}), ""},
			{0, ask(from("checkout")), "granted 9/10 cool 3000"},
			{0, ask(from("search")), "granted 8/10 cool 1000"},
		}},
		{"unnamed callers are one", nil, []step{
			{0, ask(forCaller(2000)), "granted 9/10 cool 2000"},
			{0, ask(), "granted 8/10 cool 2000"},
			{0, ask(from("search")), "granted 7/10"},
		}},
		{"too long for the deadline spends nothing", nil, []step{
			{0, tells(failures{serverDelay: 2000}), ""},
			{0, ask(fits(1999)), "cool-down too long cool 2000"},
			{0, looks(""), "10/10 cool 2000"},
			{0, ask(fits(2000)), "granted 9/10 cool 2000"},
			{2000, ask(fits(0)), "granted 8/10"},
			{0, ask(serverDelay(100), fits(-1)), "cool-down too long cool 100"},
		}},
		{"bounded by the longest wait that is honoured", nil, []step{
			{0, tells(failures{serverDelay: 60_000}), ""},
			{0, rule(func(p *decide.Policy) { p.RetryAfter.Max = 1000 }), ""},
			{0, ask(), "granted 9/10 cool 1000"},
			{59_001, ask(), "granted 8/10 cool 999"},
		}},
		{"off", coolDown(decide.CoolDownOff), []step{
			{0, ask(serverDelay(2000)), "granted 9/10"},
			{0, ask(forCaller(2000)), "granted 8/10"},
			{0, rule(coolDown(decide.CoolDownFleet)), ""},
			{0, ask(), "granted 7/10"},
		}},
		{"switched off while it holds", nil, []step{
			{0, tells(failures{serverDelay: 2000}), ""},
			{0, rule(coolDown(decide.CoolDownOff)), ""},
			{0, ask(fits(0)), "granted 9/10"},
		}},
		{"outlives a bucket that is full", func(p *decide.Policy) { p.RetryAfter.Max = 10 * minute }, []step{
			{0, tells(failures{serverDelay: 10 * minute}), ""},
			{10*minute - 1, looks(""), "10/10 cool 1"},
		}},
		{"a caller's outlives a bucket that is full", func(p *decide.Policy) { p.RetryAfter.Max = 10 * minute }, []step{
			{0, tells(failures{caller: "checkout", serverDelay: 10 * minute, forCaller: true}), ""},
			{10*minute - 1, looks("checkout"), "10/10 cool 1"},
		}},
	})
}

// The scope of a policy and the kind of a failure say for whom a wait holds.
func TestCoolDownScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope     decide.CoolDown
		kind      decide.Kind
		forCaller bool
	}{
		{decide.CoolDownAuto, decide.Throttle, true},
		{decide.CoolDownAuto, decide.Plain, false},
		{decide.CoolDownAuto, decide.Timing, false},
		{decide.CoolDownFleet, decide.Throttle, false},
		{decide.CoolDownCaller, decide.Plain, true},
	} {
		f := newFailures(&decide.Failed{Policy: testRule(coolDown(c.scope)), Kind: c.kind, Caller: "checkout", ServerDelay: 1000})
		if f.forCaller != c.forCaller || f.serverDelay != 1000 || f.caller != "checkout" {
			t.Errorf("%s, kind %d: %+v", c.scope, c.kind, f)
		}
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"pause refuses and spends nothing", nil, []step{
			{0, overrides(decide.OverridePause, 3000), ""},
			{1000, asks(5), "5 paused"},
			{0, ask(), "paused again 2000"},
			{0, looks(""), "10/10 pause for 2000 by ann: the moon"},
		}},
		{"allow grants and spends nothing", nil, []step{
			{0, asks(10), "10 granted"},
			{0, overrides(decide.OverrideAllow, 3000), ""},
			{0, asks(20), "20 granted"},
			{0, ask(), "granted"},
			{0, looks(""), "0/10 allow for 3000 by ann: the moon"},
		}},
		{"allow stands above breaker and cool-down", func(p *decide.Policy) { p.Breaker.Mode = decide.BreakerModeRetries }, []step{
			{0, tells(failures{count: 6, serverDelay: 9000}), ""},
			{0, ask(), "open breaker again 500 open"},
			{0, overrides(decide.OverrideAllow, 3000), ""},
			{0, ask(fits(1)), "granted open"},
		}},
		{"ends by itself", nil, []step{
			{0, overrides(decide.OverridePause, 3000), ""},
			{2999, ask(), "paused again 1"},
			{1, ask(), "granted 9/10"},
			{0, looks(""), "9/10"},
		}},
		{"is lifted", nil, []step{
			{0, overrides(decide.OverridePause, 3000), ""},
			{0, overrides(decide.OverrideNone, 0), ""},
			{0, looks(""), "10/10"},
			{0, ask(), "granted 9/10"},
		}},
		{"the last one holds", nil, []step{
			{0, overrides(decide.OverridePause, day), ""},
			{0, overrides(decide.OverrideAllow, 100), ""},
			{99, ask(), "granted"},
			{1, ask(), "granted 9/10"},
		}},
		{"outlives a bucket that is full", nil, []step{
			{0, overrides(decide.OverridePause, 30*day), ""},
			{30*day - 1, looks(""), "10/10 pause for 1 by ann: the moon"},
		}},
	})
}

func TestOverrideKeepsWhoWhyAndSince(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, c *clock) {
		p, since := testRule(nil), c.now()
		run(t, b, p.Name, p, op{override: &override{mode: decide.OverridePause, until: minute, author: "ann <ops>", words: "naïve, \"quoted\"\n{it}, 100 %"}})
		c.advance(1234)
		got := lookAt(t, b, p, "").Override
		want := decide.Override{Mode: decide.OverridePause, ExpiresIn: minute - 1234, Author: "ann <ops>", Reason: "naïve, \"quoted\"\n{it}, 100 %", Since: since.UTC()}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
