package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"golang.org/x/term"
)

// printJSON writes one indented JSON value and a line end.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printTable prints rows below a head whose cells are separated by tabs, or says that there are none.
func printTable[T any](w io.Writer, list []T, none, head string, row func(t io.Writer, x *T)) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for i := range list {
		row(t, &list[i])
	}
	return t.Flush()
}

// printList is printTable of a list in JSON.
func printList[T any](w io.Writer, body []byte, none, head string, row func(t io.Writer, x *T)) error {
	var list []T
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	return printTable(w, list, none, head, row)
}

// onTerminal reports whether w is a terminal, where progress is shown.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// plain is a text from the fabric, as a node description, for a table or a line: characters that are
// not printable, which would move cells or command a terminal, are escaped as in Go.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
