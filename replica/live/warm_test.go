package live

import (
	"bytes"
	"log/slog"
	"testing"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/replica/wire"
	"heddle/route/engine/minhop"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

// TestShown: what the active manager shows is what the standby has, from the newest snapshot on, also
// when the stream began anew. The active one has nothing, and a takeover takes it.
func TestShown(t *testing.T) {
	b, a := begin(t, 2)
	o := a.other()
	f, err := fabrictest.Generate("xgft", []string{"2", "18,18", "1,18"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := snaptest.New(t, f, minhop.Engine{}, 1)
	shown := func(gen uint64) bool {
		w := &o.pair().warm
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.mirror.Generation() == gen
	}
	show := a.pair().Show()
	show(s)
	b.eventually("the standby has it", func() bool { return shown(s.Gen) })
	for i := range uint64(50) {
		n := &subnet.Snapshot{}
		*n = *s
		n.Gen++
		n.Edit(s, int32(i)).Info.PKeyViolations++
		n.Carry(s, []int32{s.Ports[i].Node})
		s = n
		show(s)
	}
	b.eventually("the standby has the newest", func() bool { return shown(s.Gen) })
	b.put("an entry beside it")
	for _, on := range []bool{true, false} {
		for _, x := range b.site {
			x.proxy.setCut(on)
		}
	}
	var a2 *site
	n := &subnet.Snapshot{}
	*n = *s
	b.eventually("the standby follows the new stream", func() bool {
		if x := b.paired(); x != a2 { // a cut stream looks like the end of a process to a standby that gets no time
			if a2, o = x, x.other(); a2 != a {
				a2.pair().Warm() // a manager that takes over takes it
			}
			n.Gen++
			a2.pair().Show()(n)
		}
		return shown(n.Gen)
	})
	if a2.pair().Warm() != nil {
		t.Error("the active manager has what a peer shows")
	}
	if !o.pair().isWarm() || a2.pair().isWarm() {
		t.Error("it does not say who follows")
	}
	got := o.pair().Warm()
	if got == nil || got.Gen != n.Gen || got.Counts != n.Counts || got.PortByLID(ib.LID(5)) != n.PortByLID(5) {
		t.Errorf("the standby has %+v", got)
	}
	if o.pair().Warm() != nil {
		t.Error("it was taken twice")
	}
}

// TestSeenGetsOld: what a stream has shown gets old when the stream ends, also if messages of it are
// applied later, and counts no more when one cannot be followed.
func TestSeenGetsOld(t *testing.T) {
	f, err := fabrictest.Generate("xgft", []string{"2", "2,2", "1,2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	msg := bytes.Clone(mirror.NewEncoder(1).Next(snaptest.New(t, f, minhop.Engine{}, 1)))
	run := func(end bool, messages ...[]byte) *Pair {
		p := &Pair{log: slog.New(slog.DiscardHandler)}
		x := newSeen(p)
		list := make(chan []byte, len(messages))
		for _, m := range messages {
			list <- m
		}
		close(list)
		if end {
			x.end()
		}
		x.apply(list)
		return p
	}
	if p := run(false, msg); !p.warm.has || !p.warm.ended.IsZero() {
		t.Error("an open stream is not followed")
	}
	if p := run(true, msg); !p.warm.has || p.warm.ended.IsZero() {
		t.Error("messages of a stream that has ended never get old")
	}
	if p := run(false, msg, msg[:20]); p.warm.has || p.Warm() != nil {
		t.Error("a stream that cannot be followed counts")
	}
}

// TestSeenIsBounded: messages that wait to be applied are bounded by their bytes, with the one that
// has not ended; those that were applied count no more.
func TestSeenIsBounded(t *testing.T) {
	f, err := fabrictest.Generate("xgft", []string{"2", "2,2", "1,2"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	msg := bytes.Clone(mirror.NewEncoder(1).Next(snaptest.New(t, f, minhop.Engine{}, 1)))
	p := &Pair{log: slog.New(slog.DiscardHandler)}
	x := newSeen(p)
	x.most, x.list = int64(3*len(msg)), make(chan []byte, seenMessages) // nothing applies them
	for range 2 {
		x.take(&wire.Shown{Piece: bytes.Clone(msg), Last: true})
	}
	x.take(&wire.Shown{Piece: bytes.Clone(msg)})
	if x.lost {
		t.Error("what fits is refused")
	}
	x.take(&wire.Shown{Piece: []byte{0}})
	if !x.lost || len(x.part) > 0 {
		t.Errorf("%d bytes wait and %d follow, of %d", x.held.Load(), len(x.part), x.most)
	}
	for _, bad := range []bool{false, true} {
		x = newSeen(p)
		list := make(chan []byte, 3)
		x.list = list
		x.take(&wire.Shown{Piece: bytes.Clone(msg), Last: true})
		if bad {
			x.take(&wire.Shown{Piece: msg[:20], Last: true})
			x.take(&wire.Shown{Piece: bytes.Clone(msg), Last: true})
		}
		if x.held.Load() == 0 {
			t.Error("what waits does not count")
		}
		close(list)
		x.apply(list)
		if n := x.held.Load(); n != 0 {
			t.Errorf("damaged %v: %d bytes count that do not wait", bad, n)
		}
	}
}
