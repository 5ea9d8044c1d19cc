package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heddle/api"
	"heddle/internal/need"
)

// signIn signs in with the token of a file, as the dialog does.
func (b *browser) signIn(file string) {
	b.t.Helper()
	token, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.script(fmt.Sprintf(`sessionStorage.setItem("token", %q)`, strings.TrimSpace(string(token))), nil)
	b.do(chromedp.Reload())
	b.awaitText("write-token: admin")
}

// TestPageOfLinks: draining, isolating and restoring a link by the keyboard alone. The page shows the
// manager's dry run first, and what the manager refuses; the map and the tables show what is out of use by
// signs and words.
func TestPageOfLinks(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr, token := need.Addr(t), filepath.Join(dir, "token")
	up := start(t, dir, nil, heddle, "up", "--topo", "kary,2,3", "--engine", "ftree", "--api", addr, "--socket", socketName(), "--token-file", token)
	up.await("SUBNET UP\n", 0, upTime)
	var links []api.Link
	getJSON(t, "http://"+addr+"/v1/links", &links)
	var inner []api.Link
	for _, l := range links {
		if l.Inner {
			inner = append(inner, l)
		}
	}
	if len(inner) < 4 || len(inner) == len(links) {
		t.Fatalf("%d links between switches of %d", len(inner), len(links))
	}
	one, two := inner[0].A, inner[len(inner)-1].A
	view := func(e api.LinkEnd) string { return fmt.Sprintf("port/%s/%d", e.GUID, e.Port) }

	// Who may only read sees no button that works.
	b.do(chromedp.EmulateViewport(1200, 900))
	b.open(addr)
	b.settled(view(one), `needs the role operator; you have viewer`)
	b.settled("cables", `To drain, isolate or restore a cable needs the role operator`)
	var buttons int
	b.script(`return document.querySelectorAll('main table button:not(.sort)').length`, &buttons)
	if buttons != 0 {
		t.Errorf("%d buttons for who may only read", buttons)
	}
	b.signIn(token)

	// The plan is the manager's. Enter alone does nothing.
	plan := dryRun(t, addr, token, fmt.Sprintf("ports/%s/%d/drain", one.GUID, one.Port))
	b.settled(view(one), `Routes may lead over this link`)
	b.tabTo("Drain…")
	b.press(kb.Enter)
	b.awaitMatch(fmt.Sprintf(`entries that lead over it\s+%d\s+entries that change\s+%d\s+LFT blocks to write\s+%d\s+switches with changes\s+%d\s+most paths over one link\s+%d, then %d`,
		plan.Entries, plan.Changed, plan.Blocks, plan.Switches, plan.LoadBefore, plan.LoadAfter))
	if plan.Changed < 1 || plan.Blocks < 1 || plan.Switches < 1 || plan.Blocks < plan.Switches || plan.Changed < plan.Blocks {
		t.Errorf("the plan is %+v", plan)
	}
	b.awaitText("Needs the role operator; you are write-token, admin.")
	b.axe("the plan of a drain")
	b.picture("action-drain")
	b.awaitScript("nothing happens by Enter alone", `return document.activeElement.textContent === 'Cancel'`)
	b.press(kb.Enter)
	b.awaitScript("the button again", `return !document.getElementById('dialog').open && document.activeElement.textContent === 'Drain…'`)
	b.press(kb.Enter)
	b.awaitScript("the plan", `return document.activeElement.textContent === 'Cancel'`)
	b.script(`document.querySelector('#dialog select').focus()`, nil)
	b.press("2") // 2 hours
	b.press(kb.Tab)
	b.press("bad cable")
	b.tabTo("Drain the link")
	b.press(kb.Enter)
	b.awaitMatch(`drained since .*, until .*, by write-token, bad cable`)
	b.awaitScript("the keyboard's place stays", `return document.activeElement.textContent === 'Restore…'`)

	// What the manager refuses is shown before anything is asked.
	b.settled(view(two), `Routes may lead over this link`)
	b.tabTo("Isolate…")
	b.press(kb.Enter)
	b.awaitMatch(`Isolate a link: not possible\s+1 of at most 1 links are drained or isolated; restore one first`)
	b.axe("a refusal")
	b.press(kb.Escape)

	// The map says it by a sign, a pattern and words, and its twin as a table.
	b.settled("map", `, 1 link out of use`)
	b.awaitMatch(`Links out of use \(1\)\s+at\s+to\s+what\s+since\s+\S+ port \d+\s+\S+ port \d+\s+drained by write-token \(bad cable\) until`)
	b.awaitMatch(`Groups\s+group\s.*\sproblems\s+links out of use\s[\s\S]*\s0\s+1(\n|$)`)
	b.axe("the map with a drained link")
	b.picture("map-drained")

	// The overview, the table of cables and the actions have it too, and it is restored there.
	b.settled("", `1\nlink out of use`)
	b.settled("cables", `⊖ drained`)
	b.axe("cables with a drained link")
	b.settled("actions", `drained since .*bad cable`)
	b.axe("actions with a drained link")
	b.picture("actions")
	b.tabTo("Restore…")
	b.press(kb.Enter)
	b.awaitText("Routes may lead over the link again: the next sweep computes them.")
	b.tabTo("Restore the link")
	b.press(kb.Enter)
	b.awaitText("No link is drained or isolated.")

	// New routes use the link as if it had never been drained: the plan says what that changes.
	b.tabTo("Reroute…")
	b.press(kb.Enter)
	b.awaitMatch(`engine\s+ftree\s+switches with changes\s+\d+ of 12\s+LFT blocks to write\s+\d+\s+entries that change\s+\d+\s+most paths over one link\s+\d+, then [1-9]`)
	b.axe("the plan of new routes")
	b.press(kb.Escape)
	b.tabTo("Reload…")
	b.press(kb.Enter)
	b.awaitText("No setting differs.")
	b.axe("the plan of a reload")
	b.press(kb.Escape)
	operatorSettings(b, addr)
	b.quiet("422", addr) // what the manager refuses is no fault of the page
}

