package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/decisionlog"
)

// others is the name of the dependencies beyond those that are told apart. No
// dependency can have it.
const others = "_other"

// Report is a log under another policy.
type Report struct {
	// Policies is the file, and Config its hash.
	Policies string `json:"policies"`
	Config   string `json:"config"`
	// From and To are the times of the first and the last line.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Attempts were decided anew, Reports are outcomes that fed the budgets, and
	// Unknown are lines of dependencies that the policies refuse.
	Attempts int64 `json:"attempts"`
	Reports  int64 `json:"reports"`
	Unknown  int64 `json:"unknown"`
	// Notes tell of what was left out.
	Notes        []string      `json:"notes"`
	Dependencies []*Dependency `json:"dependencies"`
}

// Dependency is what the other policy comes to for one dependency.
type Dependency struct {
	Name     string `json:"dependency"`
	Attempts int64  `json:"attempts"`
	// Calls are the original calls: attempts 1 and what was reported.
	Calls int64 `json:"calls"`
	// LoggedRetries were granted, ReplayedRetries would have been.
	LoggedRetries   int64 `json:"logged_retries"`
	ReplayedRetries int64 `json:"replayed_retries"`
	// Saved are retries that were granted and would be refused, Added the other
	// way round, and LoadChange is their difference as a share of the calls.
	Saved      int64   `json:"saved"`
	Added      int64   `json:"added"`
	LoadChange float64 `json:"load_change"`
	// Held were refused by an operator's pause, which holds.
	Held int64 `json:"held"`
	// Flips are decisions that differ, and Others those of which only the reason
	// does; the most frequent first.
	Flips  []Difference `json:"flips"`
	Others []Difference `json:"other_reasons"`
	// Timeline is the budget over time.
	Timeline []*Slot `json:"timeline"`

	pairs map[Difference]int64
	width time.Duration
}

// Difference is a pair of reasons and how often it came.
type Difference struct {
	Logged   string `json:"logged"`
	Replayed string `json:"replayed"`
	Attempts int64  `json:"attempts"`

	flip bool
}

// Slot is a part of the log's time.
type Slot struct {
	At       time.Time `json:"at"`
	Attempts int64     `json:"attempts"`
	Logged   int64     `json:"logged_retries"`
	Replayed int64     `json:"replayed_retries"`
	// Budget is what the bucket held, absent where none was asked.
	Budget *Held `json:"budget,omitempty"`
}

// Held is what a bucket held in a slot, in tokens.
type Held struct {
	Least    float64 `json:"least"`
	Last     float64 `json:"last"`
	Capacity float64 `json:"capacity"`
}

const (
	// maxSlots bounds a timeline; its slots double in width as the log goes on.
	maxSlots   = 24
	firstWidth = time.Second
)

func newDependency(name string) *Dependency {
	return &Dependency{Name: name, Flips: []Difference{}, Others: []Difference{}, Timeline: []*Slot{}, pairs: map[Difference]int64{}, width: firstWidth}
}

// slot is the part of the timeline that holds an instant. One before the first
// slot, of a clock that stepped back, belongs to it.
func (d *Dependency) slot(at time.Time) *Slot {
	if len(d.Timeline) == 0 {
		d.Timeline = append(d.Timeline, &Slot{At: at.UTC().Truncate(firstWidth)})
	}
	first := d.Timeline[0].At
	for at.Sub(first) >= maxSlots*d.width {
		d.widen()
	}
	start := first.Add(max(at.Sub(first), 0) / d.width * d.width)
	i, found := slices.BinarySearchFunc(d.Timeline, start, func(s *Slot, t time.Time) int { return s.At.Compare(t) })
	if !found {
		d.Timeline = slices.Insert(d.Timeline, i, &Slot{At: start})
	}
	return d.Timeline[i]
}

// widen doubles the width of the slots.
func (d *Dependency) widen() {
	d.width *= 2
	first := d.Timeline[0].At
	var wide []*Slot
	for _, s := range d.Timeline {
		s.At = first.Add(s.At.Sub(first) / d.width * d.width)
		if n := len(wide); n > 0 && wide[n-1].At.Equal(s.At) {
			wide[n-1].take(s)
			continue
		}
		wide = append(wide, s)
	}
	d.Timeline = wide
}

// take adds the slot that comes after.
func (s *Slot) take(next *Slot) {
	s.Attempts, s.Logged, s.Replayed = s.Attempts+next.Attempts, s.Logged+next.Logged, s.Replayed+next.Replayed
	switch {
	case next.Budget == nil:
	case s.Budget == nil:
		s.Budget = next.Budget
	default:
		s.Budget.Least = min(s.Budget.Least, next.Budget.Least)
		s.Budget.Last, s.Budget.Capacity = next.Budget.Last, next.Budget.Capacity
	}
}

