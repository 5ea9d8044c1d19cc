package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"heddle/api"
	"heddle/internal/need"
)

// TestTraceAsIbtracert: the path that the manager shows is the one that Debian's ibtracert walks by
// reading the switches' tables, both ways.
func TestTraceAsIbtracert(t *testing.T) {
	dir := t.TempDir()
	addr := need.Addr(t)
	sock := socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--api", addr, "--socket", sock, "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)
	env := []string{"IBSIM_SOCKNAME=" + sock, "SIM_HOST=host-7"}
	step := regexp.MustCompile(`(?m)^\[(\d+)\] -> (?:switch|ca) port \{(0x[0-9a-f]+)\}\[(\d+)\]`)
	for _, pair := range [][2]string{{"host-1", "host-300"}, {"host-20", "host-2"}, {"host-100", "sw-2-3"}, {"host-3", "host-4"}} {
		var p api.Path
		getJSON(t, "http://"+addr+"/v1/path?trace=true&"+url.Values{"from": {pair[0]}, "to": {pair[1]}}.Encode(), &p)
		for _, way := range []*api.Path{&p, p.Back} {
			text := must(t, upTime, dir, env, "ibsim-run", "ibtracert", fmt.Sprint(way.From.LID), fmt.Sprint(way.To.LID))
			var theirs []string
			for _, m := range step.FindAllStringSubmatch(text, -1) {
				theirs = append(theirs, fmt.Sprint(m[1], " ", m[2], " ", m[3]))
			}
			ours, out := []string{}, way.From.Port
			for i, h := range way.Hops {
				if i > 0 || out != 0 { // a path from a switch begins at its own port 0
					ours = append(ours, fmt.Sprint(out, " ", h.GUID, " ", h.In))
				}
				out = h.Out
			}
			if out != 0 {
				ours = append(ours, fmt.Sprint(out, " ", way.To.GUID, " ", way.To.Port))
			}
			if fmt.Sprint(ours) != fmt.Sprint(theirs) {
				t.Errorf("%s to %s: ours is %q, ibtracert's %q:\n%s", way.From.Description, way.To.Description, ours, theirs, text)
			}
		}
	}
}

// TestMapTransfer: what a browser loads before the first picture of 11,664 hosts is bounded, as the
// manager compresses it, and a group with its hosts is too.
func TestMapTransfer(t *testing.T) {
	need.Long(t) // a subnet of 11,664 hosts
	dir := t.TempDir()
	addr := need.Addr(t)
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,11664", "--api", addr, "--socket", socketName(), "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)
	total := 0
	get := func(path string) []byte {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip") // as browsers do; the client unpacks nothing then
		resp, err := patientHTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, resp.Status, err)
		}
		total += len(body)
		if resp.Header.Get("Content-Encoding") != "gzip" {
			return body
		}
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
		return body
	}
	for _, path := range []string{"", "style.css", "map.css", "icon.svg", "theme.js", "shell.js", "dom.js", "chart.js", "dialog.js", "links.js", "views/map.js", "views/timeline.js", "v1/whoami", "v1/status", "v1/ha", "v1/map?level=1", "v1/history", "v1/ports/actions"} {
		get(path)
	}
	var m api.Map
	if err := json.Unmarshal(get("v1/map?level=1"), &m); err != nil || len(m.Groups) != 37 || len(m.Bundles) != 36 {
		t.Errorf("%d groups, %d bundles, %v", len(m.Groups), len(m.Bundles), err)
	}
	if total > 60<<10 {
		t.Errorf("%d bytes before the first picture", total)
	}
	t.Logf("%d bytes, compressed, before the first picture", total)
	if one := get("v1/map?level=3&unit=" + m.Groups[0].ID); len(one) > 100<<10 {
		t.Errorf("one group has %d bytes", len(one))
	}
}

