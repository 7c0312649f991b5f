package budget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrydecider/decider/internal/decide"
)

// Redis keeps buckets in Redis: one hash per bucket, one script call per Run.
// All keys of a bucket have one hash tag, decider:{bucket}:…, so a cluster
// keeps them together.
type Redis struct {
	client redis.UniversalClient
	// send makes a script call: together with others where there is one server.
	send func(context.Context, *call) ([]any, error)
	// together is nil where there are several servers.
	together *together
	// now is nil where Redis TIME is the clock.
	now func() time.Time
}

// NewRedis makes a backend on a client, which must not retry by itself
// ([NewClient]). now is nil for Redis TIME, the fleet's one clock; a host
// that forbids TIME in scripts hands in its own.
func NewRedis(client redis.UniversalClient, now func() time.Time) *Redis {
	r := &Redis{client: client, now: now}
	if one, ok := client.(*redis.Client); ok {
		r.together = newTogether(one)
		r.send = r.together.send
	} else {
		r.send = func(ctx context.Context, c *call) ([]any, error) { return evaluate(ctx, client.Process, c) }
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
	c.end()
	replies, err := r.send(ctx, c)
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
