package policy

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/retrydecider/decider/internal/decide"
)

// DefaultName is the name of the rule that serves what no rule matches.
const DefaultName = "default"

// Load reads the policy file at a path.
func Load(path string) (*Set, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err // it names the path
	}
	defer file.Close() //nolint:errcheck // it was only read
	src, err := readUpTo(file, MaxFileBytes+1)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return Parse(path, src)
}

// Parse reads a policy file in YAML or JSON. name is what its mistakes are told
// under. The error is an [*Error] with every mistake of the file.
func Parse(name string, src []byte) (*Set, error) {
	s, src := newSource(name, src)
	words := s.words(src)
	if words == nil {
		return nil, s.err()
	}
	set := newCompiler(s).set(words)
	if err := s.err(); err != nil {
		return nil, err
	}
	set.source, set.hash, set.warnings = name, words.root.hash(), s.advice()
	return set, nil
}

// Standard is what holds without a policy file: preset standard for every
// dependency.
var Standard = sync.OnceValue(func() *Set {
	set, err := Parse("built-in", []byte("version: 1"))
	if err != nil {
		panic(err) // a mistake of the program, which every test finds
	}
	return set
})

// ParseRule compiles the body of one rule, as it stands below a dependency's
// name, of a file that holds nothing else. The rule's name is payments.
func ParseRule(body []byte) (*decide.Policy, error) {
	s, body := newSource("rule", body)
	n := s.tree(body)
	if n == nil {
		return nil, s.err()
	}
	words := &document{}
	words.Dependencies = &rules{s.rule("payments", n, n)}
	set := newCompiler(s).set(words)
	if err := s.err(); err != nil {
		return nil, err
	}
	return set.rules[0], nil
}

// document is a file's words and the tree that they were read from.
type document struct {
	fileWords
	root *node
}

// words reads a file's text into its words, nil where there is no mapping to read.
func (s *source) words(src []byte) *document {
	root := s.tree(src)
	if root == nil {
		return nil
	}
	if root.kind != mapping {
		s.wrongAt(root, `a policy file must be a mapping of words such as "version: 1", not %s`, root.describe())
		return nil
	}
	d := &document{root: root}
	s.group(root, reflect.ValueOf(&d.fileWords).Elem(), "")
	if root.get("version") == nil {
		s.wrongAt(root, `the file must say "version: 1"`)
	}
	return d
}

// set makes the policies of a file. It is of use only where no mistake was noted.
func (c *compiler) set(d *document) *Set {
	c.ownPresets(said(d.Presets))
	standard := builtIn("standard")
	defaults := standard
	if d.Defaults != nil {
		defaults = c.layBoth(d.Defaults, c.base(d.Defaults, standard))
	}
	set := newSet(string(said(d.UnknownDependencies)) == "refuse", int(said(d.MaxUnknown)))
	for _, r := range said(d.Dependencies) {
		c.checkName(r)
		set.said = append(set.said, saidRule(r))
		if l := c.layBoth(r, c.base(r, defaults)); l.sound {
			set.add(l.policy(r.name))
		}
	}
	if d.Defaults != nil {
		set.said = append(set.said, saidRule(d.Defaults))
	}
	c.checkPatterns(said(d.Dependencies))
	c.adviseUnused(said(d.Presets))
	if defaults.sound {
		set.fallback = defaults.policy(DefaultName)
	}
	return set
}

// saidRule is a rule as the file has it.
func saidRule(r *rule) SaidRule {
	out := SaidRule{Name: r.name, Line: r.key.line}
	for _, m := range r.node.members {
		w := SaidWord{Key: m.name, Line: m.key.line}
		switch m.name {
		case "unprocessed":
			w.Failures = r.words.Unprocessed.bare()
		case "retryable":
			if e := r.words.Retryable; e != nil {
				w.Failures = slices.Concat(e.Only.bare(), e.Add.bare(), e.Remove.bare(), e.WithRetryAfter.bare())
			}
		}
		out.Words = append(out.Words, w)
	}
	return out
}

// bare are the failures, none where the word is not said.
func (v *failures) bare() []decide.Failure {
	if v == nil {
		return nil
	}
	return v.list()
}