// TestPageSpeed measures the map of 11,664 hosts in Chromium without a GPU: the time from the map's JSON to
// the picture, frames while it is moved and zoomed, and the heap. Times depend on the machine, so it runs
// for "make bench-page" alone.
func TestPageSpeed(t *testing.T) {
	if os.Getenv("HEDDLE_PAGE_SPEED") == "" { // make bench-page
		need.Long(t)
	}
	b := openBrowser(t)
	dir := t.TempDir()
	addr := need.Addr(t)
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,11664", "--api", addr, "--socket", socketName(), "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)
	b.open(addr)
	b.view("map")
	b.awaitMatch(`1,620 switches, 11,664 hosts, 37 groups`)
	const keys = `const c = document.querySelector('#chart canvas'), key = (k, n = 1) => { while (n--) c.dispatchEvent(new KeyboardEvent('keydown', { key: k })); };
		`
	var m struct{ First, Whole, Switches, Hosts float64 }
	frames := func(v *float64) { // while the map is moved and zoomed for two seconds
		t.Helper()
		b.script(keys+`const from = mapStats().frames, began = performance.now();
			for (let i = 0; performance.now() - began < 2000 || i % 4; i++) {
				key(['ArrowLeft', '+', 'ArrowRight', '-'][i % 4]);
				await new Promise(requestAnimationFrame);
			}
			return (mapStats().frames - from) * 1000 / (performance.now() - began)`, v)
	}
	b.script(`return mapStats().shown - performance.getEntriesByType('resource').findLast(e => e.name.includes('v1/map?level=1')).responseEnd`, &m.First)
	frames(&m.Whole)
	b.script(keys+`key('+', 4)`, nil)
	b.awaitScript("switches", `return mapStats().inside >= 3`)
	frames(&m.Switches)
	b.script(keys+`key('ArrowUp', 5); key('+', 3)`, nil) // from the top of the tree to its pods
	b.awaitScript("hosts", `return mapStats().deep >= 2`)
	frames(&m.Hosts)
	used := func() float64 {
		t.Helper()
		ctx, stop := context.WithTimeout(b.ctx, need.Patience)
		defer stop()
		u, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (float64, error) {
			u, err := cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
			return u.UsedSize + u.EmbedderHeapUsedSize + u.BackingStorageSize, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return u / 1e6
	}
	before := used()
	b.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{})
		return v, err
	})
	after := used()
	t.Logf("first picture %.0f ms after the JSON; %.0f frames/s of all groups, %.0f with switches and bundles by pair, %.0f with hosts; heap %.1f MB, %.1f MB of it in use",
		m.First, m.Whole, m.Switches, m.Hosts, before, after)
	if m.First > 1000 || m.Whole < 10 || m.Switches < 10 || m.Hosts < 10 || before > 100 {
		t.Error("want 1 s, 10 frames/s, 100 MB")
	}
}

// TestGone: the status counts what the subnet had and has not any more, until it is back.
func TestGone(t *testing.T) {
	dir := t.TempDir()
	addr := need.Addr(t)
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--api", addr, "--socket", socketName(), "--token-file", filepath.Join(dir, "token"), "--traffic", "none")
	up.await("SUBNET UP\n", 0, upTime)
	await := func(text string, want [3]int) {
		t.Helper()
		end := time.Now().Add(need.Patience)
		for {
			var s api.Status
			getJSON(t, "http://"+addr+"/v1/status", &s)
			got := [3]int{s.Gone.Switches, s.Gone.Hosts, s.Gone.Cables}
			out := must(t, upTime, dir, nil, heddle, "ctl", "status", "--api", "http://"+addr)
			if got == want && strings.Contains(out, text) == (want[0] > 0) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("switches, hosts and cables gone: %v, want %v\n%s", got, want, out)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	const row = "1 switch, 1 CA, 0 routers, 19 cables in the last 7 days"
	await(row, [3]int{})
	for _, c := range []string{`node down "sw-2-9"`, `node down "host-20"`} {
		fmt.Fprintln(up.In, c)
	}
	await(row, [3]int{1, 1, 19})
	for _, c := range []string{`node up "sw-2-9"`, `node up "host-20"`} {
		fmt.Fprintln(up.In, c)
	}
	await(row, [3]int{})
}
