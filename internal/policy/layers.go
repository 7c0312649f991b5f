package policy

import (
	"reflect"
	"slices"

	"github.com/retrydecider/decider/internal/decide"
)

// layers are what a rule is written over, and the rule: its words as the last
// one of them has it, and every layer's edits of the classes in turn.
type layers struct {
	words   ruleWords
	edits   []*ruleWords // of the layers that edit classes, the lowest first
	classes *decide.Classes
	preset  string // the preset at the bottom
	depth   int
	sound   bool // none of the layers has a mistake
}

// over lays words over layers: maps merge, lists replace, the last word wins,
// and class edits add up.
func (below *layers) over(words *ruleWords) *layers {
	merged := *below
	lay(reflect.ValueOf(&merged.words).Elem(), reflect.ValueOf(words).Elem())
	merged.words.Description = words.Description // a preset's tells of the preset
	if words.Retryable != nil || words.Unprocessed != nil {
		merged.edits = append(slices.Clip(below.edits), words)
		merged.classes = nil
	}
	merged.depth++
	return &merged
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

// edit applies one layer's edits in the order that the builder wants.
func edit(b *decide.ClassesBuilder, w *ruleWords) {
	r := w.Retryable
	if r == nil {
		r = &retryableWords{}
	}
	for _, step := range []struct {
		named *failures
		apply func([]decide.Failure)
	}{{r.Only, b.Only}, {r.Add, b.Add}, {r.Remove, b.Remove}, {r.WithRetryAfter, b.WithWait}, {w.Unprocessed, b.Unprocessed}} {
		if step.named != nil {
			step.apply(step.named.list())
		}
	}
}
