package interop

import (
	"maps"
	"syscall"
	"testing"

	"heddle/ib"
	"heddle/internal/need"
)

// TestPriorityBesideOpenSM: beside a real OpenSM that is master, a heddle that was started inactive does
// nothing, is standby when it is made active, gets the subnet when its priority is raised, and OpenSM has
// it back when that is lowered. Nothing is started again, and no LID moves.
func TestPriorityBesideOpenSM(t *testing.T) {
	b := newOpenSMBed(t, smallTree, "routing_engine updn\nconnect_roots TRUE\n")
	b.run()
	before := b.awaitLIDs(len(b.cas) + b.fab.Count(ib.NodeSwitch))
	if out, err := b.imported(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--config", "heddle.yaml", "--priority", "0", "--inactive", "--sweep-interval", "1s", "--poll-interval", "500ms", "--api", addr)
	ctl := func(args ...string) {
		t.Helper()
		must(t, upTime, b.dir, nil, heddle, append(append([]string{"ctl", "ha"}, args...), "--api", addr)...)
	}
	eventually(t, "the API answers", func() bool {
		_, err := run(t, upTime, b.dir, nil, heddle, "ctl", "health", "--api", addr)
		return err == nil
	})
	awaitState(t, &b.built, addr, "NOTACTIVE", upTime)
	ctl("activate")
	awaitState(t, &b.built, addr, "STANDBY", upTime)
	ctl("priority", "9")
	awaitState(t, &b.built, addr, "MASTER", upTime)
	waitFile(t, b.osmd+"/log", "Entering STANDBY state")
	ctl("priority", "1")
	awaitState(t, &b.built, addr, "STANDBY", upTime)
	if now := b.awaitLIDs(len(before)); !maps.Equal(now, before) {
		t.Errorf("LIDs moved:\n%s", lidDiff(before, now))
	}
	if err := sm.stop(syscall.SIGTERM); err != nil {
		t.Errorf("heddle sm ended with %v", err)
	}
}
