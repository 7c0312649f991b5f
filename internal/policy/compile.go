package policy

import (
	"reflect"
	"slices"

	"github.com/retrydecider/decider/internal/decide"
)

// maxPresetDepth bounds how many presets may stand over each other.
const maxPresetDepth = 16

// compiler makes policies of the rules of one file.
type compiler struct {
	*source
	own       map[string]*rule           // the file's presets
	named     map[string]bool            // the presets that were asked for
	presets   map[string]*layers         // those that are made, nil while one is being made
	classesOf map[string]*decide.Classes // by all edits that led to them
}

func newCompiler(s *source) *compiler {
	return &compiler{source: s, own: map[string]*rule{}, named: map[string]bool{}, presets: map[string]*layers{}, classesOf: map[string]*decide.Classes{}}
}

// ownPresets takes the file's presets in, so that rules find them by name.
func (c *compiler) ownPresets(list rules) {
	for _, r := range list {
		switch {
		case builtIn(r.name) != nil:
			c.wrongAt(r.key, "%q is a built-in preset; give yours another name", r.name)
		case !nameText.MatchString(r.name):
			c.wrongAt(r.key, "%q is not a name for a preset", shorten(r.name))
		case c.own[r.name] == nil:
			c.own[r.name] = r
		}
	}
	for _, r := range list {
		c.preset(r.name)
	}
}

// preset makes the layers of a preset, built-in or the file's own. It is nil
// where there is none of the name, or where it is written over itself.
func (c *compiler) preset(name string) *layers {
	if made, ok := c.presets[name]; ok {
		return made
	}
	if l := builtIn(name); l != nil {
		return l
	}
	r := c.own[name]
	if r == nil {
		return nil
	}
	c.presets[name] = nil
	l := c.base(r, builtIn("standard"))
	if l.depth > maxPresetDepth {
		c.wrongAt(r.key, "preset %q stands over %d others, at most %d may", name, l.depth, maxPresetDepth)
		l = &layers{}
	}
	l = c.layBoth(r, l)
	l.isPreset(name)
	c.presets[name] = l
	return l
}

// base is what a rule is written over: the preset that it names, else the
// layers given.
func (c *compiler) base(r *rule, unnamed *layers) *layers {
	if r.words.Preset == nil {
		return unnamed
	}
	name := string(*r.words.Preset)
	c.named[name] = true
	if l := c.preset(name); l != nil {
		return l
	}
	at := r.node.get("preset")
	if _, making := c.presets[name]; making {
		c.wrongAt(at, "preset %q is written over itself", name)
	} else {
		c.wrongAt(at, "there is no preset %q%s", shorten(name), didYouMean(name, c.presetNames()))
	}
	return &layers{}
}

func (c *compiler) presetNames() []string {
	list := Presets()
	for name := range c.own {
		list = append(list, name)
	}
	slices.Sort(list[len(Presets()):])
	return list
}

// lay lays a rule over what it is written over, and notes where the two
// contradict each other. Mistakes of the layers below are not told again.
func (c *compiler) lay(r *rule, below *layers) *layers {
	if !r.sound || !below.sound {
		return &layers{}
	}
	before := len(c.mistakes)
	l := below.over(&r.words)
	if l.classes == nil {
		l.classes = c.classes(l, r)
	}
	c.checkWaits(r, l)
	c.checkRetryAfter(r, l)
	c.checkCosts(r, l)
	l.sound = len(c.mistakes) == before
	return l
}

// layBoth lays a rule as lay does, and then its candidate over it, or over the
// preset that the candidate names.
func (c *compiler) layBoth(r *rule, below *layers) *layers {
	l := c.lay(r, below)
	if !l.sound {
		return l
	}
	if c.advise(r, l); l.words.Candidate == nil {
		return l
	}
	second := l.words.Candidate.rule
	over := *c.base(second, l)
	over.words.Candidate, over.words.Mode = nil, nil // it is judged, whatever the rule is
	l.candidate = c.lay(second, &over)
	if l.sound = l.candidate.sound; l.sound && r.words.Candidate != nil {
		c.adviseCandidate(second, l)
	}
	return l
}

// classes makes the table of classes of all layers, one for all rules that say
// the same.
func (c *compiler) classes(l *layers, r *rule) *decide.Classes {
	key := editsKey(l.edits)
	if table, ok := c.classesOf[key]; ok && r.words.Unprocessed == nil {
		return table
	}
	b := decide.NewClassesBuilder()
	for _, w := range l.edits {
		edit(b, w)
	}
	if r.words.Unprocessed != nil {
		c.checkUnprocessed(*r.words.Unprocessed, b)
	}
	if c.classesOf[key] == nil {
		c.classesOf[key] = b.Build()
	}
	return c.classesOf[key]
}

