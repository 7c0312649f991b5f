package simulate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/policy"
)

func need(rate, capacity, failures float64) Need {
	return Need{Rate: rate, Capacity: capacity, FailureRate: failures, Attempts: 4, Clients: 100, Service: 10 * time.Millisecond}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		need  Need
		ratio float64
		floor float64
	}{
		{need(1000, 2000, 0.05), 0.06, 10},
		{need(1000, 2000, 0.09), 0.10, 10},
		{need(1000, 1100, 0.05), 0.06, 10},
		{need(1000, 1050, 0.05), 0.03, 10}, // 4 % of room, a quarter of it the floor's
		{need(1, 10, 0.05), 0.06, 0.1},
		{need(100, 1000, 0.30), 0.43, 1},
	} {
		p, err := Size(c.need)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "ratio", p.Ratio, c.ratio, 1e-9)
		near(t, "floor", p.Floor, c.floor, 1e-9)
		if _, err := policy.ParseRule([]byte(p.Words())); err != nil {
			t.Errorf("%s: %v", p.Words(), err)
		}
	}
}

func TestSizeRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []Need{need(0, 10, 0), need(10, 10, 0), need(10, 5, 0), need(10, 20, 1), need(10, 20, -0.1)} {
		if p, err := Size(n); err == nil {
			t.Errorf("%+v: %+v", n, p)
		}
	}
}

// What the proposal says of success and load is what its own run comes to.
func TestSizeSaysWhatHappens(t *testing.T) {
	t.Parallel()
	for _, n := range []Need{need(500, 1000, 0.05), need(500, 600, 0.3)} {
		p, err := Size(n)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Scenario()
		r, err := Play(context.Background(), s, []Contender{p.Contender()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		success, load := p.at(n.FailureRate)
		near(t, "success", r.Rows[0].Score.Success, success, 0.01)
		near(t, "load", r.Rows[0].Score.Load, load, 0.02)
		if r.Rows[2].Never != 0 {
			t.Errorf("%+v does not recover", n)
		}
		if !strings.Contains(p.String(), "ratio: ") {
			t.Errorf("%s", p.String())
		}
	}
}
