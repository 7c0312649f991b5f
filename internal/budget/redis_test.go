package budget

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/decide"
)

// onRedis is a backend on a real server, with the server's client.
func onRedis(t *testing.T, now func() time.Time) (*Redis, redis.UniversalClient) {
	t.Helper()
	client := newClient(t, redistest.Start(t).URL)
	return NewRedis(client, now), client
}

// The server's own clock, which is the fleet's: what a test's clock cannot show.
func TestRedisTimeIsTheClock(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m, c := miniredis.RunT(t), newClock()
		m.SetTime(c.now())
		c.moved = func(ms int64) { follow(m, c, ms) }
		b := NewRedis(newClient(t, "redis://"+m.Addr()), nil)
		for _, each := range []script{
			{"refill", refill(perSecond), []step{
				{0, asks(12), "10 granted, 2 no tokens"},
				{1500, asks(2), "1 granted, 1 no tokens"},
				{499, ask(), "no tokens 0.999/10 again 1"},
				{1, ask(), "granted 0/10"},
			}},
			{"cool-down and override", nil, []step{
				{0, tells(failures{serverDelay: 2000}), ""},
				{0, overrides(decide.OverridePause, 1000), ""},
				{999, ask(), "paused again 1"},
				{1, ask(), "granted 9/10 cool 1000"},
			}},
			{"breaker", breaking(), []step{
				{0, asks(6), "5 granted, 1 open breaker"},
				{500, asks(2), "1 granted, 1 open breaker"},
			}},
		} {
			// One bucket each, since the clock of one server serves all.
			each.rule = named(each.name, each.rule)
			each.play(t, b, c)
		}
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		b, client := onRedis(t, nil)
		p := testRule(refill(10 * perSecond))
		before := serverTime(t, client)
		granted := askMany(t, b, p, 50, nil)
		for askOnce(t, b, p, nil).Verdict != decide.Granted {
		}
		after := serverTime(t, client)
		if most := 10 + (after-before)/100; granted < 10 || int64(granted)+1 > most+1 { // one more for parts of a ms
			t.Errorf("%d granted of 50 and one more within %d ms", granted, after-before)
		}
		at := numbersOf(t, client, p)["at"]
		if at < before || at > after {
			t.Errorf("the stamp %d is not the server's time, %d to %d", at, before, after)
		}
	})
}

func named(name string, change func(p *decide.Policy)) func(p *decide.Policy) {
	return func(p *decide.Policy) {
		p.Name = name
		if change != nil {
			change(p)
		}
	}
}

func serverTime(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMilli()
}

func stateKey(p *decide.Policy) string { return "decider:{" + p.Name + "}:state" }

// keptNumbers are a bucket's tokens and the first of its other numbers, in the
// script's order.
var keptNumbers = [...]string{"tokens", "at", "rest", "flow", "flow_at", "reported", "cool_down", "open_until", "probed", "override", "override_until"}

// numbersOf reads a bucket's numbers, which must be digits only: no point, no exponent.
func numbersOf(t *testing.T, client redis.UniversalClient, p *decide.Policy) map[string]int64 {
	t.Helper()
	text := client.HGet(t.Context(), stateKey(p), "numbers").Val()
	numbers := append([]string{client.HGet(t.Context(), stateKey(p), "tokens").Val()}, strings.Split(strings.Trim(text, "[]"), ",")...)
	if len(numbers) < len(keptNumbers) {
		t.Fatalf("numbers is %q", text)
	}
	found := map[string]int64{}
	for i, name := range keptNumbers {
		n, err := strconv.ParseInt(numbers[i], 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != numbers[i] {
			t.Errorf("%s is %q, not digits only", name, numbers[i])
		}
		found[name] = n
	}
	return found
}

// re-lua-precision
func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	c := newClock()
	b, client := onRedis(t, c.now)
	p := testRule(func(p *decide.Policy) {
		p.Budget.Capacity, p.Budget.NanoPerSecond = decide.MaxCapacity, 1_000_001
		p.Breaker.Mode, p.Budget.CallerShare = decide.BreakerModeRetries, token/10
	})
	field := func(name string) int64 {
		t.Helper()
		return numbersOf(t, client, p)[name]
	}
	one := func(q *question) { q.cost, q.caller = 1, "checkout" }
	if got := askOnce(t, b, p, one).Budget.Tokens; got != 999_999_999_999 || field("tokens") != got {
		t.Errorf("a millionth of the largest bucket: answered %d, kept %d", got, field("tokens"))
	}
	if got := field("at"); got != 1_800_000_000_123 {
		t.Errorf("the stamp is %d", got)
	}
	if got := said(askOnce(t, b, p, func(q *question) { q.cost = token - 1 })); got != "granted 999999/1000000 closed" {
		t.Error(got)
	}
	run(t, b, p.Name, p, op{report: &report{firstTries: decide.MaxDepositsPerOutcome}}, op{override: &override{mode: decide.OverridePause, until: decide.MaxMillis / 2}},
		op{tell: &failures{count: 20, serverDelay: 2_147_483_647, forCaller: true}})
	if got, want := field("override_until"), int64(1_800_000_000_123+decide.MaxMillis/2); got != want {
		t.Errorf("override_until is %d, want %d", got, want)
	}
	digits := regexp.MustCompile(`^[][0-9,]*$`)
	for name, value := range client.HGetAll(t.Context(), stateKey(p)).Val() {
		if !digits.MatchString(value) {
			t.Errorf("%s is %q", name, value)
		}
	}
}

