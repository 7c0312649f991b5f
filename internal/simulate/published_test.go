package simulate

import (
	"fmt"
	"testing"
)

// In full 100 runs as published; in short 30, and the smallest and largest alone.
func TestAWSJitter(t *testing.T) {
	t.Parallel()
	sizes, runs := []int{10, 100}, 30
	if long() {
		sizes, runs = occClients(), 100
	}
	for _, n := range sizes {
		for i, s := range occStrategies {
			ms, writes := occMean(s.backoff, n, runs)
			want := occPublished[n][i]
			what := fmt.Sprintf("%d clients, %s: ", n, s.name)
			near(t, what+"time", ms, want[0], 0.10*want[0])
			near(t, what+"writes", writes, want[1], 0.05*want[1])
		}
	}
}

func TestBrooker2022(t *testing.T) {
	t.Parallel()
	names := compared2022
	if !long() { // the other two are formulas
		names = names[2:]
	}
	r := played(t, brooker2022(), 3, nil, names...)
	for _, row := range r.Rows {
		for i, name := range compared2022 {
			if name == row.Contender {
				want := bucketsPublished[row.Point.X][i]
				what := row.Point.Label + ", " + name + ": "
				near(t, what+"success", 100*row.Score.Success, want[0], 1)
				near(t, what+"load", 100*row.Score.Load, want[1], 1)
			}
		}
	}
}

// The chart of success against the number of clients, at 100 s: at 10 s it is
// of 1,000 calls, and one run differs from the next by points.
func TestBrooker2022Clients(t *testing.T) {
	t.Parallel()
	r := played(t, brookerClients(), 3, nil, "bucket-2022")
	want := map[string][2]float64{
		"p = 10 %, 10 clients, 100 s": {98.6, 109.3}, "p = 10 %, 100 clients, 100 s": {99.2, 110.4}, "p = 10 %, 1000 clients, 100 s": {99.95, 111.9},
		"p = 20 %, 10 clients, 100 s": {88.4, 110.3}, "p = 20 %, 100 clients, 100 s": {90.2, 113.6}, "p = 20 %, 1000 clients, 100 s": {99.0, 123.1},
		"p = 50 %, 10 clients, 100 s": {56.0, 110.4}, "p = 50 %, 100 clients, 100 s": {57.0, 114.2}, "p = 50 %, 1000 clients, 100 s": {73.6, 145.8},
	}
	for label, w := range want {
		row := r.Find(label, "bucket-2022")
		near(t, label+": success", 100*row.Score.Success, w[0], 1.1)
		near(t, label+": load", 100*row.Score.Load, w[1], 3)
	}
}

// A retry after each timeout keeps 280/s at 560/s for ever, and no query ends well.
func TestHotOS2021(t *testing.T) {
	t.Parallel()
	n := seeds(12)
	r := played(t, hotos2021(), n, nil, "none", "fixed", "decider-breaker-all")
	fixed := r.Find("1 retry", "fixed")
	near(t, "load after the blip", fixed.Score.Extra[0], 560, 10)
	near(t, "good after the blip", fixed.Score.Extra[1], 0, 0.5)
	if fixed.Never != n {
		t.Errorf("one retry recovers in %d of %d runs", n-fixed.Never, n)
	}
	for _, name := range []string{"none", "decider-breaker-all"} {
		if row := r.Find("1 retry", name); row.Never != 0 || row.Score.Recovery > 10 {
			t.Errorf("%s: recovery %.1f s, never in %d", name, row.Score.Recovery, row.Never)
		}
	}
}
