package dataplane

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// twoSwitches are three hosts at each of two switches, and a slow cable between them.
// With two workers the second switch is in the first part.
func twoSwitches(t *testing.T, delay Time, workers int) (e *Engine, p *Plain, slow fabric.Ref, lost *[]Drop) {
	t.Helper()
	n := newNet(6, 2, 4)
	for h := range 6 {
		n.link(h, 6+h/3, qdr)
	}
	slow = n.link(6, 7, sdr1)
	p = n.tables(1)
	c := testConfig()
	c.SwitchDelay, c.Workers, c.Input, c.Reads = delay, workers, FIFO, 0
	e = mustNew(t, &n.Topology, p, c)
	e.workers.always = true
	if workers > 1 && (e.partOf(e.port(slow)) != e.parts[1] || len(e.parts) != 2) {
		t.Fatal("the first switch is not in the second part")
	}
	lost = &[]Drop{}
	e.SetHooks(Hooks{OnDrop: func(x *Drop) { *lost = append(*lost, *x) }})
	return e, p, slow, lost
}

// queueUp has host h send two packets over the slow cable, and then one to each of some
// hosts, which wait in one queue. It returns the stream of the last.
func queueUp(t *testing.T, e *Engine, h int, then ...int) (last int) {
	t.Helper()
	mustAdd(t, e, Stream{Src: h, To: To((h + 3) % 6), Bytes: rc2k, Packets: 2})
	for i, to := range then {
		last = mustAdd(t, e, Stream{Src: h, To: To(to), Bytes: rc2k, Packets: 1, Start: Time(2+2*i) * Microsecond})
	}
	return last
}

// down takes away the port of a switch to its third host.
func down(p *Plain, e *Engine, sw int32) {
	p.Attr[sw][3].State = ib.StateInit
	e.Refresh(sw)
}

// TestHooksAfterChange: what a change between runs lets ports choose has hooks called in
// the order of ports over all parts. Here the packet that a cut lets go shows the one
// behind it, which is lost.
func TestHooksAfterChange(t *testing.T) {
	var want []Drop
	for _, workers := range []int{1, 2} {
		e, p, slow, lost := twoSwitches(t, 100*Nanosecond, workers)
		first, second := queueUp(t, e, 0, 1, 2), queueUp(t, e, 3, 4, 5)
		e.Run(6 * Microsecond)
		down(p, e, 6)
		down(p, e, 7)
		if len(*lost) != 0 {
			t.Fatalf("%d workers: lost before the cut: %+v", workers, *lost)
		}
		e.CutLink(slow)
		mustCheck(t, e)
		n := len(*lost)
		if n < 2 || (*lost)[n-2].Stream != first || (*lost)[n-1].Stream != second {
			t.Errorf("%d workers: lost %+v", workers, *lost)
		}
		if workers == 1 {
			want = *lost
		} else if !slices.Equal(*lost, want) {
			t.Errorf("%d workers: lost\n%+v\none\n%+v", workers, *lost, want)
		}
	}
}

// TestHooksOfRounds: an event that a choice causes at the same instant comes after the
// choices of all parts, also if those are of another part. Here a switch without delay
// looks up its own packet, and loses it, when a port of the other chooses.
func TestHooksOfRounds(t *testing.T) {
	for _, workers := range []int{1, 2} {
		e, p, slow, lost := twoSwitches(t, 0, workers)
		waits := queueUp(t, e, 0, 2)
		e.Run(6 * Microsecond)
		down(p, e, 6)
		free := e.out[e.port(slow)].busy
		p.SetRoute(7, p.lidOf(0), 255)
		own := mustAdd(t, e, Stream{Src: e.NumHosts() + 1, To: To(0), Bytes: BytesMAD, Packets: 1, Start: free})
		e.Run(free + Microsecond)
		mustCheck(t, e)
		if l := *lost; len(l) != 2 || l[0].Stream != waits || l[1].Stream != own || l[0].At != free || l[1].At != free {
			t.Errorf("%d workers, %v: lost %+v", workers, free, l)
		}
		if workers > 1 && e.workers.windows == 0 {
			t.Error("no windows")
		}
	}
}

// TestCutOnLoop cuts a cable of a ring of tables, at moments of a packet's way whose head
// comes round before its tail has passed: every switch then passes on the same packet.
func TestCutOnLoop(t *testing.T) {
	rounds := 0
	for at := 100 * Nanosecond; at < 3*Microsecond; at += 20 * Nanosecond {
		n := newNet(2, 3, 3)
		n.link(0, 2, qdr)
		var ring [3]fabric.Ref
		for i := range 3 {
			ring[i] = n.link(2+i, 2+(i+1)%3, qdr)
		}
		n.link(1, 4, qdr)
		p := n.tables(1)
		for i := range 3 {
			p.SetRoute(int32(2+i), p.lidOf(1), ring[i].Port)
		}
		e := mustNew(t, &n.Topology, p, testConfig())
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc4k, Packets: 1})
		e.Run(at)
		same := 0
		for _, r := range ring {
			if o := &e.out[e.port(r)]; o.busy > e.now && o.reading >= 0 && o.reading != e.port(fabric.Ref{Node: 2, Port: 1}) {
				same++
			}
		}
		if same == 3 {
			rounds++
		}
		e.CutLink(ring[2])
		mustCheck(t, e)
		e.Run(Millisecond)
		mustCheck(t, e)
		if s := e.Stats(); s.Delivered != 0 || s.Drops() != 1 || e.Live() != 0 {
			t.Errorf("cut at %v: delivered %d, dropped %v, %d left", at, s.Delivered, s.Dropped, e.Live())
		}
	}
	if rounds == 0 {
		t.Error("at no moment do all switches pass the packet on")
	}
}
