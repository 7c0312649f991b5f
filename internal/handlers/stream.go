package handlers

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/identity"
)

const (
	// beatEvery is how often a stream tells what is new.
	beatEvery = time.Second
	// heartbeatAfter is how long a stream is silent at most: proxies cut
	// connections on which nothing moves.
	heartbeatAfter = 15 * time.Second
	// streamWriteTimeout is how long a client may take nothing of what is
	// written to it.
	streamWriteTimeout = 5 * time.Second
	// streamLifetime is after how long a stream ends. Who follows comes back at
	// once, and may meet another replica.
	streamLifetime = 15 * time.Minute
)

var errStopping = errors.New("the process is about to end")

// StreamDecisions answers GET /v1/decisions/stream.
func (s *server) StreamDecisions(c echo.Context, params gen.StreamDecisionsParams) error {
	f, err := filterOf(params.Dependency, params.Decision, params.Limit)
	if err != nil {
		return err
	}
	select {
	case <-s.Stopping:
		return errStopping
	default:
	}
	current, err := s.pulse.join()
	if err != nil {
		return err
	}
	defer s.pulse.leave()
	out := s.newStream(c, f, params)
	defer out.bound() // the end of the answer is written too
	out.begin()
	if c.Request().Method == http.MethodHead {
		return nil
	}
	left, end := requestContext(c).Done(), s.Now().Add(streamLifetime)
	for s.Now().Before(end) && s.mayRead(c) {
		if out.tell(current) != nil {
			return nil // the client has left, or took nothing for too long
		}
		select {
		case <-left:
			return nil
		case <-s.Stopping:
			return nil
		case <-current.next:
			current = s.pulse.latest()
		}
	}
	return nil
}

// mayRead says whether who asks may still follow: their key may have been taken
// out of the auth file since.
func (s *server) mayRead(c echo.Context) bool {
	if s.Door == nil {
		return true
	}
	who, err := s.Door.Identify(c.Request())
	return err == nil && who.Has(identity.Read)
}

// stream is one client that follows.
type stream struct {
	filter
	ring      *ring
	now       func() time.Time
	run       string // names this process in the ids of events
	response  *echo.Response
	control   *http.ResponseController
	snapshots bool

	told    int64 // sequence of the last decision that was looked at
	resumed bool  // it goes on where another connection broke off
	begun   bool  // one beat has been told
	written time.Time
	buffer  []byte
}

func (s *server) newStream(c echo.Context, f filter, params gen.StreamDecisionsParams) *stream {
	out := &stream{
		filter: f, ring: s.ring, now: s.Now, run: s.run,
		response: c.Response(), control: http.NewResponseController(c.Response()),
		snapshots: params.Snapshots != nil && *params.Snapshots,
	}
	if params.LastEventID != nil {
		out.told = sequenceOf(*params.LastEventID, s.run)
		out.resumed = out.told > 0
	}
	return out
}

// sequenceOf is the sequence in an event's id, 0 where another process gave it.
func sequenceOf(id, run string) int64 {
	text, ok := strings.CutPrefix(id, run+"-")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// begin writes the header. The server's own deadlines are for answers that end.
func (o *stream) begin() {
	h := o.response.Header()
	h.Set("Content-Type", "text/event-stream")
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	_ = o.control.SetReadDeadline(time.Time{})
	o.response.WriteHeader(http.StatusOK)
	o.buffer = append(o.buffer, "retry: 1000\n\n"...)
}

// tell writes what is new at a beat.
func (o *stream) tell(b *beat) error {
	o.addDecisions()
	if o.snapshots {
		snapshot := b.news
		if !o.begun {
			snapshot = b.whole
		}
		o.addEvent("snapshot", snapshot())
	}
	o.begun = true
	now := o.now()
	if len(o.buffer) == 0 {
		if now.Sub(o.written) < heartbeatAfter {
			return nil
		}
		o.buffer = append(o.buffer, ":\n\n"...)
	}
	o.written = now
	return o.flush()
}

func (o *stream) addDecisions() {
	found, skipped, last := o.ring.since(o.told, o.filter)
	if skipped > 0 && (o.begun || o.resumed) {
		o.addEvent("skipped", strconv.AppendInt(nil, skipped, 10))
	}
	for i := range slices.Backward(found) {
		o.buffer = append(o.buffer, "id: "...)
		o.buffer = append(o.buffer, o.run...)
		o.buffer = strconv.AppendInt(append(o.buffer, '-'), found[i].sequence, 10)
		o.buffer = appendPast(append(o.buffer, "\nevent: decision\ndata: "...), &found[i])
		o.buffer = append(o.buffer, "\n\n"...)
	}
	o.told = last
}

// addEvent adds an event; JSON as it is written here has no line breaks.
func (o *stream) addEvent(name string, data []byte) {
	o.buffer = append(append(append(o.buffer, "event: "...), name...), "\ndata: "...)
	o.buffer = append(append(o.buffer, data...), "\n\n"...)
}

// flush writes what is in the buffer. The deadline is for that alone: HTTP/2 would
// end the stream by it also while nothing is written.
func (o *stream) flush() error {
	o.bound()
	_, err := o.response.Write(o.buffer)
	o.buffer = o.buffer[:0]
	err = errors.Join(err, o.control.Flush())
	_ = o.control.SetWriteDeadline(time.Time{})
	return err
}

// bound sets the deadline of what is written now.
func (o *stream) bound() {
	_ = o.control.SetWriteDeadline(o.now().Add(streamWriteTimeout)) // where it cannot be set, a test is the writer
}
