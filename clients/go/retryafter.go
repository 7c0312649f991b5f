package decider

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// serverDelay is the wait that the attempt's Retry-After asks for, where it is
// readable. The local rule alone reads it; decider reads it by itself.
func (a *Attempt) serverDelay(now time.Time) (time.Duration, bool) {
	if a.RetryAfter == "" || len(a.RetryAfter) > 256 {
		return 0, false
	}
	if date, err := parseHTTPDate(a.ResponseDate); err == nil {
		now = date // the server's clock, so that a skewed one does no harm
	}
	value := strings.Trim(a.RetryAfter, " \t")
	if date, err := parseHTTPDate(value); err == nil {
		return max(date.Sub(now), 0), true
	}
	longest := time.Duration(0)
	for member := range strings.SplitSeq(value, ",") {
		wait, ok := parseSeconds(strings.Trim(member, " \t"))
		if !ok {
			return 0, false
		}
		longest = max(longest, wait)
	}
	return longest, true
}

// parseSeconds reads digits, or digits, a point and digits, rounded up to ms.
// What is too long for a duration is the longest one.
func parseSeconds(s string) (time.Duration, bool) {
	whole, fraction, point := strings.Cut(s, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || seconds > math.MaxInt64/1e9-1 {
		return math.MaxInt64, true
	}
	return time.Duration(math.Ceil(seconds*1e3)) * time.Millisecond, true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// parseHTTPDate reads the three forms of RFC 9110 §5.6.7, always in UTC.
func parseHTTPDate(s string) (t time.Time, err error) {
	for _, form := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if t, err = time.ParseInLocation(form, strings.Trim(s, " \t"), time.UTC); err == nil {
			return t, nil
		}
	}
	return t, err
}
