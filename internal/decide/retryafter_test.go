package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// malformed stands in tables for a value that cannot be read.
const malformed = -1

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value string
		want        int64
	}{
		{"seconds", "120", 120_000},
		{"nought", "0", 0},
		{"leading noughts", "007", 7000},
		{"blanks and tabs around", " \t120\t ", 120_000},
		{"fraction", "1.5", 1500},
		{"fraction rounds up", "0.0001", 1},
		{"fraction of whole ms", "0.001", 1},
		{"fraction with noughts behind", "0.0010000", 1},
		{"long fraction", "1.9999999999999999999999", 2000},
		{"saturates", "9223372036854775808", decide.MaxMillis},
		{"saturates by far", strings.Repeat("9", 256), decide.MaxMillis},
		{"saturates with a fraction", "9007199254740.9999", decide.MaxMillis},
		{"the largest ms", "9007199254740.991", decide.MaxMillis},
		{"a date", "Mon, 30 Nov 2026 12:02:00 GMT", 120_000},
		{"a past date", "Mon, 30 Nov 2026 11:02:00 GMT", 0},
		{"now", "Mon, 30 Nov 2026 12:00:00 GMT", 0},
		{"a date beyond time.Duration", "Fri, 31 Dec 9999 23:59:59 GMT", 251_606_260_799_000},
		{"RFC 850", "Monday, 30-Nov-26 12:02:00 GMT", 120_000},
		{"asctime", "Mon Nov 30 12:02:00 2026", 120_000},
		{"equal duplicates", "5, 5", 5000},
		{"the largest of a list", "5,120 , 60", 120_000},
		{"two dates", "Mon, 30 Nov 2026 12:01:00 GMT, Mon, 30 Nov 2026 12:02:00 GMT", 120_000},
		{"a date and seconds", "Mon, 30 Nov 2026 12:01:00 GMT, 5", 60_000},
		{"seconds and a date", "5, Monday, 30-Nov-26 12:01:00 GMT", 60_000},
		{"asctime and seconds", "Mon Nov 30 12:01:00 2026, 120", 120_000},

		{"empty", "", malformed},
		{"blank", "  ", malformed},
		{"sign", "+5", malformed},
		{"minus", "-5", malformed},
		{"exponent", "1e3", malformed},
		{"blank inside", "1 2", malformed},
		{"hex", "0x10", malformed},
		{"underscore", "1_000", malformed},
		{"unit", "5s", malformed},
		{"word", "soon", malformed},
		{"other digits", "\u0665", malformed},
		{"full-width digits", "\uff15", malformed},
		{"NUL", "5\x00", malformed},
		{"newline is no blank", "5\n", malformed},
		{"no-break space", "\u00a05", malformed},
		{"point alone", ".", malformed},
		{"nothing before the point", ".5", malformed},
		{"nothing after the point", "5.", malformed},
		{"two points", "1.2.3", malformed},
		{"fraction of words", "1.x", malformed},
		{"decimal comma reads as a list", "1,5", 5000},
		{"empty member", "5,,5", malformed},
		{"trailing comma", "5,", malformed},
		{"leading comma", ",5", malformed},
		{"one bad member", "5, soon", malformed},
		{"a bad member first", "soon, 5", malformed},
		{"a weekday alone", "Mon, 5", malformed},
		{"too long", strings.Repeat("9", 257), malformed},
		{"too long of blanks", strings.Repeat(" ", 256) + "5", malformed},
		{"quoted", `"5"`, malformed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := decide.ParseRetryAfter(test.value, noon)
			if ok != (test.want != malformed) || ok && got != test.want {
				t.Errorf("%q reads as %d ms, %t; want %d", test.value, got, ok, test.want)
			}
		})
	}
}

// A part of a ms counts as a whole one: the server's wait is never undercut.
func TestParseRetryAfterRoundsAFractionalClockUp(t *testing.T) {
	t.Parallel()
	base := noon.Add(-time.Nanosecond)
	if got, _ := decide.ParseRetryAfter("Mon, 30 Nov 2026 12:00:00 GMT", base); got != 1 {
		t.Errorf("a nanosecond is %d ms, want 1", got)
	}
}

