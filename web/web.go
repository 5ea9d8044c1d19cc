// Package web is the status page: static files in the binary, no outside
// references, so it works on an isolated management network.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"heddle/internal/uplot"
)

//go:embed static
var files embed.FS

// plots is where the files of uPlot are.
const plots = "/uplot/"

func static() fs.FS {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return sub
}

// Has reports whether a path of an URL is a file of the page. These hold no data.
func Has(path string) bool {
	from, name := static(), strings.TrimPrefix(path, "/")
	switch {
	case path == "/":
		return true
	case strings.HasPrefix(path, plots):
		from, name = uplot.Files, strings.TrimPrefix(path, plots)
	}
	st, err := fs.Stat(from, name)
	return err == nil && !st.IsDir()
}

// Handler serves the page. Browsers ask whether a file that they have is still the same.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(static()))
	mux.Handle("GET "+plots, http.StripPrefix(plots, http.FileServerFS(uplot.Files)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Has(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", tag())
		w.Header().Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

// tag is another one if any file is.
var tag = sync.OnceValue(func() string {
	h := sha256.New()
	for _, f := range []fs.FS{static(), uplot.Files} {
		err := fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(f, name)
			h.Write([]byte(name))
			h.Write(b)
			return err
		})
		if err != nil {
			panic(err) // they are embedded
		}
	}
	return `"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
})
