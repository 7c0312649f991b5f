package decider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// Ask asks what to do after the failed attempt a and always has an answer:
// decider's or, where that does not come within the client's timeout, that of
// the local rule ([Fallback]), which [Decision.Local] tells.
//
// A question whose answer is lost is put once more, with the same decision id
// and within the same timeout, so that it is charged once. After three
// questions in a row without an answer decider is taken to be down: for a second
// at a time nobody asks, then one call does, and the background report looks too.
//
// Nothing is asked where the answer is known: the caller has left, no time is
// left, or decider has just said that all retries of the dependency are stopped.
func (c *Client) Ask(ctx context.Context, a Attempt) Decision { return c.answer(ctx, a, true) }

// answer asks where mayAsk says so, and else leaves it to the local rule.
func (c *Client) answer(ctx context.Context, a Attempt, mayAsk bool) Decision {
	d := c.use(a.Dependency)
	c.complete(ctx, &a)
	if reason, ok := c.known(ctx, d, &a); ok {
		c.tally.notAsked.Add(1)
		return giveUp(&a, reason)
	}
	err := errDown
	if mayAsk {
		var answer Decision
		if answer, err = c.ask(ctx, &a); err == nil {
			d.heed(&answer)
			return answer
		}
	}
	if ended := ctx.Err(); ended != nil {
		return giveUp(&a, endReason(ended))
	}
	return c.alone(d, &a, err)
}

// complete fills what the attempt does not say, so that asking twice is one question.
func (c *Client) complete(ctx context.Context, a *Attempt) {
	if a.Caller == "" {
		a.Caller = c.caller
	}
	if a.DecisionID == "" {
		a.DecisionID = newID()
	}
	if deadline, ok := ctx.Deadline(); ok && a.Remaining == nil {
		left := time.Until(deadline)
		a.Remaining = &left
	}
}

// known is the answer that needs no question.
func (c *Client) known(ctx context.Context, d *dependency, a *Attempt) (Reason, bool) {
	if a.Outcome == Canceled {
		return ReasonCanceled, true // no failure of the dependency's
	}
	reason := Reason("")
	switch {
	case ctx.Err() != nil:
		reason = endReason(ctx.Err())
	case a.Remaining != nil && *a.Remaining <= 0:
		reason = ReasonDeadline
	default:
		stopped, ok := d.stopped(time.Now())
		if !ok {
			return "", false
		}
		reason = stopped
	}
	if reason != ReasonCanceled {
		d.finals.Add(1)
	}
	return reason, true
}

func endReason(ended error) Reason {
	if errors.Is(ended, context.DeadlineExceeded) {
		return ReasonDeadline
	}
	return ReasonCanceled
}

var errDown = errors.New("decider is down and is not asked")

// ask puts the question, and once more where its answer was lost early.
func (c *Client) ask(ctx context.Context, a *Attempt) (Decision, error) {
	if c.decideURL == "" {
		return Decision{}, errNoDecider
	}
	if !c.health.up(time.Now()) {
		return Decision{}, errDown
	}
	bounded, cancel := context.WithTimeout(untraced{ctx}, c.timeout)
	defer cancel()
	c.tally.asked.Add(1)
	answer, err := c.put(bounded, a)
	if lost(err) && !errors.Is(err, context.DeadlineExceeded) && bounded.Err() == nil {
		c.tally.askedAgain.Add(1)
		answer, err = c.put(bounded, a)
	}
	switch {
	case !lost(err):
		c.health.succeeded()
	case ctx.Err() == nil: // a caller who left says nothing of decider
		c.tally.unanswered.Add(1)
		c.health.failed(time.Now())
	}
	return answer, err
}

// untraced is a context without the httptrace hooks in it: those are of the call
// that failed, and the question is another one. All else stays, such as the span
// of which the question is a part.
type untraced struct{ context.Context }

// Value finds everything but hooks.
func (c untraced) Value(key any) any {
	value := c.Context.Value(key)
	if _, ok := value.(*httptrace.ClientTrace); ok {
		return nil
	}
	return value
}

// lost says whether an error leaves it open what decider thinks: no answer, one
// that makes no sense, or a server's error. What it refused it will refuse again.
func lost(err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		return p.Status < 400 || p.Status >= 500 || p.Status == 429
	}
	return err != nil
}

// unknownDependency is the type of the problem by which decider says that the
// policy file has no rule for a dependency and refuses those.
const unknownDependency = "urn:decider:problem:unknown-dependency"

// alone answers by the local rule.
func (c *Client) alone(d *dependency, a *Attempt, why error) Decision {
	var p *Problem
	if errors.As(why, &p) && p.Type == unknownDependency {
		return giveUp(a, ReasonNotRetryable)
	}
	answer := d.decide(a, time.Now(), rand.Float64)
	if answer.Retry {
		c.tally.grantedAlone.Add(1)
	} else {
		c.tally.refusedAlone.Add(1)
		if answer.Reason.isFailure() {
			d.finals.Add(1) // decider has not heard of it
		}
	}
	answer.Message = fmt.Sprintf("%s The local rule answered: %s.", answer.Message, strings.TrimPrefix(why.Error(), "decider: "))
	return answer
}

// isFailure says whether a give-up for this reason is a failure of the dependency.
func (r Reason) isFailure() bool {
	switch r {
	case ReasonNotAFailure, ReasonCanceled, ReasonNotRetryable, ReasonBreakerOpen:
		return false
	}
	return true
}

// giveUp is a give-up that decider was not asked for.
func giveUp(a *Attempt, reason Reason) Decision {
	return Decision{
		Reason: reason, DecisionID: a.DecisionID, Dependency: a.Dependency, RetryAfter: "absent", Breaker: "off",
		Message: fmt.Sprintf("Give up without a question: %s.", reason),
	}
}

// newID makes an id that no other process makes.
func newID() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// How decider is taken to be down, and for how long at a time.
const (
	downAfter = 3
	downFor   = time.Second
)

// health is a breaker on decider itself.
type health struct {
	failures atomic.Int32
	// until is when one question may be put again, in Unix ns; 0, it is up.
	until atomic.Int64
}

// up says whether to ask. While decider is down it says yes to one a second.
func (h *health) up(now time.Time) bool {
	until := h.until.Load()
	return until == 0 || now.UnixNano() >= until && h.until.CompareAndSwap(until, now.Add(downFor).UnixNano())
}

func (h *health) succeeded() {
	h.failures.Store(0)
	h.until.Store(0)
}

func (h *health) failed(now time.Time) {
	if h.failures.Add(1) >= downAfter {
		h.until.Store(now.Add(downFor).UnixNano())
	}
}
