// Package web is the status page: static files in the binary, no outside
// references, so it works on an isolated management network.
package web

import (
	"embed"
	"io/fs"
	"net/http"

	"heddle/internal/uplot"
)

//go:embed static
var files embed.FS

// Handler serves the page.
func Handler() http.Handler {
	sub, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(sub))
	mux.Handle("GET /uplot/", http.StripPrefix("/uplot/", http.FileServerFS(uplot.Files)))
	return mux
}
