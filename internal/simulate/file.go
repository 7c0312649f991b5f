package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Mistake is one thing that is wrong in a scenario file.
type Mistake struct {
	File         string
	Line, Column int
	// Message is one English sentence without its full stop.
	Message string
}

// String is the mistake in one line, file:line:column: message.
func (m Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Message)
}

// FileError is a refused scenario file, with all its mistakes by their place.
type FileError struct{ Mistakes []Mistake }

// Error tells every mistake, one a line.
func (e *FileError) Error() string {
	var lines []string
	for _, m := range e.Mistakes {
		lines = append(lines, m.String())
	}
	return strings.Join(lines, "\n")
}

const (
	// maxFileBytes is the largest scenario file that is read.
	maxFileBytes = 1 << 20
	// maxDepth is how deep a scenario file nests; its words stand at 3.
	maxDepth = 16
)

// file is a scenario file that is being read.
type file struct {
	name     string
	mistakes []Mistake
}

// File is what a scenario file says: a scenario, and whose policy is played.
type File struct {
	Scenario *Scenario
	// Policies is a policy file, from the scenario file's folder, and Dependency
	// whose rule in it is compared; "": none.
	Policies, Dependency string
}

// ParseFile reads a scenario file in YAML. The error is a [*FileError].
func ParseFile(name string, src []byte) (*File, error) {
	f := &file{name: name}
	read := f.read(src)
	if len(f.mistakes) > 0 {
		slices.SortStableFunc(f.mistakes, func(a, b Mistake) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, &FileError{f.mistakes}
	}
	return read, nil
}

func (f *file) wrong(line, column int, format string, args ...any) {
	f.mistakes = append(f.mistakes, Mistake{f.name, max(line, 1), max(column, 1), fmt.Sprintf(format, args...)})
}

func (f *file) wrongAt(n ast.Node, format string, args ...any) {
	at := firstToken(n).Position
	f.wrong(at.Line, at.Column, format, args...)
}

func firstToken(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}

func (f *file) read(src []byte) (out *File) {
	defer func() {
		if broken := recover(); broken != nil { // the library's, on a text it did not foresee
			f.wrong(1, 1, "this is not YAML that can be read")
			out = nil
		}
	}()
	root := f.tree(src)
	if root == nil {
		return nil
	}
	w := newFileWords()
	f.mapping(root, "the file", w.words())
	return w.file(f, root)
}

// tree reads the text as one YAML document.
func (f *file) tree(src []byte) ast.Node {
	if len(src) > maxFileBytes {
		f.wrong(1, 1, "the file has %d bytes, at most %d are read", len(src), maxFileBytes)
		return nil
	}
	src = bytes.ReplaceAll(bytes.TrimPrefix(src, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	tokens := lexer.Tokenize(string(src))
	if !f.isPlain(tokens) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		f.syntax(err)
		return nil
	}
	var body ast.Node
	for _, document := range parsed.Docs {
		if document.Body == nil || document.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			f.wrongAt(document.Body, "a scenario file is one document, this begins a second one")
			return nil
		}
		body = document.Body
	}
	if body == nil {
		f.wrong(1, 1, "the file says nothing")
	}
	return body
}

// isPlain refuses what a scenario file does not need of YAML, and a depth that
// the library could not bear.
func (f *file) isPlain(tokens token.Tokens) bool {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType:
			f.wrong(t.Position.Line, t.Position.Column, "anchors, aliases, tags, directives and complex keys are not read")
			return false
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth = max(depth-1, 0)
		}
		block := depth == 0 && t.Position.Column > 8*maxDepth && (t.Type == token.SequenceEntryType || t.Type == token.MappingValueType)
		if depth > maxDepth || block {
			f.wrong(t.Position.Line, t.Position.Column, "lists and mappings stand too deep in each other")
			return false
		}
	}
	return true
}

func (f *file) syntax(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		f.wrong(at.GetToken().Position.Line, at.GetToken().Position.Column, "this is not YAML: %s", at.GetMessage())
		return
	}
	f.wrong(1, 1, "this is not YAML: %s", strings.SplitN(err.Error(), "\n", 2)[0])
}

// word reads the value of one word.
type word struct {
	name string
	read func(f *file, name string, n ast.Node)
}

// mapping reads a mapping of known words, each at most once.
func (f *file) mapping(n ast.Node, what string, words []word) {
	var members []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		members = n.Values
	case *ast.MappingValueNode:
		members = []*ast.MappingValueNode{n}
	default:
		f.wrongAt(n, "%s must be a mapping of words", what)
		return
	}
	for _, m := range members {
		name := m.Key.GetToken().Value
		i := slices.IndexFunc(words, func(w word) bool { return w.name == name })
		if i < 0 {
			f.wrongAt(m.Key, "unknown word %q; known are %s", name, names(words))
			continue
		}
		words[i].read(f, name, m.Value)
	}
}

func names(words []word) string {
	var list []string
	for _, w := range words {
		list = append(list, w.name)
	}
	return strings.Join(list, ", ")
}

// list reads each entry of a list.
func (f *file) list(name string, n ast.Node, read func(n ast.Node)) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		f.wrongAt(n, "%s must be a list", name)
		return
	}
	for _, each := range s.Values {
		read(each)
	}
}
