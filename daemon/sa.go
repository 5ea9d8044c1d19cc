package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

	"heddle/ib"
	"heddle/mad"
	"heddle/sa"
)

// saStats counts answers by attribute id. Any goroutine may use it.
type saStats struct {
	byAttr [256]atomic.Uint64 // SA attribute ids are below 0x100
	busy   atomic.Uint64
}

func (s *saStats) each(f func(attr string, n uint64)) {
	for a := range s.byAttr {
		if n := s.byAttr[a].Load(); n > 0 {
			f(ib.AttrName(ib.ClassSA, ib.AttrID(a)), n)
		}
	}
}

// answer is one SA worker: it answers from whatever snapshot is published
// when the query's turn comes.
func (d *Daemon) answer(ctx context.Context) {
	var buf []byte
	single := d.cfg.SingleMAD
	switch {
	case !d.cfg.Port.SegmentsRMPP():
		single = func(*mad.Packet) bool { return true }
	case single == nil:
		single = func(*mad.Packet) bool { return false }
	}
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-d.queries:
			req := sa.Request{From: p.Addr, Data: p.Data, SingleMAD: single(p)}
			reply, v := sa.Answer(&sa.Source{Snap: d.snap.Load(), Opt: &sa.Options{SAKey: d.cfg.Core.SMKey}}, &req, buf[:0])
			buf = reply
			if v == sa.Answered {
				d.sa.byAttr[p.Data[17]].Add(1)
				d.reply(p, reply)
			}
			d.free.put(p)
		}
	}
}

// busy answers a request that found the queue full.
func (d *Daemon) busy(p *mad.Packet) {
	if reply, ok := sa.Busy(&sa.Request{From: p.Addr, Data: p.Data}, nil); ok {
		d.sa.busy.Add(1)
		d.reply(p, reply)
	}
	d.free.put(p)
}

func (d *Daemon) reply(to *mad.Packet, data []byte) {
	r := mad.Packet{Addr: to.Addr, LocalQP: 1, Data: data}
	if err := d.send(&r); err != nil {
		d.note(slog.LevelDebug, "send_failed", "an SA answer could not be sent; the requester will ask again", map[string]string{"err": err.Error(), "lid": to.Addr.LID.String()})
	}
}
