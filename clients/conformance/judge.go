package main

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// judgement collects what was not as the case says.
type judgement struct {
	failures []string
	names    map[string]string // what "$name" stands for
}

func (j *judgement) fail(format string, args ...any) {
	j.failures = append(j.failures, fmt.Sprintf(format, args...))
}

func (s *session) judge(results []result) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &judgement{failures: s.wrong, names: map[string]string{}}
	j.results(s.scenario.Calls, results)
	j.arrivals(s.scenario.Expect.Arrivals, s.arrivals)
	j.questions(s.scenario.Expect.Questions, s.questions)
	j.reports(s.scenario.Expect.Reports, s.reports)
	for _, each := range s.scenario.Expect.Gaps {
		j.gap(each, s.answered, s.arrivals)
	}
	return j.failures
}

func (j *judgement) results(calls []call, got []result) {
	if len(got) != len(calls) {
		j.fail("%d results, want %d", len(got), len(calls))
		return
	}
	for i, each := range calls {
		if want := each.Result; want != nil {
			j.result(i+1, want, got[i])
		}
	}
}

func (j *judgement) result(n int, want *result, got result) {
	if want.Status != got.Status {
		j.fail("call %d: status %d, want %d", n, got.Status, want.Status)
	}
	if want.Body != nil && (got.Body == nil || *got.Body != *want.Body) {
		j.fail("call %d: body %v, want %q", n, deref(got.Body), *want.Body)
	}
	if want.Error != got.Error && (want.Error != "any" || got.Error == "") {
		j.fail("call %d: error %q, want %q", n, got.Error, want.Error)
	}
	if got.TookMS < want.MinMS || want.MaxMS > 0 && got.TookMS > want.MaxMS {
		j.fail("call %d: took %d ms, want %d to %d", n, got.TookMS, want.MinMS, want.MaxMS)
	}
}

func deref(text *string) string {
	if text == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *text)
}

func (j *judgement) arrivals(want []arrival, got []seen) {
	if len(got) != len(want) {
		j.fail("%d requests reached the dependency, want %d", len(got), len(want))
		return
	}
	for i, each := range want {
		if got[i].method != each.Method || got[i].body != each.Body {
			j.fail("request %d: %s %q, want %s %q", i+1, got[i].method, got[i].body, each.Method, each.Body)
		}
		for name, value := range each.Headers {
			var have any
			if values := got[i].headers[http.CanonicalHeaderKey(name)]; len(values) > 0 {
				have = strings.Join(values, ", ")
			}
			j.value(fmt.Sprintf("request %d: header %s", i+1, name), value, have)
		}
	}
}

func (j *judgement) questions(want, got []map[string]any) {
	if len(got) != len(want) {
		j.fail("%d questions, want %d: %v", len(got), len(want), got)
		return
	}
	for i, each := range want {
		for name, value := range each {
			j.value(fmt.Sprintf("question %d: %s", i+1, name), value, got[i][name])
		}
	}
}

// value compares one value with what a case says of it; nil is an absent one.
func (j *judgement) value(what string, want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if least, ok := w["min"].(float64); ok {
			n, isNumber := got.(float64)
			most, bounded := w["max"].(float64)
			if !isNumber || n < least || bounded && n > most {
				j.fail("%s is %v, want %v to %v", what, got, w["min"], w["max"])
			}
			return
		}
	case string:
		if j.special(what, w, got) {
			return
		}
	}
	if !reflect.DeepEqual(want, got) {
		j.fail("%s is %v, want %v", what, got, want)
	}
}

// special judges "*" and "$name".
func (j *judgement) special(what, want string, got any) bool {
	switch {
	case want == "*":
		if got == nil || got == "" {
			j.fail("%s is absent", what)
		}
		return true
	case strings.HasPrefix(want, "$"):
		text, _ := got.(string)
		before, known := j.names[want]
		if text == "" || known && before != text {
			j.fail("%s is %q, want the same as before: %q", what, text, before)
		}
		j.names[want] = text
		return true
	}
	return false
}

func (j *judgement) reports(want map[string]map[string]int64, got []report) {
	if want == nil {
		return
	}
	sums, counted := map[string]map[string]int64{}, map[string]bool{}
	for _, each := range got {
		if each.ReportID == "" || counted[each.ReportID] {
			continue // sent again, it counts once
		}
		counted[each.ReportID] = true
		for _, o := range each.Outcomes {
			sum := sums[o.Dependency]
			if sum == nil {
				sum = map[string]int64{}
				sums[o.Dependency] = sum
			}
			sum["first_try_successes"] += o.FirstTries
			sum["retry_successes"] += o.Retries
			sum["final_failures"] += o.Finals
		}
	}
	for dependency, members := range want {
		for name, n := range members {
			if sums[dependency][name] != n {
				j.fail("reported %d %s of %s, want %d", sums[dependency][name], name, dependency, n)
			}
		}
	}
}

// gap judges the time between two instants.
func (j *judgement) gap(g gap, answered []time.Time, arrived []seen) {
	instant := func(name string) (time.Time, bool) {
		var n int
		switch {
		case scan(name, "answer %d", &n) && n <= len(answered):
			return answered[n-1], true
		case scan(name, "arrival %d", &n) && n <= len(arrived):
			return arrived[n-1].at, true
		}
		return time.Time{}, false
	}
	from, ok1 := instant(g.From)
	to, ok2 := instant(g.To)
	if !ok1 || !ok2 {
		j.fail("%s or %s did not happen", g.From, g.To)
		return
	}
	if took := to.Sub(from); took < time.Duration(g.MinMS)*time.Millisecond || took > time.Duration(g.MaxMS)*time.Millisecond {
		j.fail("%s came %s after %s, want %d to %d ms", g.To, took, g.From, g.MinMS, g.MaxMS)
	}
}

func scan(text, format string, n *int) bool {
	count, err := fmt.Sscanf(text, format, n)
	return count == 1 && err == nil && *n > 0
}
