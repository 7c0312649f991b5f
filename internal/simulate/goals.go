package simulate

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// Goal is something that decider must show.
type Goal struct {
	ID, Scenario, Asks string
	check              func(*goalRun) Finding
}

// Finding is what a goal's runs came to.
type Finding struct {
	Value string
	Met   bool
	// Why it is not met, or what to know of it.
	Why string
}

// Measured is a value of a goal that was measured with real processes.
type Measured struct {
	Value string `json:"value"`
	Met   bool   `json:"met"`
	// At is the scale at which it was measured.
	At string `json:"at"`
}

// goalRun plays what the goals ask for; seeds 0: as the scenarios say.
type goalRun struct {
	ctx   context.Context
	seeds int
	err   error
}

// play plays a part of a scenario.
func (g *goalRun) play(s *Scenario, keep func(Point) bool, names ...string) *Result {
	var points []Point
	for _, p := range s.Points {
		if keep == nil || keep(p) {
			points = append(points, p)
		}
	}
	s.Points = points
	if g.seeds > 0 {
		s.Seeds = g.seeds
	}
	list, err := ByName(names...)
	if err == nil && g.err == nil {
		var r *Result
		if r, err = Play(g.ctx, s, list, nil); err == nil {
			return r
		}
	}
	if g.err == nil {
		g.err = err
	}
	return &Result{Scenario: s}
}

func labelled(part string) func(Point) bool {
	return func(p Point) bool { return strings.Contains(p.Label, part) }
}

// each row of a contender.
func (r *Result) each(contender string, f func(*Row)) {
	for i := range r.Rows {
		if r.Rows[i].Contender == contender {
			f(&r.Rows[i])
		}
	}
}

// span is the least and the most of a metric over a contender's rows.
func (r *Result) span(contender string, of func(*Score) float64) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	r.each(contender, func(row *Row) {
		x := of(&row.Score)
		least, most = min(least, x), max(most, x)
	})
	return least, most
}

func loadOf(s *Score) float64    { return s.Load }
func successOf(s *Score) float64 { return float64(100 * s.Success) }
func othersOf(s *Score) float64  { return float64(100 * s.OtherSuccess) }

// CheckGoals plays all goals, or one seed of each, and makes their table.
func CheckGoals(ctx context.Context, seeds int, measured map[string]Measured, tell Progress) (*Table, error) {
	return checkGoals(ctx, goals, seeds, measured, tell)
}

func checkGoals(ctx context.Context, list []Goal, seeds int, measured map[string]Measured, tell Progress) (*Table, error) {
	t := &Table{Name: "goals", Title: "Goals, in virtual time with decider's own code",
		Notes: []string{"Scenarios A to K are those of decider simulate list; decider is the default sized for the fleet, unless another is named.",
			"A b beside a number is another way to the same goal. measured is by real processes with a real Redis, at the scale in brackets; make docs-goals measures."},
		Head: []Head{{Name: "goal", Text: true}, {Name: "scenario", Text: true}, {Name: "asks", Text: true}, {Name: "simulated", Text: true},
			{Name: "met", Text: true}, {Name: "measured", Text: true}, {Name: "why", Text: true}}}
	run := &goalRun{ctx: ctx, seeds: seeds}
	for i, g := range list {
		f := g.check(run)
		if run.err != nil {
			return nil, run.err
		}
		t.Rows = append(t.Rows, []Cell{text(g.ID), text(g.Scenario), text(g.Asks), text(f.Value), text(yes(f.Met)), text(measured[g.ID].String()), text(f.Why)})
		if tell != nil {
			tell(i+1, len(list), 0)
		}
	}
	return t, nil
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

// String is a measured value, "-" where there is none.
func (m Measured) String() string {
	if m.Value == "" {
		return "-"
	}
	s := m.Value
	if m.At != "" {
		s += " (" + m.At + ")"
	}
	if !m.Met {
		s += ", not met"
	}
	return s
}

func checkedF(met bool, why string, format string, args ...any) Finding {
	f := Finding{Value: fmt.Sprintf(format, args...), Met: met}
	if !met {
		f.Why = why
	}
	return f
}
