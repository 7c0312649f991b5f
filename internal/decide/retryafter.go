package decide

import (
	"strings"
	"time"
)

// Header is a response header that decider can read.
type Header uint8

// The headers, by the names that a policy's retry_after.headers lists. Date is
// always read and never listed.
const (
	RetryAfterHeader      Header = iota // seconds or an HTTP-date (RFC 9110 §10.2.3)
	RetryAfterMSHeader                  // milliseconds
	XMSRetryAfterMSHeader               // milliseconds (Azure)
	XAmzRetryAfterHeader                // milliseconds (AWS)
	XShouldRetryHeader                  // true or false
	StripeShouldRetry                   // true or false
	GRPCRetryPushbackMS                 // milliseconds; negative, unreadable or repeated is a no (gRPC A6)
	RateLimitResetHeader                // seconds, never a date
	DateHeader                          // when the response was made (RFC 9110 §6.6.1)
	headerCount
)

var headerNames = [headerCount]string{
	"retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "x-should-retry",
	"stripe-should-retry", "grpc-retry-pushback-ms", "ratelimit-reset", "date",
}

// String is the header's name in lower case.
func (h Header) String() string { return headerNames[h] }

// ParseHeader finds a header by its name in any case.
func ParseHeader(name string) (h Header, ok bool) {
	for i, each := range headerNames {
		if len(each) == len(name) && strings.EqualFold(each, name) {
			return Header(i), true
		}
	}
	return 0, false
}

// HonourableHeaders lists the headers that a policy may name.
func HonourableHeaders() []Header {
	var list []Header
	for h := RetryAfterHeader; h < DateHeader; h++ {
		list = append(list, h)
	}
	return list
}

// Headers holds the raw values of the headers that decider can read.
type Headers struct {
	values [headerCount]string
	set    uint16
}

// Set gives a header its raw value.
func (h *Headers) Set(name Header, value string) {
	if name < headerCount {
		h.values[name] = value
		h.set |= 1 << name
	}
}

// Get is a header's raw value; ok is false where it was not given.
func (h *Headers) Get(name Header) (value string, ok bool) {
	if name >= headerCount {
		return "", false
	}
	return h.values[name], h.set&(1<<name) != 0
}

// maxHeaderValue is how long a wait's text may be before it is malformed: a
// chatty server must not silence the decision.
const maxHeaderValue = 256

// serverWord is what the honoured headers of a response say.
type serverWord struct {
	wait      Millis // how long to wait, where one was readable
	malformed bool   // one was there and none was readable
	yes, no   bool   // the server's verdict on retrying
}

// read asks the policy's headers in its order; the first readable wait serves.
func (h *Headers) read(order []Header, now time.Time) (w serverWord) {
	if h.set == 0 {
		return w
	}
	for _, name := range order {
		value, ok := h.Get(name)
		if !ok {
			continue
		}
		switch name {
		case XShouldRetryHeader, StripeShouldRetry:
			value = trimBlanks(value)
			w.yes = w.yes || strings.EqualFold(value, "true")
			w.no = w.no || strings.EqualFold(value, "false")
		case GRPCRetryPushbackMS:
			ms, ok := parseDigits(trimBlanks(value), 1)
			w.no = w.no || !ok // gRPC A6: the server's no, not a malformed wait
			if ok {
				w.take(ms, true)
			}
		default:
			if !w.wait.Present {
				w.take(h.wait(name, value, now))
			}
		}
	}
	w.malformed = w.malformed && !w.wait.Present
	return w
}

func (w *serverWord) take(ms int64, ok bool) {
	if ok && !w.wait.Present {
		w.wait = Some(ms)
	}
	w.malformed = w.malformed || !ok
}

// wait reads one header's value as ms.
func (h *Headers) wait(name Header, value string, now time.Time) (ms int64, ok bool) {
	switch name {
	case RetryAfterHeader:
		return ParseRetryAfter(value, h.base(now))
	case RateLimitResetHeader:
		return parseList(value, func(member string) (int64, bool) { return parseNumber(member, 1000) })
	}
	return parseList(value, func(member string) (int64, bool) { return parseNumber(member, 1) })
}

