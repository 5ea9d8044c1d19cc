package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"heddle/internal/need"
)

// browser is a headless Chromium without a GPU, driven by the DevTools protocol.
type browser struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	// complaints are errors on the console; requests are the addresses that the page asked. Guarded by mu.
	complaints, requests []string
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(need.Tool(t, "chromium")), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1200, 2020),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	b := &browser{t: t}
	var end context.CancelFunc
	b.ctx, end = chromedp.NewContext(alloc, chromedp.WithListener(b.hear))
	t.Cleanup(func() {
		end()
		stop() // it waits for the browser
	})
	if err := chromedp.Do(b.ctx); err != nil { // it starts the browser, whose life is that of this context
		t.Fatal(err)
	}
	return b
}

// hear notes what the page asks for and what the browser complains about.
func (b *browser) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError && len(e.Args) > 0 {
			b.complaints = append(b.complaints, string(e.Args[0].Value))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// do runs actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, need.Patience)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open shows the page of a manager, or a view of it ("ADDRESS/#/nodes").
func (b *browser) open(addr string) {
	b.t.Helper()
	if !strings.Contains(addr, "/") {
		addr += "/"
	}
	b.do(chromedp.Navigate("http://" + addr))
}

// view shows a view of the open page: "nodes?q=a".
func (b *browser) view(hash string) {
	b.t.Helper()
	to, _ := json.Marshal("#/" + hash)
	b.script("location.hash = "+string(to), nil)
}

// script runs JavaScript in the page: statements, whose value is returned by "return". v gets it if it is
// not nil.
func (b *browser) script(js string, v any) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, need.Patience)
	defer stop()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("(async () => JSON.stringify((await (async () => {"+js+"\n})()) ?? null))()", chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
}

// awaitScript waits until JavaScript returns true.
func (b *browser) awaitScript(what, js string) {
	b.t.Helper()
	for deadline := time.Now().Add(need.Patience); ; {
		var found bool
		if b.script(js, &found); found {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the page does not come to: %s\n%s", what, b.text())
		}
	}
}

// awaitText waits until the page shows a text.
func (b *browser) awaitText(text string) {
	b.t.Helper()
	b.awaitMatch(regexp.QuoteMeta(text))
}

// awaitMatch waits until the page shows a text that matches.
func (b *browser) awaitMatch(pattern string) {
	b.t.Helper()
	for deadline := time.Now().Add(need.Patience); !b.shows(pattern); {
		if time.Now().After(deadline) {
			b.t.Fatalf("the page does not show %q:\n%s", pattern, b.text())
		}
	}
}

// text is what the page shows once it has drawn its next frame.
func (b *browser) text() (shown string) {
	b.t.Helper()
	b.script("await new Promise(requestAnimationFrame); return document.body.innerText", &shown)
	return shown
}

// shows reports whether the page shows a match of each pattern.
func (b *browser) shows(patterns ...string) bool {
	b.t.Helper()
	shown := b.text()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(shown) {
			return false
		}
	}
	return true
}

// awaitPixels waits until JavaScript finds in the drawing's pixels, d, what it
// looks for: the page fetches its drawing after its figures.
func (b *browser) awaitPixels(what, js string) {
	b.t.Helper()
	b.awaitScript("the drawing shows "+what, `const c = document.querySelector('canvas');
		if (!c || !c.width || !c.height) return false;
		const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		`+js)
}

// press sends keys to what has the focus: those of chromedp's kb, or text.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// picture takes a picture of the page. PAGE_PNG names a directory to keep it in, to look at it.
func (b *browser) picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.HasPrefix(png, []byte("\x89PNG")) || len(png) < 3_000 {
		b.t.Errorf("no picture of the page: %d bytes", len(png))
	}
	if keep := os.Getenv("PAGE_PNG"); keep != "" {
		if err := os.WriteFile(filepath.Join(keep, name+".png"), png, 0o644); err != nil {
			b.t.Error(err)
		}
	}
}

// quiet fails if the browser complained, but about an address that is expected to be gone ("": none is),
// and if the page asked another host than those given.
func (b *browser) quiet(gone string, hosts ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		if gone == "" || !strings.Contains(c, gone) {
			b.t.Errorf("the browser complains: %s", c)
		}
	}
	for _, r := range b.requests {
		u, err := url.Parse(r)
		if err != nil {
			b.t.Errorf("the page asked for %q: %v", r, err)
			continue
		}
		known := u.Scheme == "data" || u.Scheme == "about"
		for _, h := range hosts {
			known = known || u.Host == h
		}
		if !known {
			b.t.Errorf("the page asked another host: %s", r)
		}
	}
}
