package handlers

import (
	"context"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// Why one was not let in, beside the limits, for a metric and the log.
const (
	WhyUnidentified = "unidentified" // who asks is not known
	WhyRole         = "role"         // an identity without the role of a call
	WhyCrossSite    = "cross_site"   // a page of another site sent the request
	whyHandshake    = "handshake"    // TLS did not come about
)

// Refusal is one who was not let in. Method and Route are empty where no request
// came that far, Identity where who asks is not known.
type Refusal struct{ Why, From, Method, Route, Identity, Cause string }

// refusals count those who were not let in, and tell the log of one a second for
// each reason, so that nobody fills it or hides in it behind another's refusals.
type refusals struct {
	count    *prometheus.CounterVec
	log      *slog.Logger
	now      func() time.Time
	samplers sync.Map // of a reason to its *Sampler
}

func (r *refusals) note(ctx context.Context, one Refusal) {
	r.count.WithLabelValues(one.Why).Inc()
	known, ok := r.samplers.Load(one.Why)
	if !ok {
		known, _ = r.samplers.LoadOrStore(one.Why, new(Sampler))
	}
	before, ok := known.(*Sampler).Next(r.now(), time.Second)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("why", one.Why), slog.String("from", one.From)}
	if one.Method != "" {
		attrs = append(attrs, slog.String("method", knownMethod(one.Method)), slog.String("route", one.Route), slog.String("identity", one.Identity))
	}
	attrs = append(attrs, slog.Int64("not_logged_before", before))
	if one.Cause != "" {
		attrs = append(attrs, slog.String("cause", one.Cause))
	}
	r.log.LogAttrs(ctx, slog.LevelWarn, "a request was refused", attrs...)
}

// Refused counts one who was not let in elsewhere, and tells the log of it.
func (a *API) Refused(ctx context.Context, one Refusal) { a.refusals.note(ctx, one) }

// ServerLog is for [http.Server.ErrorLog]: what clients can make net/http say, as
// often as they like, is told once a second.
func (a *API) ServerLog() *log.Logger {
	return log.New(&serverLog{refusals: a.refusals, log: a.log}, "", 0)
}

// serverLog reads what net/http has to tell, of which the text is all there is.
type serverLog struct {
	refusals *refusals
	log      *slog.Logger
	others   Sampler
}

// Write is for [io.Writer]; a line is one call.
func (l *serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if rest, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		l.handshake(rest)
		return len(line), nil
	}
	if strings.Contains(text, "panic serving") { // a defect
		l.log.Error(text)
		return len(line), nil
	}
	if before, ok := l.others.Next(l.refusals.now(), time.Second); ok {
		l.log.Warn(text, "not_logged_before", before)
	}
	return len(line), nil
}

// handshake is told "address: cause". A connection that ends before it has said
// anything is a look at the port, and refused by nobody.
func (l *serverLog) handshake(text string) {
	address, cause, _ := strings.Cut(text, ": ")
	if cause == "EOF" || strings.HasSuffix(cause, "connection reset by peer") {
		return
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	l.refusals.note(context.Background(), Refusal{Why: whyHandshake, From: host, Cause: cause})
}

// refused counts a request that was not let in, and tells the log of it.
func (s *server) refused(c echo.Context, err error) {
	if word := refusalWord(err); word != "" {
		s.refusals.note(requestContext(c), Refusal{
			Why: word, From: c.RealIP(), Method: c.Request().Method, Route: c.Path(), Identity: nameIfKnown(c), Cause: causeOf(err),
		})
	}
}
