package policytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/policy"
)

// Difference is a member that is not what was expected.
type Difference struct {
	Member   string `json:"member"`
	Line     int    `json:"line"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// compare holds a decision, as the contract answers it, to what is expected.
func (p *play) compare(expect []policy.Expectation, d *decide.Decision) (differ []Difference, err error) {
	got := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(p.contract.AppendDecision(nil, d)))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		return nil, fmt.Errorf("the decision is not JSON: %w", err)
	}
	if p.compared != nil {
		got["candidate"] = p.compared.Candidate.String()
	}
	for _, e := range expect {
		if !matches(e.Key, e.Value, got[e.Key]) {
			differ = append(differ, Difference{e.Key, e.Line, written(e.Value), written(got[e.Key])})
		}
	}
	return differ, nil
}

// matches says whether a member is as expected: null expects none, min and max
// bound a number, a message need only hold the words, and hints may be in any
// order. Of a budget only the members that are named are compared.
func matches(key string, want, got any) bool {
	switch want := want.(type) {
	case nil:
		return got == nil
	case map[string]any:
		if low, high, ok := bounds(want); ok {
			x, isNumber := number(got)
			return isNumber && x >= low && x <= high
		}
		object, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && matches(key+"."+name, value, object[name])
		}
		return ok
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for _, each := range want {
			ok = ok && slices.Contains(list, each)
		}
		return ok
	case json.Number:
		a, _ := number(want)
		b, ok := number(got)
		return ok && a == b
	case string:
		text, ok := got.(string)
		return ok && (text == want || key == "message" && strings.Contains(text, want))
	}
	return want == got
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Float64()
	return x, err == nil
}

// bounds are min and max; ok is false where the object is something else.
func bounds(object map[string]any) (low, high float64, ok bool) {
	low, high = math.Inf(-1), math.Inf(1)
	for name, v := range object {
		x, isNumber := number(v)
		switch {
		case name == "min" && isNumber:
			low = x
		case name == "max" && isNumber:
			high = x
		default:
			return 0, 0, false
		}
	}
	return low, high, len(object) > 0
}

// written is a value as a person would write it.
func written(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return v
	case map[string]any:
		if low, high, ok := bounds(v); ok {
			return strings.TrimSpace(fmt.Sprintf("%s to %s", orOpen(low), orOpen(high)))
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func orOpen(x float64) string {
	if math.IsInf(x, 0) {
		return "any"
	}
	return fmt.Sprint(x)
}
