package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/decide"
)

// Decide answers POST /v1/decide.
func (s *server) Decide(c echo.Context) error {
	x := exchanges.Get().(*exchange)
	defer x.release()
	a, err := x.receiveAttempt(c.Request())
	if err != nil {
		return err
	}
	if err := mayTouch(who(c), a.Dependency); err != nil {
		return err
	}
	ctx := untilAnswered(c)
	d, err := s.Decider.Decide(ctx, a)
	if err != nil {
		return err
	}
	traceDecision(ctx, &d)
	s.count(a, &d)
	x.out = appendDecision(x.out[:0], &d)
	return write(c, http.StatusOK, jsonType, x.out)
}

// Explain answers POST /v1/explain.
func (s *server) Explain(c echo.Context) error {
	x := exchanges.Get().(*exchange)
	defer x.release()
	a, err := x.receiveAttempt(c.Request())
	if err != nil {
		return err
	}
	var t decide.Trace
	ctx, cancel := s.Fleet.Bounded(untilAnswered(c))
	defer cancel()
	d, err := s.Decider.Explain(ctx, a, &t)
	if err != nil {
		return err
	}
	x.out = appendExplanation(x.out[:0], &d, &t)
	return write(c, http.StatusOK, jsonType, x.out)
}

// receiveAttempt reads a body that is one Attempt.
func (x *exchange) receiveAttempt(r *http.Request) (*decide.Attempt, error) {
	if err := x.receive(r, maxBody); err != nil {
		return nil, err
	}
	if err := x.reader.attempt(&x.draft); err != nil {
		return nil, err
	}
	return &x.draft.attempt, x.reader.end()
}

// count keeps what was decided, for /metrics, /v1/dependencies, /v1/decisions and
// whoever else wants it.
func (s *server) count(a *decide.Attempt, d *decide.Decision) {
	now := s.Now()
	s.tally.count(d, now)
	s.counters.decided(a, d)
	s.ring.add(now, a, d)
	if s.Trials != nil {
		s.Trials.Shadowed(d)
	}
	if s.Decided != nil {
		s.Decided(now, a, d)
	}
}
