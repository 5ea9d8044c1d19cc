package web

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// color is linear RGB.
type color [3]float64

func parseColor(t *testing.T, hex string) (c color) {
	t.Helper()
	if len(hex) == 3 {
		hex = fmt.Sprintf("%c%c%c%c%c%c", hex[0], hex[0], hex[1], hex[1], hex[2], hex[2])
	}
	for i := range c {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		s := float64(v) / 255
		if c[i] = s / 12.92; s > 0.04045 {
			c[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return c
}

// seenBy is what people with a severe deficiency of one kind of cone see: Machado, Oliveira and
// Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009.
var seenBy = map[string][3]color{
	"all cones":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func (c color) by(m [3]color) (out color) {
	for i := range out {
		for j := range c {
			out[i] += m[i][j] * c[j]
		}
		out[i] = min(max(out[i], 0), 1)
	}
	return out
}

// lab is CIE L*a*b* under D65.
func (c color) lab() color {
	f := func(x float64) float64 {
		if x > 0.008856 {
			return math.Cbrt(x)
		}
		return 7.787*x + 16.0/116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.95047)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.08883)
	return color{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func (c color) distance(d color) float64 {
	return math.Sqrt((c[0]-d[0])*(c[0]-d[0]) + (c[1]-d[1])*(c[1]-d[1]) + (c[2]-d[2])*(c[2]-d[2]))
}

// TestColorsOfCables: in both themes, and for people with any kind of color blindness, the colors of
// use are told apart from each other, from those of failed links and from the background, and they go
// from the background's lightness away.
func TestColorsOfCables(t *testing.T) {
	css, err := files.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`:root(?:\[data-theme=dark\])? \{[^}]*\}`).FindAllString(string(css), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d themes", len(blocks))
	}
	for i, theme := range []string{"light", "dark"} {
		vars := map[string]color{}
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]+)`).FindAllStringSubmatch(blocks[i], -1) {
			vars[m[1]] = parseColor(t, m[2])
		}
		names := strings.Fields("use0 use1 use2 use3 use4 warn bad")
		for eyes, m := range seenBy {
			back := vars["card"].by(m).lab()
			last := 0.0
			for j, a := range names {
				x, ok := vars[a]
				if !ok {
					t.Fatalf("%s: no --%s", theme, a)
				}
				seen := x.by(m).lab()
				if d := seen.distance(back); d < 15 {
					t.Errorf("%s, %s: %s is %.0f from the background", theme, eyes, a, d)
				}
				for _, b := range names[:j] {
					if d := seen.distance(vars[b].by(m).lab()); d < 12 {
						t.Errorf("%s, %s: %s and %s are %.0f apart", theme, eyes, a, b, d)
					}
				}
				if strings.HasPrefix(a, "use") {
					if away := math.Abs(seen[0] - back[0]); away <= last {
						t.Errorf("%s, %s: %s is not farther from the background's lightness than what is before it", theme, eyes, a)
					} else {
						last = away
					}
				}
			}
		}
	}
}

// luminance is that of WCAG 2.2.
func (c color) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// TestContrastOfText: text has a contrast of 4.5 to 1 in both themes (WCAG 2.2, 1.4.3): on cards, and
// that of cards on badges and pills.
func TestContrastOfText(t *testing.T) {
	css, err := files.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`::placeholder \{ color: var\(--soft\); opacity: 1;`).Match(css) {
		t.Error("placeholders have the browser's gray, which is too dark in the dark theme")
	}
	for i, block := range regexp.MustCompile(`:root(?:\[data-theme=dark\])? \{[^}]*\}`).FindAllString(string(css), -1) {
		vars := map[string]color{}
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]+)`).FindAllStringSubmatch(block, -1) {
			vars[m[1]] = parseColor(t, m[2])
		}
		for name := range strings.FieldsSeq("ink soft goodtext warntext bad link") {
			a, b := vars[name].luminance(), vars["card"].luminance()
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
				t.Errorf("theme %d: --%s has %.2f to 1", i, name, ratio)
			}
		}
	}
}
