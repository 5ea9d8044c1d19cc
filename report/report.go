// Package report presents the measurements of an experiment: as text for a
// terminal, as JSON for programs, and as one self-contained HTML file with
// plots (it includes uPlot 1.6.32, MIT license).
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"heddle/internal/uplot"
)

// Report is one experiment.
type Report struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Source   string    `json:"source"` // the publication that the experiment is from
	Intro    string    `json:"intro"`
	Seed     uint64    `json:"seed"`
	Sections []Section `json:"sections"`
}

// Section is a table, a plot of some of its columns, or both.
type Section struct {
	Title string  `json:"title"`
	Text  string  `json:"text,omitempty"`
	Table Table   `json:"table"`
	Plots []Plot  `json:"plots,omitempty"`
	Claim []Claim `json:"claims,omitempty"`
}

// Table has a header and rows of numbers and words.
type Table struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"` // string, int or float64
}

// Plot draws columns of its section's table over the first column.
type Plot struct {
	Title   string `json:"title"`
	X       string `json:"x"` // axis labels
	Y       string `json:"y"`
	Columns []int  `json:"columns"` // indices in Table.Columns
	// Labels name the lines; nil: the columns' headers.
	Labels []string `json:"labels,omitempty"`
	Log    bool     `json:"log,omitempty"`

	// XColumn is the column that is drawn over, if not the first.
	XColumn int `json:"x_column,omitempty"`
	// Right are columns with an axis of their own, on the right and linear.
	Right       []int    `json:"right,omitempty"`
	RightY      string   `json:"right_y,omitempty"` // its label
	RightLabels []string `json:"right_labels,omitempty"`
	// Dots are points x, y of their own, in ascending order of x, on the left
	// axis and called DotsLabel.
	Dots      [][2]float64 `json:"dots,omitempty"`
	DotsLabel string       `json:"dots_label,omitempty"`
	// Marks are vertical lines.
	Marks []float64 `json:"marks,omitempty"`
	Wide  bool      `json:"wide,omitempty"` // as wide as the page
}

// Claim compares a published figure with a measured one.
type Claim struct {
	What      string `json:"what"`
	Published string `json:"published"`
	Measured  string `json:"measured"`
	Holds     bool   `json:"holds"`
}

// Cell formats a value of a table: three significant digits, no exponent.
func Cell(v any) string {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
		return strconv.FormatFloat(v, 'f', min(max(digits, 0), 9), 64)
	case nil:
		return "-"
	}
	return fmt.Sprint(v)
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n\n%s\n\n", r.Title, strings.Repeat("=", len(r.Title)), r.Intro)
	for _, s := range r.Sections {
		fmt.Fprintf(w, "%s\n%s\n", s.Title, strings.Repeat("-", len(s.Title)))
		if s.Text != "" {
			fmt.Fprintf(w, "%s\n", s.Text)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "%s\t\n", strings.Join(s.Table.Columns, "\t"))
		for _, row := range s.Table.Rows {
			for _, v := range row {
				fmt.Fprintf(t, "%s\t", Cell(v))
			}
			fmt.Fprintln(t)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, c := range s.Claim {
			verdict := "holds"
			if !c.Holds {
				verdict = "DOES NOT HOLD"
			}
			fmt.Fprintf(w, "  %s: published %s; measured %s: %s\n", c.What, c.Published, c.Measured, verdict)
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "Source: %s\n", r.Source)
	return err
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"cell":   Cell,
	"number": func(v any) bool { _, word := v.(string); return !word },
	"series": series,
}).Parse(page))

// HTML writes the report as a page of its own.
func (r *Report) HTML(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Report
		JS  template.JS
		CSS template.CSS
	}{r, template.JS(uplot.JS), template.CSS(uplot.CSS)})
}

// drawing is the input of the page's script for one plot.
type drawing struct {
	Title  string   `json:"title"`
	X      string   `json:"x"`
	Y      string   `json:"y"`
	RightY string   `json:"right_y"`
	Log    bool     `json:"log"`
	Wide   bool     `json:"wide"`
	Labels []string `json:"labels"`
	Data   [][]any  `json:"data"`
	// Right is which of Labels and Data, from the end on, belong to the axis on
	// the right: their number.
	Right     int          `json:"right"`
	Dots      [2][]float64 `json:"dots"` // x, y
	DotsLabel string       `json:"dots_label"`
	Marks     []float64    `json:"marks"`
}

// series is the drawing of a plot, for the page's script.
func series(s Section, p Plot) (string, error) {
	d := drawing{
		Title: p.Title, X: p.X, Y: p.Y, RightY: p.RightY, Log: p.Log, Wide: p.Wide, Right: len(p.Right),
		DotsLabel: p.DotsLabel, Marks: p.Marks,
	}
	add := func(c int, label string, log bool) {
		var col []any
		for _, row := range s.Table.Rows {
			v := row[c]
			if f, ok := number(v); log && ok && f <= 0 {
				v = nil // has no place on a logarithmic axis
			}
			col = append(col, v)
		}
		d.Labels = append(d.Labels, label)
		d.Data = append(d.Data, col)
	}
	add(p.XColumn, s.Table.Columns[p.XColumn], false)
	lines := func(columns []int, labels []string, log bool) {
		for i, c := range columns {
			label := s.Table.Columns[c]
			if i < len(labels) {
				label = labels[i]
			}
			add(c, label, log)
		}
	}
	lines(p.Columns, p.Labels, p.Log)
	lines(p.Right, p.RightLabels, false)
	for _, dot := range p.Dots {
		d.Dots[0], d.Dots[1] = append(d.Dots[0], dot[0]), append(d.Dots[1], dot[1])
	}
	text, err := json.Marshal(d)
	return string(text), err
}

// number is the value of a numeric cell.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
