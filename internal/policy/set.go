package policy

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/retrydecider/decider/internal/decide"
)

// OtherBucket is the bucket that names beyond the bound share. No dependency
// can be named so.
const OtherBucket = "_other"

// defaultMaxUnknown is how many names without a rule have a bucket of their own.
const defaultMaxUnknown = 1000

// Set holds the policies of one file. It is safe for concurrent use; all that
// changes is which names without a rule were seen.
type Set struct {
	source, hash string
	warnings     []Warning
	said         []SaidRule
	rules        []*decide.Policy // in the order of the file
	exact        map[string]*decide.Policy
	patterns     patterns
	fallback     *decide.Policy
	refuses      bool
	maxUnknown   int
	seen         seen
}

func newSet(refuses bool, maxUnknown int) *Set {
	if maxUnknown == 0 {
		maxUnknown = defaultMaxUnknown
	}
	return &Set{exact: map[string]*decide.Policy{}, refuses: refuses, maxUnknown: maxUnknown}
}

func (s *Set) add(p *decide.Policy) {
	s.rules = append(s.rules, p)
	if isPattern(p.Name) {
		s.patterns.add(p)
		return
	}
	s.exact[p.Name] = p
}

// Find returns the policy of a dependency, the bucket that its state is kept
// under, or [decide.ErrUnknownDependency]. Its work does not grow with the
// number of rules.
func (s *Set) Find(dependency string) (p *decide.Policy, bucket string, err error) {
	return s.find(dependency, s.seen.admits)
}

// Peek is Find for whoever only looks: the name does not become one of those
// that have a bucket of their own.
func (s *Set) Peek(dependency string) (p *decide.Policy, bucket string, err error) {
	return s.find(dependency, s.seen.wouldAdmit)
}

func (s *Set) find(dependency string, admits func(name string, bound int) bool) (p *decide.Policy, bucket string, err error) {
	if p = s.match(dependency); p != nil {
		return p, dependency, nil
	}
	if s.refuses {
		return nil, "", decide.ErrUnknownDependency
	}
	if !admits(dependency, s.maxUnknown) {
		return s.fallback, OtherBucket, nil
	}
	return s.fallback, dependency, nil
}

func (s *Set) match(dependency string) *decide.Policy {
	if p, ok := s.exact[dependency]; ok {
		return p
	}
	return s.patterns.find(dependency)
}

// Rules are the policies in the order of the file, and the one that serves
// names without a rule at the end.
func (s *Set) Rules() []*decide.Policy {
	return append(slices.Clip(s.rules), s.fallback)
}

// Hash is the same for files that say the same in whatever layout: 16 digits.
func (s *Set) Hash() string { return s.hash }

// Source is the name under which the file was read, "built-in" without one.
func (s *Set) Source() string { return s.source }

// SaidRule is a rule as the file has it: its place and the words that it says.
type SaidRule struct {
	Name  string
	Line  int
	Words []SaidWord
}

// SaidWord is a word of a rule, and the failures that it names.
type SaidWord struct {
	Key      string
	Line     int
	Failures []decide.Failure
}

// Said are the rules as the file has them, the defaults last where it has any.
func (s *Set) Said() []SaidRule { return slices.Clone(s.said) }

// Warnings are what the file says and had better not, by their place.
func (s *Set) Warnings() []Warning { return slices.Clone(s.warnings) }

// MaxUnknown is how many names without a rule have a bucket of their own.
func (s *Set) MaxUnknown() int { return s.maxUnknown }

// RefusesUnknown says whether names without a rule are refused.
func (s *Set) RefusesUnknown() bool { return s.refuses }

// CarryOver takes over which names without a rule were seen under an earlier
// file, so that they keep their buckets. Call it before the Set is used.
func (s *Set) CarryOver(earlier *Set) {
	for _, name := range earlier.seen.inOrder() {
		if s.match(name) == nil {
			s.seen.admits(name, s.maxUnknown)
		}
	}
}

// seen remembers the names that came first, up to a bound.
type seen struct {
	names sync.Map // string → struct{}: read on every call, written a bounded number of times
	count atomic.Int64
	mu    sync.Mutex
	order []string
}

// admits says whether the name is among the first so many.
func (s *seen) admits(name string, bound int) bool {
	if _, ok := s.names.Load(name); ok {
		return true
	}
	if s.count.Load() >= int64(bound) { // a flood of names must not queue here
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.names.Load(name); ok || len(s.order) >= bound {
		return ok
	}
	name = strings.Clone(name) // it may be a part of a request's whole body
	s.names.Store(name, struct{}{})
	s.order = append(s.order, name)
	s.count.Add(1)
	return true
}

// wouldAdmit says whether the name is, or would be, among the first so many.
func (s *seen) wouldAdmit(name string, bound int) bool {
	_, ok := s.names.Load(name)
	return ok || s.count.Load() < int64(bound)
}

func (s *seen) inOrder() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// patterns finds a pattern by its literal ends. No two of one beginning can
// match the same name, so below a beginning an end leads to at most one that
// can match: the work is bounded by the lengths that occur, not by the number
// of patterns.
type patterns struct {
	prefixLengths []int // the longest first
	byPrefix      map[string]*endings
}

type endings struct {
	suffixLengths []int
	bySuffix      map[string]ruleOf
}

type ruleOf struct {
	pattern
	policy *decide.Policy
}

func (s *patterns) add(policy *decide.Policy) {
	p := newPattern(policy.Name)
	if s.byPrefix == nil {
		s.byPrefix = map[string]*endings{}
	}
	e := s.byPrefix[p.prefix]
	if e == nil {
		e = &endings{bySuffix: map[string]ruleOf{}}
		s.byPrefix[p.prefix] = e
		s.prefixLengths = withLength(s.prefixLengths, len(p.prefix))
	}
	e.bySuffix[p.suffix] = ruleOf{p, policy}
	e.suffixLengths = withLength(e.suffixLengths, len(p.suffix))
}

// withLength keeps lengths the longest first, each once.
func withLength(list []int, length int) []int {
	at, found := slices.BinarySearchFunc(list, length, func(each, wanted int) int { return wanted - each })
	if found {
		return list
	}
	return slices.Insert(list, at, length)
}

func (s *patterns) find(name string) *decide.Policy {
	for _, length := range s.prefixLengths {
		if length > len(name) {
			continue
		}
		if e, ok := s.byPrefix[name[:length]]; ok {
			if p := e.find(name); p != nil {
				return p
			}
		}
	}
	return nil
}

func (e *endings) find(name string) *decide.Policy {
	for _, length := range e.suffixLengths {
		if length > len(name) {
			continue
		}
		if r, ok := e.bySuffix[name[len(name)-length:]]; ok && r.matches(name) {
			return r.policy
		}
	}
	return nil
}

func readUpTo(r io.Reader, n int64) ([]byte, error) { return io.ReadAll(io.LimitReader(r, n)) }
