package policy

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFileBytes is the largest policy file that is read.
const MaxFileBytes = 4 << 20

// maxNesting is how deep lists and mappings may stand in each other. The
// deepest word stands at 6; the YAML library recurses, and a stack that
// overflows cannot be recovered.
const maxNesting = 64

// maxBlockColumn is where the last key or dash of block style may stand: every
// level of nesting there takes at least a column, of sequences in mappings
// half of one.
const maxBlockColumn = 2 * maxNesting

// source is a policy file's text and what was found wrong in it.
type source struct {
	file     string
	lines    []string
	mistakes []Mistake
	warnings []Warning
}

func newSource(file string, src []byte) (*source, []byte) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	src = bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")) // the YAML library counts them wrongly
	s := &source{file: file}
	if len(src) <= MaxFileBytes {
		s.lines = strings.Split(string(src), "\n")
	}
	return s, src
}

// wrong notes a mistake.
func (s *source) wrong(line, column int, path, format string, args ...any) {
	s.mistakes = append(s.mistakes, s.mistake(line, column, path, fmt.Sprintf(format, args...)))
}

func (s *source) mistake(line, column int, path, message string) Mistake {
	m := Mistake{File: s.file, Line: max(line, 1), Column: max(column, 1), Path: path, Message: oneLine(message)}
	if m.Line <= len(s.lines) {
		m.Excerpt = s.lines[m.Line-1]
	}
	return m
}

// oneLine drops what a file's text could do to the line, or the terminal, that
// it is told in.
func oneLine(message string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, message)
}

// wrongAt notes a mistake at a node.
func (s *source) wrongAt(n *node, format string, args ...any) {
	s.wrong(n.line, n.column, n.path, format, args...)
}

// err is all mistakes by their place, nil where there are none.
func (s *source) err() error {
	if len(s.mistakes) == 0 {
		return nil
	}
	return &Error{Mistakes: byPlace(s.mistakes)}
}

// tree reads the text as one YAML document, of which a JSON document is one.
// It is nil where it noted a mistake.
func (s *source) tree(src []byte) (root *node) {
	defer func() {
		if broken := recover(); broken != nil { // the library's, on a text it did not foresee
			s.wrong(1, 1, "", "this is not YAML that can be read")
			root = nil
		}
	}()
	if !s.isText(src) {
		return nil
	}
	tokens := lexer.Tokenize(string(src))
	if !s.isPlain(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntax(err)
		return nil
	}
	if body := s.onlyDocument(file); body != nil {
		return s.node(body, "")
	}
	return nil
}

// isText says whether the bytes are UTF-8 text of a size that is read.
func (s *source) isText(src []byte) bool {
	if len(src) > MaxFileBytes {
		s.wrong(1, 1, "", "the file has %d bytes, at most %d are read", len(src), MaxFileBytes)
		return false
	}
	line, column := 1, 1
	for len(src) > 0 {
		r, size := utf8.DecodeRune(src)
		switch {
		case r == utf8.RuneError && size == 1:
			s.wrong(line, column, "", "the file is not UTF-8: byte 0x%02x", src[0])
			return false
		case r < ' ' && r != '\t' && r != '\n', r >= 0x7f && r < 0xa0, r == '\ufeff', r == '\ufffe', r == '\uffff':
			s.wrong(line, column, "", "character U+%04X cannot stand in a policy file", r)
			return false
		}
		if src, column = src[size:], column+1; r == '\n' {
			line, column = line+1, 1
		}
	}
	return true
}

// isPlain says whether the text keeps to what a policy file needs of YAML:
// none of the parts that can make a small text large or mean something else
// than they show, and no depth that the library could not bear.
func (s *source) isPlain(tokens token.Tokens) bool {
	depth, before := 0, len(s.mistakes)
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.MergeKeyType:
			s.wrongToken(t, "anchors and merge keys are not read; write what rules share as a preset")
		case token.AliasType:
			s.wrongToken(t, "aliases are not read; a pattern that begins with * needs quotes")
		case token.TagType:
			s.wrongToken(t, "tags are not read; a text that begins with ! needs quotes")
		case token.DirectiveType:
			s.wrongToken(t, "directives are not read")
		case token.MappingKeyType:
			s.wrongToken(t, "a key is written as text and a colon, without the question mark")
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth = max(depth-1, 0)
		}
		if depth > maxNesting || depth == 0 && isTooFarRight(t) {
			s.wrongToken(t, "lists and mappings stand too deep in each other, at most %d are read", maxNesting)
			return false
		}
	}
	return len(s.mistakes) == before
}

// isTooFarRight says whether a token of block style nests beyond what is read.
func isTooFarRight(t *token.Token) bool {
	switch {
	case t.Type == token.SequenceEntryType:
		return t.Position.Column > maxBlockColumn
	case t.Type == token.MappingValueType && t.Prev != nil:
		return t.Prev.Position.Column > maxBlockColumn
	}
	return false
}

func (s *source) wrongToken(t *token.Token, format string, args ...any) {
	s.wrong(t.Position.Line, t.Position.Column, "", format, args...)
}

// syntax notes what the library says of a text that is not YAML.
func (s *source) syntax(err error) {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		s.wrong(1, 1, "", "this is not YAML: %s", strings.SplitN(err.Error(), "\n", 2)[0])
		return
	}
	s.wrongToken(at.GetToken(), "this is not YAML: %s", at.GetMessage())
}

// onlyDocument is the body of the file's one document, nil where it noted a mistake.
func (s *source) onlyDocument(file *ast.File) ast.Node {
	var body ast.Node
	for _, document := range file.Docs {
		if document.Body == nil || document.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			s.wrongToken(firstToken(document.Body), "a policy file is one document, this begins a second one")
			return nil
		}
		body = document.Body
	}
	if body == nil {
		s.wrong(1, 1, "", `the file says nothing; the least that it can say is "version: 1"`)
	}
	return body
}

func firstToken(n ast.Node) *token.Token {
	if mapping, ok := n.(*ast.MappingNode); ok && !mapping.IsFlowStyle && len(mapping.Values) > 0 {
		return mapping.Values[0].Key.GetToken()
	}
	return n.GetToken()
}