func TestParseHTTPDate(t *testing.T) {
	t.Parallel()
	at := func(year int, month time.Month, day, hour, minute, second int) time.Time {
		return time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	}
	example := at(1994, time.November, 6, 8, 49, 37)
	var none time.Time
	tests := []struct {
		name, value string
		want        time.Time
	}{
		{"IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", example},
		{"RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", example},
		{"asctime", "Sun Nov  6 08:49:37 1994", example},
		{"asctime with two digits", "Sun Nov 16 08:49:37 1994", at(1994, time.November, 16, 8, 49, 37)},
		{"the weekday is not checked", "Mon, 06 Nov 1994 08:49:37 GMT", example},
		{"second 60 is the next second", "Sat, 31 Dec 2016 23:59:60 GMT", at(2017, time.January, 1, 0, 0, 0)},
		{"leap day", "Thu, 29 Feb 2024 00:00:00 GMT", at(2024, time.February, 29, 0, 0, 0)},
		{"year of four digits", "Fri, 31 Dec 9999 23:59:59 GMT", at(9999, time.December, 31, 23, 59, 59)},
		{"year nought", "Sat, 01 Jan 0000 00:00:00 GMT", at(0, time.January, 1, 0, 0, 0)},
		{"RFC 850, this year", "Monday, 30-Nov-26 12:00:00 GMT", noon},
		{"RFC 850, in exactly 50 years", "Monday, 30-Nov-76 12:00:00 GMT", at(2076, time.November, 30, 12, 0, 0)},
		{"RFC 850, a second more is the past", "Tuesday, 30-Nov-76 12:00:01 GMT", at(1976, time.November, 30, 12, 0, 1)},
		{"RFC 850, 77 is the past", "Saturday, 01-Jan-77 00:00:00 GMT", at(1977, time.January, 1, 0, 0, 0)},
		{"RFC 850, 00", "Saturday, 01-Jan-00 00:00:00 GMT", at(2000, time.January, 1, 0, 0, 0)},
		{"RFC 850, leap day of the century that has one", "Tuesday, 29-Feb-00 00:00:00 GMT", at(2000, time.February, 29, 0, 0, 0)},

		{"empty", "", none},
		{"one word", "Sun,", none},
		{"lower case weekday", "sun, 06 Nov 1994 08:49:37 GMT", none},
		{"upper case month", "Sun, 06 NOV 1994 08:49:37 GMT", none},
		{"lower case zone", "Sun, 06 Nov 1994 08:49:37 gmt", none},
		{"another zone", "Sun, 06 Nov 1994 08:49:37 UTC", none},
		{"an offset", "Sun, 06 Nov 1994 08:49:37 +0000", none},
		{"no zone", "Sun, 06 Nov 1994 08:49:37", none},
		{"no weekday", "06 Nov 1994 08:49:37 GMT", none},
		{"no comma", "Sun 06 Nov 1994 08:49:37 GMT", none},
		{"no weekday that is known", "Foo, 06 Nov 1994 08:49:37 GMT", none},
		{"no long weekday that is known", "Fooday, 06-Nov-94 08:49:37 GMT", none},
		{"asctime without a weekday that is known", "Foo Nov  6 08:49:37 1994", none},
		{"no month that is known", "Sun, 06 Foo 1994 08:49:37 GMT", none},
		{"one digit of a day", "Sun, 6 Nov 1994 08:49:37 GMT", none},
		{"two blanks", "Sun,  06 Nov 1994 08:49:37 GMT", none},
		{"day 0", "Sun, 00 Nov 1994 08:49:37 GMT", none},
		{"day 31 of November", "Sun, 31 Nov 1994 08:49:37 GMT", none},
		{"no leap day", "Wed, 29 Feb 2023 00:00:00 GMT", none},
		{"no leap day in 2100", "Mon, 29 Feb 2100 00:00:00 GMT", none},
		{"hour 24", "Sun, 06 Nov 1994 24:00:00 GMT", none},
		{"minute 60", "Sun, 06 Nov 1994 08:60:00 GMT", none},
		{"second 61", "Sun, 06 Nov 1994 08:49:61 GMT", none},
		{"sign in a number", "Sun, +6 Nov 1994 08:49:37 GMT", none},
		{"sign in a year", "Sun, 06 Nov -994 08:49:37 GMT", none},
		{"sign in a short year", "Sunday, 06-Nov--4 08:49:37 GMT", none},
		{"RFC 850 with a year of four digits", "Sunday, 06-Nov-1994 08:49:37 GMT", none},
		{"RFC 850 with a short weekday", "Sun, 06-Nov-94 08:49:37 GMT", none},
		{"RFC 850 on an impossible day", "Sunday, 31-Nov-94 08:49:37 GMT", none},
		{"IMF with a long weekday", "Sunday, 06 Nov 1994 08:49:37 GMT", none},
		{"asctime with one blank", "Sun Nov 6 08:49:37 1994", none},
		{"asctime with no day", "Sun Nov    08:49:37 1994", none},
		{"clock without colons", "Sun, 06 Nov 1994 08-49-37 GMT", none},
		{"fraction of a second", "Sun, 06 Nov 1994 08:49:37.5 GMT", none},
		{"something behind", "Sun, 06 Nov 1994 08:49:37 GMT;", none},
		{"RFC 3339", "1994-11-06T08:49:37Z", none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := decide.ParseHTTPDate(test.value, noon)
			if want := !test.want.Equal(none); ok != want || ok && !got.Equal(test.want) {
				t.Errorf("%q reads as %v, %t; want %v", test.value, got, ok, test.want)
			}
		})
	}
}