// base is the instant from which an HTTP-date counts: the response's own Date
// where it is readable, so that a skewed clock does no harm, else now.
func (h *Headers) base(now time.Time) time.Time {
	if value, ok := h.Get(DateHeader); ok {
		if date, ok := ParseHTTPDate(trimBlanks(value), now); ok {
			return date
		}
	}
	return now
}

// ParseRetryAfter reads a Retry-After value (RFC 9110 §10.2.3) as ms from base:
// digits are seconds, and saturate at [MaxMillis]; a decimal fraction rounds up
// to whole ms; a date in one of the three forms counts from base, a past one is
// 0. A list counts as its largest member, and one unreadable member makes it
// malformed, which ok == false says.
func ParseRetryAfter(value string, base time.Time) (ms int64, ok bool) {
	if len(value) > maxHeaderValue {
		return 0, false
	}
	one := func(member string) (int64, bool) {
		if ms, ok := parseNumber(member, 1000); ok {
			return ms, true
		}
		date, ok := ParseHTTPDate(member, base)
		if !ok {
			return 0, false
		}
		return millisUntil(date, base), true
	}
	if ms, ok := one(trimBlanks(value)); ok { // a date has a comma of its own
		return ms, true
	}
	return parseList(value, one)
}

// millisUntil is what is left until a date, a part of a ms as a whole one; 0
// for a past date. A time.Duration holds 292 years alone, a date may be further.
func millisUntil(date, base time.Time) int64 {
	if !date.After(base) {
		return 0
	}
	return min(max(date.UnixMilli()-base.UnixMilli(), 0), MaxMillis)
}

// parseList reads members joined by commas and takes the largest. The comma
// behind an HTTP-date's weekday joins nothing.
func parseList(value string, one func(string) (int64, bool)) (largest int64, ok bool) {
	if len(value) > maxHeaderValue {
		return 0, false
	}
	for rest := value; ; {
		member, tail, more := cutMember(rest)
		ms, ok := one(trimBlanks(member))
		if !ok {
			return 0, false
		}
		largest = max(largest, ms)
		if !more {
			return largest, true
		}
		rest = tail
	}
}

// cutMember cuts the first member off a list. A member that begins with a
// letter is a date: IMF-fixdate and RFC 850 dates hold one comma themselves.
func cutMember(list string) (member, tail string, more bool) {
	comma := strings.IndexByte(list, ',')
	if comma < 0 {
		return list, "", false
	}
	if start := trimBlanks(list[:comma]); isWeekday(start) {
		next := strings.IndexByte(list[comma+1:], ',')
		if next < 0 {
			return list, "", false
		}
		comma += 1 + next
	}
	return list[:comma], list[comma+1:], true
}

func isWeekday(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); word == name || word == name[:3] {
			return true
		}
	}
	return false
}

func trimBlanks(s string) string {
	if s == "" || s[0] > ' ' && s[len(s)-1] > ' ' { // nearly always
		return s
	}
	return strings.Trim(s, " \t")
}

// parseNumber reads digits, or digits, a point and digits, of a unit in ms;
// what is left of a ms counts as a whole one. Too many digits saturate.
func parseNumber(s string, unit int64) (ms int64, ok bool) {
	whole, fraction, point := strings.Cut(s, ".")
	ms, ok = parseDigits(whole, unit)
	if !ok || !point {
		return ms, ok
	}
	part, ok := parseFraction(fraction, unit)
	return min(ms+part, MaxMillis), ok
}

func parseDigits(s string, unit int64) (ms int64, ok bool) {
	if s == "" || len(s) > maxHeaderValue {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		if ms = ms*10 + int64(d); ms > MaxMillis {
			ms = MaxMillis
		}
	}
	if ms > MaxMillis/unit {
		return MaxMillis, true
	}
	return ms * unit, true
}

