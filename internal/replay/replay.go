package replay

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"strconv"
	"time"

	"github.com/retrydecider/decider/internal/budget"
	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/decisionlog"
)

// maxNames bounds the dependencies that are told apart; the rest are one.
const maxNames = 1000

// Run decides every attempt of a log under other policies. only is the one
// dependency that is looked at, "" for all. A torn last line of a log is told by
// a note. Its error is the log's.
func Run(log Source, policies decide.Policies, only string) (*Report, error) {
	r := newReplayer(policies)
	for {
		line, err := log.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r.report(), nil
		case errors.Is(err, decisionlog.ErrTorn):
			r.out.Notes = append(r.out.Notes, err.Error())
			continue
		case err != nil:
			return nil, err
		}
		if only == "" || line.Dependency == only {
			r.line(&line)
		}
	}
}

// replayer decides line by line.
type replayer struct {
	policies decide.Policies
	fleet    *budget.Fleet
	decider  *decide.Decider
	out      Report
	byName   map[string]*Dependency

	// Of the line in hand: its instant, its id, and where its floats come from.
	now    time.Time
	id     string
	chance *decide.Mulberry32
}

func newReplayer(policies decide.Policies) *replayer {
	r := &replayer{policies: policies, byName: map[string]*Dependency{}}
	clock := func() time.Time { return r.now }
	r.fleet = budget.NewFleet(budget.NewMemory(clock))
	r.decider = &decide.Decider{Policies: policies, Fleet: r.fleet, Now: clock,
		Random: func() float64 { return r.chance.Float64() }, NewID: func() string { return r.id }}
	return r
}

func (r *replayer) line(l *decisionlog.Line) {
	r.now = l.Time
	if r.out.From.IsZero() {
		r.out.From = l.Time
	}
	r.out.To = l.Time
	p, bucket, err := r.policies.Find(l.Dependency)
	if err != nil {
		r.out.Unknown++
		return
	}
	d := r.dependency(l.Dependency)
	if l.Outcome == nil {
		r.attempt(l, d, p, bucket)
		return
	}
	o := *l.Outcome
	o.Policy, o.Bucket = p, bucket
	state := r.fleet.Report(context.Background(), &o)
	r.out.Reports++
	d.Calls += o.FirstTrySuccesses + o.FinalFailures
	d.slot(r.now).budget(&state.Budget)
}

func (r *replayer) attempt(l *decisionlog.Line, d *Dependency, p *decide.Policy, bucket string) {
	r.out.Attempts++
	d.Attempts++
	if l.Attempt.Number <= 1 {
		d.Calls++
	}
	paused := l.Decision.Reason == decide.ReasonPaused.String()
	if paused {
		r.override(p, bucket, decide.OverridePause)
		d.Held++
	}
	r.seed(l)
	decision, err := r.decider.Decide(context.Background(), &l.Attempt)
	if paused {
		r.override(p, bucket, decide.OverrideNone)
	}
	if err != nil { // the same name was found a moment ago
		r.out.Unknown++
		return
	}
	s := d.slot(r.now)
	s.Attempts++
	s.budget(&decision.Budget)
	d.compare(s, l.Decision, decision.Enforced())
}

// override sets or lifts an operator's word for one decision.
func (r *replayer) override(p *decide.Policy, bucket string, mode decide.OverrideMode) {
	_, _ = r.fleet.SetOverride(context.Background(), bucket, p, decide.Override{Mode: mode, ExpiresIn: 1}) // memory never fails
}

// seed makes the line's floats, the same in every replay.
func (r *replayer) seed(l *decisionlog.Line) {
	r.id = l.Decision.DecisionID
	h := fnv.New32a()
	h.Write([]byte(r.id))
	h.Write(strconv.AppendInt([]byte{':'}, l.Attempt.Number, 10))
	r.chance = decide.NewMulberry32(h.Sum32())
}

func (r *replayer) dependency(name string) *Dependency {
	if d, ok := r.byName[name]; ok {
		return d
	}
	if len(r.byName) >= maxNames {
		name = others
		if d, ok := r.byName[name]; ok {
			return d
		}
	}
	d := newDependency(name)
	r.byName[name] = d
	return d
}
