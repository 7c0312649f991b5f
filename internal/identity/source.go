package identity

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFileBytes is the largest auth file that is read.
const maxFileBytes = 1 << 20

// maxNesting is how deep the file may be: its deepest word stands at 4, and the
// YAML library recurses.
const maxNesting = 16

// source is an auth file's text and what was found wrong in it.
type source struct {
	file     string
	mistakes []Mistake
}

// err is all mistakes, nil where there are none.
func (s *source) err() error {
	if len(s.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(s.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{s.mistakes}
}

func (s *source) wrong(t *token.Token, format string, args ...any) {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = max(t.Position.Line, 1), max(t.Position.Column, 1)
	}
	s.mistakes = append(s.mistakes, Mistake{s.file, line, column, fmt.Sprintf(format, args...)})
}

func (s *source) wrongAt(n ast.Node, format string, args ...any) {
	at := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		at = m.Values[0].Key.GetToken() // its own token is the first colon
	}
	s.wrong(at, format, args...)
}

// tree reads the text as one YAML mapping, and is nil where it noted a mistake.
func (s *source) tree(text []byte) (root *ast.MappingNode) {
	defer func() {
		if recover() != nil { // the library's, on a text it did not foresee
			s.wrong(nil, "this is not YAML that can be read")
			root = nil
		}
	}()
	if len(text) > maxFileBytes || !utf8.Valid(text) {
		s.wrong(nil, "the file is not UTF-8 text of at most %d bytes", maxFileBytes)
		return nil
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) // the YAML library counts them wrongly
	tokens := lexer.Tokenize(string(text))
	if !s.isPlain(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntax(err)
		return nil
	}
	for _, document := range file.Docs {
		if body := asMapping(document.Body); body != nil && root == nil {
			root = body
		} else if document.Body != nil && document.Body.Type() != ast.CommentType {
			s.wrongAt(document.Body, "an auth file is one mapping")
			return nil
		}
	}
	if root == nil {
		s.wrong(nil, `the file says nothing; the least that it can say is "version: 1"`)
	}
	return root
}

// syntax notes what the library says of a text that is not YAML, without its
// excerpt of the text.
func (s *source) syntax(err error) {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		s.wrong(nil, "this is not YAML")
		return
	}
	s.wrong(at.GetToken(), "this is not YAML")
}

// isPlain says whether the text keeps to what an auth file needs of YAML: nothing
// that can mean something else than it shows, and no depth that the library
// could not bear.
func (s *source) isPlain(tokens token.Tokens) bool {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType:
			s.wrong(t, "anchors, aliases, tags and directives are not read; a pattern that begins with * needs quotes")
			return false
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > maxNesting || depth <= 0 && isKeyOrDash(t) && t.Position.Column > 16*maxNesting {
			s.wrong(t, "lists and mappings stand too deep in each other")
			return false
		}
	}
	return true
}

func isKeyOrDash(t *token.Token) bool {
	return t.Type == token.SequenceEntryType || t.Type == token.MappingValueType
}

func asMapping(n ast.Node) *ast.MappingNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n
	case *ast.MappingValueNode:
		return ast.Mapping(n.GetToken(), false, n)
	}
	return nil
}

// members are the members of a mapping, by name; a name that stands there twice
// is a mistake.
func (s *source) members(n *ast.MappingNode, each func(name string, key, value ast.Node)) {
	seen := map[string]bool{}
	for _, m := range n.Values {
		name := m.Key.GetToken().Value
		if seen[name] {
			s.wrongAt(m.Key, "%s stands here twice", quoted(name))
			continue
		}
		seen[name] = true
		each(name, m.Key, m.Value)
	}
}

// texts reads a list of at least one text.
func (s *source) texts(what string, n ast.Node, each func(text string, at ast.Node)) {
	items, ok := n.(*ast.SequenceNode)
	if !ok || len(items.Values) == 0 {
		s.wrongAt(n, "%s must be a list with something in it", what)
		return
	}
	for _, item := range items.Values {
		if _, ok := item.(ast.ScalarNode); !ok || item.Type() == ast.NullType {
			s.wrongAt(item, "%s must be a list of texts", what)
			continue
		}
		each(item.GetToken().Value, item)
	}
}