// parseFraction reads the digits behind a point as ms, rounded up.
func parseFraction(s string, unit int64) (ms int64, ok bool) {
	if s == "" {
		return 0, false
	}
	rest := false
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		if unit /= 10; unit > 0 {
			ms += int64(d) * unit
		} else if d > 0 {
			rest = true
		}
	}
	if rest {
		ms++
	}
	return ms, true
}

// ParseHTTPDate reads the three forms of RFC 9110 §5.6.7, always in UTC and
// case-sensitive. The weekday is not checked against the date, second 60 is the
// next second, an impossible date is none. A two-digit year is the one that
// makes the date at most 50 years later than now.
func ParseHTTPDate(s string, now time.Time) (t time.Time, ok bool) {
	day, rest, ok := strings.Cut(s, " ")
	if !ok {
		return t, false
	}
	if len(day) == 3 { // asctime: Sun Nov  6 08:49:37 1994
		if !isWeekday(day) {
			return t, false
		}
		return parseASCTime(rest)
	}
	name, comma := strings.CutSuffix(day, ",")
	if !comma || !isWeekday(name) {
		return t, false
	}
	if len(name) == 3 {
		return parseIMF(rest)
	}
	return parseRFC850(rest, now)
}

// parseIMF reads what follows the weekday of "Sun, 06 Nov 1994 08:49:37 GMT".
func parseIMF(s string) (t time.Time, ok bool) {
	if len(s) != len("06 Nov 1994 08:49:37 GMT") || s[2] != ' ' || s[6] != ' ' || s[11] != ' ' || s[20:] != " GMT" {
		return t, false
	}
	return makeDate(number(s[7:11]), s[3:6], number(s[:2]), s[12:20])
}

// parseRFC850 reads what follows the weekday of "Sunday, 06-Nov-94 08:49:37 GMT".
func parseRFC850(s string, now time.Time) (t time.Time, ok bool) {
	if len(s) != len("06-Nov-94 08:49:37 GMT") || s[2] != '-' || s[6] != '-' || s[9] != ' ' || s[18:] != " GMT" {
		return t, false
	}
	short := number(s[7:9])
	if short < 0 {
		return t, false
	}
	now = now.UTC()
	year := now.Year()/100*100 + 100 + short
	for ; year > now.Year()-100; year -= 100 {
		t, ok = makeDate(year, s[3:6], number(s[:2]), s[10:18])
		if ok && !t.After(now.AddDate(50, 0, 0)) {
			return t, true
		}
	}
	return t, false
}

// parseASCTime reads what follows the weekday of "Sun Nov  6 08:49:37 1994".
func parseASCTime(s string) (t time.Time, ok bool) {
	if len(s) != len("Nov  6 08:49:37 1994") || s[3] != ' ' || s[6] != ' ' || s[15] != ' ' {
		return t, false
	}
	day := s[4:6]
	if day[0] == ' ' {
		day = "0" + day[1:]
	}
	return makeDate(number(s[16:20]), s[:3], number(day), s[7:15])
}

// makeDate makes an instant from a year, a month's name, a day and HH:MM:SS.
func makeDate(year int, month string, day int, clock string) (t time.Time, ok bool) {
	m := monthNumber(month)
	if clock[2] != ':' || clock[5] != ':' {
		return t, false
	}
	hour, minute, second := number(clock[:2]), number(clock[3:5]), number(clock[6:])
	if year < 0 || m == 0 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 {
		return t, false
	}
	if day > daysIn(m, year) {
		return t, false
	}
	return time.Date(year, m, day, hour, minute, second, 0, time.UTC), true
}

func daysIn(m time.Month, year int) int {
	switch m {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// monthNumber reads three letters; 0 where they are no month's.
func monthNumber(name string) time.Month {
	i := strings.Index(months, name)
	if i < 0 || i%3 != 0 {
		return 0
	}
	return time.Month(i/3 + 1)
}

// number reads ASCII digits; -1 where there is anything else.
func number(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return -1
		}
		n = n*10 + int(d)
	}
	return n
}
