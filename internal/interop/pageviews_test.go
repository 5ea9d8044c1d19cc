package interop

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heddle/internal/need"
)

// A host of the fat tree with 324 hosts, and its first leaf switch.
const (
	pageHost = "0x0000000000100000"
	pageLeaf = "0x0000000000200000"
)

// pageViews are all views, with what each shows once it has its data.
var pageViews = []struct{ hash, shows string }{
	{"", "links active"},
	{"map", `Groups\s+group\s+switches`},
	{"map?unit=" + pageLeaf, `pod 1: switches|switches\s+switch\s+hosts`},
	{"path", "name, GUID, LID or GID"},
	{"path?from=host-1&to=host-300", `Path[\s\S]*switches; the way back[\s\S]*The way back\s+node\s+in by port`},
	{"use", `level 1|busiest cable`},
	{"nodes", "Rows 1 to 50 of 360"},
	{"nodes?q=host-1&sort=lid&desc=1&limit=25", `Rows 1 to 25 of 1\d\d, of 360 in all`},
	{"ports", "Rows 1 to 50 of 1,332"},
	{"cables", "Rows 1 to 50 of 648"},
	{"groups", "Rows 1 to 3 of 3"},
	{"partitions", "Rows 1 to 4 of 4"},
	{"vms", `db[\s\S]*down[\s\S]*web[\s\S]*Rows 1 to 3 of 3`},
	{"findings", `a link has bit errors[\s\S]*the link would be drained by rule bad_cable \(dry run\)[\s\S]*Rows 1 to 1 of 1`},
	{"events", `Rows 1 to \d+ of`},
	{"counters", `Busiest[\s\S]*sw-\d+-\d+ port`},
	{"sweeps", `discover[\s\S]*no fault has broken`},
	{"actions", `Sweep[\s\S]*needs the role operator`},
	{"partition", `Create a partition[\s\S]*needs the role admin`},
	{"partition/0x7fff", `Partition Default 0x7fff[\s\S]*Rows 1 to 1 of 1`},
	{"node/" + pageLeaf, `host-18 port 1[\s\S]*Its events`},
	{"port/" + pageHost + "/1", `sw-1-1 port 1[\s\S]*PortXmitData`},
	{"search?q=ost-1", "part of the name"},
	{"search?q=nothing-has-this-name", "Nothing is called"},
	{"nowhere", "There is no such view"},
}

// pagePartitions have a group each for IPoIB, but one.
const pagePartitions = `Default=0x7fff, ipoib: ALL=full;
storage=0x0001, ipoib: ALL=full;
tenant=0x0002, ipoib: ALL=limited;
spare=0x0003: ALL=limited;
`

// pageSubnet starts a manager with findings, counters, partitions, groups and virtual machines, and returns the address of its page and the
// file of its token.
func pageSubnet(t *testing.T) (addr, token string) {
	t.Helper()
	dir := t.TempDir()
	addr, token = need.Addr(t), filepath.Join(dir, "token")
	parts := filepath.Join(dir, "partitions.conf")
	if err := os.WriteFile(parts, []byte(pagePartitions), 0o600); err != nil {
		t.Fatal(err)
	}
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--perf", "1s", "--api", addr, "--socket", socketName(), "--token-file", token,
		"--partitions", parts, "--hypervisors", "vport,2")
	up.await("SUBNET UP\n", 0, upTime)
	for i, name := range []string{"web", "db"} {
		must(t, upTime, dir, nil, heddle, "ctl", "vm", "create", name, "--pkey", "0x8001", "--at", fmt.Sprintf("host-%d", 2+i), "--wait", "50s", "--api", addr, "--token-file", token)
	}
	must(t, upTime, dir, nil, heddle, "ctl", "vm", "create", "down", "--pkey", "0x8002", "--api", addr, "--token-file", token)
	// Errors are told apart from those of before the first round: it must be over.
	b := openBrowser(t)
	b.open(addr)
	b.view("counters")
	b.awaitMatch(`round [0-9]+, every 1 s`)
	fmt.Fprintln(up.In, `performanceset "sw-1-3"[20] PortCounters.SymbolErrorCounter=40`)
	b.view("findings")
	b.awaitMatch("a link has bit errors")
	b.quiet("", addr)
	return addr, token
}

// settled shows a view and waits for its data.
func (b *browser) settled(hash, shows string) {
	b.t.Helper()
	b.view(hash)
	b.awaitMatch(shows)
}

// theme sets the theme.
func (b *browser) theme(name string) {
	b.t.Helper()
	b.script(fmt.Sprintf("setTheme(%q)", name), nil)
}

