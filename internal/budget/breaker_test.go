package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// breaking is the tests' rule with a breaker: six attempts, half of them
// failures, open for 500 ms, one probe.
func breaking(changes ...func(r *decide.BreakerRule)) func(p *decide.Policy) {
	return func(p *decide.Policy) {
		p.Breaker.Mode = decide.BreakerModeRetries
		p.Budget.Capacity, p.Budget.Ratio = 1000*token, 0
		for _, change := range changes {
			change(&p.Breaker)
		}
	}
}

func probes(n int64) func(r *decide.BreakerRule) { return func(r *decide.BreakerRule) { r.Probes = n } }
func atLeast(n int64) func(r *decide.BreakerRule) {
	return func(r *decide.BreakerRule) { r.MinAttempts = n }
}
func failureRatio(n int64) func(r *decide.BreakerRule) {
	return func(r *decide.BreakerRule) { r.FailureRatio = n }
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"at the failure that is one too many, before that is answered", breaking(), []step{
			{0, asks(5), "5 granted"},
			{0, looks(""), "995/1000 closed"},
			{0, ask(), "open breaker again 500 open"},
			{1, ask(), "open breaker again 499 open"},
			{0, looks(""), "995/1000 open"},
		}},
		{"not below the least number of attempts", breaking(atLeast(7)), []step{
			{0, asks(6), "6 granted"},
			{0, ask(), "open breaker again 500 open"},
		}},
		{"not below the ratio", breaking(), []step{
			{0, success(7), ""},
			{0, asks(6), "6 granted"}, // 6 of 13
			{0, ask(), "open breaker again 500 open"},
		}},
		{"at the ratio exactly", breaking(failureRatio(333_334)), []step{
			{0, success(200), ""},
			{0, tells(failures{count: 100}), ""}, // a third is less
			{0, looks(""), "1000/1000 closed"},
			{0, tells(failures{count: 1}), ""},
			{0, looks(""), "1000/1000 open"},
		}},
		{"by failures that were only told or reported", breaking(), []step{
			{0, tells(failures{count: 3}), ""},
			{0, reports(report{finals: 3}), ""},
			{0, ask(), "open breaker again 500 open"},
		}},
		{"of a failure that carries none it hears nothing", breaking(), []step{
			{0, tells(failures{serverDelay: 100}), ""},
			{0, reports(report{}), ""},
			{0, looks(""), "1000/1000 cool 100 closed"},
		}},
		{"not by what is out of the window", breaking(), []step{
			{0, success(6), ""},
			{0, asks(5), "5 granted"},
			{11_000, success(6), ""},
			{0, asks(5), "5 granted"}, // 5 of 11; with the old ones it would be 10 of 22
			{0, ask(), "open breaker again 500 open"},
		}},
		{"by the last few attempts, however far back they reach", breaking(), []step{
			{0, ask(), "granted 999/1000 closed"},
			{20_000, ask(), "granted 998/1000 closed"},
			{20_000, asks(3), "3 granted"},
			{10_000, ask(), "open breaker again 500 open"},
		}},
		{"off", func(p *decide.Policy) { p.Budget.Capacity = 1000 * token }, []step{
			{0, asks(50), "50 granted"},
			{0, ask(), "granted 949/1000"},
		}},
		{"mode all stops retries as well", breaking(func(r *decide.BreakerRule) { r.Mode = decide.BreakerModeAll }), []step{
			{0, asks(6), "5 granted, 1 open breaker"},
		}},
		{"deposits and cool-downs of what it refuses are kept", func(p *decide.Policy) {
			breaking()(p)
			p.Budget.DepositOnRequest, p.Budget.Ratio = true, token
		}, []step{
			{0, asks(5), "5 granted"},
			{0, ask(first, serverDelay(900)), "open breaker again 500 open"},
			{0, looks(""), "996/1000 cool 900 open"},
		}},
	})
}

