package handlers

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
	"github.com/retrydecider/decider/internal/identity"
)

// call is one call of the contract, by its method and route.
type call struct{ method, path string }

// open is the role of calls that everybody may make.
const open identity.Role = 0

// roleOf is the role that each call needs: the tags of the contract, to which a
// test holds it. A route that is not here would be open to everybody, so that New
// refuses it.
var roleOf = map[call]identity.Role{
	{http.MethodPost, "/v1/decide"}:                              identity.Report,
	{http.MethodPost, "/v1/decide/batch"}:                        identity.Report,
	{http.MethodPost, "/v1/outcomes"}:                            identity.Report,
	{http.MethodPost, "/v1/explain"}:                             identity.Read,
	{http.MethodGet, "/v1/dependencies"}:                         identity.Read,
	{http.MethodGet, "/v1/dependencies/:dependency"}:             identity.Read,
	{http.MethodGet, "/v1/dependencies/*"}:                       identity.Read,
	{http.MethodGet, "/v1/decisions"}:                            identity.Read,
	{http.MethodGet, streamPath}:                                 identity.Read,
	{http.MethodGet, "/v1/status"}:                               identity.Read,
	{http.MethodPut, "/v1/dependencies/:dependency/override"}:    identity.Operate,
	{http.MethodDelete, "/v1/dependencies/:dependency/override"}: identity.Operate,
	{http.MethodPut, "/v1/dependencies/*"}:                       identity.Operate,
	{http.MethodDelete, "/v1/dependencies/*"}:                    identity.Operate,
	{http.MethodGet, "/livez"}:                                   open,
	{http.MethodGet, "/readyz"}:                                  open,
	{http.MethodGet, "/metrics"}:                                 open,
	{http.MethodGet, "/openapi.yaml"}:                            open,
	{http.MethodGet, "/policies.schema.json"}:                    open,
	{http.MethodGet, "/docs"}:                                    open,
	{http.MethodGet, "/docs/:file"}:                              open,
	{http.MethodGet, "/"}:                                        open,
	{http.MethodGet, "/console/*"}:                               open,
}

// streamPath is the one call that does not end by itself; it has a bound of its
// own (maxStreams) and takes no place from the others.
const streamPath = "/v1/decisions/stream"

func callOf(method, path string) call {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return call{method, path}
}

// Refusals of requests that are not wrong.
var (
	errUnidentified = errors.New("who asks is not known")
	errOverloaded   = errors.New("this replica answers as many requests at once as it takes")
	errCrossSite    = errors.New("a page of another site sent the request")
	errForeignHost  = fmt.Errorf("%w: its Host is no loopback name or address; behind a proxy that passes on its own name, start decider with --allow-anonymous", errCrossSite)
)

// unidentifiedError is a request of nobody, and why it is nobody's.
type unidentifiedError struct{ cause error }

func (e *unidentifiedError) Error() string { return "who asks is not known: " + e.cause.Error() }
func (e *unidentifiedError) Unwrap() error { return errUnidentified }

// roleError is an identity without the role that a call needs.
type roleError identity.Role

func (e roleError) Error() string {
	return "The identity has not the role of this call, which is " + identity.Role(e).String() + "."
}

// foreignError is a dependency that is not one of the identity's.
type foreignError struct{}

func (foreignError) Error() string { return "The identity may not touch this dependency." }

// admit lets in who may make a call, and no more of them than there is room for.
// It reads nothing of the body.
func (s *server) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		role := roleOf[callOf(c.Request().Method, c.Path())] // no route: open, and 404 or 405
		if role == open {
			return next(c)
		}
		if err := sameSite.Check(c.Request()); err != nil {
			return errCrossSite
		}
		if s.LoopbackOnly && toForeignHost(c.Request()) {
			return errForeignHost
		}
		if c.Path() != streamPath {
			defer s.under.Add(-1)
			if s.under.Add(1) > s.MaxConcurrent {
				return errOverloaded
			}
		}
		if s.Door == nil {
			return next(c)
		}
		return s.admitIdentity(c, role, next)
	}
}

// sameSite keeps pages of other sites from using what a browser sends by itself:
// the password of Basic, a client certificate, and the way to a loopback address.
var sameSite = http.NewCrossOriginProtection()