// axe runs axe-core on the page, all its rules of WCAG 2.2 AA and its good practice.
func (b *browser) axe(what string) {
	b.t.Helper()
	var loaded bool
	if b.script("return Boolean(window.axe)", &loaded); !loaded {
		js, err := os.ReadFile("testdata/axe/axe.min.js")
		if err != nil {
			b.t.Fatal(err)
		}
		b.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
			return chromedp.Evaluate[chromedp.Void](string(js)+";0")(ctx, target)
		})
	}
	var wrong []string
	b.script(`const r = await axe.run(document, { resultTypes: ['violations'],
			runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
		return r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + n.html.slice(0, 200) + ' ' + (n.any[0]?.message || n.all[0]?.message || n.none[0]?.message)))`, &wrong)
	for _, w := range wrong {
		b.t.Errorf("%s: %s", what, w)
	}
}

// TestPageAccessible: no rule of axe-core is broken in any view, in light and dark, wide and narrow; and no
// view asks another host or complains.
func TestPageAccessible(t *testing.T) {
	t.Parallel()
	addr, _ := pageSubnet(t)
	b := openBrowser(t)
	b.open(addr)
	for i, theme := range []string{"light", "dark"} {
		b.do(chromedp.EmulateViewport([]int64{1200, 360}[i], 900))
		b.theme(theme)
		for _, v := range pageViews {
			b.settled(v.hash, v.shows)
			b.axe(theme + " #/" + v.hash)
			b.picture(theme + "-" + strings.NewReplacer("/", "-", "?", "-").Replace(v.hash))
		}
	}
	b.quiet("", addr)
}

// TestPageNarrow: with 360 pixels, and with 1,280 at 400 %, no view is wider than the screen: what is wide
// scrolls by itself. The menu opens.
func TestPageNarrow(t *testing.T) {
	addr, _ := pageSubnet(t)
	b := openBrowser(t)
	for _, size := range [][2]int64{{360, 740}, {320, 256}} {
		b.do(chromedp.EmulateViewport(size[0], size[1]))
		b.open(addr)
		for _, v := range pageViews {
			b.settled(v.hash, v.shows)
			var wide []string
			b.script(`const w = document.documentElement.clientWidth;
				if (document.scrollingElement.scrollWidth <= w) return [];
				return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > w + 1 && !e.closest('.wide')).slice(0, 5).map(e => e.outerHTML.slice(0, 120))`, &wide)
			if len(wide) > 0 {
				t.Errorf("%d pixels, #/%s is wider: %s", size[0], v.hash, strings.Join(wide, "\n"))
			}
		}
		var before, after bool
		b.script(`return Boolean(document.querySelector('#nav a').offsetParent)`, &before)
		b.script(`document.getElementById('menu').click()`, nil)
		if b.script(`return Boolean(document.querySelector('#nav a').offsetParent)`, &after); before || !after {
			t.Errorf("%d pixels: the menu is open %v, and %v after a click", size[0], before, after)
		}
	}
}

// focused describes what has the focus, and fails if it is not to be seen.
func (b *browser) focused() string {
	b.t.Helper()
	var f struct {
		Name string
		Seen bool
	}
	b.script(`const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
		return { Name: (e.getAttribute('href') || e.id || e.textContent || e.tagName).trim(),
			Seen: e.tagName === 'BODY' || e.id === 'view' || s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.bottom > 0 && r.top < innerHeight && r.right > 0 }`, &f)
	if !f.Seen {
		b.t.Errorf("the focus on %q is not to be seen", f.Name)
	}
	return f.Name
}

// tabTo presses Tab until what has the focus is called so.
func (b *browser) tabTo(name string) {
	b.t.Helper()
	for range 400 {
		b.press(kb.Tab)
		if b.focused() == name {
			return
		}
	}
	b.t.Fatalf("400 tabs do not lead to %q", name)
}

