package simulate

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// How the values of a scenario file are written.

func textWord(name string, into *string) word {
	return word{name, func(f *file, name string, n ast.Node) {
		if s, ok := f.scalar(name, n); ok {
			*into = s
		}
	}}
}

func truthWord(name string, into *bool) word {
	return word{name, func(f *file, name string, n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			f.wrongAt(n, "%s must be true or false", name)
			return
		}
		*into = b.Value
	}}
}

func numberWord(name string, most float64, into *float64) word {
	return word{name, func(f *file, name string, n ast.Node) {
		if x, ok := f.number(name, n, 0, most); ok {
			*into = x
		}
	}}
}

func shareWord(name string, into *float64) word {
	return word{name, func(f *file, name string, n ast.Node) {
		if x, ok := f.share(name, n); ok {
			*into = x
		}
	}}
}

func countWord(name string, least, most int, into *int) word {
	return word{name, func(f *file, name string, n ast.Node) {
		x, ok := f.number(name, n, float64(least), float64(most))
		if ok && x != math.Trunc(x) {
			f.wrongAt(n, "%s must be a whole number", name)
			return
		}
		if ok {
			*into = int(x)
		}
	}}
}

func durationWord(name string, into *time.Duration) word {
	return word{name, func(f *file, name string, n ast.Node) {
		s, ok := f.scalar(name, n)
		if !ok {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > longest {
			f.wrongAt(n, "%s must be a duration from 0s to %s such as 250ms, not %q", name, longest, s)
			return
		}
		*into = d
	}}
}

func enumWord[T ~uint8](name string, known []string, into *T) word {
	return word{name, func(f *file, name string, n ast.Node) {
		s, ok := f.scalar(name, n)
		if !ok {
			return
		}
		i := slices.Index(known, s)
		if i < 0 {
			f.wrongAt(n, "%s must be one of %s, not %q", name, strings.Join(known, ", "), s)
			return
		}
		*into = T(i)
	}}
}

func (f *file) scalar(name string, n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	f.wrongAt(n, "%s must be a value", name)
	return "", false
}

func (f *file) number(name string, n ast.Node, least, most float64) (float64, bool) {
	s, ok := f.scalar(name, n)
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= least && x <= most) {
		f.wrongAt(n, "%s must be a number from %s to %s, not %q", name, decimal(least, 6), decimal(most, 6), s)
		return 0, false
	}
	return x, true
}

// share reads 30% or 0.3.
func (f *file) share(name string, n ast.Node) (float64, bool) {
	s, ok := f.scalar(name, n)
	if !ok {
		return 0, false
	}
	digits, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		f.wrongAt(n, "%s must be a share from 0%% to 100%%, not %q", name, s)
		return 0, false
	}
	return x, true
}
