package budget

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// call is what the script is told of one bucket: its keys, and one argument, a JSON
// list of the clock, the rule and the operations.
type call struct {
	prefix string
	keys   []any
	text   []byte
	ops    int
}

// Bytes of a rule and of an operation in a call, rather more than usual.
const (
	ruleBytes = 192
	opBytes   = 96
)

func newCall(bucket string, ops int) *call {
	prefix := keyPrefix(bucket)
	return &call{prefix: prefix, keys: append(make([]any, 0, 2), prefix+"state"), text: make([]byte, 0, ruleBytes+ops*opBytes), ops: ops}
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

// end adds how many keys there are.
func (c *call) end() {
	c.numbers(int64(len(c.keys)))
	c.text[len(c.text)-1] = ']' // in place of the last comma
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
