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