// re-no-ttl and re-rate-zero-ttl: whatever was written ends by itself.
func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	b, client := onRedis(t, nil)
	check := func() {
		t.Helper()
		for _, key := range keys(t, client) {
			left := client.PTTL(t.Context(), key).Val()
			if longest := 24*time.Hour + ttlMargin*time.Millisecond; left <= 0 || left > longest {
				t.Errorf("%s has %s to live", key, left)
			}
		}
	}
	for i, change := range []func(p *decide.Policy){nil, refill(perSecond), refill(1_000_000), breaking(), shared,
		func(p *decide.Policy) { p.Budget.Off = true }, func(p *decide.Policy) { p.Budget.CapacityMillis = 1000 }} {
		p := testRule(named(fmt.Sprint("p", i), change))
		for _, o := range []op{
			{tell: &failures{caller: "checkout", count: 3, serverDelay: 100, forCaller: true}},
			{ask: &question{failures: failures{count: 1}, cost: token}},
			{ask: &question{failures: failures{count: 1}, cost: token, id: idKey("r1", 1)}},
			{report: &report{id: "p1", firstTries: 10}},
			{override: &override{mode: decide.OverridePause, until: minute}},
			{ask: &question{cost: 9 * token}},
			{override: &override{}},
			{look: &look{}},
		} {
			run(t, b, p.Name, p, o)
			check()
		}
	}
	if n := len(keys(t, client)); n != 3*7 {
		t.Errorf("%d keys, want a bucket, an id and a report for each of seven", n)
	}
	p := testRule(named("still", holds(5*token, 0)))
	askMany(t, b, p, 5, nil)
	if left := client.PTTL(t.Context(), stateKey(p)).Val(); left < 24*time.Hour {
		t.Errorf("an empty bucket without refill is kept for a day, not %s", left)
	}
}

func TestLooksCreateNothing(t *testing.T) {
	t.Parallel()
	b, client := onRedis(t, nil)
	p := testRule(nil)
	run(t, b, p.Name, p, op{look: &look{caller: "checkout"}}, op{look: &look{}})
	run(t, b, p.Name, p, op{ask: &question{failures: failures{count: 1}, cost: token, id: idKey("r1", 1), dryRun: true}})
	if found := keys(t, client); len(found) > 0 {
		t.Error("there is now", found)
	}
	askOnce(t, b, p, nil)
	before := client.HGetAll(t.Context(), stateKey(p)).Val()
	run(t, b, p.Name, p, op{look: &look{}})
	run(t, b, p.Name, p, op{ask: &question{failures: failures{count: 9, serverDelay: 99}, cost: token, dryRun: true}})
	if after := client.HGetAll(t.Context(), stateKey(p)).Val(); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// monitor reads what a server is sent until the test is over.
func monitor(t *testing.T, addr string) func() []string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	lines.Scan() // OK
	return func() (seen []string) {
		// What comes after this command is not asked for.
		other, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		fmt.Fprint(other, "ECHO the-end\r\n")
		for lines.Scan() && !strings.Contains(lines.Text(), "the-end") {
			seen = append(seen, lines.Text())
		}
		return seen
	}
}

// re-args-as-keys: every name that a script touches is announced as a key.
func TestKeysAreAnnounced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server.URL)
	sent := monitor(t, server.Addr)
	b, p := NewRedis(client, nil), testRule(named("pay.ments:eu/1", shared))
	askOnce(t, b, p, func(q *question) { q.id = idKey("r1", 1) })
	run(t, b, p.Name, p, op{report: &report{id: "p1", caller: "checkout", firstTries: 1}}, op{look: &look{}})
	run(t, b, p.Name, p, op{override: &override{mode: decide.OverrideAllow, until: 1000}})
	group := make([]op, 20)
	for i := range group {
		group[i] = op{ask: &question{failures: failures{count: 1, caller: "checkout"}, cost: token, id: idKey(fmt.Sprint("g", i), 1)}}
	}
	run(t, b, p.Name, p, group...)
	call := regexp.MustCompile(`(?i)"(evalsha|eval)" "[^"]*(?:\\"[^"]*)*" "(\d+)"((?: "decider:\{pay\.ments:eu/1\}:[^"]*")*)`)
	calls, scripts := 0, 0
	for _, line := range sent() {
		if strings.Contains(strings.ToUpper(line), `"SCRIPT"`) {
			t.Error("sent", line)
		}
		if strings.Contains(line, "lua]") {
			scripts++
			continue
		}
		m := call.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		calls++
		announced, names := m[2], strings.Count(m[3], "decider:{")
		if announced != strconv.Itoa(names) || names != strings.Count(line, "decider:{pay.ments:eu/1}:") {
			t.Errorf("%s keys announced, %d stand behind: %.300s", announced, names, line)
		}
	}
	if calls != 5 || scripts == 0 { // one of four was sent again as a whole
		t.Errorf("%d calls seen, and %d commands of theirs", calls, scripts)
	}
}

