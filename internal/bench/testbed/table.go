package testbed

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Table is printed as Markdown, each row as soon as it is known.
type Table struct{}

// NewTable prints the title and the head of a table.
func NewTable(title string, columns ...string) Table {
	fmt.Printf("\n### %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	return Table{}
}

// Row prints one row; | separates the cells of the format.
func (Table) Row(format string, a ...any) {
	fmt.Println("| " + strings.ReplaceAll(fmt.Sprintf(format, a...), "|", " | ") + " |")
}

// Median sorts the values, of which there is at least one.
func Median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// Microseconds are shown in a few digits.
func Microseconds(us float64) string {
	switch {
	case us >= 1e4:
		return fmt.Sprintf("%.1f ms", us/1e3)
	case us < 100:
		return fmt.Sprintf("%.1f µs", us)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// Brief is a duration in three digits.
func Brief(d time.Duration) string {
	switch {
	case d <= 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}
