package simulate

import (
	"fmt"
	"math"
	"time"
)

// Charts are the pictures of a scenario's result: over its axis where it has
// one, else over time at each point.
func (r *Result) Charts() []*Chart {
	s := r.Scenario
	if s.Axis == "" {
		var all []*Chart
		for _, p := range s.Points {
			all = append(all, r.overTime(p)...)
		}
		return all
	}
	measures := []struct {
		title, y string
		hidden   string
		of       func(*Score) float64
	}{
		{"Load", "attempts per call", "load", func(s *Score) float64 { return s.Load }},
		{"Success", "calls that end well (%)", "success", func(s *Score) float64 { return float64(100 * s.Success) }},
		{"Recovery", "seconds until calls end well", "recovery", func(s *Score) float64 { return s.Recovery }},
	}
	var all []*Chart
	for _, m := range measures {
		if r.says(m.hidden, m.of) {
			all = append(all, r.overAxis(m.title, m.y, m.of))
		}
	}
	return append(all, r.extraCharts()...)
}

// says whether a metric is shown and differs anywhere.
func (r *Result) says(column string, of func(*Score) float64) bool {
	for _, hidden := range r.Scenario.Hide {
		if hidden == column {
			return false
		}
	}
	for i := range r.Rows {
		if of(&r.Rows[i].Score) != of(&r.Rows[0].Score) {
			return true
		}
	}
	return false
}

func (r *Result) extraCharts() (all []*Chart) {
	for i, c := range r.Scenario.Extra {
		y := c.Name
		if c.Unit != "" {
			y += " (" + c.Unit + ")"
		}
		all = append(all, r.overAxis(c.Name, y, func(s *Score) float64 { return s.Extra[i] }))
	}
	return all
}

func (r *Result) overAxis(title, y string, of func(*Score) float64) *Chart {
	s := r.Scenario
	c := &Chart{Title: s.Name + ". " + title + ": " + s.Title, X: s.Axis, Y: y}
	low, high := math.Inf(1), 0.0
	places := r.places(c)
	for _, row := range r.Rows {
		i := c.line(row.Contender)
		x := row.Point.X
		if c.Categories != nil {
			x = float64(places[row.Point.Label])
		}
		c.Lines[i].X = append(c.Lines[i].X, x)
		c.Lines[i].Y = append(c.Lines[i].Y, of(&row.Score))
		low, high = min(low, x), max(high, x)
	}
	c.LogX = c.Categories == nil && low > 0 && high/low > 200
	return c
}

// places gives the points a place each where two stand at one number, or one at none.
func (r *Result) places(c *Chart) map[string]int {
	seen, places := map[float64]bool{}, map[string]int{}
	named := false
	for i, p := range r.Scenario.Points {
		named = named || p.X == 0 || seen[p.X]
		seen[p.X] = true
		places[p.Label] = i
	}
	if named {
		for _, p := range r.Scenario.Points {
			c.Categories = append(c.Categories, p.Label)
		}
	}
	return places
}

// line is a contender's, a new one where it has none.
func (c *Chart) line(name string) int {
	for i := range c.Lines {
		if c.Lines[i].Name == name {
			return i
		}
	}
	c.Lines = append(c.Lines, Line{Name: name})
	return len(c.Lines) - 1
}

// overTime draws the first seed's attempts and good calls per second.
func (r *Result) overTime(p Point) []*Chart {
	s := r.Scenario
	title := func(what string) string { return fmt.Sprintf("%s. %s: %s", s.Name, what, p.Label) }
	load := &Chart{Title: title("Load"), X: "seconds", Y: "attempts per second"}
	good := &Chart{Title: title("Success"), X: "seconds", Y: "calls per second that end well"}
	if p.Model.Burst > 0 {
		per := " per " + short(time.Duration(p.Model.slot()))
		load.Y, good.Y = "attempts"+per, "calls that end well, by their start"+per
	}
	for _, c := range []*Chart{load, good} {
		c.ShadeFrom, c.ShadeTo = p.Model.From.Seconds(), min(p.Model.To, p.Model.End).Seconds()
		if p.Model.Burst > 0 {
			c.ShadeTo = 0
		}
	}
	for _, row := range r.Rows {
		if row.Point.Label == p.Label {
			load.Lines = append(load.Lines, row.series(func(s *Slot) int32 { return s.Attempts }))
			good.Lines = append(good.Lines, row.series(func(s *Slot) int32 { return s.Good }))
		}
	}
	return []*Chart{load, good}
}

// burstShown is how much of the time after a burst is drawn.
const burstShown = 2 * second

// maxTimes is how many points a line over time has at most.
const maxTimes = 260

func (r *Row) series(of func(*Slot) int32) Line {
	width := float64(r.Point.Model.slot()) / 1e9
	merge := max((len(r.Slots)+maxTimes-1)/maxTimes, 1)
	slots := r.Slots
	if m := &r.Point.Model; m.Burst > 0 { // in slots as they were counted, as long as it is interesting
		merge, slots = 1, slots[:min(len(slots), int(int64(m.BurstAt+burstShown)/m.slot()))]
	} else {
		for float64(float64(merge)*width) < 1 {
			merge++
		}
	}
	l := Line{Name: r.Contender}
	for i := 0; i+merge <= len(slots); i += merge {
		sum := int64(0)
		for j := range merge {
			sum += int64(of(&slots[i+j]))
		}
		l.X = append(l.X, float64(float64(i)*width))
		if r.Point.Model.Burst > 0 {
			l.Y = append(l.Y, float64(sum))
			continue
		}
		l.Y = append(l.Y, float64(sum)/float64(float64(merge)*width))
	}
	return l
}
