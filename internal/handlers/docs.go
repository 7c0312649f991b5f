package handlers

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/api"
)

// The page of the contract: Swagger UI 5.35.0 as published (Apache-2.0, see
// docs/LICENSE and docs/NOTICE), with a page and a start of our own. Its large
// files are packed (gzip -9n), which is 1.4 MB less of the program and of the way
// to a browser.
//
//go:embed docs
var docs embed.FS

// docsPolicy lets the page load nothing but what this server has. Swagger UI
// styles elements inline and draws with data: images.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsTypes are the files that are served, by their media types.
var docsTypes = map[string]string{
	"swagger-ui-bundle.js":             "text/javascript; charset=utf-8",
	"swagger-ui-bundle.js.LICENSE.txt": "text/plain; charset=utf-8",
	"swagger-ui.css":                   "text/css; charset=utf-8",
	"init.js":                          "text/javascript; charset=utf-8",
	"LICENSE":                          "text/plain; charset=utf-8",
	"NOTICE":                           "text/plain; charset=utf-8",
}

// docsTags are the ETags of the files as they are kept, without their quotes, made
// when the first is asked for.
var docsTags = sync.OnceValue(func() map[string]string {
	tags := make(map[string]string, len(docsTypes))
	for name := range docsTypes {
		content, _, _ := readDoc(name) // a missing one is a 500 to who asks for it
		sum := sha256.Sum256(content)
		tags[name] = hex.EncodeToString(sum[:8])
	}
	return tags
})

// readDoc reads a file as it is kept, packed or not.
func readDoc(name string) (content []byte, packed bool, err error) {
	if content, err = docs.ReadFile("docs/" + name + ".gz"); err == nil {
		return content, true, nil
	}
	content, err = docs.ReadFile("docs/" + name)
	return content, false, err
}

func unpack(content []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// takesGzip says whether a client wants gzip. Every browser does, and nobody else
// loads these files, so weights other than none are not told apart.
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimSpace(weight), "q=0.") != "" || strings.TrimSpace(weight) == ""
		}
	}
	return false
}

// GetContract answers GET /openapi.yaml.
func (s *server) GetContract(c echo.Context) error {
	return write(c, http.StatusOK, "application/yaml", api.OpenAPI)
}

// GetPolicySchema answers GET /policies.schema.json.
func (s *server) GetPolicySchema(c echo.Context) error {
	if s.PolicySchema == nil {
		return echo.ErrNotFound
	}
	return write(c, http.StatusOK, "application/schema+json", s.PolicySchema)
}

// GetDocs answers GET /docs.
func (s *server) GetDocs(c echo.Context) error {
	page, err := docs.ReadFile("docs/index.html")
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", docsPolicy)
	return write(c, http.StatusOK, "text/html; charset=utf-8", page)
}

// GetConsole answers GET / and what the console loads.
func (s *server) GetConsole(c echo.Context) error {
	if s.Console == nil {
		return echo.ErrNotFound
	}
	page, ok := s.Console(c.Request().URL.Path)
	if !ok {
		return echo.ErrNotFound
	}
	page.ServeHTTP(c.Response(), c.Request())
	return nil
}

// docsFile serves what the page loads. These files change with the program
// alone, so a browser may keep them and asks whether they are still the same.
func (s *server) docsFile(c echo.Context) error {
	name := c.Param("file")
	mediaType, ok := docsTypes[name]
	if !ok {
		return echo.ErrNotFound
	}
	content, packed, err := readDoc(name)
	if err != nil {
		return err
	}
	h, tag := c.Response().Header(), docsTags()[name]
	if packed {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(c.Request()) {
			h.Set("Content-Encoding", "gzip")
		} else if content, err = unpack(content); err != nil {
			return err
		} else {
			tag += "-plain" // another form is another entity (RFC 9110 §8.8.1)
		}
	}
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", `"`+tag+`"`)
	h["X-Content-Type-Options"] = noSniff
	http.ServeContent(c.Response(), c.Request(), name, time.Time{}, bytes.NewReader(content))
	return nil
}
