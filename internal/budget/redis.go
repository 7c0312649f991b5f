package budget

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/decide"
)

//go:embed fleet.lua
var fleetSource string

var (
	fleetLua    = withConstants(fleetSource)
	fleetScript = redis.NewScript(fleetLua)

	constantLine = regexp.MustCompile(`(?m)^local ([A-Z_, ]+) = ([0-9, ]+)$`)
	capitals     = regexp.MustCompile(`\b[A-Z_]+\b`)
)

// withConstants puts the script's constants in where they are used. The script's
// functions are made anew by each call, and each constant that one captures is
// searched for: as locals they took a quarter of the server's time.
func withConstants(script string) string {
	values := map[string]string{}
	for _, line := range constantLine.FindAllStringSubmatch(script, -1) {
		numbers := strings.Split(line[2], ", ")
		for i, name := range strings.Split(line[1], ", ") {
			values[name] = numbers[i]
		}
	}
	return capitals.ReplaceAllStringFunc(constantLine.ReplaceAllString(script, ""), func(name string) string {
		if number, ok := values[name]; ok {
			return number
		}
		return name
	})
}

// Redis keeps buckets in Redis: one hash per bucket, one script call per Run.
// All keys of a bucket have one hash tag, decider:{bucket}:…, so a cluster
// keeps them together.
type Redis struct {
	client redis.UniversalClient
	// send sends a script call: together with others where there is one server.
	send func(context.Context, redis.Cmder) error
	// now is nil where Redis TIME is the clock.
	now func() time.Time
}

// NewRedis makes a backend on a client, which must not retry by itself
// ([NewClient]). now is nil for Redis TIME, the fleet's one clock; a host
// that forbids TIME in scripts hands in its own.
func NewRedis(client redis.UniversalClient, now func() time.Time) *Redis {
	r := &Redis{client: client, send: client.Process, now: now}
	if one, ok := client.(*redis.Client); ok {
		r.send = (&together{client: one}).Process
	}
	return r
}

// Run applies the operations by one script call; a dry run has one of its own.
func (r *Redis) Run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	if len(ops) > 1 {
		for i := range ops {
			if ops[i].ask != nil && ops[i].ask.dryRun {
				return r.runApart(ctx, bucket, p, ops, i)
			}
		}
	}
	c := newCall(bucket, len(ops))
	c.rule(p, r.now)
	for i := range ops {
		c.add(p, &ops[i])
	}
	c.text[len(c.text)-1] = ']' // in place of the last comma
	replies, err := r.eval(ctx, c)
	if err != nil {
		return err
	}
	if len(replies) != len(ops) {
		return fmt.Errorf("%d answers to %d operations", len(replies), len(ops))
	}
	var last *decide.Answer
	for i := range ops {
		o := &ops[i]
		if err := o.read(replies[i], last); err != nil {
			return err
		}
		if o.ask != nil && !o.answer.Replayed {
			last = &o.answer
		}
	}
	return nil
}

func (r *Redis) runApart(ctx context.Context, bucket string, p *decide.Policy, ops []op, i int) error {
	return errors.Join(r.run(ctx, bucket, p, ops[:i]), r.run(ctx, bucket, p, ops[i:i+1]), r.run(ctx, bucket, p, ops[i+1:]))
}

func (r *Redis) run(ctx context.Context, bucket string, p *decide.Policy, ops []op) error {
	if len(ops) == 0 {
		return nil
	}
	return r.Run(ctx, bucket, p, ops)
}

// eval runs the script by its hash, and whole where Redis has forgotten it:
// that reply alone proves that nothing ran. SCRIPT LOAD, which proxies forbid,
// is not needed.
func (r *Redis) eval(ctx context.Context, c *call) ([]any, error) {
	replies, err := r.process(ctx, "evalsha", fleetScript.Hash(), c)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		replies, err = r.process(ctx, "eval", fleetLua, c)
	}
	return replies, err
}