// TestPageByKeyboard goes through all views by the keyboard alone: the skip link, the navigation, sorting,
// paging, filters, details, the search and the sign-in. The focus is always to be seen.
func TestPageByKeyboard(t *testing.T) {
	addr, file := pageSubnet(t)
	b := openBrowser(t)
	b.do(chromedp.EmulateViewport(1200, 900))
	b.open(addr)
	b.awaitText("links active")
	b.tabTo("#view") // the skip link is the first
	b.press(kb.Enter)
	var at string
	if b.script("return document.activeElement.id", &at); at != "view" {
		t.Errorf("the skip link leads to %q", at)
	}
	var nav []string
	b.script(`return [...document.querySelectorAll('#nav a')].map(a => a.getAttribute('href'))`, &nav)
	if len(nav) < 12 {
		t.Errorf("the navigation has %d views", len(nav))
	}
	for _, href := range nav {
		b.script("document.getElementById('tools').querySelector('button').focus()", nil)
		b.tabTo(href)
		b.press(kb.Enter)
		b.awaitScript("the view "+href+" has the focus", fmt.Sprintf(`return location.hash === %q && document.activeElement.id === 'view' && document.querySelector('#view section h2') !== null
			&& document.querySelector('#nav [aria-current=page]').getAttribute('href') === %q`, href, href))
	}

	b.settled("nodes", "Rows 1 to 50 of 360")
	b.tabTo("words")
	b.press("host-2")
	b.awaitMatch(`Rows 1 to 50 of 1\d\d, of 360 in all`)
	b.tabTo("LID")
	b.press(kb.Enter)
	b.awaitScript("sorted by LID", `return document.querySelector('th[aria-sort=ascending]')?.textContent.startsWith('LID') && document.activeElement.textContent.startsWith('LID')`)
	b.press(kb.Enter)
	b.awaitScript("sorted by LID, the highest first", `return location.hash.includes('desc=1') && Boolean(document.querySelector('th[aria-sort=descending]'))`)
	b.awaitScript("the next page", `return document.querySelector('.pager a[href="#/nodes?q=host-2&sort=lid&desc=1&offset=50"]') !== null`)
	b.tabTo("#/nodes?q=host-2&sort=lid&desc=1&offset=50")
	b.press(kb.Enter)
	b.awaitMatch(`Rows 51 to 100 of 1\d\d`)
	b.awaitScript("the page is said", `return document.getElementById('live').textContent.startsWith('Rows 51 to 100')`)

	b.script("document.getElementById('searchText').focus()", nil)
	b.press("5") // a LID
	b.press(kb.Enter)
	b.awaitScript("the port with the LID", `return location.hash.startsWith('#/port/0x')`)
	b.awaitText("host-5 port 1")
	b.tabTo("#/port/" + pageLeaf + "/5") // the cable's other end
	b.press(kb.Enter)
	b.awaitText("sw-1-1 port 5")
	b.tabTo("#/node/" + pageLeaf)
	b.press(kb.Enter)
	b.awaitText("all of the node")

	b.groupLinks()
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b.script("document.getElementById('theme').focus()", nil)
	b.tabTo("who")
	b.press(kb.Enter)
	b.awaitScript("the dialog", `return document.getElementById('dialog').open && document.activeElement.id === 'token'`)
	b.press("wrong", kb.Enter)
	b.awaitText("the token is not accepted")
	b.axe("the dialog")
	b.press(kb.Escape)
	b.awaitScript("no dialog", `return !document.getElementById('dialog').open && document.activeElement.id === 'who'`)
	b.press(kb.Enter)
	b.awaitScript("the dialog", `return document.activeElement.id === 'token'`)
	b.press(strings.TrimSpace(string(token)), kb.Enter)
	b.awaitText("write-token: admin")

	var before struct{ Sweeps int }
	getJSON(t, "http://"+addr+"/v1/status", &before)
	b.settled("actions", `role operator`)
	b.awaitText(`There are none: "heddle ctl token create`)
	b.tabTo("Sweep…")
	b.press(kb.Enter)
	b.awaitText("No port is taken down")
	b.axe("the question before a sweep")
	b.awaitScript("nothing happens by Enter alone", `return document.activeElement.textContent === 'Cancel'`)
	b.press(kb.Enter)
	b.awaitScript("the question is gone", `return !document.getElementById('dialog').open && document.activeElement.textContent === 'Sweep…'`)
	b.press(kb.Enter)
	b.tabTo("Start the sweep")
	b.press(kb.Enter)
	b.awaitText("the sweep is requested")
	b.awaitScript("another sweep", fmt.Sprintf(`return (await (await fetch('v1/status')).json()).sweeps > %d`, before.Sweeps))
	b.axe("actions of an administrator")
}

// groupLinks: a group leads to its partition, and a partition to its groups.
func (b *browser) groupLinks() {
	b.t.Helper()
	b.settled("groups", "Rows 1 to 3 of 3")
	b.tabTo("#/partition/0x0001")
	b.press(kb.Enter)
	b.awaitMatch(`Partition storage 0x0001`)
	b.settled("partitions", "Rows 1 to 4 of 4")
	b.tabTo("#/groups?q=0x8001")
	b.press(kb.Enter)
	b.awaitMatch(`Rows 1 to 1 of 1, of 3 in all`)
}

// TestPageStart: what the page loads at its start is at most 300 kB, without compression; it runs no script
// but its own, and its styles move nothing for who wants no motion.
func TestPageStart(t *testing.T) {
	addr, _ := pageSubnet(t)
	b := openBrowser(t)
	b.open(addr)
	b.awaitText("links active")
	var bytes, scripts int
	b.script(`const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
		return all.reduce((sum, e) => sum + e.transferSize, 0)`, &bytes)
	if bytes < 20_000 || bytes > 300_000 {
		t.Errorf("the start takes %d bytes", bytes)
	}
	t.Logf("the start takes %d bytes", bytes)
	if b.script(`return document.querySelectorAll('script:not([src])').length`, &scripts); scripts > 0 {
		t.Errorf("%d scripts in the page", scripts)
	}
	resp, err := http.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	var moving int
	if b.script(`return document.getAnimations().length`, &moving); moving > 0 {
		t.Errorf("%d animations", moving)
	}
	b.quiet("", addr)
}
