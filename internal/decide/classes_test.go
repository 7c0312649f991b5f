package decide_test

import (
	"slices"
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// outcome and code read words that are known to be right.
func outcome(word string) decide.Failure { return must(decide.ParseOutcome(word)) }

func code(name string) decide.Failure { return must(decide.ParseGRPC(name)) }

func must[T any](value T, ok bool) T {
	if !ok {
		panic("not a word of the contract")
	}
	return value
}

// wantClass is the contract's table (DESIGN §4) written out once more, by hand.
func wantClass(status int) decide.Class {
	switch status {
	case 421, 425:
		return decide.NeverSent
	case 408, 429:
		return decide.Ambiguous
	case 501, 505, 506, 507, 508, 510, 511, 525, 526, 530:
		return decide.Final
	}
	switch {
	case status < 400:
		return decide.NotAFailure
	case status < 500:
		return decide.Final
	}
	return decide.Ambiguous
}

func TestStandardClassOfEveryStatus(t *testing.T) {
	t.Parallel()
	for status := 100; status <= 999; status++ {
		f := must(decide.Status(status))
		if got := decide.StandardClasses.Of(f, false); got != wantClass(status) {
			t.Errorf("%d is %s, want %s", status, got, wantClass(status))
		}
		want := wantClass(status)
		if status == 413 {
			want = decide.Ambiguous
		}
		if got := decide.StandardClasses.Of(f, true); got != want {
			t.Errorf("%d with a wait is %s, want %s", status, got, want)
		}
	}
}

func TestStandardClassOfOutcomesAndCodes(t *testing.T) {
	t.Parallel()
	want := map[decide.Failure]decide.Class{
		outcome("timeout"):            decide.Ambiguous,
		outcome("connect_timeout"):    decide.NeverSent,
		outcome("connection_refused"): decide.NeverSent,
		outcome("connection_reset"):   decide.Ambiguous,
		outcome("connection_closed"):  decide.Ambiguous,
		outcome("dns_failure"):        decide.NeverSent,
		outcome("tls_failure"):        decide.Final,
		outcome("not_processed"):      decide.NeverSent,
		outcome("canceled"):           decide.Canceled,
		outcome("breaker_open"):       decide.CallerBreaker,
		code("OK"):                    decide.NotAFailure,
		code("CANCELLED"):             decide.Canceled,
		code("UNAVAILABLE"):           decide.Ambiguous,
		code("RESOURCE_EXHAUSTED"):    decide.Ambiguous,
		code("DEADLINE_EXCEEDED"):     decide.Ambiguous,
	}
	for _, name := range decide.GRPCCodes() {
		if _, ok := want[code(name)]; !ok {
			want[code(name)] = decide.Final
		}
	}
	if len(want) != len(decide.Outcomes())+len(decide.GRPCCodes()) {
		t.Fatalf("the table has %d rows", len(want))
	}
	for f, class := range want {
		if got := decide.StandardClasses.Of(f, true); got != class {
			t.Errorf("%s is %s, want %s", f, got, class)
		}
	}
}

func TestClassesAreTotal(t *testing.T) {
	t.Parallel()
	var none *decide.Classes
	for f := range decide.Failure(2000) {
		if got, want := none.Of(f, true), decide.StandardClasses.Of(f, true); got != want {
			t.Fatalf("%d: nil classes say %s, the standard ones %s", f, got, want)
		}
		_ = decide.StandardClasses.OnlyWithWait(f)
	}
	if got := decide.StandardClasses.Of(60_000, true); got != decide.Final {
		t.Errorf("an unknown failure is %s", got)
	}
}

func TestClassesEdits(t *testing.T) {
	t.Parallel()
	type failures = []decide.Failure
	timeout := decide.Timeout
	tests := []struct {
		name   string
		edit   func(*decide.ClassesBuilder)
		want   map[decide.Failure]decide.Class // without a wait
		waited map[decide.Failure]decide.Class // with one
	}{
		{
			name: "add makes ambiguous",
			edit: func(b *decide.ClassesBuilder) { b.Add(failures{409, 501, 413}) },
			want: map[decide.Failure]decide.Class{409: decide.Ambiguous, 501: decide.Ambiguous, 413: decide.Ambiguous, 410: decide.Final},
		},
		{
			name: "add makes a never-sent failure ambiguous",
			edit: func(b *decide.ClassesBuilder) { b.Add(failures{421}) },
			want: map[decide.Failure]decide.Class{421: decide.Ambiguous, 425: decide.NeverSent},
		},
		{
			name: "remove 500 takes what follows it",
			edit: func(b *decide.ClassesBuilder) { b.Remove(failures{500, timeout}) },
			want: map[decide.Failure]decide.Class{500: decide.Final, 512: decide.Final, 599: decide.Final, 600: decide.Final, 999: decide.Final,
				502: decide.Ambiguous, 503: decide.Ambiguous, 520: decide.Ambiguous, timeout: decide.Final, decide.ConnectTimeout: decide.NeverSent},
		},
		{
			name: "the last word wins over what is followed",
			edit: func(b *decide.ClassesBuilder) { b.Remove(failures{500}); b.Add(failures{599}) },
			want: map[decide.Failure]decide.Class{500: decide.Final, 598: decide.Final, 599: decide.Ambiguous},
		},
		{
			name: "a later layer wins",
			edit: func(b *decide.ClassesBuilder) { b.Remove(failures{503}); b.Add(failures{503}) },
			want: map[decide.Failure]decide.Class{503: decide.Ambiguous},
		},
		{
			name:   "a removed 413 stays final with a wait",
			edit:   func(b *decide.ClassesBuilder) { b.Remove(failures{413}) },
			want:   map[decide.Failure]decide.Class{413: decide.Final},
			waited: map[decide.Failure]decide.Class{413: decide.Final},
		},
		{
			name: "gRPC codes follow their statuses",
			edit: func(b *decide.ClassesBuilder) { b.Remove(failures{503, 429, 504}) },
			want: map[decide.Failure]decide.Class{code("UNAVAILABLE"): decide.Final, code("RESOURCE_EXHAUSTED"): decide.Final,
				code("DEADLINE_EXCEEDED"): decide.Final, timeout: decide.Ambiguous},
		},
		{
			name: "other gRPC codes follow nothing",
			edit: func(b *decide.ClassesBuilder) { b.Add(failures{404, 409}) },
			want: map[decide.Failure]decide.Class{code("NOT_FOUND"): decide.Final, code("ABORTED"): decide.Final},
		},
		{
			name: "unprocessed lets any method repeat",
			edit: func(b *decide.ClassesBuilder) { b.Unprocessed(failures{429, 503, 404}) },
			want: map[decide.Failure]decide.Class{429: decide.NeverSent, 503: decide.NeverSent, 529: decide.Ambiguous, 404: decide.Final,
				code("UNAVAILABLE"): decide.NeverSent, code("RESOURCE_EXHAUSTED"): decide.NeverSent},
		},
		{
			name: "unprocessed 500 holds for what follows it",
			edit: func(b *decide.ClassesBuilder) { b.Unprocessed(failures{500}) },
			want: map[decide.Failure]decide.Class{500: decide.NeverSent, 599: decide.NeverSent, 700: decide.NeverSent, 502: decide.Ambiguous},
		},
		{
			name: "unprocessed replaces",
			edit: func(b *decide.ClassesBuilder) { b.Unprocessed(failures{429}); b.Unprocessed(failures{408}) },
			want: map[decide.Failure]decide.Class{429: decide.Ambiguous, 408: decide.NeverSent},
		},
		{
			name: "only names exactly what is retried",
			edit: func(b *decide.ClassesBuilder) { b.Only(failures{500, 503, 404, timeout, decide.DNSFailure}) },
			want: map[decide.Failure]decide.Class{500: decide.Ambiguous, 503: decide.Ambiguous, 404: decide.Ambiguous, timeout: decide.Ambiguous,
				decide.DNSFailure: decide.NeverSent, 502: decide.Final, 512: decide.Final, 600: decide.Final, 421: decide.Final,
				decide.ConnectionRefused: decide.Final, 200: decide.NotAFailure, decide.CanceledByCaller: decide.Canceled,
				decide.CallerBreakerOpen: decide.CallerBreaker, code("UNAVAILABLE"): decide.Ambiguous, code("RESOURCE_EXHAUSTED"): decide.Final,
				code("CANCELLED"): decide.Canceled, code("OK"): decide.NotAFailure},
			waited: map[decide.Failure]decide.Class{413: decide.Final},
		},
		{
			name: "only forgets the layers below",
			edit: func(b *decide.ClassesBuilder) { b.Add(failures{409}); b.Only(failures{503}); b.Add(failures{429}) },
			want: map[decide.Failure]decide.Class{409: decide.Final, 503: decide.Ambiguous, 429: decide.Ambiguous, 500: decide.Final},
		},
		{
			name: "with a wait alone",
			edit: func(b *decide.ClassesBuilder) { b.WithWait(failures{429, 503, 404}) },
			want: map[decide.Failure]decide.Class{429: decide.Final, 503: decide.Final, 404: decide.Final, 413: decide.Final,
				500: decide.Ambiguous, code("UNAVAILABLE"): decide.Final},
			waited: map[decide.Failure]decide.Class{429: decide.Ambiguous, 503: decide.Ambiguous, 404: decide.Ambiguous, 413: decide.Final,
				code("UNAVAILABLE"): decide.Ambiguous, code("RESOURCE_EXHAUSTED"): decide.Ambiguous},
		},
		{
			name:   "with a wait, unprocessed",
			edit:   func(b *decide.ClassesBuilder) { b.WithWait(failures{429}); b.Unprocessed(failures{429}) },
			want:   map[decide.Failure]decide.Class{429: decide.Final},
			waited: map[decide.Failure]decide.Class{429: decide.NeverSent},
		},
		{
			name:   "a later with_retry_after lifts what was removed",
			edit:   func(b *decide.ClassesBuilder) { b.Remove(failures{413}); b.WithWait(failures{413}) },
			want:   map[decide.Failure]decide.Class{413: decide.Final},
			waited: map[decide.Failure]decide.Class{413: decide.Ambiguous},
		},
		{
			name: "only, then with a wait",
			edit: func(b *decide.ClassesBuilder) { b.Only(failures{500}); b.WithWait(failures{413}) },
			want: map[decide.Failure]decide.Class{413: decide.Final, 500: decide.Ambiguous, 503: decide.Final},
			waited: map[decide.Failure]decide.Class{413: decide.Ambiguous, 503: decide.Final,
				599: decide.Final},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := decide.NewClassesBuilder()
			test.edit(b)
			classes := b.Build()
			for f, want := range test.want {
				if got := classes.Of(f, false); got != want {
					t.Errorf("%s is %s, want %s", f, got, want)
				}
			}
			for f, want := range test.waited {
				if got := classes.Of(f, true); got != want {
					t.Errorf("%s with a wait is %s, want %s", f, got, want)
				}
			}
		})
	}
}

