package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/gen"
)

// problem is a problem document (RFC 9457), its members in the contract's order.
type problem struct {
	Type   string           `json:"type"`
	Title  string           `json:"title"`
	Status int              `json:"status"`
	Detail string           `json:"detail"`
	Errors []gen.FieldError `json:"errors,omitempty"`
	// Components are of a 503 of /readyz alone.
	Components []gen.Component `json:"components,omitempty"`
}

const problemURN = "urn:decider:problem:"

// notJSONError is a body that cannot be read at all.
type notJSONError struct {
	detail string
	errors []gen.FieldError
}

func (e *notJSONError) Error() string { return e.detail }

// notValidError is a body, or a parameter, that can be read and breaks the contract.
type notValidError struct {
	errors []gen.FieldError
	more   int // wrong fields that errors does not name
}

func (e *notValidError) Error() string {
	fields := make([]string, 0, len(e.errors))
	for _, each := range e.errors {
		if each.Field == "" {
			each.Field = "the body"
		}
		fields = append(fields, each.Field)
	}
	text := "Wrong: " + strings.Join(fields, ", ")
	if e.more > 0 {
		text += fmt.Sprintf(" and %d more", e.more)
	}
	return text + "."
}

// tooLargeError is a body of more bytes than this.
type tooLargeError int64

func (e tooLargeError) Error() string { return fmt.Sprintf("The body may have %d bytes.", int64(e)) }

// errTooSlow is a body that did not come within the server's time for it.
var errTooSlow = errors.New("the body did not come in time")

// mediaTypeError is a body of another media type, and says what is wanted.
type mediaTypeError string

func (e mediaTypeError) Error() string { return string(e) }

// problemFor chooses the status and the words for everything that is not an
// answer. What it does not know is a defect of decider, and the client is not
// told more.
func problemFor(err error) *problem {
	var (
		syntax *notJSONError
		wrong  *notValidError
		large  tooLargeError
		media  mediaTypeError
		store  *notTakenError
		routed *echo.HTTPError
	)
	if p := refusalProblem(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &syntax):
		return &problem{Type: problemURN + "not-json", Title: "The body is not JSON", Status: http.StatusBadRequest, Detail: syntax.detail, Errors: syntax.errors}
	case errors.As(err, &wrong):
		return &problem{Type: problemURN + "not-valid", Title: "The request is not valid", Status: http.StatusUnprocessableEntity, Detail: wrong.Error(), Errors: wrong.errors}
	case errors.Is(err, errTooSlow):
		return &problem{Type: problemURN + "too-slow", Title: "The body is too slow", Status: http.StatusRequestTimeout, Detail: sentence(errTooSlow)}
	case errors.As(err, &large):
		return &problem{Type: problemURN + "too-large", Title: "The body is too large", Status: http.StatusRequestEntityTooLarge, Detail: large.Error()}
	case errors.As(err, &media):
		return &problem{Type: problemURN + "unsupported-media-type", Title: "Unsupported media type", Status: http.StatusUnsupportedMediaType, Detail: media.Error()}
	case errors.Is(err, decide.ErrUnknownDependency):
		return &problem{Type: problemURN + "unknown-dependency", Title: "Unknown dependency", Status: http.StatusNotFound,
			Detail: "No rule of the policy file matches this dependency, and the file refuses unknown ones.",
			Errors: []gen.FieldError{{Field: "/dependency", Detail: "has no rule in the policy file"}}}
	case errors.As(err, &store):
		return &problem{Type: problemURN + "store-unavailable", Title: "The store is out of reach", Status: http.StatusServiceUnavailable,
			Detail: "The store of the fleet's state did not say that it took the override; send it again."}
	case errors.Is(err, errTooManyStreams):
		return &problem{Type: problemURN + "too-many-streams", Title: "Too many streams", Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("This replica has %d streams and takes no more.", maxStreams)}
	case errors.Is(err, errStopping):
		return &problem{Type: problemURN + "not-ready", Title: "Not ready", Status: http.StatusServiceUnavailable,
			Detail: "decider is shutting down; ask another replica."}
	case errors.As(err, &routed):
		return problemOfRouting(routed.Code)
	}
	return &problem{Type: problemURN + "internal", Title: "Internal error", Status: http.StatusInternalServerError,
		Detail: "The request met a defect in decider; it has been logged."}
}

// problemAt is the problem of one item of a list, its fields told by their
// place in the body.
func problemAt(err error, place string) *problem {
	p := problemFor(err)
	for i := range p.Errors {
		p.Errors[i].Field = place + p.Errors[i].Field
	}
	return p
}

// problemOfRouting is for what echo and the generated code refuse: paths,
// methods, and parameters that cannot be read.
func problemOfRouting(code int) *problem {
	switch code {
	case http.StatusNotFound:
		return &problem{Type: problemURN + "not-found", Title: "Not found", Status: code, Detail: "There is nothing at this path."}
	case http.StatusMethodNotAllowed:
		return &problem{Type: problemURN + "method-not-allowed", Title: "Method not allowed", Status: code, Detail: "The header Allow lists the methods of this path."}
	case http.StatusBadRequest:
		return &problem{Type: problemURN + "other", Title: "Bad request", Status: code, Detail: "A parameter of the path or the query cannot be read."}
	}
	return &problem{Type: problemURN + "other", Title: http.StatusText(code), Status: code, Detail: "The request cannot be served."}
}

// answerError is echo's last resort: every error that a handler returned. It
// may run twice for one request.
func (s *server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := problemFor(err)
	s.refused(c, err)
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, errTooManyStreams) && !errors.Is(err, errStopping) && !errors.Is(err, errOverloaded) {
		s.Log.LogAttrs(requestContext(c), slog.LevelError, "a request failed",
			slog.String("method", c.Request().Method), slog.String("path", c.Path()), slog.Any("error", err))
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		c.Response().Header().Set("Retry-After", askAgainSeconds)
	}
	if p.Status == http.StatusUnauthorized {
		c.Response().Header()["Www-Authenticate"] = challenges
	}
	if p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout {
		c.Response().Header().Set("Connection", "close") // the rest of the body is not read
	}
	s.answerProblem(c, p)
}

// challenges are what a 401 asks for (RFC 9110 §11.6.1). A browser asks its user
// by Basic.
var challenges = []string{`Bearer realm="decider"`, `Basic realm="decider", charset="UTF-8"`}

func (s *server) answerProblem(c echo.Context, p *problem) {
	_ = write(c, p.Status, problemType, p.bytes()) // its error is a client that has left
}

func (p *problem) bytes() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and integers alone: it cannot fail
	}
	return b
}

func requestContext(c echo.Context) context.Context { return c.Request().Context() }

// untilAnswered is the request's context without its end. net/http ends it when
// the client leaves and as well when it has only closed its own half of the
// connection, which it may (RFC 9293 §3.6) and then waits for the answer. What is
// decided, counted and reported does not depend on that; the store has a bound of
// its own.
func untilAnswered(c echo.Context) context.Context { return context.WithoutCancel(requestContext(c)) }