// policy is the decide.Policy of sound layers.
func (l *layers) policy(name string) *decide.Policy {
	w := &l.words
	p := &decide.Policy{
		Name:             name,
		Description:      string(said(w.Description)),
		Owner:            string(said(w.Owner)),
		Preset:           l.preset,
		MaxAttempts:      int64(*w.MaxAttempts),
		Backoff:          w.Backoff.compile(),
		RetryAfter:       decide.RetryAfter{Max: int64(*w.RetryAfter.Max), Spread: float(w.RetryAfter.Spread.Rat), Headers: *w.RetryAfter.Headers},
		Classes:          l.classes,
		Repeat:           w.Repeat.Repeat,
		MinAttempt:       int64(*w.MinAttempt),
		RetryLayer:       said(w.RetryLayer),
		OnlyFirstInbound: bool(said(w.OnlyFirstInbound)),
		Budget:           w.Budget.compile(),
		Breaker:          w.Breaker.compile(),
		CoolDown:         lookup[decide.CoolDown](*w.CoolDown, decide.CoolDownOff),
		OnStoreFailure:   lookup[decide.OnStoreFailure](*w.OnStoreFailure, decide.StoreFailureAllow),
		Shadow:           said(w.Mode) == "shadow",
	}
	if w.Headroom != nil {
		p.Headroom = units(w.Headroom.Rat, 6)
	}
	if l.candidate != nil {
		p.Candidate = l.candidate.policy(name)
	}
	return p
}

// said is what a word says, its zero value where it is not said.
func said[T any](w *T) (v T) {
	if w != nil {
		v = *w
	}
	return v
}

// lookup is the value of a small set whose String is the word; the last one
// ends the set.
func lookup[T interface {
	~uint8
	String() string
}](w word, last T) T {
	for v := T(0); v < last; v++ {
		if v.String() == string(w) {
			return v
		}
	}
	return last
}

// byKind is the wait for each kind of failure: its own words over the common ones.
func (w *backoffWords) byKind() [3]waitWords {
	var list [3]waitWords
	for kind, own := range [...]*waitWords{decide.Plain: nil, decide.Throttle: w.Throttle, decide.Timing: w.Timeout} {
		list[kind] = w.waitWords
		if own != nil {
			lay(reflect.ValueOf(&list[kind]).Elem(), reflect.ValueOf(own).Elem())
		}
	}
	return list
}

func (w *backoffWords) compile() (list [3]decide.Backoff) {
	for kind, wait := range w.byKind() {
		strategy, _ := decide.ParseStrategy(string(*wait.Strategy))
		list[kind] = decide.Backoff{
			Strategy: strategy, Base: int64(*wait.Base), Cap: int64(*wait.Cap), Min: int64(*wait.Min),
			Multiplier: float(wait.Multiplier.Rat), Jitter: float(wait.Jitter.Rat), Gap: wait.gap(),
		}
	}
	return list
}

// gap is how far the slots of a paced fleet are apart in whole µs, so that no
// more than rate begin in a second.
func (w *waitWords) gap() int64 {
	if w.Rate == nil {
		return 0
	}
	perSecond := units(w.Rate.Rat, 3)
	return (1_000_000_000 + perSecond - 1) / perSecond
}

// byKind is the cost for each kind of failure in micro-tokens.
func (w *costWords) byKind() [3]decide.Micro {
	var list [3]decide.Micro
	for kind, own := range [...]*number{decide.Plain: w.Default, decide.Throttle: w.Throttle, decide.Timing: w.Timeout} {
		if own == nil {
			own = w.Default
		}
		list[kind] = units(own.Rat, 6)
	}
	return list
}

func (w *budgetWords) compile() decide.BudgetRule {
	return decide.BudgetRule{
		Off:              bool(*w.Off),
		Ratio:            units(w.Ratio.Rat, 6),
		RatioMax:         units(w.RatioMax.Rat, 6),
		Capacity:         units(w.Capacity.Rat, 6),
		CapacityMillis:   units(w.CapacitySeconds.Rat, 3),
		NanoPerSecond:    units(w.MinPerSecond.Rat, 9),
		DepositOnRequest: *w.DepositOn == "request",
		Cost:             w.Cost.byKind(),
		CallerShare:      units(w.CallerShare.Rat, 6),
	}
}

func (w *breakerWords) compile() decide.BreakerRule {
	return decide.BreakerRule{
		Mode:         lookup[decide.BreakerMode](*w.Mode, decide.BreakerModeAll),
		FailureRatio: units(w.FailureRatio.Rat, 6),
		MinAttempts:  int64(*w.MinAttempts),
		Window:       int64(*w.Window),
		OpenFor:      int64(*w.OpenFor),
		Probes:       int64(*w.Probes),
	}
}
