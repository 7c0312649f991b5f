package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong in a policy file.
type Mistake struct {
	// File is the name that was given to [Parse].
	File string
	// Line and Column count from 1; a column is one character.
	Line, Column int
	// Path is the JSON pointer of what is wrong, "" for the whole file.
	Path string
	// Message is one English sentence without its full stop.
	Message string
	// Excerpt is the source line.
	Excerpt string
}

// String is the mistake in one line, file:line:column: message.
func (m Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Message)
}

// Error is a refused policy file.
type Error struct {
	// Mistakes are all that were found, by their place in the file.
	Mistakes []Mistake
}

// Error tells every mistake, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// Excerpts tells every mistake with its source line and a caret below the
// place, for a terminal.
func (e *Error) Excerpts() string {
	var b strings.Builder
	for _, m := range e.Mistakes {
		b.WriteString(m.pointAt(m.String()))
	}
	return b.String()
}

func (m Mistake) pointAt(text string) string {
	line, pad := window(m.Excerpt, m.Column)
	return fmt.Sprintf("%s\n    %s\n    %s^\n", text, line, pad)
}

// Warning is something that a policy file may say and had better not.
type Warning struct {
	// ID names the kind of warning, such as "metastable".
	ID string
	Mistake
}

// String is the warning in one line, file:line:column: warning: message.
func (w Warning) String() string {
	return fmt.Sprintf("%s:%d:%d: warning: %s (%s)", w.File, w.Line, w.Column, w.Message, w.ID)
}

// InContext tells the warning with its source line and a caret below the place.
func (w Warning) InContext() string { return w.pointAt(w.String()) }

// excerptWidth is how much of a long line is shown; a JSON document may be one
// line of a megabyte.
const excerptWidth = 100

// window is the part of a line around a column, and what to print below it
// before the caret: tabs stay tabs, so that both lines align.
func window(line string, column int) (part, pad string) {
	chars := []rune(line)
	at := min(max(column-1, 0), len(chars))
	start, end := 0, len(chars)
	if end > excerptWidth {
		start = max(0, min(at-excerptWidth/2, end-excerptWidth))
		end = start + excerptWidth
	}
	pad = strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(chars[start:at]))
	part = string(chars[start:end])
	if start > 0 {
		part, pad = "…"+part, " "+pad
	}
	if end < len(chars) {
		part += "…"
	}
	return part, pad
}

// byPlace sorts mistakes by their place and drops what was said twice.
func byPlace(list []Mistake) []Mistake {
	slices.SortStableFunc(list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(list)
}

// didYouMean ends a message about a word that is not known: the likeliest
// known one, or all of them where they are few.
func didYouMean(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, each := range known {
		if d := distance(word, each); d < least {
			best, least = each, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %q?", best)
	case len(known) <= 8:
		return "; known are " + strings.Join(known, ", ")
	}
	return ""
}

// longestWord bounds what distance is asked for: its work is the product of
// both lengths, and nobody misspells more.
const longestWord = 64

// distance is how many letters must be changed, added, dropped or swapped with
// their neighbour to turn a into b (optimal string alignment), without regard
// to case.
func distance(a, b string) int {
	if len(a) > longestWord || len(b) > longestWord {
		return longestWord
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
