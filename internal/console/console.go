// Package console is the page for operators: what the fleet is deciding now,
// how each dependency is, why an attempt would be answered as it would, and an
// override for when that is not good enough.
//
// The page is files that are embedded as they are, without a build step. It
// asks the server that it came from and nobody else, by the calls of the
// contract that everybody can make, and all its addresses are relative, so that
// it works below any prefix that a proxy puts in front. Its state is in the
// address behind the #, so that a view can be sent to a colleague.
//
// static/app.js draws the frame and chooses the view; live.js follows the
// server's events; each view is a file of its own.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed static
var static embed.FS

// policy lets the page load and ask nothing but this server, and nobody frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is a file of the console as it is served.
type page struct {
	mediaType, tag string
	content        []byte
}

// Page is the page, at /, or one of the files that it loads, below /console/; ok is
// false at any other path.
func Page(path string) (h http.Handler, ok bool) {
	one, ok := pages()[path]
	return &one, ok
}

var pages = sync.OnceValue(load)

// load reads the embedded files by the paths that they are served at.
func load() map[string]page {
	pages := make(map[string]page)
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		at := "/console/" + strings.TrimPrefix(name, "static/")
		if at == "/console/index.html" {
			at = "/"
		}
		sum := sha256.Sum256(content)
		pages[at] = page{mediaType: mediaType(name), tag: `"` + hex.EncodeToString(sum[:8]) + `"`, content: content}
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return pages
}

// mediaTypes are told here, because the machine's own table may say otherwise.
var mediaTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func mediaType(name string) string {
	if known, ok := mediaTypes[path.Ext(name)]; ok {
		return known
	}
	return "text/plain; charset=utf-8"
}

// ServeHTTP sends the file. It changes with the program alone, so a browser may
// keep it and asks whether it is still the same.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", p.mediaType)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", p.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.content))
}
