package budget

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/decide"
)

//go:embed fleet.lua
var fleetLua string

var fleetScript = redis.NewScript(fleetLua)

// Redis keeps buckets in Redis: one hash per bucket, one script call per Run.
// All keys of a bucket have one hash tag, decider:{bucket}:…, so a cluster
// keeps them together.
type Redis struct {
	client redis.UniversalClient
	// now is nil where Redis TIME is the clock.
	now func() time.Time
}

// NewRedis makes a backend on a client, which must not retry by itself
// ([NewClient]). now is nil for Redis TIME, the fleet's one clock; a host
// that forbids TIME in scripts hands in its own.
func NewRedis(client redis.UniversalClient, now func() time.Time) *Redis {
	return &Redis{client: client, now: now}
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
	replies, err := r.eval(ctx, c)
	if err != nil {
		return err
	}
	if len(replies) != len(ops) {
		return fmt.Errorf("%d answers to %d operations", len(replies), len(ops))
	}
	for i := range ops {
		if err := ops[i].read(replies[i]); err != nil {
			return err
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
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	args = append(args, command, script, len(c.keys))
	args = append(args, c.keys...)
	args = append(args, c.args...)
	cmd := &once{redis.NewSliceCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	_ = r.client.Process(ctx, cmd) // the command keeps the error
	return cmd.Result()
}

// once is a command that the client never sends again by itself: the cluster
// client otherwise repeats one that timed out inside its loop for redirects.
type once struct{ *redis.SliceCmd }

// NoRetry tells the client so.
func (*once) NoRetry() bool { return true }

// call is one script call in the making.
type call struct {
	prefix string
	keys   []any
	args   []any
}

// opWidth is how many arguments an operation has; the script knows it too.
const opWidth = 15

func newCall(bucket string, ops int) *call {
	prefix := keyPrefix(bucket)
	return &call{prefix: prefix, keys: append(make([]any, 0, 1+ops), prefix+"state"), args: make([]any, 0, 17+ops*opWidth)}
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
	clock := ""
	if now != nil {
		clock = strconv.FormatInt(now().UnixMilli(), 10)
	}
	r, k := &p.Budget, &p.Breaker
	c.args = append(c.args, clock, r.Capacity, r.CapacityMillis, r.NanoPerSecond, r.Ratio, r.CallerShare, r.Cost[decide.Plain],
		flag(r.Off), flag(r.DepositOnRequest), flag(k.Mode != decide.BreakerModeOff), k.FailureRatio, k.MinAttempts, k.Window, k.OpenFor, k.Probes,
		flag(p.CoolDown == decide.CoolDownOff), p.RetryAfter.Max, r.RatioMax)
}

// add adds an operation's arguments.
func (c *call) add(p *decide.Policy, o *op) {
	end := len(c.args) + opWidth
	switch {
	case o.ask != nil:
		c.failures("ask", &o.ask.failures)
		fit := any("")
		if o.ask.fit.Present {
			fit = o.ask.fit.Value
		}
		c.args = append(c.args, o.ask.cost, fit, o.ask.own, o.ask.delay, flag(o.ask.dryRun), c.key("id:", o.ask.id))
		c.slots(p, o.ask)
	case o.tell != nil:
		c.failures("tell", o.tell)
	case o.report != nil:
		id := ""
		if o.report.id != "" {
			id = reportKey(o.report.caller, o.report.id)
		}
		c.args = append(c.args, "report", o.report.caller, o.report.firstTries, o.report.retries, o.report.finals, c.key("report:", id))
	case o.look != nil:
		c.args = append(c.args, "look", o.look.caller)
	case o.override != nil:
		v := o.override
		c.args = append(c.args, "override", int(v.mode), v.until, v.author, v.words)
	}
	for len(c.args) < end {
		c.args = append(c.args, "")
	}
}

// slots adds what a question of its kind may pay with and must wait for.
func (c *call) slots(p *decide.Policy, q *question) {
	gap := int64(0)
	pace := &p.Backoff[q.kind]
	if pace.Strategy == decide.Paced {
		gap = pace.Gap
	}
	c.args = append(c.args, flag(q.kind == decide.Plain), gap, pace.Cap)
}

func (c *call) failures(word string, f *failures) {
	c.args = append(c.args, word, f.caller, f.count, f.firsts, flag(f.forCaller), f.serverDelay)
}

// key adds a key of the bucket and is its place among the keys; 0 for none.
func (c *call) key(kind, id string) int {
	if id == "" {
		return 0
	}
	c.keys = append(c.keys, c.prefix+kind+id)
	return len(c.keys)
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// read fills what the operation was answered.
func (o *op) read(reply any) error {
	r := reader{ok: true}
	switch {
	case o.ask != nil:
		r.left, r.ok = reply.(string)
		o.answer = r.answer()
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

func (r *reader) budget() decide.Budget {
	return decide.Budget{Asked: r.int() == 1, Tokens: r.int(), Capacity: r.int(), Cost: r.int()}
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
	a.Budget = r.budget()
	a.CoolDown = r.int()
	if again := r.int(); again >= 0 {
		a.AskAgain = decide.Some(again)
	}
	a.Breaker = decide.BreakerState(r.upTo(uint8(decide.BreakerHalfOpen)))
	a.ReportOutcomes, a.Replayed = r.int() == 1, r.int() == 1
	a.Own, a.Delay, a.ReplayedServerDelay, a.Slot = r.int(), r.int(), r.int(), r.int()
	return a
}

// state reads the numbers of a state and an override's two texts.
func (r *reader) state(reply any) (s decide.State) {
	parts, _ := reply.([]any)
	if r.ok = len(parts) == 3; !r.ok {
		return s
	}
	r.left, r.ok = parts[0].(string)
	s.Budget = r.budget()
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
