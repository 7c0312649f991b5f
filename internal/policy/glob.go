package policy

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// pattern is a rule's name in which * stands for any text.
type pattern struct {
	prefix, suffix string   // the literal beginning and end
	middle         []string // the literals between the stars
}

func isPattern(name string) bool { return strings.Contains(name, "*") }

func newPattern(name string) pattern {
	parts := strings.Split(name, "*")
	last := len(parts) - 1
	return pattern{prefix: parts[0], suffix: parts[last], middle: parts[1:last]}
}

// matches says whether the pattern stands for the whole name. Each literal is
// taken where it first occurs, which leaves the most for the next.
func (p *pattern) matches(name string) bool {
	if len(name) < len(p.prefix)+len(p.suffix) || !strings.HasPrefix(name, p.prefix) || !strings.HasSuffix(name, p.suffix) {
		return false
	}
	rest := name[len(p.prefix) : len(name)-len(p.suffix)]
	for _, literal := range p.middle {
		at := strings.Index(rest, literal)
		if at < 0 {
			return false
		}
		rest = rest[at+len(literal):]
	}
	return true
}

// patternText is a name in which stars stand.
var patternText = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$`)

func isPatternText(name string) bool {
	return isPattern(name) && patternText.MatchString(name) && !strings.Contains(name, "**")
}

// checkName notes a rule's name that no dependency can have, and the one that an
// answer gives as the policy's where no rule matches.
func (c *compiler) checkName(r *rule) {
	switch {
	case strings.Contains(r.name, "**"):
		c.wrongAt(r.key, "pattern %q has two stars in a row, one says the same", shorten(r.name))
	case !isPatternText(r.name) && !nameText.MatchString(r.name):
		c.wrongAt(r.key, "no dependency can be named %q; a name is 1 to 128 of A-Z a-z 0-9 . _ : / - and starts with a letter or digit, and in a pattern * stands for any text", shorten(r.name))
	case r.name == DefaultName:
		c.wrongAt(r.key, "%q is the name of what holds where no rule matches; say that below defaults, or give the rule another name", r.name)
	}
}

// ending is a pattern that is sorted by its literal end, read backwards.
type ending struct {
	pattern
	backwards string
	rule      *rule
}

// checkPatterns notes patterns of one literal beginning that can match the same
// name, since then neither is the nearer one. Both have a star, so each takes
// up whatever the other has in its middle: they can match the same name exactly
// where one's literal end is the end of the other's.
func (c *compiler) checkPatterns(list rules) {
	var all []ending
	for _, r := range list {
		if isPatternText(r.name) {
			p := newPattern(r.name)
			all = append(all, ending{p, backwards(p.suffix), r})
		}
	}
	slices.SortStableFunc(all, func(a, b ending) int {
		return cmp.Or(strings.Compare(a.prefix, b.prefix), strings.Compare(a.backwards, b.backwards))
	})
	// In this order an ending comes right before all that end alike, so the
	// endings that the present one continues form a stack.
	var open []ending
	for _, e := range all {
		for len(open) > 0 && !open[len(open)-1].isEndOf(e) {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1].rule.name != e.rule.name {
			c.wrongPair(open[len(open)-1].rule, e.rule)
		}
		open = append(open, e)
	}
}

// isEndOf says whether some name ends, and begins, as both patterns say.
func (e ending) isEndOf(longer ending) bool {
	return e.prefix == longer.prefix && strings.HasPrefix(longer.backwards, e.backwards)
}

// wrongPair notes two patterns that can match the same name at the later one.
func (c *compiler) wrongPair(a, b *rule) {
	if a.key.line > b.key.line || a.key.line == b.key.line && a.key.column > b.key.column {
		a, b = b, a
	}
	c.wrongAt(b.key, "%q and %q in line %d can match the same name, and their literal beginnings are equally long", b.name, a.name, a.key.line)
}

func backwards(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
