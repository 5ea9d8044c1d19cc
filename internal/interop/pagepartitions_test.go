package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heddle/internal/need"
)

// TestPageOfPartitions: a partition is created, gets and loses a member and is deleted, by the keyboard
// alone. The page shows the manager's plan first, and what the manager refuses. A plan that another change
// has overtaken is not carried out.
func TestPageOfPartitions(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	addr, token := need.Addr(t), filepath.Join(dir, "token")
	up := start(t, dir, nil, heddle, "up", "--topo", "kary,2,3", "--api", addr, "--socket", socketName(), "--token-file", token)
	up.await("SUBNET UP\n", 0, upTime)
	ctl := func(args ...string) string {
		return must(t, upTime, dir, nil, heddle, append(append([]string{"ctl", "partitions"}, args...), "--api", addr, "--token-file", token)...)
	}
	b.do(chromedp.EmulateViewport(1000, 760))
	b.open(addr)
	b.settled("partitions", `Rows 1 to 1 of 1[\s\S]*To change partitions needs the role admin; you have viewer`)
	b.settled("partition/0x7fff", `Partition Default 0x7fff[\s\S]*needs the role admin[\s\S]*ALL\s+full\s+a class of ports\s+the policy\s*\n[\s\S]*Rows 1 to 1 of 1`)
	b.awaitScript("no button works", `return [...document.querySelectorAll('main .buttons button')].every(b => b.disabled)`)
	b.signIn(token)
	b.settled("partitions", `Create a partition`)
	b.axe("the table of partitions")
	b.settled("partition", `Create a partition[\s\S]*role admin`)
	b.axe("a partition to create")

	fill := func(field, keys string) {
		t.Helper()
		b.awaitScript("no dialog", `const d = document.getElementById('dialog'); return !d.open && d.childElementCount === 0`)
		b.script(`const i = [...document.querySelectorAll('main label')].find(l => l.textContent.startsWith(`+"`"+field+"`"+`)).querySelector('input, select'); i.focus(); i.select?.()`, nil)
		b.press(keys)
	}
	// What is left empty, and what the manager refuses, is said before anything is asked.
	b.tabTo("Create…")
	b.press(kb.Enter)
	b.awaitMatch(`Create a partition: not possible\s+Name the partition first`)
	b.press(kb.Escape)
	fill("Name", "tenant")
	fill("First member", "host-99")
	b.tabTo("Create…")
	b.press(kb.Enter)
	b.awaitMatch(`not possible\s+nothing was changed: "host-99": give a port GUID`)
	b.axe("a refusal")
	b.press(kb.Escape)
	fill("First member", "host-2")
	fill("Membership", "f")
	b.tabTo("Create…")
	b.press(kb.Enter)
	b.awaitMatch(`ports that get other P_Keys\s+1\s[\s\S]*1 port\s+tenant 0x0001\s+none, then full\s+host-2[\s\S]*tenant begins.[\s\S]*Needs the role admin`)
	b.axe("the plan of a new partition")
	b.awaitScript("nothing happens by Enter alone", `return document.activeElement.textContent === 'Cancel'`)
	b.press(kb.Enter)
	b.awaitScript("nothing", `return !document.getElementById('dialog').open`)
	if has, _ := regexp.MatchString("tenant", ctl()); has {
		t.Error("a partition that was not confirmed")
	}
	b.tabTo("Create…")
	b.press(kb.Enter)
	b.awaitMatch(`tenant begins`)
	b.tabTo("Create the partition")
	b.press(kb.Enter)
	b.awaitMatch(`Partition tenant 0x0001[\s\S]*full\s+host-2 port 1\s+the policy\s+Remove`)

	// A member is added.
	fill("Member", "host-3")
	fill("Membership", "b")
	b.tabTo("Add or change…")
	b.press(kb.Enter)
	b.awaitMatch(`Add host-3 to tenant[\s\S]*1 port\s+tenant 0x0001\s+none, then both\s+host-3`)
	b.axe("the plan of a member")
	b.picture("partition-plan")
	b.tabTo("Change the member")
	b.press(kb.Enter)
	b.awaitMatch(`the member is stored; ports are brought up to date`)
	b.awaitMatch(`both\s+host-3 port 1\s+the policy\s+Remove…\s[\s\S]*Rows 1 to 2 of 2`)
	b.axe("a partition")
	b.theme("dark")
	b.axe("a partition, dark")
	b.picture("partition-dark")
	b.theme("light")

	// Somebody else is faster than who reads a plan.
	b.tabTo("Remove…")
	b.press(kb.Enter)
	b.awaitMatch(`Remove host-2 port 1[\s\S]*full, then none`)
	ctl("add-member", "tenant", "host-5")
	b.tabTo("Remove the member")
	b.press(kb.Enter)
	b.awaitMatch(`Remove host-2 port 1: nothing was changed: the partitions have changed meanwhile`)
	b.awaitMatch(`Rows 1 to 3 of 3`)
	b.awaitScript("the keyboard's place stays", `return document.activeElement.getAttribute('aria-label') === 'Remove host-2 port 1'`)
	b.press(kb.Enter)
	b.awaitMatch(`full, then none`)
	b.tabTo("Remove the member")
	b.press(kb.Enter)
	b.awaitMatch(`the removal is stored`)
	b.awaitMatch(`Rows 1 to 2 of 2`)

	b.do(chromedp.EmulateViewport(360, 800))
	b.tabTo("Delete the partition…")
	b.press(kb.Enter)
	b.awaitMatch(`Delete tenant[\s\S]*tenant ends.`)
	b.axe("the plan of an end, narrow")
	b.picture("partition-narrow")
	b.tabTo("Delete the partition")
	b.press(kb.Enter)
	b.awaitMatch(`Rows 1 to 1 of 1`)
	if has, _ := regexp.MatchString("tenant", ctl()); has {
		t.Error("the partition is still there")
	}
	b.quiet("/v1/partitions", addr) // what the manager refuses is no fault of the page
}

