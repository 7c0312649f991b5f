package decider

import (
	"context"
	"log/slog"
)

// Observer is told of every failed attempt, before the wait. It is called in
// the goroutine of the call and must not block.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that observes.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Event is one failed attempt and what was decided.
type Event struct {
	// Dependency and Method are the call's.
	Dependency, Method string
	// Attempt is the number of the attempt that failed; 0 where decider sheds
	// calls and none was made.
	Attempt int
	// Resent is how often net/http sent the request again by itself within it.
	Resent int
	// Status is the answer's, or else Outcome says how the attempt ended and Err
	// is its error.
	Status  int
	Outcome Outcome
	Err     error
	// Decision is what was decided, by decider, by the local rule where Local
	// is set, or without a question.
	Decision Decision
}

// LogValue is the event as attributes: who called what, how it ended, and what
// was decided and why.
func (e Event) LogValue() slog.Value {
	d := &e.Decision
	attributes := []slog.Attr{
		slog.String("dependency", e.Dependency), slog.String("method", e.Method), slog.Int("attempt", e.Attempt),
	}
	if e.Status != 0 {
		attributes = append(attributes, slog.Int("status", e.Status))
	} else {
		attributes = append(attributes, slog.String("outcome", string(e.Outcome)))
	}
	if e.Err != nil {
		attributes = append(attributes, slog.String("error", e.Err.Error()))
	}
	if e.Resent > 0 {
		attributes = append(attributes, slog.Int("resent", e.Resent))
	}
	return slog.GroupValue(append(attributes,
		slog.Bool("retry", d.Retry), slog.Int64("delay_ms", d.Delay.Milliseconds()), slog.String("reason", string(d.Reason)),
		slog.Bool("degraded", d.Degraded), slog.Bool("local", d.Local), slog.String("decision_id", d.DecisionID),
	)...)
}

// LogTo observes by logging: a retry at Info, a give-up at Warn.
func LogTo(log *slog.Logger) Observer {
	return ObserverFunc(func(ctx context.Context, e Event) {
		if e.Decision.Retry {
			log.LogAttrs(ctx, slog.LevelInfo, "retry", slog.Any("call", e))
			return
		}
		log.LogAttrs(ctx, slog.LevelWarn, "give up", slog.Any("call", e))
	})
}
