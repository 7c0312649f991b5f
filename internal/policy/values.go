package policy

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

type (
	text   string             // free text
	truth  bool               // true or false
	word   string             // one of the words that its tag lists
	count  int64              // a whole number
	millis int64              // a duration, kept in ms
	number struct{ *big.Rat } // a decimal, exact as written
	ratio  struct{ *big.Rat } // a share of one, written 10% or 0.1
	mode   struct{}           // how the rule is used
	repeat struct{ decide.Repeat }
	names  []string
)

// candidate is a word of a later version: refused, since ignoring it would
// promise a comparison that nobody makes.
type candidate struct{}

// maxTextLength bounds what an operator's own words may hold, in characters.
const maxTextLength = 1000

func (v *text) read(s *source, n *node, w spec) {
	switch {
	case n.kind == quoted, n.kind == plain && !looksTyped(n):
		*v = text(n.text)
	case n.kind == plain:
		s.wrongAt(n, "%s must be a text; %s needs quotes to be one", w.name, n.describe())
		return
	default:
		s.wrongAt(n, "%s must be a text, not %s", w.name, n.describe())
		return
	}
	if chars := len([]rune(n.text)); chars > maxTextLength {
		s.wrongAt(n, "%s has %d characters, at most %d are kept", w.name, chars, maxTextLength)
	}
}

// looksTyped says whether YAML reads a scalar without quotes as something else
// than text.
func looksTyped(n *node) bool {
	_, isBool := n.bool()
	return isBool || isNumber(n.text) || isNotFinite(n.text)
}

func (v *truth) read(s *source, n *node, w spec) {
	b, ok := n.bool()
	if !ok {
		s.wrongAt(n, "%s must be true or false, not %s", w.name, n.describe())
	}
	*v = truth(b)
}

func (v *word) read(s *source, n *node, w spec) {
	allowed := strings.Split(w.tag.Get("enum"), ",")
	if w.tag.Get("off") != "" && n.isOff() {
		*v = "off"
		return
	}
	if n.kind != plain && n.kind != quoted || !slices.Contains(allowed, n.text) {
		s.wrongAt(n, "%s must be one of %s, not %s%s", w.name, strings.Join(allowed, ", "), n.describe(), nearest(n.text, allowed))
	}
	*v = word(n.text)
}

// nearest is a "did you mean" without the list of all.
func nearest(text string, allowed []string) string {
	if hint := didYouMean(text, allowed); strings.HasPrefix(hint, "; did") {
		return hint
	}
	return ""
}

func (v *count) read(s *source, n *node, w spec) {
	if r, ok := s.decimal(n, w, "a whole number"); ok {
		if !r.IsInt() {
			s.wrongAt(n, "%s must be a whole number, not %s", w.name, n.describe())
			return
		}
		if s.within(n, w, r, parseNumber) {
			*v = count(r.Num().Int64())
		}
	}
}

func (v *number) read(s *source, n *node, w spec) {
	r, ok := s.decimal(n, w, "a number")
	if !ok {
		return
	}
	v.Rat = r
	if s.within(n, w, r, parseNumber) && w.tag.Get("decimals") != "" {
		places, _ := strconv.Atoi(w.tag.Get("decimals"))
		if !scaled(r, places).IsInt() {
			s.wrongAt(n, "%s has more than %d decimals: %s", w.name, places, n.describe())
		}
	}
}

// decimal reads a number without quotes.
func (s *source) decimal(n *node, w spec, what string) (r *big.Rat, ok bool) {
	if n.kind == plain && isNotFinite(n.text) {
		s.wrongAt(n, "%s must be %s, and a finite one, not %s", w.name, what, n.describe())
		return nil, false
	}
	if n.kind == plain {
		r, ok = parseNumber(n.text)
	}
	if !ok {
		s.wrongAt(n, "%s must be %s, not %s", w.name, what, n.describe())
	}
	return r, ok
}

func (v *ratio) read(s *source, n *node, w spec) {
	r, ok := parseRatio(n.text)
	switch {
	case n.kind == plain && isNotFinite(n.text):
		s.wrongAt(n, "%s must be a finite ratio such as 10%% or 0.1, not %s", w.name, n.describe())
	case !ok || n.kind != plain && !(n.kind == quoted && strings.HasSuffix(n.text, "%")):
		s.wrongAt(n, "%s must be a ratio such as 10%% or 0.1, not %s", w.name, n.describe())
	case s.within(n, w, r, parseRatio):
		v.Rat = r
	}
}

