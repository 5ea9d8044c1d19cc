package dataplane

import (
	"math/rand/v2"
	"testing"

	"heddle/ib"
)

// TestSendBetweenRuns: a program that is called between runs sends at the very instant
// at which a packet has left. Every packet gets its turn.
func TestSendBetweenRuns(t *testing.T) {
	e, _ := twoHosts(t, Defaults())
	a, b := &echo{}, &echo{keep: true}
	attach(t, e, 0, a)
	attach(t, e, 1, b)
	other := a.door.OpenQueue(ib.PKeyDefaultFull)
	m := &Message{DLID: b.door.LID(), Bytes: 2074}
	a.door.Send(a.queue, m)
	a.door.Send(a.queue, m)
	e.Run(e.out[e.hosts[0].port].busy)
	a.door.Send(other, m)
	e.Run(e.Now() + 100*Microsecond)
	if err := e.Check(); err != nil {
		t.Error(err)
	}
	if len(b.got) != 3 {
		t.Errorf("%d of 3 packets came", len(b.got))
	}
}

// TestEveryInstant: the engine stops at each event, and something is sent, or a node's
// ports are read again, before what happens then: nothing stays behind, at hosts and
// switches, whatever reads an input can have.
func TestEveryInstant(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := newNet(4, 2, 8)
		for i := range 4 {
			n.link(i, 4+i/2, qdr)
		}
		n.link(4, 5, qdr)
		c := Defaults()
		if seed%2 == 1 {
			c.Input, c.Reads = VOQ, int(seed%3)
		}
		p := n.tables(1)
		e := mustNew(t, &n.Topology, p, c)
		var list []*echo
		for h := range 4 {
			x := &echo{keep: true}
			attach(t, e, h, x)
			list = append(list, x)
		}
		sent := 0
		for range 400 {
			if next := e.Next(); next != Never {
				e.Run(next)
			}
			x := list[r.IntN(4)]
			switch r.IntN(6) {
			case 0, 1, 2:
				to := list[r.IntN(4)]
				if to != x && x.door.Send(x.queue, &Message{DLID: to.door.LID(), Bytes: 100 + r.IntN(2000)}) {
					sent++
				}
			case 3:
				e.Refresh(int32(r.IntN(6)))
			default:
				e.Run(e.Now() + 1)
			}
		}
		e.Run(e.Now() + Millisecond)
		got := 0
		for _, x := range list {
			got += len(x.got)
		}
		if err := e.Check(); err != nil || got != sent {
			t.Errorf("seed %d: %d of %d packets came, %v", seed, got, sent, err)
		}
	}
}
