package policy

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/retrydecider/decider/internal/decide"
)

// layers are what a rule is written over, and the rule: its words as the last
// one of them has it, and every layer's edits of the classes in turn.
type layers struct {
	words   ruleWords
	edits   []*ruleWords // of the layers that edit classes, the lowest first
	classes *decide.Classes
	// candidate are the layers of the rule's candidate, the rule's own among
	// them; nil where it has none.
	candidate *layers
	preset    string // the preset at the bottom
	depth     int
	sound     bool // none of the layers has a mistake
}

// over lays words over layers: maps merge, lists replace, the last word wins,
// and class edits add up.
func (below *layers) over(words *ruleWords) *layers {
	merged := *below
	lay(reflect.ValueOf(&merged.words).Elem(), reflect.ValueOf(words).Elem())
	merged.words.Description = words.Description // the defaults' is not the rule's
	if words.Retryable != nil || words.Unprocessed != nil {
		merged.edits = append(slices.Clip(below.edits), words)
		merged.classes = nil
	}
	merged.depth++
	merged.candidate = nil
	return &merged
}

// isPreset says that the layers are a preset of a name. Its description tells of
// the preset, not of what is written over it.
func (l *layers) isPreset(name string) {
	l.preset, l.words.Description = name, nil
}

// lay writes every word that above says into below. It leaves alone what
// below's pointers point at, since other rules share it.
func lay(below, above reflect.Value) {
	for i := range above.NumField() {
		from, to := above.Field(i), below.Field(i)
		switch {
		case from.Kind() == reflect.Struct: // words that groups have in common
			lay(to, from)
		case from.IsNil():
		case to.IsNil() || isValue(from):
			to.Set(from)
		default:
			group := reflect.New(to.Type().Elem())
			group.Elem().Set(to.Elem())
			lay(group.Elem(), from.Elem())
			to.Set(group)
		}
	}
}

func isValue(v reflect.Value) bool {
	_, ok := v.Interface().(value)
	return ok
}

// checkEdits notes failures that one layer both retries and does not.
func (s *source) checkEdits(r *retryableWords) {
	s.disjoint("remove", r.Remove, "add", r.Add)
	s.disjoint("remove", r.Remove, "only", r.Only)
	s.disjoint("with_retry_after", r.WithRetryAfter, "remove", r.Remove)
}

func (s *source) disjoint(here string, a *failures, there string, b *failures) {
	if a == nil || b == nil {
		return
	}
	for _, f := range *a {
		if slices.Contains(b.list(), f.Failure) {
			s.wrongAt(f.node, "retryable.%s names %s, and so does %s", here, f, there)
		}
	}
}

// step is one edit of the classes, nil where a layer does not say it.
type step struct {
	named *failures
	apply func(*decide.ClassesBuilder, []decide.Failure)
}

// steps are one layer's edits in the order that the builder wants.
func steps(w *ruleWords) [5]step {
	r := said(w.Retryable)
	return [5]step{
		{r.Only, (*decide.ClassesBuilder).Only},
		{r.Add, (*decide.ClassesBuilder).Add},
		{r.Remove, (*decide.ClassesBuilder).Remove},
		{r.WithRetryAfter, (*decide.ClassesBuilder).WithWait},
		{w.Unprocessed, (*decide.ClassesBuilder).Unprocessed},
	}
}

// edit applies one layer's edits.
func edit(b *decide.ClassesBuilder, w *ruleWords) {
	for _, s := range steps(w) {
		if s.named != nil {
			s.apply(b, s.named.list())
		}
	}
}

// editsKey is the same for layers that edit the classes alike.
func editsKey(edits []*ruleWords) string {
	var key []byte
	for _, w := range edits {
		for i, s := range steps(w) {
			if s.named == nil {
				continue
			}
			key = append(key, byte('a'+i))
			for _, f := range *s.named {
				key = append(strconv.AppendUint(key, uint64(f.Failure), 10), ',')
			}
		}
		key = append(key, ';')
	}
	return string(key)
}