// TestHeaders plans a failed GET under a policy that honours some headers.
func TestHeaders(t *testing.T) {
	t.Parallel()
	const inTwo = "Mon, 30 Nov 2026 12:02:00 GMT"
	all := decide.HonourableHeaders()
	type headers = map[decide.Header]string
	tests := []struct {
		name    string
		order   []decide.Header
		headers headers
		want    int64 // the server's delay in ms
		use     decide.ServerDelayUse
		reason  decide.Reason
	}{
		{"nothing given", all, nil, malformed, decide.DelayAbsent, decide.ReasonBackoff},
		{"not honoured", []decide.Header{decide.RetryAfterMSHeader}, headers{decide.RetryAfterHeader: "5"}, malformed, decide.DelayAbsent, decide.ReasonBackoff},
		{"milliseconds", all, headers{decide.RetryAfterMSHeader: "1500"}, 1500, decide.DelayUsed, decide.ReasonRetryAfter},
		{"milliseconds round up", all, headers{decide.XMSRetryAfterMSHeader: "1500.4"}, 1501, decide.DelayUsed, decide.ReasonRetryAfter},
		{"milliseconds in a list", all, headers{decide.XAmzRetryAfterHeader: "1500, 2000"}, 2000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"milliseconds are no date", all, headers{decide.RetryAfterMSHeader: inTwo}, malformed, decide.DelayMalformed, decide.ReasonBackoff},
		{"reset is seconds", all, headers{decide.RateLimitResetHeader: " 3 "}, 3000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"reset is no date", all, headers{decide.RateLimitResetHeader: inTwo}, malformed, decide.DelayMalformed, decide.ReasonBackoff},
		{"reset too long", all, headers{decide.RateLimitResetHeader: strings.Repeat("0", 257)}, malformed, decide.DelayMalformed, decide.ReasonBackoff},
		{"the policy's order", []decide.Header{decide.RetryAfterMSHeader, decide.RetryAfterHeader}, headers{decide.RetryAfterHeader: "7", decide.RetryAfterMSHeader: "1500"}, 1500, decide.DelayUsed, decide.ReasonRetryAfter},
		{"the other order", []decide.Header{decide.RetryAfterHeader, decide.RetryAfterMSHeader}, headers{decide.RetryAfterHeader: "7", decide.RetryAfterMSHeader: "1500"}, 7000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"the first readable one", []decide.Header{decide.RetryAfterMSHeader, decide.RetryAfterHeader}, headers{decide.RetryAfterHeader: "7", decide.RetryAfterMSHeader: "soon"}, 7000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"none readable", all, headers{decide.RetryAfterHeader: "", decide.RetryAfterMSHeader: "soon"}, malformed, decide.DelayMalformed, decide.ReasonBackoff},
		{"nought", all, headers{decide.RetryAfterHeader: "0"}, 0, decide.DelayShorterThanBackoff, decide.ReasonBackoff},
		{"the date counts from the response's", all, headers{decide.RetryAfterHeader: inTwo, decide.DateHeader: " Mon, 30 Nov 2026 12:01:00 GMT"}, 60_000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"an unreadable date is ignored", all, headers{decide.RetryAfterHeader: inTwo, decide.DateHeader: "yesterday"}, 120_000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"seconds do not heed the date", all, headers{decide.RetryAfterHeader: "5", decide.DateHeader: "Mon, 30 Nov 2026 11:00:00 GMT"}, 5000, decide.DelayUsed, decide.ReasonRetryAfter},

		{"no", all, headers{decide.XShouldRetryHeader: "false"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"no with blanks", all, headers{decide.StripeShouldRetry: " FALSE\t"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"no beats yes", all, headers{decide.XShouldRetryHeader: "true", decide.StripeShouldRetry: "False"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"neither", all, headers{decide.XShouldRetryHeader: "1"}, malformed, decide.DelayAbsent, decide.ReasonBackoff},
		{"no, not honoured", []decide.Header{decide.RetryAfterHeader}, headers{decide.XShouldRetryHeader: "false"}, malformed, decide.DelayAbsent, decide.ReasonBackoff},
		{"no with a wait", all, headers{decide.XShouldRetryHeader: "false", decide.RetryAfterHeader: "5"}, 5000, decide.DelayUnused, decide.ReasonServerRefused},

		{"pushback", all, headers{decide.GRPCRetryPushbackMS: " 1500 "}, 1500, decide.DelayUsed, decide.ReasonRetryAfter},
		{"pushback behind another", all, headers{decide.GRPCRetryPushbackMS: "1500", decide.RetryAfterHeader: "7"}, 7000, decide.DelayUsed, decide.ReasonRetryAfter},
		{"pushback below nought", all, headers{decide.GRPCRetryPushbackMS: "-1"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"pushback unreadable", all, headers{decide.GRPCRetryPushbackMS: "soon"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"pushback with a fraction", all, headers{decide.GRPCRetryPushbackMS: "1.5"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"pushback empty", all, headers{decide.GRPCRetryPushbackMS: ""}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"pushback repeated", all, headers{decide.GRPCRetryPushbackMS: "10, 10"}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},
		{"pushback too long", all, headers{decide.GRPCRetryPushbackMS: strings.Repeat("1", 257)}, malformed, decide.DelayAbsent, decide.ReasonServerRefused},

		{"a policy that names no header known", []decide.Header{99}, headers{decide.RetryAfterHeader: "5"}, malformed, decide.DelayAbsent, decide.ReasonBackoff},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := got503()
			for h, value := range test.headers {
				a.Headers.Set(h, value)
			}
			p := standard(constant(1), honours(test.order...), func(p *decide.Policy) { p.RetryAfter.Max = 3_600_000 })
			d := decide.NewPlan(p, a, noon, script(t)).Decision
			if want := test.want != malformed; d.ServerDelay.Present != want || want && d.ServerDelay.Value != test.want {
				t.Errorf("the server's delay is %+v, want %d", d.ServerDelay, test.want)
			}
			if d.ServerDelayUse != test.use || d.Reason != test.reason {
				t.Errorf("it is %s with reason %s, want %s with %s", d.ServerDelayUse, d.Reason, test.use, test.reason)
			}
		})
	}
}

// Yes lifts a final failure into the ambiguous class and changes nothing else.
func TestServerSaysYes(t *testing.T) {
	t.Parallel()
	yes := header(decide.XShouldRetryHeader, "true")
	tests := []struct {
		name string
		edit func(*decide.Attempt)
		want decide.Reason
	}{
		{"a final failure", func(a *decide.Attempt) { a.Failure = 404 }, decide.ReasonBackoff},
		{"an unsafe method", func(a *decide.Attempt) { a.Failure, a.Method = 404, "POST" }, decide.ReasonNotSafeToRepeat},
		{"a success", func(a *decide.Attempt) { a.Failure = 204 }, decide.ReasonNotAFailure},
		{"the last attempt", func(a *decide.Attempt) { a.Failure, a.Number = 404, 4 }, decide.ReasonAttemptsExhausted},
		{"a one-shot status", func(a *decide.Attempt) { a.Failure, a.Number = 425, 2 }, decide.ReasonAttemptsExhausted},
		{"the caller's own breaker", func(a *decide.Attempt) { a.Failure = decide.CallerBreakerOpen }, decide.ReasonBreakerOpen},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := standard(constant(1), honours(decide.XShouldRetryHeader))
			if got := decide.NewPlan(p, got503(yes, test.edit), noon, script(t)).Decision.Reason; got != test.want {
				t.Errorf("the reason is %s, want %s", got, test.want)
			}
		})
	}
}

func TestHeaderNames(t *testing.T) {
	t.Parallel()
	list := decide.HonourableHeaders()
	if len(list) != 8 {
		t.Fatalf("%d headers can be honoured, want 8", len(list))
	}
	for _, h := range append(list, decide.DateHeader) {
		if got, ok := decide.ParseHeader(strings.ToUpper(h.String())); !ok || got != h {
			t.Errorf("%s reads as %v, %t", h, got, ok)
		}
	}
	if _, ok := decide.ParseHeader("x-ratelimit-reset"); ok {
		t.Error("x-ratelimit-reset is read")
	}
	var headers decide.Headers
	headers.Set(99, "5")
	if _, ok := headers.Get(99); ok {
		t.Error("a header that is none was kept")
	}
	headers.Set(decide.RetryAfterHeader, "")
	if value, ok := headers.Get(decide.RetryAfterHeader); !ok || value != "" {
		t.Errorf("an empty header is %q, %t", value, ok)
	}
}
