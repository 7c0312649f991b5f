package handlers

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/retrydecider/decider/internal/gen"
)

// maxDepth is how deep arrays and objects may nest, the body itself included.
const maxDepth = 64

// maxWrong bounds the wrong fields that one answer names. It is more than there
// are members and headers, so only unknown members can pass it.
const maxWrong = 256

// reader reads one JSON body in one pass. What is not JSON ends the reading
// with an error; what is JSON and not valid is noted, with the place where it
// stands, and the reading goes on, so that one answer names every wrong field.
type reader struct {
	dec    jsontext.Decoder // refuses duplicate members and invalid UTF-8
	text   []byte           // of the last string that held escapes
	within string           // a JSON pointer to the list whose item is read; "": none is
	item   int              // which one
	wrong  []gen.FieldError
	more   int // wrong fields beyond maxWrong
}

func (r *reader) reset(body *bytes.Buffer) {
	r.dec.Reset(body)
	r.within, r.wrong, r.more = "", r.wrong[:0], 0
}

// fail notes that a field of what is read is wrong.
func (r *reader) fail(suffix, detail string) {
	if len(r.wrong) == maxWrong {
		r.more++
		return
	}
	if r.within != "" {
		suffix = itemPlace(r.within, r.item) + suffix
	}
	r.wrong = append(r.wrong, gen.FieldError{Field: suffix, Detail: detail})
}

// end expects that nothing follows the value that was read, and returns what
// was wrong with the body.
func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); err != io.EOF { //nolint:errorlint // ReadToken returns io.EOF itself
		return &notJSONError{detail: "Something follows the JSON value at byte " + strconv.FormatInt(r.dec.InputOffset(), 10) + "."}
	}
	return r.verdict()
}

// verdict is what was wrong since the last reset.
func (r *reader) verdict() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return &notValidError{errors: append([]gen.FieldError(nil), r.wrong...), more: r.more}
}

// open enters an object ('{') or array ('['). Anything else is noted as wrong
// at the suffix and skipped.
func (r *reader) open(kind jsontext.Kind, suffix string) (entered bool, err error) {
	if r.dec.PeekKind() != kind {
		if kind == '{' {
			r.fail(suffix, "must be an object")
		} else {
			r.fail(suffix, "must be an array")
		}
		return false, r.skip()
	}
	return true, r.token()
}

// object reads an object, the value of each member by the function. The name is
// good until the next reading. entered is false where it was no object, which
// is noted at the suffix.
func (r *reader) object(suffix string, member func(name []byte) error) (entered bool, err error) {
	entered, err = r.open('{', suffix)
	if !entered || err != nil {
		return entered, err
	}
	for r.dec.PeekKind() != '}' {
		raw, err := r.dec.ReadValue()
		if err != nil {
			return true, r.broken(err)
		}
		name, err := r.unquote(raw)
		if err != nil {
			return true, err
		}
		if err := member(name); err != nil {
			return true, err
		}
	}
	return true, r.token()
}

// token reads one token.
func (r *reader) token() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return r.broken(err)
	}
	if r.dec.StackDepth() > maxDepth {
		return &notJSONError{detail: "The body is nested deeper than " + strconv.Itoa(maxDepth) + "."}
	}
	return nil
}

// skip reads a whole value.
func (r *reader) skip() error {
	for depth := r.dec.StackDepth(); ; {
		if err := r.token(); err != nil {
			return err
		}
		if r.dec.StackDepth() == depth {
			return nil
		}
	}
}

// unknown notes a member that the contract does not know, and skips its value.
func (r *reader) unknown(name []byte) error {
	r.fail("/"+escapePointer(string(name)), "is unknown")
	return r.skip()
}

// scalar reads a value of the kind ('"', '0' or 't') raw; of any other kind it
// is noted as wrong, and raw is nil.
func (r *reader) scalar(kind jsontext.Kind, suffix, wanted string) (raw []byte, err error) {
	got := r.dec.PeekKind()
	if got == 'f' {
		got = 't'
	}
	if got != kind {
		r.fail(suffix, wanted)
		return nil, r.skip()
	}
	raw, err = r.dec.ReadValue()
	if err != nil {
		return nil, r.broken(err)
	}
	return raw, nil
}

