package budget

import (
	"fmt"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// shared is the tests' rule with a caller's share of a tenth.
func shared(p *decide.Policy) { p.Budget.CallerShare = token / 10 }

func reported(caller string, calls int64) action {
	return reports(report{caller: caller, firstTries: calls})
}

func TestCallerShares(t *testing.T) {
	t.Parallel()
	noDeposits := func(p *decide.Policy) {
		shared(p)
		p.Budget.Ratio = 0
	}
	play(t, []script{
		{"one caller alone borrows down to half, and has one retry of its own", noDeposits, []step{
			{0, asks(20, from("checkout")), "5 granted, 15 no tokens"},
			{0, ask(from("checkout")), "no tokens 5/10"},
			{0, ask(from("search")), "granted 4/10"}, // its own first
			{0, ask(from("search")), "no tokens 4/10"},
		}},
		{"the own share is spent first", noDeposits, []step{
			{0, ask(from("checkout")), "granted 9/10"},
			{0, asks(4, from("search")), "4 granted"}, // its own, then three borrowed
			{0, asks(2, from("other")), "1 granted, 1 no tokens"},
			{0, ask(from("checkout")), "no tokens 4/10"}, // long spent
		}},
		{"borrows only while the bucket is above half", noDeposits, []step{
			{0, ask(from("checkout"), cost(5*token)), "granted 5/10"},
			{0, ask(from("search"), cost(2*token)), "no tokens 5/10"},
			{0, ask(from("search")), "granted 4/10"},
		}},
		{"successes earn a share, of the caller alone and not without bound", noDeposits, []step{
			{0, asks(20, from("checkout")), "5 granted, 15 no tokens"},
			{0, reported("checkout", 9), ""},
			{0, ask(from("checkout")), "no tokens 5/10"},
			{0, reported("checkout", 1), ""},
			{0, reported("search", 1000), ""},
			{0, asks(3, from("checkout")), "1 granted, 2 no tokens"},
			{0, asks(5, from("search")), "2 granted, 3 no tokens"},
		}},
		{"first attempts earn where requests deposit", func(p *decide.Policy) {
			noDeposits(p)
			p.Budget.DepositOnRequest = true
		}, []step{
			{0, asks(20, from("checkout")), "5 granted, 15 no tokens"},
			{0, tells(failures{caller: "checkout", count: 10, firsts: 9}), ""},
			{0, ask(from("checkout")), "no tokens 5/10"},
			{0, ask(from("checkout"), first), "granted 4/10"},
		}},
		{"the own share does not pay from an empty bucket", noDeposits, []step{
			{0, asks(10, from("checkout")), "5 granted, 5 no tokens"},
			{0, asks(5, from("a")), "1 granted, 4 no tokens"},
			{0, asks(5, from("b")), "1 granted, 4 no tokens"},
			{0, asks(5, from("c")), "1 granted, 4 no tokens"},
			{0, asks(5, from("d")), "1 granted, 4 no tokens"},
			{0, ask(from("e")), "granted 0/10"},
			{0, ask(from("f")), "no tokens 0/10"},
		}},
		{"asking again is told for what is needed", func(p *decide.Policy) {
			noDeposits(p)
			p.Budget.NanoPerSecond = perSecond
		}, []step{
			{0, asks(10, from("checkout")), "5 granted, 5 no tokens"},
			{0, ask(from("checkout")), "no tokens 5/10 again 1"},
			{1, ask(from("checkout")), "granted 4.001/10"},
		}},
		{"unnamed callers are one", noDeposits, []step{
			{0, asks(20), "5 granted, 15 no tokens"},
			{0, ask(), "no tokens 5/10"},
		}},
		{"none without shares", nil, []step{
			{0, asks(20, from("checkout")), "10 granted, 10 no tokens"},
		}},
	})
}

// However many callers appear, a bucket knows a hundred by name; past those
// they are one, until some are forgotten.
func TestCallersAreBounded(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, c *clock) {
		p := testRule(func(p *decide.Policy) {
			shared(p)
			p.Budget.Capacity, p.Budget.Ratio = 1000*token, 0
		})
		for i := range maxCallers {
			run(t, b, p.Name, p, op{report: &report{caller: fmt.Sprint("c", i)}}, op{tell: &failures{caller: fmt.Sprint("c", i), serverDelay: 1000, forCaller: true}})
		}
		run(t, b, p.Name, p, op{tell: &failures{caller: "late", serverDelay: 5000, forCaller: true}})
		cool := func(caller string) int64 {
			t.Helper()
			return lookAt(t, b, p, caller).CoolDown
		}
		if got := cool("later"); got != 5000 {
			t.Errorf("a caller past the bound shares the wait of the rest: got %d", got)
		}
		if got := cool("c7"); got != 1000 {
			t.Errorf("a caller known by name has its own wait: got %d", got)
		}
		c.advance(forgotten)
		run(t, b, p.Name, p, op{tell: &failures{caller: "new", serverDelay: 3000, forCaller: true}})
		if got := cool("new"); got != 3000 {
			t.Errorf("those of whom nothing holds any more make room: got %d", got)
		}
		if got := cool("c7"); got != 0 {
			t.Errorf("a wait that is over holds for nobody: got %d", got)
		}
	})
}

// Past the bound, callers spend the one share of the rest.
func TestTheRestShareOneShare(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b Backend, _ *clock) {
		p := testRule(func(p *decide.Policy) {
			shared(p)
			p.Budget.Capacity, p.Budget.Ratio = 10*token, 0
			p.Budget.Cost[decide.Plain] = 1
		})
		for i := range maxCallers {
			askOnce(t, b, p, func(q *question) { q.caller, q.cost = fmt.Sprint("c", i), 1 })
		}
		half := func(q *question) { q.caller, q.cost = "c1", 5*token-maxCallers }
		if got := said(askOnce(t, b, p, half)); got != "granted 5/10" {
			t.Fatal(got)
		}
		granted := 0
		for i := range 20 {
			granted += askMany(t, b, p, 1, func(q *question) { q.caller, q.cost = fmt.Sprint("late", i), 1 })
		}
		if granted != 1 {
			t.Errorf("twenty callers past the bound have one retry of their own, not %d", granted)
		}
	})
}
