package interop

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heddle/api"
	"heddle/internal/need"
)

// TestPageMap: the map shows groups, follows a cable that goes, has a slider over stored states that the
// keyboard moves, and draws the path between two hosts as the API says it.
func TestPageMap(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr := need.Addr(t)
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--api", addr, "--socket", socketName(), "--state", filepath.Join(dir, "state"), "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)
	b.open(addr)
	b.view("map")
	b.awaitMatch(`36 switches, 324 hosts, 19 groups: a tree; 0 problems`)
	b.awaitPixels("boxes, switches and bundles", `const seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
		return seen.size >= 4`)
	b.awaitMatch(`now; 1 stored state`)

	// A cable goes: it is shown singly, with both ends, and stays on the map.
	fmt.Fprintln(up.In, `link down "sw-1-1"[19]`)
	b.awaitMatch(`Problems \(1\)\s+at\s+to\s+what\s+since\s+sw-1-1 port 19\s+sw-2-1 port 1\s+gone`)
	b.awaitMatch(`now; 2 stored states`)
	b.picture("map")

	// The slider: one step back is the state in which the cable has gone, two steps the one before.
	b.script(`document.querySelector('#when').focus()`, nil)
	b.press(kb.ArrowLeft)
	b.awaitMatch(`as of .*\n(.*\n)*.*1 gone: sw-1-1:19 to sw-2-1:1 gone`)
	b.press(kb.ArrowLeft)
	b.awaitMatch(`36 switches, 324 hosts, 19 groups: a tree; 0 problems; as of`)
	var hash string
	if b.script(`return location.hash`, &hash); !regexp.MustCompile(`^#/map\?at=\d+$`).MatchString(hash) {
		t.Errorf("the address of a stored state is %q", hash)
	}
	b.press(kb.ArrowRight)
	b.script(`document.querySelector('#changes').focus()`, nil)
	b.press(" ")
	b.awaitMatch(`Changes \(1\)\s+at\s+to\s+what\s+since\s+sw-1-1 port 19\s+sw-2-1 port 1\s+is gone now`)

	// Who goes elsewhere right after a move of the slider is not brought back by its pause, which ends
	// before the page hears of the new address.
	b.view("map")
	b.awaitMatch(`now; 2 stored states`)
	b.script(`const r = document.querySelector('#when'), real = window.setTimeout;
		let end;
		window.setTimeout = f => { end = f; };
		r.value = 0;
		r.dispatchEvent(new Event('input'));
		window.setTimeout = real;
		location.hash = '#/map?unit=';
		end();
		return location.hash`, &hash)
	if hash != "#/map?unit=" {
		t.Errorf("the slider goes to %q", hash)
	}

	// The canvas by keyboard alone: zoomed in it shows a group's hosts; Enter opens the group.
	b.view("map")
	b.awaitMatch(`now; 2 stored states`)
	b.script(`document.querySelector('#chart canvas').focus()`, nil)
	b.press("+", "+", "+", "+", "+")
	for range 9 {
		b.press(kb.ArrowUp)
	}
	b.awaitScript("the inside of a group", `return mapStats().inside > 0`)
	b.press("0", kb.Enter)
	b.awaitMatch(`top \(sw-2-…\): switches\n`)

	resizedMap(t, b)
	pathView(t, b, addr)
	b.quiet("", addr)
}

// resizedMap: the whole map is whole in a window of another size too.
func resizedMap(t *testing.T, b *browser) {
	t.Helper()
	b.view("map")
	b.awaitMatch(`now; 2 stored states`)
	for _, width := range []int64{1400, 700, 1200} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.awaitPixels(fmt.Sprintf("all groups at %d pixels", width), `let first = c.width, last = 0;
			for (let i = 3, x = 0; i < d.length; i += 4, x = (x + 1) % c.width) if (d[i]) { first = Math.min(first, x); last = Math.max(last, x); }
			return first > 0 && last < c.width - 1 && Math.abs(first - (c.width - 1 - last)) < 12`)
	}
}

// pathView compares what the view of a path shows with the API.
func pathView(t *testing.T, b *browser, addr string) {
	t.Helper()
	var p api.Path
	getJSON(t, "http://"+addr+"/v1/path?trace=true&from=host-1&to=host-300", &p)
	b.view("path?from=host-1&to=host-300")
	var want strings.Builder
	want.WriteString(`host-1 to host-300\s+node\s+in by port\s+out by port\s+lane \(VL\)\s+host-1\s+1\s+\S.*\s+`)
	for _, h := range p.Hops {
		want.WriteString(fmt.Sprintf(`%s\s+%d\s+%d\s+\S.*\s+`, h.Description, h.In, h.Out))
	}
	b.awaitMatch(fmt.Sprintf(`%d switches; the way back (differs|is the same)`, len(p.Hops)))
	b.awaitMatch(want.String() + `host-300\s+1`)
	b.awaitMatch(`The way back\s+node\s+in by port\s+out by port\s+lane \(VL\)\s+host-300`)
	b.picture("path")
}
