package simulate

import (
	"fmt"
	"io"
	"strings"
)

const pageStyle = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>decider simulate</title>
<style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid color-mix(in srgb,currentColor 20%,transparent);white-space:nowrap}
th.text,td.text{text-align:left}
svg{width:100%;height:auto;margin:1rem 0}
</style></head><body>
`

// WritePage writes tables and pictures as one page that asks for nothing else.
func WritePage(w io.Writer, outcomes []Outcome) error {
	var b strings.Builder
	b.WriteString(pageStyle)
	for _, o := range outcomes {
		for _, t := range o.Tables {
			t.writeHTML(&b)
		}
		for _, c := range o.Charts {
			b.WriteString(c.SVG())
		}
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Outcome is what one scenario or study comes to.
type Outcome struct {
	Tables []*Table
	Charts []*Chart
}

func (t *Table) writeHTML(b *strings.Builder) {
	fmt.Fprintf(b, "<h2>%s</h2>\n", escape(t.Title))
	for _, note := range t.Notes {
		fmt.Fprintf(b, "<p>%s</p>\n", escape(note))
	}
	b.WriteString("<table><thead><tr>")
	for _, h := range t.Head {
		fmt.Fprintf(b, "<th%s>%s</th>", h.class(), escape(h.title()))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for i, c := range row {
			fmt.Fprintf(b, "<td%s>%s</td>", t.Head[i].class(), escape(c.show(t.Head[i])))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>\n")
}

func (h Head) class() string {
	if h.Text {
		return ` class="text"`
	}
	return ""
}

// WriteSVG writes pictures one below the other as one picture.
func WriteSVG(w io.Writer, charts []*Chart) error {
	if len(charts) == 1 {
		_, err := io.WriteString(w, charts[0].SVG())
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">`+"\n", chartWidth, chartHeight*len(charts))
	for i, c := range charts {
		fmt.Fprintf(&b, `<svg y="%d" width="%d" height="%d">`+"\n%s</svg>\n", i*chartHeight, chartWidth, chartHeight, c.SVG())
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
