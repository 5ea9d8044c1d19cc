package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heddle/internal/need"
)

// TestPageOfStaleTab: a tab whose manager goes away says since when, and that what it shows is of then.
// When a manager is there again, it says so, shows all anew, and says that its token is not valid any more.
func TestPageOfStaleTab(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr, token := need.Addr(t), filepath.Join(dir, "token")
	run := func(hosts int) program {
		up := start(t, dir, nil, heddle, "up", "--topo", fmt.Sprintf("xgft,1,%d,1", hosts), "--api", addr, "--socket", socketName(), "--token-file", token)
		up.await("SUBNET UP\n", 0, upTime)
		return up
	}
	up := run(4)
	b.do(chromedp.EmulateViewport(1200, 900))
	b.open(addr)
	b.awaitText("4\nhosts")
	b.signIn(token)
	b.settled("nodes", "Rows 1 to 5 of 5")
	_ = up.stop(syscall.SIGTERM)
	b.awaitMatch(`The manager does not respond since [0-9:]{8}; what is shown is of then. Retrying.`)
	b.awaitText("Rows 1 to 5 of 5")
	b.axe("a tab whose manager is away")
	b.picture("away")
	run(7)
	b.awaitMatch(`The manager responds again. It was started at [0-9:]{8}; all is shown anew. You were signed out: the token is not valid any more.`)
	b.awaitText("Rows 1 to 8 of 8")
	b.awaitText("Sign in")
	b.picture("again")
	b.quiet(addr, addr)
}

// TestPageSignIn: where reading needs a credential, the page's own files do not: it asks for a token, shows
// nothing before it has one, and no more when it is revoked.
func TestPageSignIn(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr, token, reader := need.Addr(t), filepath.Join(dir, "token"), filepath.Join(dir, "reader")
	if err := os.WriteFile(reader, []byte("reader reader reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := start(t, dir, nil, heddle, "up", "--topo", "xgft,1,4,1", "--api", addr, "--socket", socketName(), "--token-file", token, "--api-read-token-file", reader)
	up.await("SUBNET UP\n", 0, upTime)
	b.do(chromedp.EmulateViewport(1200, 900))
	b.open(addr)
	b.awaitText("Sign in to see the subnet that this manager runs.")
	b.awaitText("This address shows nothing of the subnet without a token or a client certificate.")
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		b.axe("the page before the sign-in, " + theme)
	}
	b.picture("signin")
	b.tabTo("Sign in…")
	b.press(kb.Enter)
	b.awaitScript("the dialog", `return document.activeElement.id === 'token'`)
	b.press("reader reader wrong", kb.Enter)
	b.awaitText("the token is not accepted")
	b.press("reader reader reader", kb.Enter)
	b.awaitText("read-token: viewer")
	b.awaitText("4\nhosts")
	secret := must(t, upTime, dir, nil, heddle, "ctl", "token", "create", "night", "--role", "operator", "--api", addr, "--token-file", token)
	var text string
	for w := range strings.FieldsSeq(secret) {
		if strings.HasPrefix(w, "heddle.night.") {
			text = w
		}
	}
	b.tabTo("who")
	b.press(kb.Enter)
	b.awaitScript("the dialog", `return document.activeElement.id === 'token'`)
	b.press(text, kb.Enter)
	b.awaitText("token:night: operator")
	must(t, upTime, dir, nil, heddle, "ctl", "token", "revoke", "night", "--api", addr, "--token-file", token)
	b.awaitText("You were signed out: the token is not valid any more.")
	b.awaitText("Sign in to see the subnet that this manager runs.")
	var left bool
	if b.script(`return document.body.innerText.includes('hosts')`, &left); left {
		t.Error("the page still shows the subnet")
	}
	b.quiet("401", addr)
}