// re-noscript-flush: a script that was forgotten is sent whole, and each
// decision is charged once.
func TestForgottenScript(t *testing.T) {
	t.Parallel()
	b, client := onRedis(t, nil)
	p := testRule(holds(300*token, 1_000_000))
	askOnce(t, b, p, nil)
	client.ScriptFlush(t.Context())
	var granted atomic.Int64
	at100 := func(flushes int) {
		var done sync.WaitGroup
		for i := range 100 {
			done.Go(func() {
				if flushes > 0 && i%10 == 0 {
					client.ScriptFlush(context.Background())
				}
				if askOnce(t, b, p, nil).Verdict == decide.Granted {
					granted.Add(1)
				}
			})
		}
		done.Wait()
	}
	at100(0)
	at100(10)
	if left := lookAt(t, b, p, "").Budget.Tokens / token; granted.Load() != 200 || left != 99 {
		t.Errorf("%d of 200 granted, %d tokens left, want 99", granted.Load(), left)
	}
}

// re-eviction-resets: what was lost is full, and no more than full.
func TestLostBucketIsFull(t *testing.T) {
	t.Parallel()
	b, client := onRedis(t, nil)
	p := testRule(refill(1_000_000))
	askMany(t, b, p, 20, nil)
	for name, lose := range map[string]func() error{
		"deleted": func() error { return client.Del(t.Context(), keys(t, client)...).Err() },
		"flushed": func() error { return client.FlushAll(t.Context()).Err() },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		if got := askMany(t, b, p, 20, nil); got != 10 {
			t.Errorf("after it was %s %d were granted, want 10", name, got)
		}
	}
}

// re-clock-skew: clocks that differ do not credit the difference.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	c := newClock()
	right, client := onRedis(t, c.now)
	late := NewRedis(client, func() time.Time { return c.now().Add(-time.Second) })
	p := testRule(holds(150*token, 150*perSecond))
	granted := 0
	for range 250 {
		c.advance(8)
		granted += askMany(t, right, p, 2, nil) + askMany(t, late, p, 2, nil)
	}
	if most := 150 + 2*150 + 3; granted > most || granted < most-6 {
		t.Errorf("%d granted in 2 s, want about %d", granted, most)
	}
}

// re-oom-in-script: a full server writes all of a script or nothing.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b, client := onRedis(t, nil)
	p := testRule(refill(1_000_000))
	askMany(t, b, p, 3, nil)
	before := client.HGetAll(t.Context(), stateKey(p)).Val()
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory-policy", "noeviction")
	set("maxmemory", "1")
	for _, ops := range [][]op{
		{{ask: &question{failures: failures{count: 1}, cost: token}}},
		{{ask: &question{failures: failures{count: 1}, cost: token, id: idKey("r1", 1)}}},
		{{ask: &question{failures: failures{count: 1}, cost: token}}, {ask: &question{cost: token, id: idKey("r2", 1)}}, {report: &report{id: "p1", firstTries: 9}}},
		{{report: &report{id: "p2", firstTries: 9}}},
		{{tell: &failures{count: 1, serverDelay: 100}}},
	} {
		if err := b.Run(t.Context(), p.Name, p, ops); err == nil {
			t.Error("a full server took", len(ops), "operations")
		}
	}
	if after := client.HGetAll(t.Context(), stateKey(p)).Val(); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
	if found := keys(t, client); !slices.Equal(found, []string{stateKey(p)}) {
		t.Error("left behind:", found)
	}
	set("maxmemory", "0")
	if got := askMany(t, b, p, 20, nil); got != 7 {
		t.Errorf("%d granted afterwards, want 7", got)
	}
}

// What answers but is not the script's is an error, not a decision.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]any{
		"a number": int64(1), "a list": []any{"0", "1"}, "nothing": nil, "empty": "", "too short": "0,1", "no number": "x,1,1,1,1,1,1,1,1,1,1,1,1,1",
		"too long": "0,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "a verdict that is none": "9,1,1,1,1,1,1,1,1,1,1,1,1,1", "a breaker that is none": "0,1,1,1,1,1,1,7,1,1,1,1,1,1",
	} {
		o := op{ask: &question{}}
		if err := o.read(reply, nil); err == nil {
			t.Errorf("%s: read as %s", name, said(o.answer))
		}
		o = op{look: &look{}}
		if err := o.read(reply, nil); err == nil {
			t.Errorf("%s: read as %s", name, shown(o.state))
		}
	}
	b, client := onRedis(t, nil)
	p := testRule(nil)
	client.Set(t.Context(), stateKey(p), "somebody else's", 0)
	if err := b.Run(t.Context(), p.Name, p, []op{{ask: &question{cost: token}}}); err == nil {
		t.Error("a key of another type is no bucket")
	}
}
