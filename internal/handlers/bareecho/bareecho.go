// Package bareecho is what decider is measured against: the same HTTP and the
// same JSON, with nothing between.
package bareecho

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/gen"
)

// New decodes an Attempt and encodes a Decision, always answer but for the
// dependency, by encoding/json and echo: the most that the stack can do with
// plain means.
func New(answer gen.Decision) http.Handler {
	e := echo.New()
	e.POST("/v1/decide", func(c echo.Context) error {
		var a gen.Attempt
		if err := c.Bind(&a); err != nil {
			return err
		}
		d := answer
		d.Dependency = a.Dependency
		return c.JSON(http.StatusOK, &d)
	})
	return e
}