func TestClassesBuilderRetryable(t *testing.T) {
	t.Parallel()
	b := decide.NewClassesBuilder()
	b.Remove([]decide.Failure{503})
	for f, want := range map[decide.Failure]bool{
		500: true, 421: true, 413: true, 503: false, 404: false, 200: false,
		decide.DNSFailure: true, decide.TLSFailure: false, decide.CanceledByCaller: false,
	} {
		if got := b.Retryable(f); got != want {
			t.Errorf("%s retryable: %t, want %t", f, got, want)
		}
	}
	if !b.Build().OnlyWithWait(413) || b.Build().OnlyWithWait(429) || b.Build().OnlyWithWait(60_000) {
		t.Error("413 alone is retried only with a wait")
	}
}

func TestKindsOneShotsAndEdits(t *testing.T) {
	t.Parallel()
	kinds := map[decide.Failure]decide.Kind{
		429: decide.Throttle, 529: decide.Throttle, code("RESOURCE_EXHAUSTED"): decide.Throttle,
		decide.Timeout: decide.Timing, decide.ConnectTimeout: decide.Timing, 504: decide.Timing, 524: decide.Timing,
		code("DEADLINE_EXCEEDED"): decide.Timing,
	}
	for f := range decide.Failure(1100) {
		if got := f.Kind(); got != kinds[f] {
			t.Errorf("%s is of kind %s, want %s", f, got, kinds[f])
		}
		if got, want := f.OneShot(), f == 421 || f == 425; got != want {
			t.Errorf("%s is one-shot: %t", f, got)
		}
		editable := f >= 400 && f <= 999 || f >= decide.Timeout && f <= decide.NotProcessed
		if f.Editable() != editable {
			t.Errorf("%s is editable: %t", f, f.Editable())
		}
	}
}