func TestBreakerProbes(t *testing.T) {
	t.Parallel()
	opened := step{0, tells(failures{count: 6}), ""}
	play(t, []script{
		{"br-halfopen-flood: one probe for the whole fleet", breaking(), []step{
			{0, asks(12), "5 granted, 7 open breaker"},
			{0, ask(), "open breaker again 500 open"},
			{650, asks(40), "1 granted, 39 open breaker"},
		}},
		{"as many as the rule says", breaking(probes(3)), []step{
			opened,
			{500, looks(""), "1000/1000 half_open"},
			{0, ask(), "granted 999/1000 half_open"},
			{0, ask(), "granted 998/1000 half_open"},
			{100, ask(), "granted 997/1000 half_open"},
			// A fourth question is a failure while every probe is out.
			{0, ask(), "open breaker again 500 open"},
		}},
		{"a failure that was not asked about opens though a probe is left", breaking(probes(3)), []step{
			opened,
			{500, ask(), "granted 999/1000 half_open"},
			{0, tells(failures{count: 1}), ""},
			{0, ask(), "open breaker again 500 open"},
		}},
		{"a success after the grant closes", breaking(), []step{
			opened,
			{500, ask(), "granted 999/1000 half_open"},
			{10, success(1), ""},
			{0, looks(""), "999/1000 closed"},
			{0, asks(5), "5 granted"}, // what was counted before is forgotten
			{0, ask(), "open breaker again 500 open"},
		}},
		{"successes before any grant close where they are enough to judge by", breaking(), []step{
			opened,
			{0, success(1000), ""},
			{0, looks(""), "1000/1000 open"},
			{500, success(5), ""},
			{0, looks(""), "1000/1000 half_open"},
			{0, success(1), ""},
			{0, looks(""), "1000/1000 closed"},
		}},
		{"ten without a failure are enough", breaking(atLeast(20)), []step{
			{0, tells(failures{count: 20}), ""},
			{500, success(9), ""},
			{0, looks(""), "1000/1000 half_open"},
			{0, success(1), ""},
			{0, looks(""), "1000/1000 closed"},
		}},
		{"failures among them open again", breaking(), []step{
			opened,
			{500, success(3), ""},
			{0, tells(failures{count: 2}), ""},
			{0, looks(""), "1000/1000 half_open"},
			{0, tells(failures{count: 1}), ""},
			{0, looks(""), "1000/1000 open"},
		}},
		{"a success after the lease has ended closes too", breaking(), []step{
			opened,
			{500, ask(), "granted 999/1000 half_open"},
			{700, success(1), ""},
			{0, looks(""), "999/1000 closed"},
		}},
		{"a failure while the probe is out opens until its lease would have ended", breaking(), []step{
			opened,
			{500, ask(), "granted 999/1000 half_open"},
			{200, tells(failures{count: 1}), ""},
			{0, ask(), "open breaker again 300 open"},
			{0, success(9), ""}, // of before the failure
			{299, ask(), "open breaker again 1 open"},
			{1, ask(), "granted 998/1000 half_open"},
		}},
		{"failures when no probe is out open again where they are enough to judge by", breaking(), []step{
			opened,
			{500, tells(failures{count: 5}), ""},
			{0, ask(), "granted 999/1000 half_open"},
			{500, looks(""), "999/1000 half_open"},
			{0, tells(failures{count: 1}), ""},
			{0, ask(), "open breaker again 500 open"},
		}},
		{"br-stuck-no-report: silence lets the lease run out", breaking(), []step{
			{0, asks(12), "5 granted, 7 open breaker"},
			{600, ask(), "granted 994/1000 half_open"},
			{0, ask(dryRun), "open breaker again 500 open"},
			{499, looks(""), "994/1000 half_open"},
			{1001, ask(), "granted 993/1000 half_open"},
		}},
		{"br-stuck-ignored: an answer that is not counted sticks nothing", breaking(), []step{
			{0, asks(12), "5 granted, 7 open breaker"},
			{600, ask(), "granted 994/1000 half_open"}, // its call ends in 400, of which nobody tells
			{100, ask(), "open breaker again 400 open"},
			{100, ask(), "open breaker again 300 open"},
			{100, ask(), "open breaker again 200 open"},
			{100, ask(), "open breaker again 100 open"},
			{100, ask(), "granted 993/1000 half_open"},
			{100, success(1), ""},
			{0, ask(), "granted 992/1000 closed"},
		}},
		{"only together with the spend", func(p *decide.Policy) {
			breaking()(p)
			p.Budget.Capacity, p.Budget.NanoPerSecond = 5*token, perSecond
		}, []step{
			{0, asks(6), "5 granted, 1 open breaker"},
			{500, ask(), "no tokens 0.5/5 again 500 half_open"},
			{0, ask(serverDelay(100), fits(99)), "cool-down too long cool 100 half_open"},
			{0, overrides(decide.OverridePause, 100), ""},
			{0, ask(), "paused again 100 half_open"},
			{500, ask(), "granted 0/5 half_open"}, // no lease was taken before
			{0, ask(), "open breaker again 500 open"},
		}},
		{"granted by an operator takes no lease", breaking(), []step{
			opened,
			{500, overrides(decide.OverrideAllow, 100), ""},
			{0, asks(3), "3 granted"},
			{0, overrides(decide.OverrideNone, 0), ""},
			{0, ask(), "granted 999/1000 half_open"},
		}},
		{"without a budget a grant is a probe as well", func(p *decide.Policy) {
			breaking()(p)
			p.Budget.Off = true
		}, []step{
			opened,
			{500, asks(5), "1 granted, 4 open breaker"},
		}},
		{"a rule switched off and on is nowhere stuck", breaking(), []step{
			opened,
			{0, rule(func(p *decide.Policy) { p.Breaker.Mode = decide.BreakerModeOff }), ""},
			{0, asks(10), "10 granted"},
			{0, rule(breaking()), ""},
			{500, ask(), "granted 989/1000 half_open"},
		}},
		{"open outlives a bucket that is full", breaking(func(r *decide.BreakerRule) { r.OpenFor = 10 * minute }), []step{
			opened,
			{10*minute - 1, ask(), "open breaker again 1 open report"},
		}},
	})
}