// toForeignHost says whether a page sent the request to a name that is not this
// machine's own. Whoever owns a name can point it at a loopback address, and then
// the browser takes decider for the site of their page (DNS rebinding). What no
// browser sends has no Origin.
func toForeignHost(r *http.Request) bool {
	if len(r.Header["Origin"]) == 0 {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil { // no port
		host = strings.Trim(r.Host, "[]")
	}
	ip := net.ParseIP(host)
	return !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback())
}

func (s *server) admitIdentity(c echo.Context, role identity.Role, next echo.HandlerFunc) error {
	who, err := s.Door.Identify(c.Request())
	if err != nil {
		return &unidentifiedError{err}
	}
	c.Set(whoKey, who)
	if !who.Has(role) {
		return roleError(role)
	}
	if c.Path() == streamPath {
		return next(c)
	}
	if err := who.Enter(s.Now()); err != nil {
		return err
	}
	defer who.Leave()
	return next(c)
}

const whoKey = "who"

// who is who asks.
func who(c echo.Context) *identity.Identity {
	if known, ok := c.Get(whoKey).(*identity.Identity); ok {
		return known
	}
	return identity.Anonymous
}

// mayTouch refuses a dependency that is not one of the identity's.
func mayTouch(i *identity.Identity, dependency string) error {
	if i.MayTouch(dependency) {
		return nil
	}
	return foreignError{}
}

// refusalProblem is the problem of a request that was not let in; nil where the
// error is another one.
func refusalProblem(err error) *problem {
	var (
		nobody *unidentifiedError
		role   roleError
	)
	switch {
	case errors.As(err, &nobody):
		return &problem{Type: problemURN + "unidentified", Title: "Who asks is not known", Status: http.StatusUnauthorized, Detail: sentence(nobody.cause)}
	case errors.As(err, &role):
		return forbidden(role.Error())
	case errors.Is(err, foreignError{}):
		p := forbidden(foreignError{}.Error())
		p.Errors = []gen.FieldError{{Field: "/dependency", Detail: "is not one that this identity may touch"}}
		return p
	case errors.Is(err, errCrossSite):
		return forbidden(sentence(err))
	case errors.Is(err, identity.ErrRate), errors.Is(err, identity.ErrConcurrent):
		return &problem{Type: problemURN + "too-many-requests", Title: "Too many requests", Status: http.StatusTooManyRequests, Detail: sentence(err)}
	case errors.Is(err, errOverloaded):
		return &problem{Type: problemURN + "overloaded", Title: "Too many requests at once", Status: http.StatusServiceUnavailable,
			Detail: "This replica answers as many requests at once as it takes; ask again."}
	}
	return nil
}

func forbidden(detail string) *problem {
	return &problem{Type: problemURN + "forbidden", Title: "Not allowed", Status: http.StatusForbidden, Detail: detail}
}

// sentence is an error's text as a sentence; it begins with an ASCII letter.
func sentence(err error) string {
	text := err.Error()
	return string(text[0]-'a'+'A') + text[1:] + "."
}

// refusalWords are all that refusalWord has.
var refusalWords = []string{"unidentified", "role", "dependency", "cross_site", whyHandshake, "rate", "concurrent", "overloaded"}

// refusalWord is why a request was not let in, for a metric and the log; "" where
// the error is another one.
func refusalWord(err error) string {
	var (
		nobody *unidentifiedError
		role   roleError
	)
	switch {
	case errors.As(err, &nobody):
		return WhyUnidentified
	case errors.As(err, &role):
		return WhyRole
	case errors.Is(err, foreignError{}):
		return "dependency"
	case errors.Is(err, errCrossSite):
		return WhyCrossSite
	case errors.Is(err, identity.ErrRate):
		return "rate"
	case errors.Is(err, identity.ErrConcurrent):
		return "concurrent"
	case errors.Is(err, errOverloaded):
		return "overloaded"
	}
	return ""
}

// causeOf is why a request is nobody's, "" where it is somebody's.
func causeOf(err error) string {
	var nobody *unidentifiedError
	if errors.As(err, &nobody) {
		return nobody.cause.Error()
	}
	return ""
}

// nameIfKnown is who asks, "" where that is not known.
func nameIfKnown(c echo.Context) string {
	if known, ok := c.Get(whoKey).(*identity.Identity); ok {
		return known.Name()
	}
	return ""
}
