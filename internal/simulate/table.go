package simulate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is what every simulation comes to: words and numbers in columns.
type Table struct {
	// Name of the scenario, Title of the table and Notes below it.
	Name, Title string
	Notes       []string
	Head        []Head
	Rows        [][]Cell
}

// Head is a column's.
type Head struct {
	Name, Unit string
	// Decimals of its numbers, where Text is false.
	Decimals int
	Text     bool
}

// Cell is a text, or a number where the column's are.
type Cell struct {
	Text   string
	Number float64
	// Never counts the runs of Of that have no such number.
	Never, Of int
}

func number(x float64) Cell { return Cell{Number: x} }

func text(s string) Cell { return Cell{Text: s} }

// Table makes the table of a scenario's result.
func (r *Result) Table() *Table {
	s := r.Scenario
	t := &Table{Name: s.Name, Title: s.Name + ". " + s.Title, Notes: []string{seedsNote(s.Seeds)}}
	if s.About != "" {
		t.Notes = append([]string{s.About}, t.Notes...)
	}
	t.Head = []Head{{Name: "point", Text: true}, {Name: "policy", Text: true}}
	for _, c := range commonColumns {
		if !slices.Contains(s.Hide, c.Name) {
			t.Head = append(t.Head, c.Head)
		}
	}
	for _, c := range s.Extra {
		t.Head = append(t.Head, Head{Name: c.Name, Unit: c.Unit, Decimals: c.Decimals})
	}
	for i := range r.Rows {
		t.Rows = append(t.Rows, r.Rows[i].cells(s))
	}
	return t
}

func seedsNote(n int) string {
	if n == 1 {
		return "One run, seed 1."
	}
	return fmt.Sprintf("Mean of seeds 1 to %d; a peak is the greatest.", n)
}

// common is a column that every scenario has, unless it hides it.
type common struct {
	Head
	of func(r *Row) Cell
}

var commonColumns = []common{
	{Head{Name: "load", Decimals: 3}, func(r *Row) Cell { return number(r.Score.Load) }},
	{Head{Name: "success", Unit: "%", Decimals: 2}, func(r *Row) Cell { return number(float64(100 * r.Score.Success)) }},
	{Head{Name: "peak", Unit: "per 10 ms"}, func(r *Row) Cell { return number(r.Score.Peak) }},
	{Head{Name: "recovery", Unit: "s", Decimals: 1}, func(r *Row) Cell { return Cell{Number: r.Score.Recovery, Never: r.Never, Of: r.Runs} }},
	{Head{Name: "fairness", Decimals: 3}, func(r *Row) Cell { return number(r.Score.Fairness) }},
}

func (r *Row) cells(s *Scenario) []Cell {
	cells := []Cell{text(r.Point.Label), text(r.Contender)}
	for _, c := range commonColumns {
		if !slices.Contains(s.Hide, c.Name) {
			cells = append(cells, c.of(r))
		}
	}
	for _, x := range r.Score.Extra {
		cells = append(cells, number(x))
	}
	return cells
}

// show is a cell for a reader.
func (c Cell) show(h Head) string {
	switch {
	case h.Text:
		return c.Text
	case math.IsNaN(c.Number):
		return "-"
	case c.Of > 0 && c.Never == c.Of, math.IsInf(c.Number, 0):
		return "never"
	case c.Never > 0:
		return fmt.Sprintf("%s (%d of %d never)", fixed(c.Number, h.Decimals), c.Never, c.Of)
	}
	return fixed(c.Number, h.Decimals)
}

func fixed(x float64, decimals int) string {
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

func (h Head) title() string {
	if h.Unit == "" {
		return h.Name
	}
	return h.Name + " (" + h.Unit + ")"
}

// WriteText writes the table in columns.
func (t *Table) WriteText(w io.Writer) error {
	lines := [][]string{nil}
	for _, h := range t.Head {
		lines[0] = append(lines[0], h.title())
	}
	for _, row := range t.Rows {
		var line []string
		for i, c := range row {
			line = append(line, c.show(t.Head[i]))
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	b.WriteString(t.Title + "\n")
	for _, note := range t.Notes {
		b.WriteString(note + "\n")
	}
	b.WriteString("\n")
	t.align(&b, lines)
	_, err := io.WriteString(w, b.String())
	return err
}

// align writes words from the left and numbers from the right.
func (t *Table) align(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(t.Head))
	for _, line := range lines {
		for i, s := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	for _, line := range lines {
		var parts []string
		for i, s := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			if t.Head[i].Text {
				parts = append(parts, s+pad)
			} else {
				parts = append(parts, pad+s)
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(parts, "  "), " ") + "\n")
	}
}

// WriteMarkdown writes the table as a section of a Markdown page.
func (t *Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# " + t.Title + "\n\n" + strings.Join(t.Notes, "\n") + "\n\n")
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	var titles, rules []string
	for _, h := range t.Head {
		titles = append(titles, h.title())
		rule := "---:"
		if h.Text {
			rule = "---"
		}
		rules = append(rules, rule)
	}
	line(titles)
	line(rules)
	for _, row := range t.Rows {
		var cells []string
		for i, c := range row {
			cells = append(cells, markdown.Replace(c.show(t.Head[i])))
		}
		line(cells)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown escapes what would be more than text in a cell.
var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`)

// WriteCSV writes the table with a line of names.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := []string{"scenario"}
	for _, h := range t.Head {
		line = append(line, h.title())
	}
	lines := [][]string{line}
	for _, row := range t.Rows {
		line = []string{t.Name}
		for i, c := range row {
			line = append(line, c.plain(t.Head[i]))
		}
		lines = append(lines, line)
	}
	return out.WriteAll(lines)
}

// plain is a cell for a program: "" where there is no number.
func (c Cell) plain(h Head) string {
	switch {
	case h.Text:
		return c.Text
	case math.IsNaN(c.Number), math.IsInf(c.Number, 0):
		return ""
	}
	return fixed(c.Number, h.Decimals+2)
}

// MarshalJSON writes the table with a number, a text or null in each cell, and
// beside a number of which some runs have none how many.
func (t *Table) MarshalJSON() ([]byte, error) {
	type head struct {
		Name string `json:"name"`
		Unit string `json:"unit,omitempty"`
	}
	out := struct {
		Name  string   `json:"name"`
		Title string   `json:"title"`
		Notes []string `json:"notes"`
		Head  []head   `json:"columns"`
		Rows  [][]any  `json:"rows"`
	}{t.Name, t.Title, t.Notes, nil, [][]any{}}
	for _, h := range t.Head {
		out.Head = append(out.Head, head{h.Name, h.Unit})
	}
	for _, row := range t.Rows {
		cells := []any{}
		for i, c := range row {
			cells = append(cells, c.json(t.Head[i]))
		}
		out.Rows = append(out.Rows, cells)
	}
	return json.Marshal(out)
}

func (c Cell) json(h Head) any {
	plain := c.plain(h)
	if h.Text {
		return plain
	}
	if plain == "" {
		return nil
	}
	return json.Number(plain)
}