// TestPageReloadPlan: the dialog of Reload shows the plan of a changed file of partitions before anything is read,
// and what is wrong with a file that cannot be read. Nothing changes until it is confirmed.
func TestPageReloadPlan(t *testing.T) {
	dir := t.TempDir()
	addr, token, parts := need.Addr(t), filepath.Join(dir, "token"), filepath.Join(dir, "partitions.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(parts, []byte("Default=0x7fff, ipoib: ALL=full;\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	up := start(t, dir, nil, heddle, "up", "--topo", "kary,2,3", "--api", addr, "--socket", socketName(), "--token-file", token, "--partitions", parts)
	b := openBrowser(t)
	up.await("SUBNET UP\n", 0, upTime)
	b.do(chromedp.EmulateViewport(1200, 900))
	b.open(addr)
	b.signIn(token)
	b.settled("actions", `Reload\s+Reads the configuration[\s\S]*role admin`)
	ask := func(shows string) {
		t.Helper()
		b.awaitScript("no dialog", `const d = document.getElementById('dialog'); return !d.open && d.childElementCount === 0`)
		b.tabTo("Reload…")
		b.press(kb.Enter)
		b.awaitMatch(shows)
	}
	partitions := func() (n int) {
		b.script(`return (await (await fetch('v1/partitions')).json()).partitions.length`, &n)
		return n
	}

	write("blue=0x2, ipoib: ALL_CAS=full;\n")
	ask(`Reload\s+No setting differs\.\s+The file of partitions differs from the partitions in force:\s+ports that get other P_Keys\s+8\s[\s\S]*8 ports\s+blue 0x0002\s+none, then full\s+[\s\S]*blue begins\.[\s\S]*Files that are read again, changed or not: \S*partitions\.conf\.[\s\S]*Needs the role admin`)
	b.axe("the plan of changed partitions")
	b.picture("reload-partitions")
	b.awaitScript("nothing happens by Enter alone", `return document.activeElement.textContent === 'Cancel'`)
	b.press(kb.Enter)
	if n := partitions(); n != 1 {
		t.Errorf("%d partitions after a plan that was not confirmed", n)
	}
	write("blue=;\n")
	ask(`Reload: not possible\s+nothing changed: --partitions: \S*partitions\.conf:2:`)
	b.press(kb.Escape)
	write("blue=0x2, ipoib: ALL_CAS=full;\n")
	ask(`blue begins`)
	b.tabTo("Apply the settings")
	b.press(kb.Enter)
	b.awaitText("read again: 0 settings changed, and the partitions; ports are brought up to date")
	if n := partitions(); n != 2 {
		t.Errorf("%d partitions after the reload", n)
	}
	ask(`No setting differs\.\s+Files that are read again`)
	b.press(kb.Escape)
	b.quiet("422", addr) // what the manager refuses is no fault of the page
}
