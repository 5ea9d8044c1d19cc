package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
)

// TestPage opens the status page of `heddle up` in a real browser: the page's
// own code must fetch, draw and show without an error on its console.
func TestPage(t *testing.T) {
	browser := need.Tool(t, "chromium")
	dir := t.TempDir()
	addr := freeAddr(t)
	up := start(t, dir, nil, heddle, "up", "--topo", "fattree,324", "--api", addr, "--socket", socketName(), "--token-file", filepath.Join(dir, "token"))
	up.await("SUBNET UP\n", 0, upTime)

	flags := func(more ...string) []string {
		return append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir(),
			"--window-size=1280,1000", "--virtual-time-budget=4000"}, more...)
	}
	page := "http://" + addr + "/"
	out := must(t, 60*time.Second, dir, nil, browser, flags("--dump-dom", page)...)
	for _, want := range []string{`>SUBNET UP<`, `>MASTER<`, `<b>36</b><span>switches</span>`, `<b>324</b><span>hosts</span>`, `routes by minhop`} {
		if !strings.Contains(out, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	if m := regexp.MustCompile(`(?m)^.*(CONSOLE|Uncaught|Refused to).*$`).FindString(out); m != "" {
		t.Errorf("the page complains: %s", m)
	}
	if t.Failed() {
		t.Log(tail(out))
	}
	shot := filepath.Join(dir, "page.png")
	if keep := os.Getenv("PAGE_PNG"); keep != "" {
		shot = keep // to look at it
	}
	must(t, 60*time.Second, dir, nil, browser, flags("--screenshot="+shot, page)...)
	if st, err := os.Stat(shot); err != nil || st.Size() < 10_000 {
		t.Errorf("no picture of the page: %v", err)
	}
}
