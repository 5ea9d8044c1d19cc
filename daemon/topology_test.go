package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric/slurm"
	"heddle/ib"
	"heddle/mad"
)

// TestSlurmNames: Slurm's text has the names of the node-name-map for switches, and GUIDs for the others.
func TestSlurmNames(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	d.shared.Snap.Store(snap)
	names := func() (list []string) {
		top, _, err := d.Slurm(slurm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range top.Switches {
			list = append(list, s.Name)
		}
		return list
	}
	before := names()
	if len(before) != 1 {
		t.Fatalf("switches %q of one leaf", before)
	}
	d.cfg.Core.Names = map[ib.GUID]string{}
	for i := range snap.Fabric().Nodes {
		if n := &snap.Fabric().Nodes[i]; n.IsSwitch() {
			d.cfg.Core.Names[n.GUID] = "rack 7"
		}
	}
	if got := names(); !slices.Equal(got, []string{"rack-7"}) || slices.Equal(got, before) {
		t.Errorf("with a map: %q, before %q", got, before)
	}
}

// TestNetlistDate: the netlist has the date of the state, not of the request: equal ETags have equal bytes.
func TestNetlistDate(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	if _, _, err := d.Netlist(); err == nil {
		t.Error("a netlist of no subnet")
	}
	d.shared.Snap.Store(snap)
	d.dates.of(snap.Gen, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	write, gen, err := d.Netlist()
	var b strings.Builder
	if err == nil {
		err = write(&b)
	}
	if err != nil || gen != snap.Gen || !strings.Contains(b.String(), "generated on Sun Nov  1 12:00:00 2026\n") {
		t.Errorf("%v, state %d of %d:\n%.200s", err, gen, snap.Gen, b.String())
	}
}
