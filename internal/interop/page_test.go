package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"heddle/api"
	"heddle/internal/need"
)

// TestPage opens the status page of `heddle up` in a real browser: the page must fetch,
// draw and update its data, and cause no error on the browser's console.
func TestPage(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr := need.Addr(t)
	sock := socketName()
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--perf", "1s", "--api", addr, "--socket", sock, "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)

	b.open(addr)
	for _, want := range []string{"SUBNET UP", "MASTER", "36\nswitches", "324\nhosts", "648\nlinks active", "routes by ftree", "Last sweep", "1\npartition\n", "1\ngroup\n"} {
		b.awaitText(want)
	}
	b.view("use")
	// The drawing must have ink: switches and links in their colors.
	b.awaitPixels("three colors", `const seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
		return seen.size >= 3`)
	// Cables have the colors of their use, and a cell each in the map below.
	b.awaitMatch(`busiest cable: [0-9.]+ [kM]?b/s, [-0-9.e]+ % of its rate, sw-[12]-[0-9]+ to sw-[12]-[0-9]+`)
	var shades int
	b.script(`const c = document.querySelector('#map canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		const rgb = i => '#' + [0, 1, 2].map(k => d[i + k].toString(16).padStart(2, '0')).join('');
		const style = getComputedStyle(document.documentElement), seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(rgb(i));
		return [0, 1, 2, 3, 4].filter(k => seen.has(style.getPropertyValue('--use' + k).trim())).length`, &shades)
	if shades < 2 {
		t.Errorf("the map of cables has %d colors of use", shades)
	}
	b.view("")
	// The SA's figures follow what hosts ask and what an operator changes.
	start(t, dir, nil, heddle, "flood", "--port", "ibsim:host-5@"+sock, "--time", "1h", "--window", "1")
	conf := filepath.Join(dir, "partitions.conf")
	if err := os.WriteFile(conf, []byte("Default=0x7fff, ipoib : ALL=full ;\nblue=0x2, ipoib : ALL_CAS=full ;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, upTime, dir, nil, heddle, "ctl", "partitions", "apply", conf, "--api", addr, "--token-file", filepath.Join(dir, "token"))
	b.awaitText("2\npartitions")
	b.awaitText("2\ngroups")
	b.awaitMatch(`[1-9][0-9,]*\nper second\n`)
	pageTables(t, b, up)
	// A cable goes: the page follows by itself.
	fmt.Fprintln(up.In, `link down "host-9"[1]`)
	b.awaitText("647\nlinks active")
	b.view("use")
	b.awaitPixels("the host that has gone in red", `for (let i = 0; i < d.length; i += 4)
			if (d[i + 3] > 200 && d[i] > 150 && d[i + 1] < 90) return true;
		return false`)
	b.view("sweeps")
	// A link between switches goes: the page tells what it broke.
	b.awaitText("no fault has broken a pair since the manager started")
	fmt.Fprintln(up.In, `link down "sw-1-1"[19]`)
	b.awaitMatch(`link sw-1-1:19 \(to [a-z0-9-]+:[0-9]+\)\n+[1-9][0-9]* pairs broken, connected in [0-9.]+ m?s`)
	b.view("")
	b.awaitText("646\nlinks active")
	b.picture("page")
	b.quiet("", addr)
}

// TestPageOfPair looks at both pages of 'heddle up --pair': who is master, the partner, and how far
// behind it is. When the active manager is killed, its page says where the other one is, and that one's
// page goes from standby to the subnet by itself.
func TestPageOfPair(t *testing.T) {
	active := openBrowser(t)
	standby := openBrowser(t)
	first := need.Port(t, 2)
	addr := [2]string{fmt.Sprintf("127.0.0.1:%d", first), fmt.Sprintf("127.0.0.1:%d", first+1)}
	dir := t.TempDir()
	up := start(t, dir, nil, heddle, "up", "--pair", "--topo", "mesh,4x4", "--api", addr[0], "--socket", socketName(), "--state", dir)
	up.await("manager [12]: SUBNET UP", 0, upTime)
	// On a busy machine one may take over from the other at any time: the pages are opened anew then.
	a := -1
	for end := time.Now().Add(need.Patience); ; {
		var h [2]api.HA
		for i := range h {
			getJSON(t, "http://"+addr[i]+"/v1/ha", &h[i])
		}
		now := -1
		if h[0].State == "paired" && h[1].State == "paired" && h[0].Active != h[1].Active {
			if now = 0; h[1].Active {
				now = 1
			}
			if now != a {
				a = now
				active.open(addr[a])
				standby.open(addr[1-a])
			}
			if active.shows("SUBNET UP", "MASTER", "16\nhosts", "the partner has all changes",
				`Pair: active since [0-9:]{8}.*; term [0-9,]+; last sync .*; partner (localhost|127\.0\.0\.1):[0-9]+ standby, heard .* over TCP, heard .* in the subnet`) &&
				standby.shows(`Pair: standby since .* The active manager is at `+regexp.QuoteMeta(addr[a])+`\n`, "STANDBY", "; has all changes;",
					`port \S+ 0x[0-9a-f]{16}; master is 0x[0-9a-f]{16}`) {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the pages do not show a pair: %+v %+v\n%s\n%s", h[0], h[1], active.text(), standby.text())
		}
	}
	s := 1 - a
	active.picture("active")
	var shown, link string
	standby.script(`return ['.counts', '#findings', '#sweep', '#repairs'].filter(q => document.querySelector(q).offsetParent).join()`, &shown)
	if shown != "" {
		t.Errorf("a standby, which knows nothing of the subnet, shows %s", shown)
	}
	if standby.script(`return document.querySelector('#pair a').href`, &link); link != "http://"+addr[a]+"/" {
		t.Errorf("the link to the active manager is %q", link)
	}
	standby.picture("standby")
	standby.quiet("", addr[:]...)

	pid := regexp.MustCompile(fmt.Sprintf(`manager %d: pid ([0-9]+),`, a+1)).FindStringSubmatch(up.Output())
	if pid == nil {
		t.Fatalf("no pid of manager %d:\n%s", a+1, tail(up.Output()))
	}
	n, err := strconv.Atoi(pid[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	active.awaitMatch(`The manager does not respond since [0-9:]{8}; what is shown is of then. Retrying. The other one of the pair is at ` + regexp.QuoteMeta(addr[s]))
	active.picture("killed")
	standby.awaitMatch(`Pair: active since [0-9:]{8}: the active manager was silent; .*term [0-9,]+`)
	for _, want := range []string{"SUBNET UP", "MASTER", "16\nhosts", "this manager is active now"} {
		standby.awaitText(want)
	}
	standby.view("use")
	standby.awaitPixels("the fabric", `for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) return true; return false`)
	standby.picture("takeover")
	// It comes back, and is standby: its page goes on too.
	active.awaitMatch(`Pair: standby since .* The active manager is at ` + regexp.QuoteMeta(addr[s]) + `\n`)
	active.awaitMatch(`The manager responds again. It was started at [0-9:]{8}; all is shown anew.`)
	standby.awaitText("the partner has all changes")
	active.picture("back")
	active.quiet(addr[a], addr[:]...)
	standby.quiet("", addr[:]...)
}

// pageTables looks at the tables of findings and of the worst ports: they follow the counters, the
// server bounds them, and a finding that was opened by the keyboard stays open and keeps the focus
// when its evidence grows.
func pageTables(t *testing.T, b *browser, up program) {
	b.view("counters")
	b.awaitMatch(`round [0-9]+, every 1 s; 1,29[0-9] ports`)
	b.awaitMatch(`Busiest\n+port\s+to\s+sent\s+received\s+\S+ port [0-9]+\s+\S+ port [0-9]+\s+[0-9.e-]+ %`)
	b.awaitText("no port waits")
	var extra string
	b.script(`return [...document.querySelectorAll("[hidden]")].filter(e => e.offsetParent).map(e => e.id).join()`, &extra)
	if extra != "" {
		t.Errorf("hidden elements are shown: %s", extra)
	}
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.SymbolErrorCounter=40`)
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.PortRcvErrors=30`)
	b.awaitMatch(`sw-1-3 port 5\s+host-41 port 1\s+SymbolErrorCounter 40.*PortRcvErrors 30`)
	b.view("")
	b.awaitMatch(`warning\s+a link has bit errors\s+host-41 port 1 – sw-1-3 port 5`)
	b.awaitMatch(`[1-9] findings?\s+MASTER`)
	const item = `[...document.querySelectorAll('#findingsList details')].find(d => d.textContent.includes('bit errors'))`
	b.script(item+`.querySelector('summary').focus()`, nil)
	b.press(kb.Enter)
	b.awaitText("clean and reseat the connectors")
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.SymbolErrorCounter=90`)
	b.awaitMatch(`sw-1-3 port 5\s+SymbolErrorCounter \+90(, last [0-9.]+/s)?\s+more than 10`)
	var open bool
	if b.script(`const d = `+item+`; return d.open && d.contains(document.activeElement)`, &open); !open {
		t.Error("the finding is closed again, or lost the focus")
	}
	b.view("counters")
	b.awaitMatch(`SymbolErrorCounter 90`)
	b.script(`document.querySelector('#by-errors a').focus()`, nil)
	var before, after string
	b.script(`return document.activeElement.getAttribute('href')`, &before)
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[5] PortCounters.SymbolErrorCounter=120`)
	b.awaitMatch(`SymbolErrorCounter 120`)
	b.script(`return document.activeElement.getAttribute('href')`, &after)
	if before != after || before == "" {
		t.Errorf("the focus was at %q, and is at %q", before, after)
	}
	var rows int
	b.script(`return Math.max(...[...document.querySelectorAll('#tables table')].map(t => t.tBodies[0].rows.length))`, &rows)
	if rows < 3 || rows > 8 {
		t.Errorf("a table has %d rows", rows)
	}
	b.view("")
}