// Two probes at once need two callers whose questions come together: neither
// failure is of after a grant. What the rule allows is never passed.
func TestBreakerProbesAreAllUsed(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, c *clock) {
		p := testRule(breaking(probes(3)))
		run(t, b, p.Name, p, op{tell: &failures{count: 6}})
		c.advance(500)
		var got []string
		for range 5 { // questions whose failures were counted before
			got = append(got, said(run(t, b, p.Name, p, op{ask: &question{cost: token}})[0].answer))
		}
		want := []string{"granted 999/1000 half_open", "granted 998/1000 half_open", "granted 997/1000 half_open",
			"open breaker again 500 half_open", "open breaker again 500 half_open"}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("question %d: got %q, want %q", i+1, got[i], want[i])
			}
		}
	})
}

// Whatever happens, a breaker that is asked long enough grants again.
func TestBreakerIsNeverStuck(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		c := newClock()
		b, p, r := NewMemory(c.now), testRule(breaking(probes(1+int64(seed%3)))), newRandom(seed)
		for range 60 {
			c.advance(r.Int64N(400) - 20)
			switch r.IntN(4) {
			case 0:
				run(t, b, p.Name, p, op{tell: &failures{count: r.Int64N(8)}})
			case 1:
				succeed(t, b, p, r.Int64N(3))
			default:
				askOnce(t, b, p, nil)
			}
		}
		granted := false
		for waited := int64(0); waited <= 2*p.Breaker.OpenFor && !granted; waited += 100 {
			granted = askOnce(t, b, p, nil).Verdict == decide.Granted
			c.advance(100)
		}
		if !granted {
			t.Errorf("seed %d: nothing granted for two times open_for", seed)
		}
	}
}
