package decider

import (
	"math"
	"strings"
	"time"
)

// maxWaitText is how long a wait's text may be before it is malformed.
const maxWaitText = 256

// serverDelay is the wait that the attempt's Retry-After asks for, where it is
// readable. The local rule alone reads it; decider reads it by itself.
func (a *Attempt) serverDelay(now time.Time) (time.Duration, bool) {
	if a.RetryAfter == "" || len(a.RetryAfter) > maxWaitText {
		return 0, false
	}
	if date, ok := parseHTTPDate(trimBlanks(a.ResponseDate), now); ok {
		now = date // the server's clock, so that a skewed one does no harm
	}
	longest := time.Duration(0)
	for rest, more := a.RetryAfter, true; more; {
		var member string
		member, rest, more = cutMember(rest)
		wait, ok := parseWait(trimBlanks(member), now)
		if !ok {
			return 0, false
		}
		longest = max(longest, wait)
	}
	return longest, true
}

// cutMember cuts the first member off a list. Two of the three forms of a date
// hold one comma themselves, behind the weekday.
func cutMember(list string) (member, rest string, more bool) {
	member, rest, more = strings.Cut(list, ",")
	if !more || !isWeekday(trimBlanks(member)) {
		return member, rest, more
	}
	date, rest, more := strings.Cut(rest, ",")
	return member + "," + date, rest, more
}

func isWeekday(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); word == name || word == name[:3] {
			return true
		}
	}
	return false
}

func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// parseWait reads seconds or a date.
func parseWait(s string, now time.Time) (time.Duration, bool) {
	if wait, ok := parseSeconds(s); ok {
		return wait, true
	}
	date, ok := parseHTTPDate(s, now)
	if !ok {
		return 0, false
	}
	return max(date.Sub(now), 0), true
}

// parseSeconds reads digits, or digits, a point and digits, rounded up to whole
// ms. What is too long for a duration is the longest one.
func parseSeconds(s string) (time.Duration, bool) {
	whole, fraction, point := strings.Cut(s, ".")
	if !isDigits(whole) || point && !isDigits(fraction) {
		return 0, false
	}
	ms := int64(0)
	for _, digit := range whole + (fraction + "000")[:3] {
		if ms > maxMillis/10-1 {
			return math.MaxInt64, true
		}
		ms = ms*10 + int64(digit-'0')
	}
	if strings.Trim(fraction[min(3, len(fraction)):], "0") != "" {
		ms++
	}
	return duration(ms), true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// parseHTTPDate reads the three forms of RFC 9110 §5.6.7, always in UTC and
// letter by letter, but for the weekday, which need not be the date's.
func parseHTTPDate(s string, now time.Time) (t time.Time, ok bool) {
	day, rest, found := strings.Cut(s, " ")
	name := strings.TrimSuffix(day, ",")
	if !found || !isWeekday(name) {
		return t, false
	}
	form := time.ANSIC[len("Mon "):]
	switch {
	case name == day: // asctime
	case len(name) == len("Mon"):
		form = http1123
	default:
		form = rfc850
	}
	// A leap second is the next second.
	clock, leap := strings.CutSuffix(strings.TrimSuffix(rest, " GMT"), ":60")
	if leap {
		rest = strings.Replace(rest, clock+":60", clock+":59", 1)
	}
	t, err := time.ParseInLocation(form, rest, time.UTC)
	if err != nil || t.Format(form) != rest { // Parse is lenient, Format is not
		return t, false
	}
	if leap {
		t = t.Add(time.Second)
	}
	if form == rfc850 {
		t = within50Years(t, now)
	}
	return t, true
}

// What follows the weekday.
const (
	http1123 = "02 Jan 2006 15:04:05 GMT"
	rfc850   = "02-Jan-06 15:04:05 GMT"
)

// within50Years is the latest year of the same two digits that is at most 50
// years ahead.
func within50Years(t, now time.Time) time.Time {
	now = now.UTC()
	year := now.Year() - now.Year()%100 + 100 + t.Year()%100
	for {
		date := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
		if !date.After(now.AddDate(50, 0, 0)) {
			return date
		}
		year -= 100
	}
}
