package decide_test

import (
	"encoding/binary"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"", "0", "120", "1.5", "5, 5", "soon", "-1", "9223372036854775808", "1, ,2",
		"Mon, 30 Nov 2026 12:02:00 GMT", "Monday, 30-Nov-26 12:02:00 GMT", "Mon Nov 30 12:02:00 2026",
		"Mon, 30 Nov 2026 12:02:00 GMT, 5", "Sat, 31 Dec 2016 23:59:60 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
	} {
		f.Add(value, noon.UnixMilli())
	}
	f.Fuzz(func(t *testing.T, value string, clock int64) {
		base := time.UnixMilli(clock)
		ms, ok := decide.ParseRetryAfter(value, base)
		if ms < 0 || ms > decide.MaxMillis || !ok && ms != 0 {
			t.Errorf("%q reads as %d ms, %t", value, ms, ok)
		}
		if twice, both := decide.ParseRetryAfter(value+","+value, base); ok && both && twice != ms {
			t.Errorf("%q reads as %d ms, and as %d when it is there twice", value, ms, twice)
		}
		date, ok := decide.ParseHTTPDate(value, base)
		if !ok {
			return
		}
		if year := base.UTC().Year(); isRFC850(value) && year > 0 && year < 9000 && date.After(base.AddDate(50, 0, 0)) {
			t.Errorf("%q is %v, more than 50 years after %v", value, date, base)
		}
		theirs, err := http.ParseTime(value)
		if err != nil || isRFC850(value) { // two digits of a year are read by another rule there
			return
		}
		if !date.Equal(theirs) {
			t.Errorf("%q is %v, net/http says %v", value, date, theirs)
		}
		if again, ok := decide.ParseHTTPDate(date.Format(http.TimeFormat), base); !ok || !again.Equal(date) {
			t.Errorf("%q is %v, written and read again %v", value, date, again)
		}
	})
}

func isRFC850(value string) bool { return strings.Count(value, "-") == 2 }

// cursor hands out the bytes of a fuzzed input, and zeros behind their end.
type cursor struct{ rest []byte }

func (c *cursor) bytes(n int) []byte {
	out := make([]byte, n)
	c.rest = c.rest[copy(out, c.rest):]
	return out
}

func (c *cursor) byte() byte     { return c.bytes(1)[0] }
func (c *cursor) bit() bool      { return c.byte()&1 != 0 }
func (c *cursor) uint64() uint64 { return binary.LittleEndian.Uint64(c.bytes(8)) }
func (c *cursor) float() float64 { return math.Float64frombits(c.uint64()) }
func (c *cursor) text() string   { return string(c.bytes(int(c.byte() % 40))) }
func (c *cursor) int64() int64 {
	switch c.byte() % 4 { // the ends of the numbers are found more often so
	case 0:
		return int64(int8(c.byte()))
	case 1:
		return math.MaxInt64 - int64(c.byte())
	case 2:
		return math.MinInt64 + int64(c.byte())
	}
	return int64(c.uint64())
}

func (c *cursor) millis() decide.Millis { return decide.Millis{Value: c.int64(), Present: c.bit()} }

func (c *cursor) attempt() *decide.Attempt {
	a := &decide.Attempt{
		Dependency: "payments", Method: c.text(), Failure: decide.Failure(c.uint64()), Idempotent: decide.Knowledge(c.byte()),
		HasIdempotencyKey: c.bit(), Number: c.int64(), Remaining: c.millis(), MinAttempt: c.millis(), PreviousDelay: c.int64(),
		Caller: c.text(), InboundAttempt: c.int64(), RetriedBelow: c.bit(), DecisionID: c.text(),
	}
	if c.bit() {
		a.Method, a.Failure, a.RetriedBelow = "GET", 503, false
	}
	for range c.byte() % 4 {
		a.Headers.Set(decide.Header(c.byte()%12), c.text())
	}
	return a
}

func (c *cursor) policy() *decide.Policy {
	p := &decide.Policy{
		MaxAttempts: c.int64(), MinAttempt: c.int64(), OnlyFirstInbound: c.bit(),
		RetryAfter: decide.RetryAfter{Max: c.int64(), Spread: c.float()}, Repeat: decide.Repeat{Any: c.bit()},
	}
	for kind := range p.Backoff {
		p.Backoff[kind] = decide.Backoff{Strategy: decide.Strategy(c.byte()), Base: c.int64(), Cap: c.int64(), Min: c.int64(),
			Multiplier: c.float(), Jitter: c.float()}
	}
	for range c.byte() % 5 {
		p.RetryAfter.Headers = append(p.RetryAfter.Headers, decide.Header(c.byte()%12))
	}
	if c.bit() {
		p.RetryLayer = []string{c.text()}
	}
	if c.bit() {
		p.Classes = decide.StandardClasses
	}
	return p
}

// FuzzPlan holds that every attempt under every policy, however absurd, is
// answered, and within the contract's bounds.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(nil), 0.5)
	f.Add([]byte(strings.Repeat("\x01\xff", 300)), 0.0)
	f.Add([]byte(strings.Repeat("\x01\x02\x00\x80\xff\x7f", 100)), 0.999)
	f.Fuzz(func(t *testing.T, data []byte, random float64) {
		c := &cursor{data}
		a, p := c.attempt(), c.policy()
		now := time.UnixMilli(c.int64())
		answer := decide.Answer{Verdict: decide.Verdict(c.byte() % 6), CoolDown: max(c.int64(), 0), Replayed: c.bit(),
			Own: c.int64() & decide.MaxDelayMillis, Delay: c.int64() & decide.MaxDelayMillis, ReplayedServerDelay: max(c.int64(), 0) & decide.MaxMillis}
		d := decider(p, answers(answer))
		d.Random, d.Now = always(random), func() time.Time { return now }
		got := mustDecide(t, d, a)
		if got.Delay < 0 || got.Delay > decide.MaxDelayMillis || !got.Retry() && got.Delay != 0 {
			t.Errorf("%s after %d ms", got.Reason, got.Delay)
		}
		if got.ServerDelay.Value < 0 || got.ServerDelay.Value > decide.MaxMillis {
			t.Errorf("the server asked for %d ms", got.ServerDelay.Value)
		}
		if got.Remaining.Present && (got.Remaining.Value < 1 || got.Remaining.Value > decide.MaxMillis) {
			t.Errorf("%d ms are left", got.Remaining.Value)
		}
		if got.Retry() && (got.NextAttempt < 2 || got.NextAttempt > p.MaxAttempts) {
			t.Errorf("attempt %d of %d is next", got.NextAttempt, p.MaxAttempts)
		}
		if got.Message() == "" {
			t.Error("no message")
		}
	})
}
