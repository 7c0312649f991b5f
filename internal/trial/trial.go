// Package trial counts how candidates differ from the rules that are enforced,
// and what rules in shadow would have refused, for /metrics and /v1/dependencies.
//
// The order of events: package decide judges an attempt by a rule and by its
// candidate and hands both reasons to [Book.Compared]; a decision under a rule
// in shadow comes to [Book.Shadowed], reported outcomes to [Book.Reported]. A
// Book belongs to one replica and starts anew with it. What a candidate may
// spend is elsewhere: package budget keeps its bucket.
package trial

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// maxNames bounds the dependencies that are counted by name beside those that the
// policy file names exactly: names come from clients. The rest are one.
const maxNames = 1000

// Other is the name of the rest. No dependency can have it.
const Other = "_other"

// Book counts trials. It is safe for concurrent use.
type Book struct {
	fleet Later
	now   func() time.Time

	mu      sync.Mutex
	entries map[string]*Counts
	unnamed int // entries that the policy file does not name exactly
}

// Later asks a candidate's bucket off the path of the request; [budget.Fleet] does.
type Later interface {
	AskLater(q *decide.Question, answered func(decide.Answer))
}

// NewBook makes an empty book. Candidates' questions go to the fleet.
func NewBook(fleet Later, now func() time.Time) *Book {
	return &Book{fleet: fleet, now: now, entries: map[string]*Counts{}}
}

var _ decide.Trials = (*Book)(nil)

// Pair is what a rule came to on an attempt, and what its candidate did.
type Pair struct{ Enforced, Candidate decide.Reason }

// Counts are the trials of one dependency.
type Counts struct {
	// Dependency is its name, or [Other]. Exact: the policy file names it.
	Dependency string
	Exact      bool
	// Since is when this candidate was first judged; another candidate, or
	// another rule below it, begins anew. Zero: none was.
	Since time.Time
	// Judged attempts, and those among them whose reasons differ.
	Judged, Different int64
	// Pairs counts the different ones.
	Pairs map[Pair]int64
	// EnforcedRetries and CandidateRetries are the attempts that each granted.
	EnforcedRetries, CandidateRetries int64
	// Saved are retries that the rule granted and the candidate refused; Added
	// the other way round.
	Saved, Added int64
	// Calls are the original calls meanwhile: attempts 1 and what was reported.
	Calls int64
	// Shadow counts what the rule in shadow would have refused, by reason.
	Shadow map[decide.Reason]int64

	rule *decide.Policy
}

// LoadChange estimates what the candidate would add to the dependency's load, as
// a share of the original calls; negative: it would take away. ok is false where
// nobody reported a call. It is an estimate: a retry that is refused would have
// had no further attempts, which are judged all the same, so a candidate that
// saves would save at least so much.
func (c *Counts) LoadChange() (share float64, ok bool) {
	if c.Calls == 0 {
		return 0, false
	}
	return float64(c.Added-c.Saved) / float64(c.Calls), true
}

// Differences lists the pairs, the most frequent first.
func (c *Counts) Differences() []Pair {
	list := make([]Pair, 0, len(c.Pairs))
	for p := range c.Pairs {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(c.Pairs[b], c.Pairs[a]), cmp.Compare(a.Enforced, b.Enforced), cmp.Compare(a.Candidate, b.Candidate))
	})
	return list
}

// AskLater passes a candidate's question on.
func (b *Book) AskLater(q *decide.Question, answered func(decide.Answer)) {
	b.fleet.AskLater(q, answered)
}

// Compared counts one attempt.
func (b *Book) Compared(c *decide.Comparison) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.judged(c.Dependency, c.Policy)
	e.Judged++
	e.Calls += one(c.First)
	e.EnforcedRetries += one(c.Enforced.Retry())
	e.CandidateRetries += one(c.Candidate.Retry())
	if c.Enforced == c.Candidate {
		return
	}
	e.Different++
	e.Pairs[Pair{c.Enforced, c.Candidate}]++
	e.Saved += one(c.Enforced.Retry() && !c.Candidate.Retry())
	e.Added += one(!c.Enforced.Retry() && c.Candidate.Retry())
}

// Reported counts original calls that ended without a decision. A retry's
// success is none: its first attempt has been compared.
func (b *Book) Reported(dependency string, o *decide.Outcome) {
	if o.Policy.Candidate == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judged(dependency, o.Policy).Calls += o.FirstTrySuccesses + o.FinalFailures
}

// Shadowed counts a decision that a rule in shadow would have refused.
func (b *Book) Shadowed(d *decide.Decision) {
	if d.ShadowReason.Retry() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(d.Dependency, d.Policy)
	if e.Shadow == nil {
		e.Shadow = map[decide.Reason]int64{}
	}
	e.Shadow[d.ShadowReason]++
}

// judged is the entry of a dependency, begun anew where its rule or candidate is
// another one. A reload makes new rules of the same words, which are the same.
func (b *Book) judged(dependency string, rule *decide.Policy) *Counts {
	e := b.entry(dependency, rule.Name)
	if e.Dependency == Other { // of many rules
		if e.Pairs == nil {
			e.Since, e.Pairs = b.now(), map[Pair]int64{}
		}
		return e
	}
	if e.rule != rule && (e.rule == nil || !reflect.DeepEqual(e.rule, rule)) {
		*e = Counts{Dependency: e.Dependency, Exact: e.Exact, Since: b.now(), Pairs: map[Pair]int64{}, Shadow: e.Shadow}
	}
	e.rule = rule
	return e
}

func (b *Book) entry(dependency, rule string) *Counts {
	if e, ok := b.entries[dependency]; ok {
		return e
	}
	exact := dependency == rule
	if !exact && b.unnamed >= maxNames {
		dependency = Other
		if e, ok := b.entries[Other]; ok {
			return e
		}
	}
	if !exact {
		b.unnamed++
	}
	e := &Counts{Dependency: strings.Clone(dependency), Exact: exact}
	b.entries[e.Dependency] = e
	return e
}

// Of is what was counted of one dependency; ok is false where nothing was.
func (b *Book) Of(dependency string) (c Counts, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[dependency]
	if !ok {
		return Counts{}, false
	}
	return e.clone(), true
}

// All is what was counted, by the dependencies' names.
func (b *Book) All() []Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Counts, 0, len(b.entries))
	for _, e := range b.entries {
		list = append(list, e.clone())
	}
	slices.SortFunc(list, func(a, b Counts) int { return strings.Compare(a.Dependency, b.Dependency) })
	return list
}

func (c *Counts) clone() Counts {
	copied := *c
	copied.Pairs, copied.Shadow = maps.Clone(c.Pairs), maps.Clone(c.Shadow)
	return copied
}

// Add adds another dependency's counts.
func (c *Counts) Add(other *Counts) {
	if c.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(c.Since) {
		c.Since = other.Since
	}
	c.Judged, c.Different, c.Calls = c.Judged+other.Judged, c.Different+other.Different, c.Calls+other.Calls
	c.EnforcedRetries, c.CandidateRetries = c.EnforcedRetries+other.EnforcedRetries, c.CandidateRetries+other.CandidateRetries
	c.Saved, c.Added = c.Saved+other.Saved, c.Added+other.Added
	c.Pairs, c.Shadow = addTo(c.Pairs, other.Pairs), addTo(c.Shadow, other.Shadow)
}

func addTo[K comparable](sum, more map[K]int64) map[K]int64 {
	for k, n := range more {
		if sum == nil {
			sum = map[K]int64{}
		}
		sum[k] += n
	}
	return sum
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