// operatorSettings changes the priority, the level of the log and the mode of congestion control by the
// keyboard: each after what it means, and no more than what was asked.
func operatorSettings(b *browser, addr string) {
	b.t.Helper()
	ask := func(field, keys, action, verb string, plan ...string) {
		b.t.Helper()
		// The last dialog gives the focus back once the page hears that it is closed, and empties it then.
		b.awaitScript("no dialog", `const d = document.getElementById('dialog'); return !d.open && d.childElementCount === 0`)
		b.script(fmt.Sprintf(`[...document.querySelectorAll('main label')].find(l => l.textContent.startsWith(%q)).querySelector('input, select').focus()`, field), nil)
		b.press(keys)
		b.tabTo(action + "…")
		b.press(kb.Enter)
		for _, p := range plan {
			b.awaitMatch(p)
		}
		b.axe("the plan of " + action)
		if verb == "" {
			b.press(kb.Escape)
			return
		}
		b.tabTo(verb)
		b.press(kb.Enter)
	}
	b.script(`document.querySelector('main input[type=number]').value = ''`, nil)
	ask("new priority", "16", "Priority", "", `Priority: not possible\s+a priority is a whole number from 0 to 15`)
	b.script(`document.querySelector('main input[type=number]').value = ''`, nil)
	ask("new priority", "9", "Priority", "Set the priority", `priority of this manager\s+0, then 9\s+this manager is\s+active`)
	b.awaitText("the priority is 9")
	b.awaitText(", priority 9,") // in the head of the page
	ask("new level", "d", "Log level", "Set the level", `level\s+info, then debug`, "the log grows fast")
	b.awaitText("the level is debug")
	ask("new mode", "a", "Congestion control", "Set the mode", `mode\s+off, then act\s+agents\s+\d`, "All agents get the settings that the manager computes")
	b.awaitText("the mode is to be act")
	b.picture("actions-settings")
	b.awaitScript("what was asked", `const get = async p => (await fetch(p)).json();
		return (await get('v1/loglevel')).level === 'debug' && (await get('v1/congestion')).mode === 'act' && (await get('v1/status')).priority === 9`)
}

// dryRun asks what an action would do.
func dryRun(t *testing.T, addr, token, path string) (p api.PortPlan) {
	t.Helper()
	secret, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/"+path+"?dry_run=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", path, resp.Status, b, err)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return p
}
