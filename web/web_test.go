package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestFiles: files are served, with a tag by which browsers keep them, and nothing else is: no list of a
// directory, and nothing outside.
func TestFiles(t *testing.T) {
	get := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
		r.URL.Path = path
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, r)
		return w
	}
	for path, want := range map[string]bool{
		"/": true, "/shell.js": true, "/views/map.js": true, "/uplot/uPlot.min.css": true,
		"/views/": false, "/views": false, "/uplot/": false, "/uplot": false, "/static/shell.js": false, "/nothing": false,
		"/../web.go": false, "/views/../shell.js": false, "//shell.js": false, "": false,
	} {
		w := get(path, "")
		if has := Has(path); has != want || want != (w.Code == http.StatusOK) {
			t.Errorf("%q: %v, status %d", path, has, w.Code)
		}
		if tag := w.Header().Get("ETag"); want && get(path, tag).Code != http.StatusNotModified || want && get(path, `"other"`).Code != http.StatusOK {
			t.Errorf("%q is not kept by its tag %q", path, tag)
		}
	}
}
