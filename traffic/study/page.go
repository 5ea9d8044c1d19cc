package study

import "io"

// HTML writes the answer as one page that needs nothing else.
func (a *Answer) HTML(w io.Writer) error { return a.Text(w) }