// string reads a string. The bytes are good until the next reading; they are
// nil where it was something else.
func (r *reader) string(suffix string) (text []byte, err error) {
	raw, err := r.scalar('"', suffix, "must be a string")
	if raw == nil || err != nil {
		return nil, err
	}
	return r.unquote(raw)
}

func (r *reader) unquote(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1 : len(raw)-1], nil
	}
	text, err := jsontext.AppendUnquote(r.text[:0], raw)
	if err != nil {
		return nil, r.broken(err)
	}
	r.text = text
	return text[:len(text):len(text)], nil
}

// boolean reads true or false.
func (r *reader) boolean(suffix string) (value, ok bool, err error) {
	raw, err := r.scalar('t', suffix, "must be true or false")
	return len(raw) == len("true"), raw != nil, err
}

// integer reads an integer from low to high. 1.0 and 1e0 are integers, and a
// number counts as the IEEE double that is nearest to it: so JSON Schema's
// validators have it.
func (r *reader) integer(suffix string, low, high int64) (n int64, ok bool, err error) {
	raw, err := r.scalar('0', suffix, "must be an integer")
	if raw == nil || err != nil {
		return 0, false, err
	}
	n, small := parseSmall(raw)
	if !small {
		x, err := strconv.ParseFloat(string(raw), 64)
		if err == nil && x != math.Trunc(x) {
			r.fail(suffix, "must be an integer")
			return 0, false, nil
		}
		n = clampToInt(x, low, high)
	}
	switch {
	case n < low:
		r.fail(suffix, "must be at least "+strconv.FormatInt(low, 10))
	case n > high:
		r.fail(suffix, "must be at most "+strconv.FormatInt(high, 10))
	default:
		return n, true, nil
	}
	return 0, false, nil
}

// parseSmall reads up to 15 digits, which a double holds exactly.
func parseSmall(raw []byte) (n int64, ok bool) {
	if len(raw) > 15 {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// clampToInt converts a double without fraction; what is outside of the bounds
// comes out as just outside of them, because converting it is undefined.
func clampToInt(x float64, low, high int64) int64 {
	switch {
	case x < float64(low):
		return low - 1
	case x > float64(high):
		return high + 1
	}
	return int64(x)
}

// broken turns the decoder's error into the problem that the client is told.
func (r *reader) broken(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return &notJSONError{detail: "The body is empty."}
	case !errors.As(err, &syntax):
		return &notJSONError{detail: "The body is not JSON."}
	case errors.Is(err, jsontext.ErrDuplicateName):
		field := string(syntax.JSONPointer)
		return &notJSONError{detail: "A member is given twice.", errors: []gen.FieldError{{Field: field, Detail: "is given twice"}}}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &notJSONError{detail: "The body ends in the middle of the JSON value."}
	}
	return &notJSONError{detail: "The body is not JSON at byte " + strconv.FormatInt(syntax.ByteOffset, 10) + "."}
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// escapePointer writes a member's name as a token of a JSON pointer (RFC 6901 §3).
func escapePointer(name string) string { return pointerEscaper.Replace(name) }

// list reads a body that is an object with one member, a list of 1 to most
// items, and expects its end.
func (r *reader) list(member string, most int, item func() error) error {
	found := false
	entered, err := r.object("", func(name []byte) error {
		if string(name) != member {
			return r.unknown(name)
		}
		found = true
		return r.items(member, most, item)
	})
	if err != nil {
		return err
	}
	if entered && !found {
		r.fail("/"+member, "is required")
	}
	return r.end()
}

// items reads a list of 1 to most items, each by item, with its own place.
func (r *reader) items(member string, most int, item func() error) error {
	list := "/" + member
	entered, err := r.open('[', list)
	if !entered || err != nil {
		return err
	}
	defer func() { r.within = "" }()
	count := 0
	for ; r.dec.PeekKind() != ']'; count++ {
		if count >= most {
			err = r.skip()
		} else {
			r.within, r.item = list, count
			err = item()
		}
		if err != nil {
			return err
		}
	}
	r.within = ""
	if count == 0 || count > most {
		r.fail(list, "must have 1 to "+strconv.Itoa(most)+" items")
	}
	return r.token()
}
