package main

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// The picture: two panels of the same lines, the second one close to 1.
const (
	width       = 960.0
	left        = 60.0
	right       = 220.0
	panelHeight = 260.0
	gapHeight   = 60.0
	topMargin   = 50.0
	slot        = time.Second
)

// panel is one part of the picture.
type panel struct {
	top       float64
	low, high float64 // of the load
	step      float64
	title     string
}

// drawSVG draws the load over time.
func drawSVG(p plan, results []*result) []byte {
	var b bytes.Buffer
	height := topMargin + 2*panelHeight + gapHeight + 40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<title>Load on a dependency before, in and after an outage of %s</title>`+"\n", p.Outage)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", width, height)
	panels := []panel{
		{topMargin, 0, 4.5, 1, "requests that reach the dependency, over the calls that programs make"},
		{topMargin + panelHeight + gapHeight, 0.8, 2, 0.2, "the same, close to 1"},
	}
	for _, each := range panels {
		each.frame(&b, &p)
		for _, r := range results {
			each.line(&b, &p, r)
		}
	}
	legend(&b, &p, results)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (s *panel) x(p *plan, at time.Duration) float64 {
	return left + (width-left-right)*float64(at)/float64(p.total())
}

func (s *panel) y(load float64) float64 {
	share := (min(max(load, s.low), s.high) - s.low) / (s.high - s.low)
	return s.top + panelHeight*(1-share)
}

// frame draws the axes, and the outage as a shade.
func (s *panel) frame(b *bytes.Buffer, p *plan) {
	from, to := s.x(p, p.Healthy), s.x(p, p.Healthy+p.Outage)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#f4e4e1"/>`+"\n", from, s.top, to-from, panelHeight)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", left, s.top-10, s.title)
	for load := s.low; load <= s.high+1e-9; load += s.step {
		y := s.y(load)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ccc"/><text x="%.1f" y="%.1f" text-anchor="end">%.1f</text>`+"\n",
			left, width-right, y, y, left-8, y+4, load)
	}
	every := 15 * time.Second
	if p.total() < time.Minute {
		every = 2 * time.Second
	}
	for at := time.Duration(0); at <= p.total(); at += every {
		x := s.x(p, at)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%.0f s</text>`+"\n", x, s.top+panelHeight+18, at.Seconds())
	}
}

// line draws the load of each second.
func (s *panel) line(b *bytes.Buffer, p *plan, r *result) {
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round" points="`, r.fleet.Color)
	for at := time.Duration(0); at+slot <= p.total(); at += slot {
		fmt.Fprintf(b, "%.1f,%.1f ", s.x(p, at+slot/2), s.y(r.load(at, at+slot)))
	}
	b.WriteString(`"/>` + "\n")
}

func legend(b *bytes.Buffer, p *plan, results []*result) {
	for i, r := range results {
		y := topMargin + 12 + 34*float64(i)
		x := width - right + 16
		load := r.load(p.Healthy, p.Healthy+p.Outage)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="4"/>`, x, x+18, y, y, r.fleet.Color)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text><text x="%.1f" y="%.1f" fill="#555">%d clients: %.2f</text>`+"\n",
			x+26, y+4, r.fleet.Name, x+26, y+19, r.fleet.Clients, math.Round(load*100)/100)
	}
	y := topMargin + panelHeight + gapHeight
	x := width - right + 16
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#555">shaded: the outage</text>`+"\n", x, y+12)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#555">%.0f calls a second each</text>`+"\n", x, y+30, p.Rate)
}