func TestFailureWords(t *testing.T) {
	t.Parallel()
	for _, status := range []int{-1, 0, 99, 1000, 1 << 20} {
		if _, ok := decide.Status(status); ok {
			t.Errorf("%d is a status", status)
		}
	}
	for _, word := range decide.Outcomes() {
		if got := outcome(word); got.String() != word || got.IsStatus() {
			t.Errorf("%s reads as %s", word, got)
		}
	}
	for _, name := range decide.GRPCCodes() {
		if got := code(name); got.String() != name || got.IsStatus() {
			t.Errorf("%s reads as %s", name, got)
		}
	}
	if _, ok := decide.ParseOutcome("Timeout"); ok {
		t.Error("outcomes are read in any case")
	}
	if _, ok := decide.ParseGRPC("unavailable"); ok {
		t.Error("gRPC codes are read in any case")
	}
	if got := must(decide.Status(503)); got.String() != "503" || !got.IsStatus() {
		t.Errorf("503 reads as %s", got)
	}
	if got := decide.Failure(0).String(); got != "none" {
		t.Errorf("no failure is %q", got)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	all := decide.Failures()
	if want := 900 + len(decide.Outcomes()) + len(decide.GRPCCodes()); len(all) != want {
		t.Errorf("%d failures can be reported, want %d", len(all), want)
	}
	for _, f := range all {
		if f.String() == "none" {
			t.Errorf("%d has no word", f)
		}
	}
}

func TestIdempotentMethods(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "get", "Head", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY", "query"} {
		if !decide.IdempotentMethod(method) {
			t.Errorf("%s is not idempotent", method)
		}
	}
	for _, method := range []string{"", "POST", "PATCH", "CONNECT", "PROPFIND", "GETS", "GE", "G\u212A", "OPTION\u017F"} {
		if decide.IdempotentMethod(method) {
			t.Errorf("%q is idempotent", method)
		}
	}
	lists := []struct {
		name        string
		repeat      decide.Repeat
		yes, denied []string
	}{
		{"any", decide.Repeat{Any: true}, []string{"POST", "FOO"}, nil},
		{"idempotent", decide.Repeat{}, []string{"PUT"}, []string{"POST", "FOO"}},
		{"list", decide.Repeat{Methods: []string{"GET", "POST"}}, []string{"post", "GET"}, []string{"PUT"}},
	}
	for _, list := range lists {
		if slices.ContainsFunc(list.yes, func(m string) bool { return !list.repeat.Allows(m) }) {
			t.Errorf("%s does not allow all of %v", list.name, list.yes)
		}
		if slices.ContainsFunc(list.denied, list.repeat.Allows) {
			t.Errorf("%s allows one of %v", list.name, list.denied)
		}
	}
}
