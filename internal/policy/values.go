package policy

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type (
	text   string             // free text
	truth  bool               // true or false
	word   string             // one of the words that its tag lists
	count  int64              // a whole number
	millis int64              // a duration, kept in ms
	number struct{ *big.Rat } // a decimal, exact as written
	ratio  struct{ *big.Rat } // a share of one, written 10% or 0.1
)

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
