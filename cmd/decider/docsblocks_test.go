//go:build unix

package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// docsBlock is one fenced block of a page.
type docsBlock struct {
	line  int               // of its first line of text, from 1
	lang  string            // the first word after the fence
	marks map[string]string // the words after that: "norun", "exit=2", "file=policies.yaml"
	text  string
}

var docsFence = regexp.MustCompile("^( *)(```+)([^`]*)$")

// docsBlocks finds the fenced blocks of a page, those inside lists included.
func docsBlocks(page string) (blocks []docsBlock, err error) {
	var open *docsBlock
	var fence, indent string
	for i, line := range strings.Split(page, "\n") {
		m := docsFence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open, indent, fence = newDocsBlock(i+2, m[3]), m[1], m[2]
		case open != nil && m != nil && strings.HasPrefix(m[2], fence) && strings.TrimSpace(m[3]) == "":
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%d: the block is never closed", open.line)
	}
	return blocks, nil
}

func newDocsBlock(line int, info string) *docsBlock {
	b := &docsBlock{line: line, marks: map[string]string{}}
	for i, word := range strings.Fields(info) {
		if i == 0 {
			b.lang = word
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		b.marks[name] = value
	}
	return b
}

// anything is the mark, in a block of output, of what varies from run to run.
const anything = "…"

// sameText says whether got is what the page shows: line by line, where … in a
// line stands for any text, and a line of nothing but … for any lines.
func sameText(want, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range docsLines(want) {
		if strings.TrimSpace(line) == anything {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		pattern.WriteString(linePattern(line) + `\n`)
	}
	pattern.WriteString(`\z`)
	normal := strings.Join(docsLines(got), "\n") + "\n"
	return regexp.MustCompile(pattern.String()).MatchString(normal)
}

// docsLines are the lines without blanks at their ends or empty ones at the end.
func docsLines(text string) []string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return lines
}

func linePattern(line string) string {
	parts := strings.Split(line, anything)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, `[^\n]*`)
}

// sameJSON says whether got holds the JSON values that the page shows, whatever
// their blanks and the order of members. A … stands for any value, in a text
// for any text, and as an object's member or an array's element for any
// further ones.
func sameJSON(want, got string) (bool, error) {
	wants, err := jsonValues(quoteAnything(want))
	if err != nil {
		return false, fmt.Errorf("the page's JSON: %w", err)
	}
	gots, err := jsonValues(got)
	if err != nil {
		return false, fmt.Errorf("the real output is not JSON: %w", err)
	}
	return sameElements(wants, gots), nil
}

func jsonValues(text string) (values []any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	for {
		var v any
		switch err := dec.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil:
			return nil, err
		}
		values = append(values, v)
	}
}

// quoteAnything turns each … outside of a text into JSON that decodes: "…" for
// a value, "…":"…" for a member.
func quoteAnything(text string) string {
	var out bytes.Buffer
	var nest []rune // the brackets that are open
	var inText, escaped bool
	var before rune // the last rune that is no blank
	for _, r := range text {
		if inText {
			out.WriteRune(r)
			inText, escaped = escaped || r != '"', !escaped && r == '\\'
			before = r
			continue
		}
		switch r {
		case '"':
			inText = true
		case '{', '[':
			nest = append(nest, r)
		case '}', ']':
			if len(nest) > 0 {
				nest = nest[:len(nest)-1]
			}
		}
		switch {
		case string(r) != anything:
			out.WriteRune(r)
		case before != ':' && len(nest) > 0 && nest[len(nest)-1] == '{':
			out.WriteString(`"…":"…"`)
		default:
			out.WriteString(`"…"`)
		}
		if !strings.ContainsRune(" \t\r\n", r) {
			before = r
		}
	}
	return out.String()
}

func sameValue(want, got any) bool {
	switch want := want.(type) {
	case string:
		if want == anything {
			return true
		}
		text, ok := got.(string)
		return ok && regexp.MustCompile(`(?s)\A`+linePattern(want)+`\z`).MatchString(text)
	case map[string]any:
		members, ok := got.(map[string]any)
		return ok && sameMembers(want, members)
	case []any:
		elements, ok := got.([]any)
		return ok && sameElements(want, elements)
	}
	return want == got // null, true, false and json.Number, as they were written
}

func sameMembers(want, got map[string]any) bool {
	_, open := want[anything]
	for name, value := range want {
		other, ok := got[name]
		if name != anything && (!ok || !sameValue(value, other)) {
			return false
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !open {
			return false
		}
	}
	return true
}

func sameElements(want, got []any) bool {
	if n := len(want); n > 1 && want[n-1] == any(anything) && len(got) >= n-1 {
		want, got = want[:n-1], got[:n-1]
	}
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !sameValue(want[i], got[i]) {
			return false
		}
	}
	return true
}
