package simulate

import (
	"context"
	"math"
	"os"
	"testing"
)

// long says whether to run in full; the short form asks the same questions of
// fewer seeds.
func long() bool { return os.Getenv("DECIDER_LONG") != "" }

func seeds(all int) int {
	if long() {
		return all
	}
	return 1
}

// played is a scenario's result, at some of its points, with some contenders.
func played(t testing.TB, s *Scenario, seeds int, labels []string, names ...string) *Result {
	t.Helper()
	s.Seeds = seeds
	if labels != nil {
		var points []Point
		for _, p := range s.Points {
			for _, label := range labels {
				if p.Label == label {
					points = append(points, p)
				}
			}
		}
		if s.Points = points; len(points) != len(labels) {
			t.Fatalf("%s has no such points as %v", s.Name, labels)
		}
	}
	list, err := ByName(names...)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Play(context.Background(), s, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// small plays a quarter of the fleet at a quarter of the rate, to which the
// formulas of load and success are indifferent; in full, all of it.
func small(t testing.TB, s *Scenario) *Scenario {
	t.Helper()
	if !long() {
		if err := s.Change(Changes{Clients: 250, Rate: 250}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.4f, want %.4f ± %.4f", what, got, want, tolerance)
	}
}

// The load of an outage of D s is 1 + what still feeds the budgets + ΣB/(R·D).
func TestLoadOfAnOutage(t *testing.T) {
	t.Parallel()
	r := played(t, small(t, scenarioA()), seeds(3), []string{"refuse"}, "none", "full-jitter", "per-client", "per-client-request", "aws-2026",
		"decider", "decider-no-floor", "decider-request")
	for name, want := range map[string]float64{
		"none": 1, "full-jitter": 4, "per-client": 1 + 5000.0/60_000, "per-client-request": 1.1 + 5000.0/60_000, "aws-2026": 1 + 35*1000.0/60_000,
		"decider": 1.01 + 100.0/60_000, "decider-no-floor": 1 + 100.0/60_000, "decider-request": 1.1 + 100.0/60_000,
	} {
		near(t, name+"'s load", r.Find("refuse", name).Score.Load, want, 0.012*want)
	}
}

// The same traffic cut into any number of clients comes to the same load.
func TestLoadDoesNotGrowWithClients(t *testing.T) {
	t.Parallel()
	s := scenarioA2()
	if !long() { // the extremes, and an outage of 20 s
		s.Points = []Point{s.Points[0], s.Points[3], s.Points[5]}
		for i := range s.Points {
			m := &s.Points[i].Model
			*m = m.during(10*second, 30*second, 31*second, Fault{Kind: FaultRefuse})
		}
	}
	r := played(t, s, 1, nil, "decider")
	least, most := math.Inf(1), 0.0
	for _, row := range r.Rows {
		least, most = min(least, row.Score.Load), max(most, row.Score.Load)
	}
	if most > 1.02 || most-least > 0.005 {
		t.Errorf("loads from %.4f to %.4f, want at most 1.02 and 0.005 apart", least, most)
	}
}

func TestPartialFailure(t *testing.T) {
	t.Parallel()
	b, floor := 0.1, 0.01
	tolerance := 0.01
	if !long() { // a quarter of the calls
		tolerance = 0.015
	}
	r := played(t, small(t, scenarioB()), seeds(3), []string{"p = 30 %", "p = 50 %", "p = 90 %"}, "full-jitter", "decider", "decider-no-floor")
	for _, row := range r.Rows {
		p := row.Point.X / 100
		var success, load float64
		switch row.Contender {
		case "full-jitter":
			success, load = 1-p*p*p*p, (1-p*p*p*p)/(1-p)
		case "decider":
			success = (1 - p) * (1 + floor) / (1 - b*(1-p))
			load = 1 + b*success + floor
		case "decider-no-floor":
			success = (1 - p) / (1 - b*(1-p))
			load = 1 + b*success
		}
		near(t, row.Point.Label+", "+row.Contender+"'s success", row.Score.Success, success, tolerance)
		near(t, row.Point.Label+", "+row.Contender+"'s load", row.Score.Load, load, 0.012*load)
	}
}

// Recovery after a loss of capacity is the backlog, less what clients wait for,
// over the spare capacity: no retry (R - K')·d - K·τ over K - R.
func TestRecovery(t *testing.T) {
	t.Parallel()
	r := played(t, scenarioC2(), 3, []string{"rho 0.50", "rho 0.70", "rho 0.80"}, "none")
	for label, want := range map[string]float64{"rho 0.50": 4, "rho 0.70": 40.0 / 3, "rho 0.80": 25} {
		near(t, "recovery at "+label, r.Find(label, "none").Score.Recovery, want, 0.15*want)
	}
}

// Retries heal themselves where (1 + n)·R is below the capacity, and not above.
func TestMetastability(t *testing.T) {
	t.Parallel()
	s := scenarioC2()
	for i := range s.Points {
		if !long() {
			s.Points[i].Model.End = 60 * second
		}
	}
	r := played(t, s, 1, []string{"rho 0.20", "rho 0.30"}, "full-jitter", "decider")
	if row := r.Find("rho 0.20", "full-jitter"); row.Never != 0 {
		t.Errorf("three retries do not recover below a quarter of the capacity: %+v", row.Score)
	}
	if row := r.Find("rho 0.30", "full-jitter"); row.Never != 1 {
		t.Errorf("three retries recover above a quarter of the capacity after %.1f s", row.Score.Recovery)
	}
	if row := r.Find("rho 0.30", "decider"); !(row.Score.Recovery <= 1) {
		t.Errorf("decider recovers at rho 0.30 after %.1f s", row.Score.Recovery)
	}
}

// The grant probability g of a bad neighbour solves
// b = s(g+g²+g³) + (1-s)(pg+p²g²+p³g³); the others' success is 1-p(1-g)-p²g(1-g)-….
func TestBadNeighbour(t *testing.T) {
	t.Parallel()
	r := played(t, small(t, scenarioF()), 1, []string{"p = 5 %, 1,000 names"}, "decider-request")
	near(t, "the others' success", 100*r.Rows[0].Score.OtherSuccess, 96.5, 0.7)
}
