package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/sidebyside"
)

// Media types of answers.
const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// Values of headers that every answer has; shared, because net/http only reads them.
var (
	jsonTypes = []string{jsonType}
	noStore   = []string{"no-store"}
	noSniff   = []string{"nosniff"}
)

// write sends a whole answer. No answer of the contract may be stored: each is
// the state of a moment.
func write(c echo.Context, status int, mediaType string, body []byte) error {
	w := c.Response()
	h := w.Header()
	if mediaType == jsonType {
		h["Content-Type"] = jsonTypes
	} else {
		h["Content-Type"] = []string{mediaType}
	}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// writeModel sends a generated model as JSON.
func writeModel(c echo.Context, model any) error {
	body, err := json.Marshal(model)
	if err != nil {
		return fmt.Errorf("encode %T: %w", model, err)
	}
	return write(c, http.StatusOK, jsonType, body)
}

// recover turns a panic into an error, which becomes a problem document. Once
// the answer has begun the connection can only be cut.
func (s *server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			if value == http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared as net/http does
				panic(value)
			}
			p, ok := value.(*sidebyside.PanicError)
			if !ok {
				p = &sidebyside.PanicError{Value: value, Stack: debug.Stack()}
			}
			err = p
			if c.Response().Committed {
				s.Log.ErrorContext(requestContext(c), "a request failed after its answer began", "path", c.Path(), "error", err)
				panic(http.ErrAbortHandler)
			}
		}()
		return next(c)
	}
}
