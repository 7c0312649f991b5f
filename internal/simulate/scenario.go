package simulate

import (
	"context"
	"fmt"
	"math"
)

// Scenario is a question: some models, and who is compared on them.
type Scenario struct {
	// Name on the command line, Title in a line, About in a sentence or two.
	Name, Title, About string
	// Points are the models, in order.
	Points []Point
	// Axis says what the points' X is; "": they have none.
	Axis string
	// Compared are the contenders' names.
	Compared []string
	// Seeds is over how many seeds is averaged, 1 to Seeds.
	Seeds int
	// Extra are columns of the scenario's own.
	Extra []Column
	// Hide names columns that say nothing here.
	Hide []string
}

// Point is one model of a scenario.
type Point struct {
	Label string
	X     float64
	Model Model
}

// Column measures something of a run.
type Column struct {
	Name, Unit string
	// Decimals to show.
	Decimals int
	measure  func(m *Model, s *Stats) float64
}

// Row is what a contender comes to at a point, over all seeds.
type Row struct {
	Point     Point
	Contender string
	Score     Score
	// Runs were averaged; in Never of them the dependency did not recover.
	Runs, Never int
	// Slots are those of the first seed.
	Slots []Slot
}

// Result is what a scenario comes to.
type Result struct {
	Scenario *Scenario
	Rows     []Row
}

// Progress is told of every run that is done.
type Progress func(done, all int, events float64)

// Play plays a scenario with its contenders, and ends early with the context.
func Play(ctx context.Context, s *Scenario, list []Contender, tell Progress) (*Result, error) {
	result := &Result{Scenario: s}
	all := len(s.Points) * len(list) * s.Seeds
	done, events := 0, 0.0
	for _, p := range s.Points {
		for _, c := range list {
			row := Row{Point: p, Contender: c.Name}
			var scores []Score
			for seed := range s.Seeds {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				stats := Run(&p.Model, c, uint64(seed+1))
				scores = append(scores, s.score(&p.Model, stats))
				if seed == 0 {
					row.Slots = stats.Slots
				}
				events += float64(stats.Events)
				if done++; tell != nil {
					tell(done, all, events)
				}
			}
			row.average(scores)
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

func (s *Scenario) score(m *Model, stats *Stats) Score {
	score := stats.score()
	for _, c := range s.Extra {
		score.Extra = append(score.Extra, c.measure(m, stats))
	}
	return score
}

// average makes the mean of the runs' scores; of peaks, the greatest.
func (r *Row) average(scores []Score) {
	r.Runs = len(scores)
	sum := Score{Extra: make([]float64, len(scores[0].Extra))}
	for i := range scores {
		s := &scores[i]
		sum.Peak, sum.Healthy = max(sum.Peak, s.Peak), max(sum.Healthy, s.Healthy)
		if math.IsInf(s.Recovery, 1) {
			r.Never++
		} else {
			sum.Recovery += s.Recovery
		}
		for j, each := range sum.means() {
			*each += *s.means()[j]
		}
		for j, x := range s.Extra {
			sum.Extra[j] += x
		}
	}
	n := float64(len(scores))
	for _, each := range sum.means() {
		*each /= n
	}
	for j := range sum.Extra {
		sum.Extra[j] /= n
	}
	sum.Recovery /= float64(r.Runs - r.Never)
	if r.Never == r.Runs {
		sum.Recovery = math.Inf(1)
	}
	r.Score = sum
}

// means are the metrics that are averaged plainly.
func (s *Score) means() []*float64 {
	return []*float64{&s.Load, &s.Success, &s.Fairness, &s.Starved, &s.FirstSuccess, &s.OtherSuccess, &s.P99, &s.Done, &s.Attempts, &s.Calls, &s.Events}
}

// Find is the row of a contender at a point's label.
func (r *Result) Find(label, contender string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Point.Label == label && r.Rows[i].Contender == contender {
			return &r.Rows[i]
		}
	}
	return nil
}

// Changes are what a command changes of a scenario; a zero changes nothing.
type Changes struct {
	Clients int
	Rate    float64
	Seeds   int
}

// Bounds of what a scenario can be.
const (
	maxClients = 1_000_000
	maxRate    = 10_000_000
	maxSeeds   = 1000
)

// Change changes the scenario; the rate of a scenario is changed in proportion
// at all points, so that the first has the new one.
func (s *Scenario) Change(c Changes) error {
	switch {
	case c.Clients < 0 || c.Clients > maxClients:
		return fmt.Errorf("a scenario has 1 to %d clients, not %d", maxClients, c.Clients)
	case !(c.Rate >= 0 && c.Rate <= maxRate):
		return fmt.Errorf("a rate is above 0 and at most %d calls per second, not %g", maxRate, c.Rate)
	case c.Seeds < 0 || c.Seeds > maxSeeds:
		return fmt.Errorf("a scenario is played with 1 to %d seeds, not %d", maxSeeds, c.Seeds)
	}
	if c.Seeds > 0 {
		s.Seeds = c.Seeds
	}
	scale := 1.0
	if c.Rate > 0 && s.Points[0].Model.Rate > 0 {
		scale = c.Rate / s.Points[0].Model.Rate
	}
	for i := range s.Points {
		m := &s.Points[i].Model
		if c.Clients > 0 {
			m.Clients = c.Clients
		}
		m.Rate *= scale
		for j := range m.Rates {
			m.Rates[j].Rate *= scale
		}
	}
	return nil
}
