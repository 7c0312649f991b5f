package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// table is what a command prints, and what the page shows.
type table struct {
	title string
	rows  [][]string // the first are the names of the columns
}

// text lines the columns up.
func (t *table) text() string {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", t.title)
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString("  " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// markdown is the same for the page.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n**%s**\n\n", t.title)
	for i, row := range t.rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// tell prints the tables and writes the files.
func (r *report) tell(o *options, all []scenario) error {
	tables := []table{r.goalTable()}
	for _, each := range all {
		tables = append(tables, r.sampleTable(each))
	}
	intro := "Measured on " + r.Machine.String() + "."
	if noise := r.noise(); noise > tooNoisy {
		intro += fmt.Sprintf(" The bare handler was up to %.2f times itself within a round: the machine was too noisy to judge what is close.", noise)
	} else {
		intro += fmt.Sprintf(" The bare handler was at most %.2f times itself within a round.", noise)
	}
	if part := r.degraded(); part > tooDegraded {
		intro += fmt.Sprintf(" In one run %.1f %% of the decisions on Redis did without it, because it did not get its turn in time: too noisy as well.", 100*part)
	}
	return publish(o, "peers", intro, tables, r, r.picture(all))
}

func (r *report) goalTable() table {
	t := table{title: "What must be reached", rows: [][]string{{"what", "needed", "reached (bounds over the rounds)", "verdict"}}}
	for i := range r.Goals {
		g := &r.Goals[i]
		t.rows = append(t.rows, []string{g.What, g.needed(), g.reached(), g.Verdict})
	}
	return t
}

func (r *report) sampleTable(s scenario) table {
	t := table{title: strings.ToUpper(s.name[:1]) + s.name[1:], rows: [][]string{{"who", "decisions/s", "p50", "p99", "longest", "answered", "CPU for a decision", "Redis commands for a decision"}}}
	for _, who := range s.servers {
		samples := r.Samples[s.name][who]
		if len(samples) == 0 {
			continue
		}
		middle := func(of func(*sample) float64) float64 { return median(each(samples, of)) }
		t.rows = append(t.rows, []string{
			who, fmt.Sprintf("%.0f", middle(perSecond)), fmt.Sprintf("%.2f ms", middle(func(s *sample) float64 { return s.P50 })),
			fmt.Sprintf("%.2f ms", middle(p99)), fmt.Sprintf("%.1f ms", middle(func(s *sample) float64 { return s.Max })),
			fmt.Sprintf("%.1f %%", 100*middle(func(s *sample) float64 { return s.Answered })),
			fmt.Sprintf("%.1f µs", middle(func(s *sample) float64 { return s.CPU })),
			fmt.Sprintf("%.3f", middle(func(s *sample) float64 { return s.Commands })),
		})
	}
	return t
}

// publish prints the tables, and writes them into the page, what was measured as
// JSON, and the picture.
func publish(o *options, name, intro string, tables []table, measured any, picture string) error {
	fmt.Println(intro)
	page := intro + "\n"
	for i := range tables {
		fmt.Print(tables[i].text())
		page += tables[i].markdown()
	}
	text, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, name+".json"), append(text, '\n'), 0o600); err != nil {
		return err
	}
	if picture != "" {
		if err := os.WriteFile(filepath.Join(o.out, name+".svg"), []byte(picture), 0o600); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	if picture != "" {
		figure := filepath.Join(filepath.Dir(o.page), "figures", "bench-"+name+".svg")
		if err := os.WriteFile(figure, []byte(picture), 0o644); err != nil { //nolint:gosec // a page of the repository
			return err
		}
	}
	return rewrite(o.page, name, page)
}

// rewrite puts text between the marks of a name.
func rewrite(file, name, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- bench "+name+" -->\n", "<!-- end of bench "+name+" -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for %s: %s…%s", file, name, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644) //nolint:gosec // a page of the repository
}
