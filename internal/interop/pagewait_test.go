package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heddle/api"
	"heddle/internal/need"
)

// waitingFront is the address of a manager whose change of routes waits for packets to leave while waits is true:
// the one at addr, with the wait in its answers, so that its length does not depend on the machine.
func waitingFront(t *testing.T, addr string, waits *atomic.Bool, a *api.PortAction) string {
	t.Helper()
	proxy := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			path := r.Request.URL.Path
			if !waits.Load() || r.StatusCode != http.StatusOK || path != "/v1/status" && path != "/v1/ports/actions" {
				return nil
			}
			text, err := json.Marshal([]*api.PortAction{a})
			if path == "/v1/status" {
				var s map[string]any
				if err = json.NewDecoder(r.Body).Decode(&s); err != nil {
					return err
				}
				s["phase"], s["wait_seconds"] = "drain", 60
				text, err = json.Marshal(s)
			}
			r.Body.Close()
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", fmt.Sprint(len(text)))
			return err
		},
	}
	front := httptest.NewServer(&proxy)
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections) // the stream of events
	return strings.TrimPrefix(front.URL, "http://")
}

// TestPageOfWait: while a change of routes waits for packets to leave, each view says so and until when, the
// overview counts the links that wait, and a link with entries over it is not called drained.
func TestPageOfWait(t *testing.T) {
	dir := t.TempDir()
	addr, token := need.Addr(t), filepath.Join(dir, "token")
	up := start(t, dir, nil, heddle, "up", "--topo", "kary,2,3", "--api", addr, "--socket", socketName(), "--token-file", token)
	b := openBrowser(t)
	up.await("SUBNET UP\n", 0, upTime)
	var links []api.Link
	getJSON(t, "http://"+addr+"/v1/links", &links)
	var l api.Link
	for _, x := range links {
		if x.Inner {
			l = x
		}
	}
	end := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var waits atomic.Bool
	front := waitingFront(t, addr, &waits, &api.PortAction{
		Action: "drain", GUID: l.A.GUID, Description: l.A.Description, Port: l.A.Port, PeerGUID: l.B.GUID, PeerDescription: l.B.Description,
		PeerPort: l.B.Port, Since: end, By: "night", Entries: 40, GoesOnAt: &end,
	})
	b.do(chromedp.EmulateViewport(1200, 900))
	b.open(front)
	b.signIn(token)
	b.settled("", `0\nproblems`)
	if b.shows("A change of routes waits") {
		t.Error("a wait before there is one")
	}
	waits.Store(true)
	b.awaitMatch(`A change of routes waits until about [0-9:]{8}: packets of earlier routes have to leave first\.`)
	b.awaitScript("the wait is read aloud", `return document.getElementById('live').textContent.startsWith('A change of routes waits')`)
	b.awaitMatch(`1\nlink out of use, 1 waiting`)
	b.axe("a wait")
	b.picture("wait")
	b.settled(fmt.Sprintf("port/%s/%d", l.A.GUID, l.A.Port), `being drained since .*, by night, 40 entries still lead over it, waits until about [0-9:]{8} for packets of earlier routes to leave`)
	b.settled("cables", `⊖ being drained`)
	b.settled("actions", `being drained since`)
	b.tabTo("Sweep…")
	b.press(kb.Enter)
	b.awaitText("A sweep is under way and waits for packets to leave: it gives way to this one, or this one follows it.")
	b.press(kb.Escape)
	waits.Store(false)
	b.awaitScript("the wait is over", `return document.getElementById('wait').hidden`)
	b.awaitText("No link is drained or isolated.")
	b.quiet("", front)
}