func (r *Redis) process(ctx context.Context, command, script string, c *call) ([]any, error) {
	args := make([]any, 0, 4+len(c.keys))
	args = append(args, command, script, len(c.keys))
	args = append(args, c.keys...)
	args = append(args, c.text)
	cmd := &once{redis.NewSliceCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	if err := r.send(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// once is a command that the client never sends again by itself: the cluster
// client otherwise repeats one that timed out inside its loop for redirects.
type once struct{ *redis.SliceCmd }

// NoRetry tells the client so.
func (*once) NoRetry() bool { return true }

// call is one script call in the making: its keys, and its one argument, a JSON
// list of the clock, the rule and the operations.
type call struct {
	prefix string
	keys   []any
	text   []byte
}

// Bytes of a rule and of an operation in a call, rather more than usual.
const (
	ruleBytes = 192
	opBytes   = 96
)

func newCall(bucket string, ops int) *call {
	prefix := keyPrefix(bucket)
	return &call{prefix: prefix, keys: append(make([]any, 0, 2), prefix+"state"), text: make([]byte, 0, ruleBytes+ops*opBytes)}
}

// keyPrefix begins every key of a bucket. A candidate's keys have the hash tag of
// the bucket that it is a candidate of.
func keyPrefix(bucket string) string {
	if of, ok := decide.CutCandidate(bucket); ok {
		return "decider:{" + of + "}:candidate:"
	}
	return "decider:{" + bucket + "}:"
}

// rule adds the clock and the rule's numbers.
func (c *call) rule(p *decide.Policy, now func() time.Time) {
	c.text = append(c.text, '[')
	if now == nil {
		c.text = append(c.text, "false"...)
	} else {
		c.text = strconv.AppendInt(c.text, now().UnixMilli(), 10)
	}
	c.text = append(c.text, ',')
	r, k := &p.Budget, &p.Breaker
	c.numbers(r.Capacity, r.CapacityMillis, r.NanoPerSecond, r.Ratio, r.CallerShare, r.Cost[decide.Plain])
	c.flags(r.Off, r.DepositOnRequest, k.Mode != decide.BreakerModeOff)
	c.numbers(k.FailureRatio, k.MinAttempts, k.Window, k.OpenFor, k.Probes)
	c.flags(p.CoolDown == decide.CoolDownOff)
	c.numbers(p.RetryAfter.Max, r.RatioMax)
}

// add adds an operation: its word, how many values follow, and these.
func (c *call) add(p *decide.Policy, o *op) {
	switch {
	case o.ask != nil:
		c.ask(p, o.ask)
	case o.tell != nil:
		c.word("tell", 5)
		c.failures(o.tell)
	case o.report != nil:
		c.report(o.report)
	case o.look != nil:
		c.word("look", 1)
		c.words(o.look.caller)
	case o.override != nil:
		v := o.override
		c.word("override", 4)
		c.numbers(int64(v.mode), v.until)
		c.words(v.author, v.words)
	}
}

func (c *call) word(word string, values int64) {
	c.text = append(append(append(c.text, '"'), word...), `",`...)
	c.numbers(values)
}

// ask adds a question: the failure, its price, its bound, what it may pay with
// and must wait for, and, where it has an id, what is kept with that. What ends
// the list and says nothing is left out.
func (c *call) ask(p *decide.Policy, q *question) {
	gap, pace := int64(0), &p.Backoff[q.kind]
	if pace.Strategy == decide.Paced {
		gap = pace.Gap
	}
	values := int64(8)
	switch {
	case q.id != "":
		values = 14
	case q.dryRun, gap > 0:
		values = 11
	}
	c.word("ask", values)
	c.failures(&q.failures)
	c.numbers(q.cost)
	if q.fit.Present {
		c.numbers(q.fit.Value)
	} else {
		c.flags(false)
	}
	c.flags(q.kind == decide.Plain)
	if values > 8 {
		c.numbers(gap, pace.Cap)
		c.flags(q.dryRun)
	}
	if q.id != "" {
		c.key("id:", q.id)
		c.numbers(q.own, q.delay)
	}
}

func (c *call) report(r *report) {
	values := int64(4)
	if r.id != "" {
		values = 5
	}
	c.word("report", values)
	c.words(r.caller)
	c.numbers(r.firstTries, r.retries, r.finals)
	if r.id != "" {
		c.key("report:", reportKey(r.caller, r.id))
	}
}

func (c *call) failures(f *failures) {
	c.words(f.caller)
	c.numbers(f.count, f.firsts)
	c.flags(f.forCaller)
	c.numbers(f.serverDelay)
}

// key adds a key of the bucket, and its place among the keys.
func (c *call) key(kind, id string) {
	c.keys = append(c.keys, c.prefix+kind+id)
	c.numbers(int64(len(c.keys)))
}

func (c *call) numbers(list ...int64) {
	for _, n := range list {
		c.text = append(strconv.AppendInt(c.text, n, 10), ',')
	}
}

func (c *call) flags(list ...bool) {
	for _, on := range list {
		c.text = append(strconv.AppendBool(c.text, on), ',')
	}
}

func (c *call) words(list ...string) {
	for _, text := range list {
		quoted, _ := json.Marshal(text) // a string is always JSON
		c.text = append(append(c.text, quoted...), ',')
	}
}

// read fills what the operation was answered. last is what the question before
// it was answered in the same call, nil for the first: an answer that differs
// from it by its tokens alone is that number.
func (o *op) read(reply any, last *decide.Answer) error {
	r := reader{ok: true}
	switch {
	case o.ask != nil:
		if tokens, isNumber := reply.(int64); isNumber && last != nil {
			o.answer, o.answer.Budget.Tokens = *last, tokens
		} else {
			r.left, r.ok = reply.(string)
			o.answer = r.answer()
		}
		if o.answer.Budget.Asked && !o.answer.Replayed {
			o.answer.Budget.Cost = o.ask.cost
		}
	case o.look != nil:
		o.state = r.state(reply)
	}
	if !r.ok || r.left != "" {
		return fmt.Errorf("an answer that is none of the script's: %v", reply)
	}
	return nil
}

// reader takes the numbers of one of the script's texts one by one; ok turns
// false at the first that is none.
type reader struct {
	left string
	ok   bool
}

func (r *reader) int() int64 {
	word, rest, _ := strings.Cut(r.left, ",")
	n, err := strconv.ParseInt(word, 10, 64)
	r.left, r.ok = rest, r.ok && err == nil
	return n
}

// bucket reads whether the budget was asked, the tokens and the capacity.
func (r *reader) bucket() decide.Budget {
	return decide.Budget{Asked: r.int() == 1, Tokens: r.int(), Capacity: r.int()}
}

// upTo is a number that must not be above the last of its kind.
func (r *reader) upTo(last uint8) uint8 {
	n := r.int()
	if n < 0 || n > int64(last) {
		r.ok = false
		return 0
	}
	return uint8(n)
}

func (r *reader) answer() (a decide.Answer) {
	a.Verdict = decide.Verdict(r.upTo(uint8(decide.Unavailable)))
	a.Budget = r.bucket()
	a.CoolDown = r.int()
	if again := r.int(); again >= 0 {
		a.AskAgain = decide.Some(again)
	}
	a.Breaker = decide.BreakerState(r.upTo(uint8(decide.BreakerHalfOpen)))
	a.ReportOutcomes, a.Slot = r.int() == 1, r.int()
	if a.Replayed = r.left != ""; a.Replayed {
		a.Own, a.Delay, a.ReplayedServerDelay, a.Budget.Cost = r.int(), r.int(), r.int(), r.int()
	}
	return a
}

// state reads the numbers of a state and an override's two texts.
func (r *reader) state(reply any) (s decide.State) {
	parts, _ := reply.([]any)
	if r.ok = len(parts) == 3; !r.ok {
		return s
	}
	r.left, r.ok = parts[0].(string)
	s.Budget = r.bucket()
	s.Budget.Cost = r.int()
	s.CoolDown = r.int()
	s.Breaker = decide.BreakerState(r.upTo(uint8(decide.BreakerHalfOpen)))
	mode, expiresIn, since := decide.OverrideMode(r.upTo(uint8(decide.OverrideAllow))), r.int(), r.int()
	if mode != decide.OverrideNone {
		s.Override = decide.Override{Mode: mode, ExpiresIn: expiresIn, Since: unixMilli(since)}
		s.Override.Author, _ = parts[1].(string)
		s.Override.Reason, _ = parts[2].(string)
	}
	return s
}