// String is the duration as Go writes it.
func (v millis) String() string { return (time.Duration(v) * time.Millisecond).String() }

func (v *millis) read(s *source, n *node, w spec) {
	if n.kind != plain && n.kind != quoted {
		s.wrongAt(n, "%s must be a duration such as 100ms, not %s", w.name, n.describe())
		return
	}
	d, err := time.ParseDuration(n.text)
	switch {
	case err != nil && isNumber(n.text):
		s.wrongAt(n, "%s needs a unit, such as %sms", w.name, n.text)
	case err != nil:
		s.wrongAt(n, "%s must be a duration such as 100ms or 1m30s, not %s", w.name, n.describe())
	case d%time.Millisecond != 0:
		s.wrongAt(n, "%s is finer than a millisecond: %s", w.name, n.describe())
	case s.within(n, w, big.NewRat(d.Milliseconds(), 1), parseMillis):
		*v = millis(d.Milliseconds())
	}
}

// within says whether a value keeps its word's bounds, which are written as in
// a file and read by parse.
func (s *source) within(n *node, w spec, r *big.Rat, parse func(string) (*big.Rat, bool)) bool {
	low, high := w.tag.Get("min"), w.tag.Get("max")
	if bound, ok := parse(high); ok && r.Cmp(bound) > 0 || r.Cmp(must(parse(low))) < 0 {
		switch {
		case low == high:
			s.wrongAt(n, "%s must be %s, not %s", w.name, low, n.describe())
		case high == "":
			s.wrongAt(n, "%s must be at least %s, not %s", w.name, low, n.describe())
		default:
			s.wrongAt(n, "%s must be from %s to %s, not %s", w.name, low, high, n.describe())
		}
		return false
	}
	return true
}

func must(r *big.Rat, ok bool) *big.Rat {
	if !ok {
		panic("policy: a word's tags name no lower bound") // a test walks all words
	}
	return r
}

