package simulate

import (
	"fmt"
	"math"
	"strings"
)

// Chart is lines over an axis.
type Chart struct {
	Title, X, Y string
	// Categories name the places of the axis where it has no numbers.
	Categories []string
	// LogX draws the axis by its logarithm; TopY bounds the other, 0: as needed.
	LogX bool
	TopY float64
	// Shade is a part of the axis to shade, where To is above From.
	ShadeFrom, ShadeTo float64
	Lines              []Line
}

// Line is one contender's.
type Line struct {
	Name string
	X, Y []float64
}

// The picture's measures.
const (
	chartWidth  = 760
	chartHeight = 400
	plotLeft    = 64
	plotTop     = 44
	plotRight   = 568
	plotBottom  = 348
	legendLeft  = 584
	legendStep  = 19
)

// palette is readable on light and dark ground and by the colour-blind; after
// its end the lines are dashed.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56a0d3", "#8a63d2", "#7f7f7f"}

var dashes = []string{"", "6 3", "2 3"}

const chartStyle = `<style>
svg{color-scheme:light dark;font-family:system-ui,sans-serif}
.ground{fill:#fff}.ink{fill:#1f2328}.faint{fill:#59636e}.grid{stroke:#d1d9e0}.shade{fill:#d1242f;fill-opacity:.08}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}.ink{fill:#e6edf3}.faint{fill:#9198a1}.grid{stroke:#30363d}.shade{fill:#f85149;fill-opacity:.14}}
</style>
`

// SVG draws the chart as a picture that needs nothing else.
func (c *Chart) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", chartWidth, chartHeight, escape(c.Title))
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d"/>`+"\n", chartWidth, chartHeight)
	c.label(&b, "ink", plotLeft, 24, "start", 15, c.Title)
	x, y := c.scales()
	c.drawShade(&b, x)
	c.drawAxes(&b, x, y)
	for i := range c.Lines {
		c.drawLine(&b, i, x, y)
		c.drawLegend(&b, i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scale maps numbers to a side of the picture.
type scale struct {
	low, high float64
	from, to  float64
	log       bool
}

func (s scale) at(x float64) float64 {
	low, high := s.low, s.high
	if s.log {
		x, low, high = ln(max(x, 1e-9)), ln(low), ln(high)
	}
	share := (x - low) / (high - low)
	return s.from + float64(min(max(share, 0), 1)*(s.to-s.from))
}

func (c *Chart) scales() (x, y scale) {
	x = scale{low: math.Inf(1), high: math.Inf(-1), from: plotLeft, to: plotRight, log: c.LogX}
	y = scale{low: 0, high: 1e-9, from: plotBottom, to: plotTop}
	for _, l := range c.Lines {
		for i := range l.X {
			x.low, x.high = min(x.low, l.X[i]), max(x.high, l.X[i])
			if !math.IsInf(l.Y[i], 0) && !math.IsNaN(l.Y[i]) {
				y.high = max(y.high, l.Y[i])
			}
		}
	}
	if c.Categories != nil {
		x.low, x.high = -0.5, float64(len(c.Categories))-0.5
	}
	if !(x.high > x.low) {
		x.low, x.high = x.low-1, x.low+1
	}
	step := niceStep(y.high)
	y.high = float64(math.Ceil(y.high/step-1e-9) * step)
	if c.TopY > 0 {
		y.high = c.TopY
	}
	return x, y
}

// niceStep is 1, 2 or 5 times a power of ten, about a fifth of the whole.
func niceStep(whole float64) float64 {
	power := 1.0
	for power > whole/5 {
		power /= 10
	}
	for float64(power*10) <= whole/5 {
		power *= 10
	}
	for _, factor := range []float64{5, 2} {
		if float64(power*factor) <= whole/4 {
			return float64(power * factor)
		}
	}
	return power
}

func (c *Chart) drawShade(b *strings.Builder, x scale) {
	if c.ShadeTo > c.ShadeFrom {
		left, right := x.at(c.ShadeFrom), x.at(c.ShadeTo)
		fmt.Fprintf(b, `<rect class="shade" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", left, plotTop, right-left, plotBottom-plotTop)
	}
}

func (c *Chart) drawAxes(b *strings.Builder, x, y scale) {
	step := niceStep(y.high)
	for k := 0; float64(float64(k)*step) <= float64(y.high*(1+1e-9)); k++ {
		value := float64(float64(k) * step)
		at := y.at(value)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotLeft, plotRight, at, at)
		c.label(b, "faint", plotLeft-8, at+4, "end", 12, decimal(value, 4))
	}
	for _, tick := range c.ticks(x) {
		c.label(b, "faint", x.at(tick.at), plotBottom+18, "middle", 12, tick.name)
	}
	c.label(b, "faint", (plotLeft+plotRight)/2, plotBottom+40, "middle", 13, c.X)
	fmt.Fprintf(b, `<text class="faint" font-size="13" text-anchor="middle" transform="translate(16 %d) rotate(-90)">%s</text>`+"\n", (plotTop+plotBottom)/2, escape(c.Y))
}

type tick struct {
	at   float64
	name string
}

func (c *Chart) ticks(x scale) (list []tick) {
	switch {
	case c.Categories != nil:
		for i, name := range c.Categories {
			list = append(list, tick{float64(i), name})
		}
	case c.LogX:
		for power := 1.0; power <= float64(x.high*1.001); power *= 10 {
			if power >= float64(x.low*0.999) {
				list = append(list, tick{power, decimal(power, 0)})
			}
		}
	default:
		step := niceStep(x.high - x.low)
		for k := math.Ceil(x.low/step - 1e-9); float64(k*step) <= x.high+float64(step*1e-9); k++ {
			at := float64((k + 0) * step) // never -0
			list = append(list, tick{at, decimal(at, 4)})
		}
	}
	return list
}

// drawLine draws a line with its points; a gap stands where there is no number.
func (c *Chart) drawLine(b *strings.Builder, i int, x, y scale) {
	l := &c.Lines[i]
	var path strings.Builder
	pen := "M"
	for j := range l.X {
		if math.IsNaN(l.Y[j]) || math.IsInf(l.Y[j], 0) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, x.at(l.X[j]), y.at(l.Y[j]))
		pen = "L"
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round" stroke-dasharray="%s"/>`+"\n", path.String(), colour(i), dash(i))
	if len(l.X) > 40 {
		return
	}
	for j := range l.X {
		if !math.IsNaN(l.Y[j]) && !math.IsInf(l.Y[j], 0) {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(l.X[j]), y.at(l.Y[j]), colour(i))
		}
	}
}

func (c *Chart) drawLegend(b *strings.Builder, i int) {
	at := plotTop + 8 + i*legendStep
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2.5" stroke-dasharray="%s"/>`+"\n", legendLeft, legendLeft+18, at, at, colour(i), dash(i))
	c.label(b, "ink", legendLeft+24, float64(at+4), "start", 12, c.Lines[i].Name)
}

func (c *Chart) label(b *strings.Builder, class string, x, y float64, anchor string, size int, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" font-size="%d" text-anchor="%s">%s</text>`+"\n", class, x, y, size, anchor, escape(s))
}

func colour(i int) string { return palette[i%len(palette)] }

func dash(i int) string { return dashes[i/len(palette)%len(dashes)] }

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(s string) string { return escaper.Replace(s) }
