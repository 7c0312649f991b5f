package console

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	page, ok := Page(r.URL.Path)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return w
	}
	page.ServeHTTP(w, r)
	return w
}

func TestFilesAreServed(t *testing.T) {
	t.Parallel()
	for path, mediaType := range map[string]string{
		"/":                              "text/html; charset=utf-8",
		"/console/app.js":                "text/javascript; charset=utf-8",
		"/console/style.css":             "text/css; charset=utf-8",
		"/console/icon.svg":              "image/svg+xml",
		"/console/vendor/preact.js":      "text/javascript; charset=utf-8",
		"/console/vendor/LICENSE.preact": "text/plain; charset=utf-8",
		"/console/vendor/../style.css":   "",
		"/console/":                      "",
		"/console/index.html":            "",
		"/console/vendor":                "",
		"/console/app.js/":               "",
		"/console/..%2f..%2fconsole.go":  "",
		"/static/app.js":                 "",
	} {
		got := get(t, http.MethodGet, path, nil)
		if mediaType == "" {
			if got.Code != http.StatusNotFound {
				t.Errorf("%s: %d", path, got.Code)
			}
			continue
		}
		h := got.Header()
		if got.Code != http.StatusOK || h.Get("Content-Type") != mediaType || got.Body.Len() == 0 {
			t.Errorf("%s: %d %q", path, got.Code, h.Get("Content-Type"))
		}
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(h.Get("Content-Security-Policy"), "unsafe") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, h)
		}
		again := get(t, http.MethodGet, path, http.Header{"If-None-Match": {h.Get("Etag")}})
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s, unchanged: %d", path, again.Code)
		}
	}
	if got := get(t, http.MethodHead, "/", nil); got.Code != http.StatusOK || got.Body.Len() != 0 {
		t.Errorf("HEAD: %d, %d bytes", got.Code, got.Body.Len())
	}
}

// Every file that a file names is there, below no fixed prefix, and nothing
// names another host.
func TestFilesNameOnlyOneAnother(t *testing.T) {
	t.Parallel()
	imports := regexp.MustCompile(`from "(\./[^"]+)"`)
	attributes := regexp.MustCompile(`(?:src|href)="([^"$#]+)"`)
	anywhere := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z]`)
	pages := load()
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(name, "/vendor/") {
			return err
		}
		content, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		for _, found := range imports.FindAllStringSubmatch(string(content), -1) {
			if _, ok := pages["/console/"+strings.TrimPrefix(found[1], "./")]; !ok {
				t.Errorf("%s imports %s, which is not there", name, found[1])
			}
		}
		for _, found := range attributes.FindAllStringSubmatch(string(content), -1) {
			_, ours := pages["/"+found[1]]
			if strings.HasPrefix(found[1], "/") || strings.HasPrefix(found[1], "console/") && !ours {
				t.Errorf("%s names %s", name, found[1])
			}
		}
		if found := anywhere.Find(content); found != nil && !strings.HasSuffix(name, ".svg") {
			t.Errorf("%s names another host: %s", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A filter that the page takes for possible is one that the contract takes.
func TestFilterIsTheContracts(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	words, err := static.ReadFile("static/words.js")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)OfDependency:\n.*?pattern: '([^']+)'`).FindSubmatch(contract)
	if len(found) != 2 || !bytes.Contains(words, []byte("dependency: /"+string(found[1])+"/")) {
		t.Errorf("words.js has not the contract's pattern of a dependency, %q", found)
	}
}

// What is other people's comes with its licence.
func TestVendoredFilesHaveTheirLicences(t *testing.T) {
	t.Parallel()
	table, err := static.ReadFile("static/vendor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := static.ReadDir("static/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := file.Name(); name != "README.md" && !strings.Contains(string(table), name) {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name, words := range map[string]string{"LICENSE.htm": "Apache License", "LICENSE.preact": "MIT License", "LICENSE.uplot": "MIT License"} {
		text, err := static.ReadFile("static/vendor/" + name)
		if err != nil || !strings.Contains(string(text), words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
