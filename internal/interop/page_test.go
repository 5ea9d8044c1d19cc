package interop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
)

// browser is a headless Chromium, driven by the WebDriver protocol.
type browser struct {
	t    *testing.T
	base string // of the session
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	chromium := need.Tool(t, "chromium")
	driver := need.Tool(t, "chromedriver")
	addr := need.Addr(t)
	p := start(t, t.TempDir(), nil, driver, "--port="+addr[strings.LastIndex(addr, ":")+1:])
	p.await("started successfully", 0, upTime)
	b := &browser{t: t, base: "http://" + addr}
	var s struct{ SessionID string }
	b.do(http.MethodPost, "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:chromeOptions": map[string]any{"binary": chromium, "args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1200,2020", "--user-data-dir=" + t.TempDir(),
		}},
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
	}}}, &s)
	b.base += "/session/" + s.SessionID
	t.Cleanup(func() { b.do(http.MethodDelete, "", nil, nil) })
	return b
}

// do makes one WebDriver request; v gets its value.
func (b *browser) do(method, path string, body, v any) {
	b.t.Helper()
	var text []byte
	if method == http.MethodPost {
		text, _ = json.Marshal(body)
	}
	req, err := http.NewRequest(method, b.base+path, bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	client := http.Client{Timeout: upTime}
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := struct{ Value json.RawMessage }{}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		b.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("browser: %s %s: %s", method, path, out.Value)
	}
	if v != nil {
		if err := json.Unmarshal(out.Value, v); err != nil {
			b.t.Fatal(err)
		}
	}
}

// script runs JavaScript in the page.
func (b *browser) script(js string, v any) {
	b.t.Helper()
	b.do(http.MethodPost, "/execute/sync", map[string]any{"script": js, "args": []any{}}, v)
}

// awaitText waits until the page shows a text.
func (b *browser) awaitText(text string, limit time.Duration) {
	b.t.Helper()
	b.awaitMatch(regexp.QuoteMeta(text), limit)
}

// awaitMatch waits until the page shows a text that matches.
func (b *browser) awaitMatch(pattern string, limit time.Duration) {
	b.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.Now().Add(limit)
	for {
		var shown string
		b.script("return document.body.innerText", &shown)
		if re.MatchString(shown) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the page does not show %q:\n%s", pattern, shown)
		}
	}
}

// awaitPixels waits until JavaScript finds in the drawing's pixels, d, what it
// looks for: the page fetches its drawing after its figures.
func (b *browser) awaitPixels(what, js string) {
	b.t.Helper()
	for deadline := time.Now().Add(upTime); time.Now().Before(deadline); {
		var found bool
		b.script(`const c = document.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		`+js, &found)
		if found {
			return
		}
	}
	b.t.Errorf("the drawing does not show %s", what)
}

