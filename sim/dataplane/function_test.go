package dataplane

import (
	"testing"

	"heddle/ib"
)

// functionTables have a function with a LID at a host.
type functionTables struct {
	*Plain
	host int32
	lid  ib.LID
}

func (f *functionTables) Owns(node int32, _ uint8, lid ib.LID) bool {
	return f.lid != 0 && node == f.host && lid == f.lid
}

// TestFunctionLID: a host takes packets for the LID of its function while it has one,
// and sends from it; a switch leads them there. Without a function it discards them.
func TestFunctionLID(t *testing.T) {
	n := newNet(2, 1, 4)
	n.link(0, 2, qdr)
	n.link(1, 2, qdr)
	f := &functionTables{Plain: n.tables(1), host: 1, lid: 77}
	for _, workers := range []int{1, 2} {
		f.lid = 77
		c := Defaults()
		c.Workers = workers
		e := mustNew(t, &n.Topology, f, c)
		f.SetRoute(2, 77, f.LFT[2][f.Attr[1][1].LID])
		a, b := &echo{keep: true}, &echo{keep: true}
		attach(t, e, 0, a)
		attach(t, e, 1, b)
		a.door.Send(a.queue, &Message{DLID: 77, Bytes: 90})
		b.door.Send(b.queue, &Message{DLID: a.door.LID(), SLID: 77, Bytes: 90})
		e.Run(10 * Microsecond)
		if len(b.got) != 1 || b.got[0].DLID != 77 || b.got[0].SLID != a.door.LID() || len(a.got) != 1 || a.got[0].SLID != 77 {
			t.Fatalf("%d workers: %+v, %+v", workers, b.got, a.got)
		}
		f.lid = 0
		a.door.Send(a.queue, &Message{DLID: 77, Bytes: 90})
		e.Run(20 * Microsecond)
		if s := e.Stats(); len(b.got) != 1 || s.Dropped[WrongHost] != 1 {
			t.Errorf("%d workers: %d packets came, %d dropped", workers, len(b.got), s.Dropped[WrongHost])
		}
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
}
