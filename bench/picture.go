package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

const (
	pictureWidth = 760
	labelWidth   = 210
	barHeight    = 16
)

const pictureStyle = `<style>text{font:12px sans-serif;fill:#1f2933}.title{font-weight:bold}.bar{fill:#9aa5b1}.own{fill:#0b7285}.mark{stroke:#1f2933}` +
	`@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.mark{stroke:#e4e7eb}}</style>`

// picture shows everybody's decisions per second, a group of bars for each
// scenario, with the bounds over the rounds.
func (r *report) picture(all []scenario) string {
	var b strings.Builder
	y := 8
	for _, s := range all {
		y = r.bars(&b, s, y)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img"><title>Decisions per second</title>%s%s</svg>`+"\n",
		pictureWidth, y+8, pictureStyle, b.String())
}

func (r *report) bars(b *strings.Builder, s scenario, y int) (below int) {
	most := 0.0
	for _, who := range s.servers {
		for _, value := range each(r.Samples[s.name][who], perSecond) {
			most = max(most, value)
		}
	}
	y += 20
	fmt.Fprintf(b, `<text class="title" x="8" y="%d">%s: decisions per second</text>`, y, html.EscapeString(s.name))
	y += 8
	for _, who := range s.servers {
		samples := r.Samples[s.name][who]
		if len(samples) == 0 {
			continue
		}
		at := spreadIn(each(samples, perSecond))
		scale := (pictureWidth - labelWidth - 90) / max(most, 1)
		class := "bar"
		if who == onMemory || who == onRedis {
			class = "own"
		}
		middle := y + barHeight/2
		fmt.Fprintf(b, `<text x="8" y="%d">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, middle+4, html.EscapeString(who), class, labelWidth, y, at.Median*scale, barHeight-4)
		fmt.Fprintf(b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, labelWidth+at.Least*scale, labelWidth+at.Most*scale, middle-2, middle-2)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%.0f</text>`, labelWidth+at.Most*scale+6, middle+4, at.Median)
		y += barHeight
	}
	return y + 8
}

// curves shows how one number changes as something grows: a panel for each, both
// axes logarithmic but for what grows by ones.
func curves(panels []panel) string {
	const height, left, right = 150, 70, 20
	var b strings.Builder
	y := 8
	for _, p := range panels {
		fmt.Fprintf(&b, `<text class="title" x="8" y="%d">%s</text>`, y+14, html.EscapeString(p.title))
		lowX, highX := bounds(p.lines, func(at point) float64 { return at.x })
		_, highY := bounds(p.lines, func(at point) float64 { return at.y })
		top, bottom := float64(y+26), float64(y+26+height)
		place := func(at point) (float64, float64) {
			x := 0.0
			if highX > lowX {
				x = math.Log(at.x/lowX) / math.Log(highX/lowX)
			}
			return left + x*(pictureWidth-left-right-150), bottom - at.y/max(highY, 1)*(bottom-top)
		}
		fmt.Fprintf(&b, `<text x="8" y="%.0f">%s</text><text x="8" y="%.0f">0</text>`, top+4, number(highY, ""), bottom+4)
		for i, l := range p.lines {
			var path strings.Builder
			for n, at := range l.points {
				x, y := place(at)
				fmt.Fprintf(&path, "%s%.1f,%.1f", map[bool]string{true: "M", false: "L"}[n == 0], x, y)
				if i == 0 {
					fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, x, bottom+16, number(at.x, ""))
				}
			}
			x, y := place(l.points[len(l.points)-1])
			color := []string{"#0b7285", "#c92a2a", "#5f3dc4"}[i%3]
			fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/><text x="%.1f" y="%.1f">%s</text>`, path.String(), color, x+6, y+4, html.EscapeString(l.name))
		}
		y = int(bottom) + 32
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img"><title>Cost growth</title>%s%s</svg>`+"\n", pictureWidth, y, pictureStyle, b.String())
}

type panel struct {
	title string
	lines []line
}

type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

func bounds(lines []line, of func(point) float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, at := range l.points {
			low, high = min(low, of(at)), max(high, of(at))
		}
	}
	return low, high
}
