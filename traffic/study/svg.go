package study

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// plot is a drawing of curves.
type plot struct {
	title, x, y string
	log         bool // of the y axis
	curves      []curve
	marks       []float64 // vertical lines
}

type curve struct {
	name      string
	at, value []float64
}

// The size of plots in pixels, and of the space around the curves.
const (
	plotWidth, plotHeight     = 560, 300
	leftSpace, rightSpace     = 64, 12
	topSpace, bottomSpace     = 28, 56
	colors                    = 6
	cellSize, cellGap, labels = 11, 1, 130
)

// svg draws a plot.
func (g plot) svg() template.HTML {
	x0, x1 := math.Inf(1), math.Inf(-1)
	y0, y1 := 0.0, 0.0
	least := math.Inf(1)
	for _, c := range g.curves {
		for i := range c.at {
			v := finite(c.value[i])
			x0, x1, y1 = min(x0, c.at[i]), max(x1, c.at[i]), max(y1, v)
			if v > 0 {
				least = min(least, v)
			}
		}
	}
	if x1 <= x0 {
		x0, x1 = x0-0.5, x0+0.5
	}
	if g.log && !math.IsInf(least, 1) {
		y0, y1 = math.Floor(math.Log10(least)), math.Ceil(math.Log10(y1*1.0001))
	} else {
		g.log = false
		y1 = max(y1*1.05, 1e-9)
	}
	px := func(v float64) float64 { return leftSpace + (v-x0)/(x1-x0)*(plotWidth-leftSpace-rightSpace) }
	py := func(v float64) float64 {
		if g.log {
			v = math.Log10(max(v, math.Pow(10, y0)))
		}
		return plotHeight - bottomSpace - (v-y0)/(y1-y0)*(plotHeight-topSpace-bottomSpace)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg width="%d" height="%d" role="img">`, plotWidth, plotHeight)
	text(&b, plotWidth-rightSpace, 14, "title", "end", g.title)
	levels := ticks(y0, y1)
	if g.log {
		levels = logTicks(y0, y1)
	}
	for _, v := range levels {
		shown := v
		if g.log {
			shown = math.Pow(10, v)
		}
		y := py(shown)
		fmt.Fprintf(&b, `<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, leftSpace, plotWidth-rightSpace, y, y)
		text(&b, leftSpace-6, y+4, "", "end", number(shown))
	}
	for _, v := range ticks(x0, x1) {
		text(&b, px(v), plotHeight-bottomSpace+16, "", "middle", number(v))
	}
	text(&b, plotWidth-rightSpace, plotHeight-bottomSpace+32, "", "end", g.x)
	text(&b, 4, 14, "", "start", g.y)
	for _, m := range g.marks {
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`,
			px(m), px(m), topSpace, plotHeight-bottomSpace)
	}
	at := float64(leftSpace)
	for i, c := range g.curves {
		var line strings.Builder
		for k := range c.at {
			fmt.Fprintf(&line, "%.1f,%.1f ", px(c.at[k]), py(finite(c.value[k])))
		}
		color := i % colors
		fmt.Fprintf(&b, `<polyline fill="none" stroke="var(--s%d)" stroke-width="2" points="%s"/>`, color, line.String())
		fmt.Fprintf(&b, `<rect x="%.0f" y="%d" width="12" height="3" fill="var(--s%d)"/>`, at, plotHeight-14, color)
		text(&b, at+16, plotHeight-9, "", "start", c.name)
		at += 30 + 6.5*float64(len(c.name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// text writes a text, whatever is in it.
func text(b *strings.Builder, x, y float64, class, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`,
		x, y, class, anchor, template.HTMLEscapeString(s))
}

// number prints four digits, without an exponent where that is short.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e7 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// ticks are round values between lo and hi, 4 to 10 of them.
func ticks(lo, hi float64) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/8)))
	for _, k := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*k) <= 8 {
			step *= k
			break
		}
	}
	for v := math.Ceil(lo/step-1e-9) * step; v <= hi+step*1e-9 && len(out) < 20; v += step {
		out = append(out, math.Round(v/step)*step+0) // + 0: -0 is 0
	}
	return out
}

// logTicks are the powers of ten between the powers lo and hi, and twice and five times
// each if there are few.
func logTicks(lo, hi float64) (out []float64) {
	for e := lo; e <= hi; e++ {
		out = append(out, e)
		for _, k := range []float64{2, 5} {
			if hi-lo <= 3 && e < hi {
				out = append(out, e+math.Log10(k))
			}
		}
	}
	return out
}

// HeatMap draws a row of cells for each switch: the use of its ports.
func (e *Engine) HeatMap() template.HTML {
	type row struct {
		name  string
		cells []cableHeat
		most  float64
	}
	var rows []*row
	at := map[int32]*row{}
	for _, h := range e.heat {
		r := at[h.node]
		if r == nil {
			r = &row{name: h.name}
			at[h.node] = r
			rows = append(rows, r)
		}
		r.cells = append(r.cells, h)
		r.most = max(r.most, h.used)
	}
	note := ""
	if len(rows) > mapRows {
		slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(b.most, a.most) })
		note = fmt.Sprintf("<p>The %d hottest of %d switches.</p>", mapRows, len(rows))
		rows = rows[:mapRows]
	}
	var b strings.Builder
	widest := 0
	for _, r := range rows {
		for _, c := range r.cells {
			widest = max(widest, labels+(int(c.port)-1)*(cellSize+cellGap)+cellSize)
		}
	}
	text(&b, labels-6, cellSize-1, "", "end", "port")
	for x, port := labels, 1; x < widest; x, port = x+cellSize+cellGap, port+1 {
		if port == 1 || port%5 == 0 {
			text(&b, float64(x)+cellSize/2, cellSize-1, "", "middle", strconv.Itoa(port))
		}
	}
	for i, r := range rows {
		y := (i + 1) * (cellSize + cellGap)
		text(&b, labels-6, float64(y+cellSize-2), "", "end", r.name)
		for _, c := range r.cells {
			x := labels + (int(c.port)-1)*(cellSize+cellGap)
			tip := fmt.Sprintf("%s:%d > %s: %.0f %%", r.name, c.port, c.peer, c.used*100)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"><title>%s</title></rect>`,
				x, y, cellSize, cellSize, heatColor(c.used), template.HTMLEscapeString(tip))
		}
	}
	return template.HTML(fmt.Sprintf(`%s%s<svg width="%d" height="%d" role="img">%s</svg>`,
		note, heatLegend(), widest+4, (len(rows)+1)*(cellSize+cellGap)+4, b.String()))
}

// heatLegend shows the colors with their shares.
func heatLegend() string {
	var b strings.Builder
	const width = 40
	for i, used := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<rect x="%d" y="0" width="%d" height="%d" fill="%s"/>`, i*width, width, cellSize, heatColor(used))
		text(&b, float64(i)*width+width/2, 2*cellSize+2, "", "middle", fmt.Sprintf("%g %%", used*100))
	}
	return fmt.Sprintf(`<p><svg width="%d" height="%d" role="img">%s</svg></p>`, 5*width, 2*cellSize+6, b.String())
}

// heatColor goes from pale blue over yellow to red.
func heatColor(used float64) string {
	u := min(max(finite(used), 0), 1)
	return fmt.Sprintf("hsl(%.0f %.0f%% %.0f%%)", 210-210*u, 30+50*u, 80-32*u)
}