func (s *Slot) budget(b *decide.Budget) {
	if !b.Asked {
		return
	}
	tokens := float64(b.Tokens) / float64(decide.MicroPerToken)
	s.take(&Slot{Budget: &Held{Least: tokens, Last: tokens, Capacity: float64(b.Capacity) / float64(decide.MicroPerToken)}})
}

func (d *Dependency) compare(s *Slot, logged decisionlog.Decision, replayed decide.Reason) {
	was, is := logged.Word == "retry", replayed.Retry()
	d.LoggedRetries, s.Logged = d.LoggedRetries+one(was), s.Logged+one(was)
	d.ReplayedRetries, s.Replayed = d.ReplayedRetries+one(is), s.Replayed+one(is)
	d.Saved, d.Added = d.Saved+one(was && !is), d.Added+one(!was && is)
	if logged.Reason != replayed.String() {
		d.pairs[Difference{Logged: logged.Reason, Replayed: replayed.String(), flip: was != is}]++
	}
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// report is what came of all lines.
func (r *replayer) report() *Report {
	out := &r.out
	out.Dependencies = []*Dependency{}
	if out.Notes == nil {
		out.Notes = []string{}
	}
	for _, d := range r.byName {
		d.finish()
		out.Dependencies = append(out.Dependencies, d)
	}
	slices.SortFunc(out.Dependencies, func(a, b *Dependency) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (d *Dependency) finish() {
	if d.Calls > 0 {
		d.LoadChange = float64(d.Added-d.Saved) / float64(d.Calls)
	}
	for pair, n := range d.pairs {
		pair.Attempts = n
		if pair.flip {
			d.Flips = append(d.Flips, pair)
		} else {
			d.Others = append(d.Others, pair)
		}
	}
	for _, list := range [][]Difference{d.Flips, d.Others} {
		slices.SortFunc(list, func(a, b Difference) int {
			return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), strings.Compare(a.Logged, b.Logged), strings.Compare(a.Replayed, b.Replayed))
		})
	}
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	out := &printer{w: w}
	out.line("%d attempts and %d reports from %s to %s, decided anew by %s (%s)", r.Attempts, r.Reports, stamp(r.From), stamp(r.To), r.Policies, r.Config)
	if r.Unknown > 0 {
		out.line("%d lines of dependencies that these policies refuse", r.Unknown)
	}
	for _, note := range r.Notes {
		out.line("%s", note)
	}
	for _, d := range r.Dependencies {
		d.print(out)
	}
	return out.err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (d *Dependency) print(out *printer) {
	out.line("")
	out.line("%s: %d attempts, %d retries logged, %d replayed: %d saved, %d added%s", d.Name, d.Attempts, d.LoggedRetries, d.ReplayedRetries, d.Saved, d.Added, d.load())
	if d.Held > 0 {
		out.line("  %d were paused by an operator, and stay so", d.Held)
	}
	out.table(func(t io.Writer) {
		for _, f := range d.Flips {
			fmt.Fprintf(t, "  %d\t%s → %s\n", f.Attempts, f.Logged, f.Replayed)
		}
		for _, f := range d.Others {
			fmt.Fprintf(t, "  %d\t%s → %s\tdecided alike\n", f.Attempts, f.Logged, f.Replayed)
		}
	})
	out.line("")
	out.table(func(t io.Writer) {
		fmt.Fprintf(t, "  FROM\tATTEMPTS\tRETRIES LOGGED\tREPLAYED\tTOKENS LEAST\tLAST\tOF\n")
		for _, s := range d.Timeline {
			fmt.Fprintf(t, "  %s\t%d\t%d\t%d\t%s\n", s.At.Format("15:04:05"), s.Attempts, s.Logged, s.Replayed, s.Budget.columns())
		}
	})
}

func (d *Dependency) load() string {
	if d.Calls == 0 {
		return ""
	}
	return fmt.Sprintf(", %+.2f %% of the load of %d calls", 100*d.LoadChange, d.Calls)
}

func (h *Held) columns() string {
	if h == nil {
		return "\t\t"
	}
	return fmt.Sprintf("%.4g\t%.4g\t%.4g", h.Least, h.Last, h.Capacity)
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) table(rows func(io.Writer)) {
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	rows(t)
	if err := t.Flush(); p.err == nil {
		p.err = err
	}
}
