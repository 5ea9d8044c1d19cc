// Package uplot has uPlot 1.6.32 (MIT, Leon Sorokin), which draws lines in reports and on the page.
package uplot

import "embed"

// Files are the library and its style sheet, by their names below, and its licence.
//
//go:embed uPlot.iife.min.js uPlot.min.css LICENSE
var Files embed.FS

// JS and CSS are the library and its style sheet, for pages that hold them.
var (
	//go:embed uPlot.iife.min.js
	JS string
	//go:embed uPlot.min.css
	CSS string
)
