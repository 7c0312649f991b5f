package simulate

import (
	"context"
	"slices"
	"testing"
)

// The goals that are quick are met; make goals plays all of them.
func TestGoals(t *testing.T) {
	t.Parallel()
	met := map[string]bool{"G10": true, "G12": true, "G14": true}
	n := 1
	if long() {
		n = 0
		for _, id := range []string{"G1", "G2b", "G3", "G5", "G6b", "G7", "G11", "G13", "G15"} {
			met[id] = true
		}
	}
	var list []Goal
	for _, g := range goals {
		if _, ok := met[g.ID]; ok {
			list = append(list, g)
		}
	}
	table, err := checkGoals(context.Background(), list, n, map[string]Measured{"G2": {Value: "1.1", Met: true, At: "10 processes"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range table.Rows {
		row := shown(table, i)
		if row[4] != yes(met[row[0]]) {
			t.Errorf("%v: met is %s, want %s", row, row[4], yes(met[row[0]]))
		}
		if row[0] == "G2" && row[5] != "1.1 (10 processes)" {
			t.Errorf("measured shows as %q", row[5])
		}
	}
}

func TestGoalsEndWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if table, err := CheckGoals(ctx, 1, nil, nil); err == nil {
		t.Errorf("%+v", table)
	}
}

// A full breaker that lets everybody in before the queue is gone opens once more:
// the point of G7 where that has happened.
func TestFullBreakerIsBackAtOnce(t *testing.T) {
	t.Parallel()
	list, err := ByName("decider-breaker-all")
	if err != nil {
		t.Fatal(err)
	}
	s := scenarioC2()
	s.Points = slices.DeleteFunc(s.Points, func(p Point) bool { return p.Label != "rho 0.70" })
	r, err := Play(context.Background(), s, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.each("decider-breaker-all", func(row *Row) {
		if row.Never > 0 || row.Score.Recovery > 6 {
			t.Errorf("%s: back after %.1f s, %d of %d never", row.Point.Label, row.Score.Recovery, row.Never, row.Runs)
		}
	})
}
