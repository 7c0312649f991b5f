package policy

import (
	"reflect"
	"strings"
	"sync"
)

// spec is one word of a group: its name with the groups it stands in, and what
// its tags say.
type spec struct {
	name string
	tag  reflect.StructTag
}

// value is a word's value that reads itself from a node and notes what is
// wrong with it.
type value interface {
	read(s *source, n *node, w spec)
}

// fill reads a node into a word's value: a value reads itself, a group of
// words is read word by word.
func (s *source) fill(n *node, into reflect.Value, w spec) {
	if v, ok := into.Interface().(value); ok {
		v.read(s, n, w)
		return
	}
	if group, ok := into.Interface().(switchable); ok {
		group.turn(n.isOff())
		if n.isOff() {
			return
		}
	}
	s.group(n, into.Elem(), w.name)
}

// group reads a mapping into a struct of words.
func (s *source) group(n *node, into reflect.Value, prefix string) {
	if n.kind != mapping {
		_, canBeOff := into.Addr().Interface().(switchable)
		s.wrongAt(n, "%s must be a mapping of words%s, not %s; {} says nothing", named(prefix, "a rule"), orOff(canBeOff), n.describe())
		return
	}
	fields := wordsOf(into.Type())
	for _, m := range n.members {
		name := joined(prefix, m.name)
		field, ok := fields.find(m.name)
		if !ok {
			s.wrongAt(m.key, "unknown word %q%s", shorten(name), didYouMean(m.name, fields.names()))
			continue
		}
		target := into.FieldByIndex(field.Index)
		target.Set(reflect.New(field.Type.Elem()))
		s.fill(m.value, target, spec{name, field.Tag})
	}
}

func named(prefix, else_ string) string {
	if prefix == "" {
		return else_
	}
	return prefix
}

func orOff(can bool) string {
	if can {
		return " or off"
	}
	return ""
}

func joined(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// words are the fields of a group.
type words []reflect.StructField

// knownWords remembers the words of each group: a file has many of few groups.
var knownWords sync.Map // reflect.Type → words

func wordsOf(t reflect.Type) words {
	if list, ok := knownWords.Load(t); ok {
		return list.(words)
	}
	var list words
	for _, f := range reflect.VisibleFields(t) {
		if name := wordName(f); !f.Anonymous && name != "-" {
			list = append(list, f)
		}
	}
	knownWords.Store(t, list)
	return list
}

func wordName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (list words) find(name string) (reflect.StructField, bool) {
	for _, f := range list {
		if wordName(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func (list words) names() []string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = wordName(f)
	}
	return names
}

// rules are the rules of one mapping in the order of the file.
type rules []*rule

// rule is a named set of words and where it stands.
type rule struct {
	name  string
	key   *node
	node  *node
	words ruleWords
	sound bool // nothing is wrong in it by itself
}

func (list *rules) read(s *source, n *node, w spec) {
	if n.kind != mapping {
		s.wrongAt(n, "%s must be a mapping of names, not %s; {} is an empty one", w.name, n.describe())
		return
	}
	for _, m := range n.members {
		*list = append(*list, s.rule(m.name, m.key, m.value))
	}
}

func (r *rule) read(s *source, n *node, _ spec) { *r = *s.rule(DefaultName, n, n) }

// rule reads one rule, and says whether it is sound by itself.
func (s *source) rule(name string, key, n *node) *rule {
	before := len(s.mistakes)
	r := &rule{name: name, key: key, node: n}
	s.group(n, reflect.ValueOf(&r.words).Elem(), "")
	if r.words.Retryable != nil {
		s.checkEdits(r.words.Retryable)
	}
	r.sound = len(s.mistakes) == before
	return r
}