// numberText is a decimal in JSON or YAML; the exponent is short, since
// 1e999999999 takes a gigabyte to hold exactly.
var numberText = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$`)

// longestNumber bounds the digits of a number.
const longestNumber = 100

func isNumber(text string) bool { return len(text) <= longestNumber && numberText.MatchString(text) }

func isNotFinite(text string) bool {
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case ".nan", ".inf", "nan", "inf", "infinity":
		return true
	}
	return false
}

// parseNumber reads a decimal exactly.
func parseNumber(text string) (*big.Rat, bool) {
	if !isNumber(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// parseRatio reads 10% or 0.1 exactly.
func parseRatio(text string) (*big.Rat, bool) {
	digits, percent := strings.CutSuffix(text, "%")
	r, ok := parseNumber(digits)
	if ok && percent {
		r.Quo(r, big.NewRat(100, 1))
	}
	return r, ok
}

// parseMillis reads a duration as ms.
func parseMillis(text string) (*big.Rat, bool) {
	d, err := time.ParseDuration(text)
	return big.NewRat(d.Milliseconds(), 1), err == nil
}

// scaled is r with its point moved by so many decimal places.
func scaled(r *big.Rat, places int) *big.Rat {
	factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	return new(big.Rat).Mul(r, new(big.Rat).SetInt(factor))
}

// units is r in units of 10^-places, rounded half up; r is not negative.
func units(r *big.Rat, places int) int64 {
	twice := scaled(r, places)
	twice.Mul(twice, big.NewRat(2, 1)).Add(twice, big.NewRat(1, 1))
	half := new(big.Int).Quo(twice.Num(), twice.Denom())
	return half.Rsh(half, 1).Int64()
}

func float(r *big.Rat) float64 {
	f, _ := r.Float64()
	return f
}

func (v *mode) read(s *source, n *node, w spec) {
	switch {
	case n.text == "shadow":
		s.wrongAt(n, "mode: shadow is not in this version, every rule is enforced; take the word out, or set max_attempts: 1 to stop retries")
	case n.text != "enforce" || n.kind == mapping || n.kind == list:
		s.wrongAt(n, "mode must be enforce, not %s", n.describe())
	}
}

func (v *candidate) read(s *source, n *node, w spec) {
	s.wrongAt(n, "candidate is not in this version: no second rule is judged beside the enforced one; take the word out")
}

// methodText is an HTTP token (RFC 9110 §5.6.2).
var methodText = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$")

func (v *repeat) read(s *source, n *node, w spec) {
	switch {
	case n.kind == list && len(n.items) == 0:
		s.wrongAt(n, "%s names no method; write max_attempts: 1 for no retries, or take the word out", w.name)
	case n.kind == list:
		s.each(n, w, strings.ToUpper, func(item *node) {
			if !methodText.MatchString(item.text) {
				s.wrongAt(item, "%s: %s is not an HTTP method", w.name, item.describe())
			}
			v.Methods = append(v.Methods, strings.ToUpper(item.text))
		})
	case n.text == "any" && n.kind != mapping:
		v.Any = true
	case n.text != "idempotent":
		s.wrongAt(n, "%s must be idempotent, any, or a list of methods, not %s", w.name, n.describe())
	}
}

// nameText is how a dependency and a caller are named.
var nameText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

func (v *names) read(s *source, n *node, w spec) {
	*v = names{}
	s.each(n, w, asIs, func(item *node) {
		if !nameText.MatchString(item.text) {
			s.wrongAt(item, "%s: %s is not a name; a name is 1 to 128 of A-Z a-z 0-9 . _ : / - and starts with a letter or digit", w.name, item.describe())
		}
		*v = append(*v, item.text)
	})
}

func asIs(text string) string { return text }

// each reads the members of a list of scalars, none of which may stand twice;
// same makes those alike that mean the same.
func (s *source) each(n *node, w spec, same func(string) string, read func(*node)) {
	if n.kind != list {
		s.wrongAt(n, "%s must be a list, not %s", w.name, n.describe())
		return
	}
	seen := make(map[string]bool, len(n.items))
	for _, item := range n.items {
		switch key := same(item.text); {
		case item.kind != plain && item.kind != quoted:
			s.wrongAt(item, "%s is a list of words, not of %s", w.name, item.describe())
		case seen[key]:
			s.wrongAt(item, "%s names %s twice", w.name, item.describe())
		default:
			seen[key] = true
			read(item)
		}
	}
}

// headers are the response headers that a rule reads.
type headers []decide.Header

func (v *headers) read(s *source, n *node, w spec) {
	*v = headers{}
	s.each(n, w, strings.ToLower, func(item *node) {
		header, ok := decide.ParseHeader(item.text)
		switch {
		case header == decide.DateHeader && ok:
			s.wrongAt(item, "%s: date is always read and is not listed", w.name)
		case !ok:
			s.wrongAt(item, "%s: %s is not a header that decider reads%s", w.name, item.describe(), didYouMean(item.text, headerNames()))
		}
		*v = append(*v, header)
	})
}

func headerNames() []string {
	var list []string
	for _, h := range decide.HonourableHeaders() {
		list = append(list, h.String())
	}
	return list
}

// failures are failures that a rule names, each with its place.
type failures []failure

type failure struct {
	decide.Failure
	node *node
}

func (v *failures) read(s *source, n *node, w spec) {
	*v = failures{}
	s.each(n, w, asIs, func(item *node) {
		f, wrong := parseFailure(item.text)
		if wrong != "" {
			s.wrongAt(item, "%s: %s", w.name, wrong)
			return
		}
		*v = append(*v, failure{f, item})
	})
}

// parseFailure reads a status in digits or an outcome by its word; wrong says
// why a policy cannot name it.
func parseFailure(text string) (f decide.Failure, wrong string) {
	if status, err := strconv.ParseUint(text, 10, 16); err == nil && len(text) == 3 {
		f, _ = decide.Status(int(status))
		if !f.Editable() {
			wrong = fmt.Sprintf("%s is not a failure, nothing below 400 can be named", text)
		}
		return f, wrong
	}
	f, ok := decide.ParseOutcome(text)
	switch _, isGRPC := decide.ParseGRPC(strings.ToUpper(text)); {
	case ok && f.Editable():
		return f, ""
	case ok:
		return f, text + " cannot be named, it is the caller's own doing and is never retried"
	case isGRPC:
		return f, text + " is a gRPC code; name its HTTP status: UNAVAILABLE follows 503, RESOURCE_EXHAUSTED 429, DEADLINE_EXCEEDED 504"
	}
	return f, fmt.Sprintf("%q is neither a status from 400 to 999 nor an outcome%s", shorten(text), didYouMean(text, decide.Outcomes()))
}

// list are the bare failures.
func (v *failures) list() []decide.Failure {
	var bare []decide.Failure
	for _, f := range *v {
		bare = append(bare, f.Failure)
	}
	return bare
}
