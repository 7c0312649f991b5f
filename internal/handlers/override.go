package handlers

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// Bounds of an override, as the contract has them.
const (
	maxOverrideMillis = 86_400_000
	maxOverrideReason = 256
)

// notTakenError is an override that the store did not say it took, and why.
type notTakenError struct{ cause error }

func (e *notTakenError) Error() string {
	return "the store did not take the override: " + e.cause.Error()
}
func (e *notTakenError) Unwrap() error { return e.cause }

// askAgainSeconds is when an override that was not taken is worth sending again:
// a store that is back is asked again within a second.
const askAgainSeconds = "1"

// SetOverride answers PUT /v1/dependencies/{dependency}/override.
func (s *server) SetOverride(c echo.Context, dependency gen.DependencyName) error {
	x := exchanges.Get().(*exchange)
	defer x.release()
	o, err := x.receiveOverride(c, dependency)
	if err != nil {
		return err
	}
	if err := mayTouch(who(c), dependency); err != nil {
		return err
	}
	o.Author = who(c).Name()
	p, bucket, err := s.Policies.Find(dependency)
	if err != nil {
		return err
	}
	return s.override(c, dependency, p, bucket, o, phrases{"an override was set", "an override may have been set"})
}

// LiftOverride answers DELETE /v1/dependencies/{dependency}/override.
func (s *server) LiftOverride(c echo.Context, dependency gen.DependencyName) error {
	if !validName(dependency) {
		return &notValidError{errors: []gen.FieldError{{Field: "/dependency", Detail: nameRule}}}
	}
	if err := mayTouch(who(c), dependency); err != nil {
		return err
	}
	p, bucket, err := s.Policies.Peek(dependency)
	if err != nil {
		return err
	}
	before := s.Fleet.State(untilAnswered(c), bucket, p, "")
	done := phrases{"an override was lifted", "an override may have been lifted"}
	if before.Override.Mode == decide.OverrideNone && !before.Degraded {
		done.sure = "no override was there to be lifted"
	}
	return s.override(c, dependency, p, bucket, decide.Override{Author: who(c).Name()}, done)
}

// phrases are what the record of an override says where the store took it, and
// where it did not say so.
type phrases struct{ sure, unsure string }

// override puts an override in force and keeps a record of who did it, also where
// the store did not answer: what it was sent may hold all the same.
func (s *server) override(c echo.Context, dependency string, p *decide.Policy, bucket string, o decide.Override, done phrases) error {
	ctx := untilAnswered(c)
	state, err := s.Fleet.SetOverride(ctx, bucket, p, o)
	record := []slog.Attr{slog.String("dependency", dependency), slog.String("author", o.Author), slog.String("from", c.RealIP())}
	if o.Mode != decide.OverrideNone {
		record = append(record, slog.String("mode", o.Mode.String()), slog.Int64("expires_in_ms", o.ExpiresIn), slog.String("reason", o.Reason))
	}
	if bucket != dependency {
		record = append(record, slog.String("bucket", bucket))
	}
	if err != nil {
		s.Records.LogAttrs(ctx, slog.LevelWarn, done.unsure, append(record, slog.String("result", "unknown"), slog.Any("error", err))...)
		return &notTakenError{err}
	}
	s.Records.LogAttrs(ctx, slog.LevelInfo, done.sure, record...)
	return writeModel(c, dependencyState(dependency, p, &state))
}

// receiveOverride reads a body that is an OverrideOrder. A name that is not
// valid is told together with what is wrong in the body.
func (x *exchange) receiveOverride(c echo.Context, dependency string) (o decide.Override, err error) {
	if err := x.receive(c.Request(), maxBody); err != nil {
		return o, err
	}
	rd := &x.reader
	err = rd.override(&o)
	if err == nil {
		err = rd.end()
	}
	var wrong *notValidError
	if validName(dependency) || err != nil && !errors.As(err, &wrong) {
		return o, err
	}
	if wrong == nil {
		wrong = new(notValidError)
	}
	wrong.errors = append(wrong.errors, gen.FieldError{Field: "/dependency", Detail: nameRule})
	return o, wrong
}

// override reads an OverrideOrder. Its error is only that the body is not JSON.
func (r *reader) override(o *decide.Override) error {
	var has struct{ mode, expires, reason bool }
	entered, err := r.object("", func(name []byte) (err error) {
		switch string(name) {
		case "mode":
			has.mode = true
			return r.overrideMode(&o.Mode)
		case "expires_in_ms":
			has.expires = true
			o.ExpiresIn, _, err = r.integer("/expires_in_ms", 1, maxOverrideMillis)
			return err
		case "reason":
			has.reason = true
			return r.overrideReason(&o.Reason)
		}
		return r.unknown(name)
	})
	if err != nil || !entered {
		return err
	}
	for _, each := range []struct {
		given bool
		field string
	}{{has.mode, "/mode"}, {has.expires, "/expires_in_ms"}, {has.reason, "/reason"}} {
		if !each.given {
			r.fail(each.field, "is required")
		}
	}
	return nil
}

func (r *reader) overrideMode(into *decide.OverrideMode) error {
	text, err := r.string("/mode")
	if text == nil || err != nil {
		return err
	}
	mode, ok := decide.ParseOverride(string(text))
	if !ok {
		r.fail("/mode", "must be pause or allow")
	}
	*into = mode
	return nil
}

func (r *reader) overrideReason(into *string) error {
	text, err := r.string("/reason")
	if text == nil || err != nil {
		return err
	}
	if n := utf8.RuneCount(text); n < 1 || n > maxOverrideReason {
		r.fail("/reason", "must be 1 to "+strconv.Itoa(maxOverrideReason)+" characters")
	} else if len(bytes.TrimSpace(text)) == 0 {
		r.fail("/reason", "must be more than blanks")
	}
	*into = string(text)
	return nil
}
