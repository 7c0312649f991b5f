package decide

import (
	"strings"
	"time"
)

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

func isWeekday(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); word == name || word == name[:3] {
			return true
		}
	}
	return false
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
