package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// kind is what a node is.
type kind uint8

const (
	mapping kind = iota
	list
	plain  // a scalar without quotes: its text may be a number, true, false or text
	quoted // a scalar that can only be text
	null
)

var kindNames = [...]string{"a mapping", "a list", "a value", "a text", "nothing"}

// node is a part of a policy file that knows its place.
type node struct {
	kind         kind
	line, column int
	path         string // JSON pointer
	text         string // of a scalar
	members      []member
	items        []*node
}

// member is one key of a mapping and what it holds.
type member struct {
	name  string
	key   *node
	value *node
}

// at is what a mapping holds at keys that stand in each other, nil where it
// holds nothing there.
func (n *node) at(dotted string) *node {
	for name := range strings.SplitSeq(dotted, ".") {
		if n = n.get(name); n == nil {
			return nil
		}
	}
	return n
}

func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// isOff says whether the node is off, which YAML 1.1 writes false.
func (n *node) isOff() bool {
	b, ok := n.bool()
	return ok && !b || n.text == "off" && (n.kind == plain || n.kind == quoted)
}

func (n *node) bool() (value, ok bool) {
	if n.kind == plain {
		switch n.text {
		case "true", "True", "TRUE":
			return true, true
		case "false", "False", "FALSE":
			return false, true
		}
	}
	return false, false
}

// describe is what the node is, for a message.
func (n *node) describe() string {
	switch n.kind {
	case plain:
		return shorten(n.text)
	case quoted:
		return strconv.Quote(shorten(n.text))
	}
	return kindNames[n.kind]
}

func shorten(text string) string {
	if chars := []rune(text); len(chars) > 40 {
		return string(chars[:40]) + "…"
	}
	return text
}

// inPointer escapes a name in a JSON pointer (RFC 6901 §3).
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")

// pointer is the JSON pointer of a member.
func pointer(parent, name string) string { return parent + "/" + inPointer.Replace(name) }

// node copies the library's tree, noting what a policy file cannot hold.
func (s *source) node(from ast.Node, path string) *node {
	switch from := from.(type) {
	case *ast.MappingNode:
		return s.mappingNode(from, path)
	case *ast.MappingValueNode:
		return s.mappingNode(ast.Mapping(from.GetToken(), false, from), path)
	case *ast.SequenceNode:
		n := placed(from.GetToken(), list, path)
		for i, each := range from.Values {
			n.items = append(n.items, s.node(each, pointer(path, strconv.Itoa(i))))
		}
		return n
	case *ast.NullNode:
		return placed(from.GetToken(), null, path)
	case *ast.LiteralNode:
		n := placed(from.GetToken(), quoted, path)
		n.text = from.Value.Value
		return n
	case ast.ScalarNode:
		return scalarNode(from.GetToken(), path)
	}
	n := placed(from.GetToken(), null, path)
	s.wrongAt(n, "this cannot stand in a policy file")
	return n
}

func (s *source) mappingNode(from *ast.MappingNode, path string) *node {
	n := placed(firstToken(from), mapping, path)
	seen := make(map[string]int, len(from.Values))
	for _, each := range from.Values {
		key := scalarNode(each.Key.GetToken(), path)
		key.path = pointer(path, key.text)
		if line, twice := seen[key.text]; twice {
			s.wrongAt(key, "%s stands here twice, first in line %d", key.describe(), line)
		} else {
			seen[key.text] = key.line
		}
		value := s.node(each.Value, key.path)
		if each.Value.GetToken().Type == token.ImplicitNullType { // it has no place of its own
			value.line, value.column = key.line, key.column
		}
		n.members = append(n.members, member{key.text, key, value})
	}
	return n
}

func scalarNode(t *token.Token, path string) *node {
	n := placed(t, plain, path)
	if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
		n.kind = quoted
	}
	n.text = t.Value
	return n
}

func placed(t *token.Token, k kind, path string) *node {
	return &node{kind: k, line: t.Position.Line, column: t.Position.Column, path: path}
}

// hash is the same for two texts that say the same, however they are laid out,
// commented and ordered.
func (n *node) hash() string {
	sum := sha256.New()
	n.writeTo(sum)
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func (n *node) writeTo(sum hash.Hash) {
	say := func(tag byte, text string) { // lengths first, so that no two trees are written alike
		sum.Write(append(strconv.AppendInt([]byte{tag}, int64(len(text)), 10), ':'))
		sum.Write([]byte(text))
	}
	say('0'+byte(n.kind), n.text)
	members := slices.Clone(n.members)
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for _, m := range members {
		say('k', m.name)
		m.value.writeTo(sum)
	}
	for _, each := range n.items {
		each.writeTo(sum)
	}
	say('e', "")
}

// place is where a JSON pointer leads: the name of a member that has no members
// itself, or as far as there is something.
func (n *node) place(pointer string) *node {
	at := n
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		i := slices.IndexFunc(at.members, func(m member) bool { return m.name == fromPointer.Replace(name) })
		switch {
		case i < 0:
			return at
		case len(at.members[i].value.members) == 0:
			return at.members[i].key
		}
		at = at.members[i].value
	}
	return at
}

var fromPointer = strings.NewReplacer("~1", "/", "~0", "~")

// value is what the node is in JSON.
func (n *node) value() any {
	switch n.kind {
	case mapping:
		object := make(map[string]any, len(n.members))
		for _, m := range n.members {
			object[m.name] = m.value.value()
		}
		return object
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.value()
		}
		return items
	case plain:
		if b, ok := n.bool(); ok {
			return b
		}
		if isNumber(n.text) && json.Valid([]byte(n.text)) {
			return json.Number(n.text)
		}
		return n.text
	case null:
		return nil
	}
	return n.text
}
