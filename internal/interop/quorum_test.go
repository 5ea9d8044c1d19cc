package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/internal/etcdtest"
	"heddle/internal/need"
)

// TestQuorum: three managers share their state in three members of Debian's etcd. What was acknowledged
// survives kill -9 of the master, no LID changes, and without a majority of etcd queries go on while
// changes are refused.
func TestQuorum(t *testing.T) {
	cluster := etcdtest.Start(t, 3)
	url := "etcd://" + strings.Join(cluster.Endpoints(), ",") + "/subnet"
	dir := t.TempDir()
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("net", must(t, upTime, dir, nil, heddle, "topo", "gen", "torus", "3x3"))
	policy := func(name string, pkey int) {
		file(name, fmt.Sprintf("Default=0x7fff,ipoib:ALL=full;\ntenant=%#x:ALL=limited,SELF=full;\n", pkey))
	}
	policy("first", 0x10)
	policy("second", 0x20)
	policy("third", 0x30)
	sock := socketName()
	sim := start(t, dir, nil, heddle, "sim", "--netlist", "net", "--socket", sock)
	sim.await("READY\n", 0, upTime)

	api := func(i int) string { return "unix:" + filepath.Join(dir, fmt.Sprint("api", i)) }
	manager := func(i int) program {
		return start(t, dir, nil, heddle, "sm", "--port", fmt.Sprintf("ibsim:host-%d@%s", i, sock), "--store", url, "--priority", fmt.Sprint(10-i),
			"--api", "", "--api-socket", filepath.Join(dir, fmt.Sprint("api", i)), "--poll-interval", "200ms", "--poll-retries", "5", "--etcd-wait", "500ms")
	}
	first := manager(1)
	first.await("SUBNET UP\n", 0, upTime)
	var standby []program
	for i := 2; i <= 3; i++ {
		p := manager(i)
		p.await("to STANDBY", 0, upTime)
		standby = append(standby, p)
	}
	apply := func(i int, file string) (string, error) {
		return run(t, upTime, dir, nil, heddle, "ctl", "partitions", "apply", file, "--api", api(i))
	}
	if out, err := apply(1, "first"); err != nil {
		t.Fatal(err, out)
	}
	for i, want := range []string{"has the term", "follows it"} {
		if out := must(t, upTime, dir, nil, heddle, "ctl", "ha", "status", "--api", api(i+1)); !strings.Contains(out, want) {
			t.Errorf("manager %d: %s; want %q", i+1, out, want)
		}
	}
	lids := func() string {
		var list []string
		for l := range strings.Lines(must(t, upTime, dir, nil, heddle, "store", "export", url)) {
			if strings.Contains(l, `"lid":`) {
				list = append(list, l)
			}
		}
		return strings.Join(list, "")
	}
	before := lids()
	if strings.Count(before, "\n") < 18 {
		t.Errorf("LIDs in etcd:\n%s", before)
	}

	must(t, upTime, dir, nil, heddle, "ctl", "port", "drain", "sw-0-0:1", "--apply", "--api", api(1))
	awaitDrained(t, dir, api(1), "sw-0-0:1")

	first.stop(syscall.SIGKILL) //nolint:errcheck // it is killed
	at := standby[0].await("has the term|started anew with the state of the others", 0, upTime)
	at = standby[0].await("SUBNET UP\n", at, upTime)
	shown := must(t, upTime, dir, nil, heddle, "ctl", "partitions", "--api", api(2))
	if !strings.Contains(shown, "0x0010") && !strings.Contains(shown, "0x10") && !strings.Contains(shown, "0x8010") {
		t.Errorf("the new master does not know the policy:\n%s", shown)
	}
	awaitDrained(t, dir, api(2), "sw-0-0:1")
	if after := lids(); after != before {
		t.Errorf("LIDs changed:\n%s\n%s", before, after)
	}
	if out, err := apply(2, "second"); err != nil {
		t.Fatal(err, out)
	}

	cluster.Kill(0)
	cluster.Kill(1)
	if out, err := apply(2, "third"); err == nil {
		t.Errorf("a change was accepted without a majority:\n%s", out)
	}
	standby[0].await("etcd is away", at, upTime)
	if out := must(t, upTime, dir, nil, heddle, "flood", "--port", "ibsim:host-9@"+sock, "--queries", "50"); !strings.Contains(out, "50") {
		t.Errorf("queries without etcd:\n%s", out)
	}
	cluster.Restart(0)
	cluster.Restart(1)
	cluster.AwaitLeader()
	limit := time.After(need.Patience)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		out, err := apply(2, "third")
		if err == nil {
			break
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("etcd is back, and changes are still refused:\n%s", out)
		}
	}
	if sound := must(t, upTime, dir, nil, heddle, "store", "check", url); !strings.Contains(sound, "is sound") {
		t.Error(sound)
	}

	// A state directory moves into etcd, and a manager goes on with it.
	must(t, upTime, dir, nil, "sh", "-c", heddle+" store export --secrets "+url+" >backup && "+heddle+" store import backup "+url+"2 && "+
		heddle+" store export --secrets "+url+"2 >again && grep '{\"lid\"' backup >a && grep '{\"lid\"' again >b && cmp a b")
	for _, command := range []string{"check", "export"} {
		if out, err := run(t, upTime, dir, nil, heddle, "store", command, url+"-misspelt"); err == nil || !strings.Contains(out, "has no state") {
			t.Errorf("store %s of a prefix without a state: %v\n%s", command, err, out)
		}
	}
	if out, err := run(t, upTime, dir, nil, heddle, "store", "import", "backup", url+"2"); err == nil || !strings.Contains(out, "--replace") {
		t.Errorf("a state was replaced without being asked: %s", out)
	}
}
