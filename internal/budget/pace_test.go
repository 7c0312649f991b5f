package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// paced hands out slots gap µs apart, none more than a second ahead.
func paced(gap int64) func(p *decide.Policy) {
	return func(p *decide.Policy) {
		p.Budget.Off = true
		p.Backoff[decide.Plain] = decide.Backoff{Strategy: decide.Paced, Cap: 1000, Gap: gap}
	}
}

func TestPacing(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"one slot after the other", paced(100_000), []step{
			{0, ask(), "granted"},
			{0, ask(), "granted slot 100"},
			{30, ask(), "granted slot 170"},
			{1000, ask(), "granted"},
			{100, ask(), "granted"},
		}},
		{"parts of a ms are kept and rounded up", paced(526), []step{
			{0, ask(), "granted"},
			{0, ask(), "granted slot 1"},
			{0, ask(), "granted slot 2"},
			{0, ask(), "granted slot 2"},
			{0, asks(1896), "1896 granted"},
			{0, ask(), "granted slot 1000"},
		}},
		{"none further ahead than the cap", paced(600_000), []step{
			{0, asks(2), "2 granted"},
			{0, ask(), "no tokens again 200"},
			{200, ask(), "granted slot 1000"},
		}},
		{"none that misses the deadline, and a refusal takes none", paced(400_000), []step{
			{0, ask(), "granted"},
			{0, ask(fits(399)), "cool-down too long slot 400"},
			{0, ask(fits(400)), "granted slot 400"},
		}},
		{"none before a cool-down ends, and from there on none further than the cap", paced(600_000), []step{
			{0, ask(serverDelay(5000)), "granted cool 5000 slot 5000"},
			{0, ask(serverDelay(5000)), "granted cool 5000 slot 5600"},
			{0, ask(serverDelay(5000)), "no tokens again 5200 cool 5000"},
			{1000, ask(), "no tokens again 4200 cool 4000"},
			{4200, ask(), "granted slot 1000"},
		}},
		{"a longer cool-down moves what was not handed out", paced(400_000), []step{
			{0, ask(serverDelay(1000)), "granted cool 1000 slot 1000"},
			{0, ask(serverDelay(3000)), "granted cool 3000 slot 3000"},
			{0, ask(), "granted cool 3000 slot 3400"},
			{0, ask(fits(3500)), "cool-down too long cool 3000 slot 3800"},
		}},
		{"parts of a ms are kept after a cool-down", paced(526), []step{
			{0, ask(serverDelay(1000)), "granted cool 1000 slot 1000"},
			{0, asks(2), "2 granted"},
			{0, ask(), "granted cool 1000 slot 1002"},
			{0, ask(), "granted cool 1000 slot 1003"},
		}},
		{"one caller's wait takes no slot from the others", paced(400_000), []step{
			{0, ask(from("a"), forCaller(5000)), "granted cool 5000"},
			{0, ask(from("b")), "granted slot 400"},
			{0, ask(from("a")), "granted cool 5000 slot 800"},
		}},
		{"kinds with a backoff of their own are not paced", paced(400_000), []step{
			{0, ask(), "granted"},
			{0, ask(throttled), "granted"},
			{0, ask(), "granted slot 400"},
		}},
		{"without tokens no slot is taken", func(p *decide.Policy) {
			paced(400_000)(p)
			p.Budget.Off, p.Budget.Capacity = false, token
		}, []step{
			{0, ask(), "granted 0/1"},
			{0, ask(), "no tokens 0/1"},
			{0, success(10), ""},
			{0, ask(), "granted 0/1 slot 400"},
		}},
		{"an id is answered with its slot again", paced(400_000), []step{
			{0, ask(), "granted"},
			{0, ask(withID("a", 2), waits(7, 7)), "granted slot 400"},
			{10, ask(withID("a", 2), waits(7, 7)), "granted slot 400 replayed 7 400 0"},
			{0, ask(), "granted slot 790"},
		}},
		{"a dry run takes none", paced(400_000), []step{
			{0, ask(), "granted"},
			{0, ask(dryRun), "granted slot 400"},
			{0, ask(), "granted slot 400"},
		}},
	})
}
