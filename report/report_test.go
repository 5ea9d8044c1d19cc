package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func example() *Report {
	return &Report{
		Name: "example", Title: "An <example>", Source: "A paper, 2003", Intro: "What it is.", Seed: 7,
		Sections: []Section{{
			Title: "Times", Table: Table{
				Columns: []string{"switches", "old, s", "new, s"},
				Rows:    [][]any{{8, 0.01234, 12.0}, {16, 123.4, 0.0}},
			},
			Plots: []Plot{{Title: "Time", X: "switches", Y: "seconds", Columns: []int{1, 2}}},
			Claim: []Claim{{"share of entries", "under 2 %", "1.4 %", true}, {"time", "quadratic", "cubic", false}},
		}},
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := example().Text(&b); err != nil {
		t.Fatal(err)
	}
	want := `An <example>
============

What it is.

Times
-----
  switches  old, s  new, s
         8  0.0123      12
        16     123       0
  share of entries: published under 2 %; measured 1.4 %: holds
  time: published quadratic; measured cubic: DOES NOT HOLD

Source: A paper, 2003
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestHTML(t *testing.T) {
	var b strings.Builder
	if err := example().HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"<title>An &lt;example&gt;</title>", "var uPlot=", `<td class="n">0.0123</td>`, "does not hold",
		`data-plot="{&#34;title&#34;:&#34;Time&#34;`, "[0.01234,123.4]",
	} {
		if !strings.Contains(b.String(), s) {
			t.Errorf("the page lacks %s", s)
		}
	}
	if strings.Contains(b.String(), "src=") || strings.Contains(b.String(), "<example>") {
		t.Error("the page loads something, or does not quote")
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := example().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(b.Bytes(), &r); err != nil || r.Sections[0].Claim[0].Measured != "1.4 %" {
		t.Errorf("%v: %+v", err, r)
	}
}