// TestPage opens the status page of `heddle up` in a real browser: the page must fetch,
// draw and update its data, and cause no error on the browser's console.
func TestPage(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr := need.Addr(t)
	sock := socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--perf", "1s", "--api", addr, "--socket", sock, "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)

	b.do(http.MethodPost, "/url", map[string]string{"url": "http://" + addr + "/"}, nil)
	for _, want := range []string{"SUBNET UP", "MASTER", "36\nswitches", "324\nhosts", "648\nlinks active", "routes by ftree", "Last sweep", "1\npartitions\n", "1\ngroups"} {
		b.awaitText(want, upTime)
	}
	// The drawing must have ink: switches and links in their colors.
	b.awaitPixels("three colors", `const seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
		return seen.size >= 3`)
	// Cables have the colors of their use, and a cell each in the map below.
	b.awaitMatch(`busiest cable: [0-9.]+ [kM]?b/s, [-0-9.e]+ % of its rate, sw-[12]-[0-9]+ to sw-[12]-[0-9]+`, upTime)
	var shades int
	b.script(`const c = document.querySelector('#map canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		const rgb = i => '#' + [0, 1, 2].map(k => d[i + k].toString(16).padStart(2, '0')).join('');
		const style = getComputedStyle(document.documentElement), seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(rgb(i));
		return [0, 1, 2, 3, 4].filter(k => seen.has(style.getPropertyValue('--use' + k).trim())).length`, &shades)
	if shades < 2 {
		t.Errorf("the map of cables has %d colors of use", shades)
	}
	// The SA's figures follow what hosts ask and what an operator changes.
	start(t, dir, nil, heddle, "flood", "--port", "ibsim:host-5@"+sock, "--time", "1h", "--window", "1")
	conf := filepath.Join(dir, "partitions.conf")
	if err := os.WriteFile(conf, []byte("Default=0x7fff, ipoib : ALL=full ;\nblue=0x2, ipoib : ALL_CAS=full ;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, upTime, dir, nil, heddle, "ctl", "partitions", "apply", conf, "--api", addr, "--token-file", filepath.Join(dir, "token"))
	b.awaitText("2\npartitions", upTime)
	b.awaitText("2\ngroups", upTime)
	b.awaitMatch(`[1-9][0-9,]*\nper second\n`, upTime)
	pageTables(t, b, up)
	// A cable goes: the page follows by itself.
	fmt.Fprintln(up.In, `link down "host-9"[1]`)
	b.awaitText("647\nlinks active", upTime)

	b.awaitPixels("the host that has gone in red", `for (let i = 0; i < d.length; i += 4)
			if (d[i + 3] > 200 && d[i] > 150 && d[i + 1] < 90) return true;
		return false`)
	// A link between switches goes: the page tells what it broke.
	b.awaitText("no fault has broken a pair since the manager started", upTime)
	fmt.Fprintln(up.In, `link down "sw-1-1"[19]`)
	b.awaitMatch(`link sw-1-1:19 \(to [a-z0-9-]+:[0-9]+\)\n+[1-9][0-9]* pairs broken, connected in [0-9.]+ m?s`, upTime)
	var shot string
	b.do(http.MethodGet, "/screenshot", nil, &shot)
	png, err := base64.StdEncoding.DecodeString(shot)
	if err != nil || len(png) < 10_000 {
		t.Errorf("no picture of the page: %d bytes, %v", len(png), err)
	}
	if keep := os.Getenv("PAGE_PNG"); keep != "" { // to look at it
		if err := os.WriteFile(keep, png, 0o644); err != nil {
			t.Error(err)
		}
	}
	var log []struct{ Level, Message string }
	b.do(http.MethodPost, "/se/log", map[string]string{"type": "browser"}, &log)
	for _, l := range log {
		if l.Level == "SEVERE" {
			t.Errorf("the browser complains: %s", l.Message)
		}
	}
}

// pageTables looks at the tables of findings and of the worst ports: they follow the counters, the
// server bounds them, and a finding that was opened by the keyboard stays open and keeps the focus
// when its evidence grows.
func pageTables(t *testing.T, b *browser, up program) {
	b.awaitMatch(`round [0-9]+, every 1 s; 1,29[0-9] ports`, upTime)
	b.awaitMatch(`Busiest\n+port\s+to\s+sent\s+received\s+\S+ port [0-9]+\s+\S+ port [0-9]+\s+[0-9.e-]+ %`, upTime)
	b.awaitText("no port waits", upTime)
	var extra string
	b.script(`return [...document.querySelectorAll("[hidden]")].filter(e => e.offsetParent).map(e => e.id).join()`, &extra)
	if extra != "" {
		t.Errorf("hidden elements are shown: %s", extra)
	}
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.SymbolErrorCounter=40`)
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.PortRcvErrors=30`)
	b.awaitMatch(`warning\s+a link has bit errors\s+host-41 port 1 – sw-1-3 port 5`, upTime)
	b.awaitMatch(`[1-9] findings?\s+MASTER`, upTime)
	b.awaitMatch(`sw-1-3 port 5\s+host-41 port 1\s+SymbolErrorCounter 40.*PortRcvErrors 30`, upTime)
	const item = `[...document.querySelectorAll('#findingsList details')].find(d => d.textContent.includes('bit errors'))`
	b.script(item+`.querySelector('summary').focus()`, nil)
	enter := []map[string]string{{"type": "keyDown", "value": "\ue007"}, {"type": "keyUp", "value": "\ue007"}}
	b.do(http.MethodPost, "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keys", "actions": enter}}}, nil)
	b.awaitText("clean and reseat the connectors", upTime)
	b.script(`document.querySelector('#by-errors a').focus()`, nil)
	var before, after string
	b.script(`return document.activeElement.getAttribute('href')`, &before)
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.SymbolErrorCounter=90`)
	b.awaitMatch(`sw-1-3 port 5\s+SymbolErrorCounter \+90(, last [0-9.]+/s)?\s+more than 10`, upTime)
	b.awaitMatch(`SymbolErrorCounter 90`, upTime)
	b.script(`return document.activeElement.getAttribute('href')`, &after)
	if before != after || before == "" {
		t.Errorf("the focus was at %q, and is at %q", before, after)
	}
	var rows int
	b.script(`return Math.max(...[...document.querySelectorAll('#tables table')].map(t => t.tBodies[0].rows.length))`, &rows)
	if rows < 3 || rows > 8 {
		t.Errorf("a table has %d rows", rows)
	}
	var open bool
	if b.script(`return `+item+`.open`, &open); !open {
		t.Error("the finding is closed again")
	}
}
