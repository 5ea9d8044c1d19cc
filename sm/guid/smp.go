package guid

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// Next is when a table is due that failed or is to be read again.
func (g *Tables) Next() mad.Time { return g.retry }

// Due reports whether Upkeep has something to do.
func (g *Tables) Due() bool { return len(g.todo) > 0 || g.retry <= g.Now }

// Waiting reports whether Upkeep has something to do that is not tried again.
func (g *Tables) Waiting() bool { return len(g.todo) > 0 }

// Upkeep asks ports for the next thing about their tables, as long as the phase has fewer than
// most items.
func (g *Tables) Upkeep(most int) {
	if g.retry <= g.Now {
		g.wake()
	}
	// A table that waits for another is queued again when that one is done.
	for len(g.todo) > 0 && g.Pending < most {
		t := g.todo[0]
		g.todo = g.todo[1:]
		t.queued = false
		b, read, ok := g.work(t)
		if !ok {
			continue
		}
		o := work.OpSetGUIDs
		if read {
			o = work.OpGetGUIDs
		}
		p := g.EndPort(t.port)
		g.asked = append(g.asked, t)
		g.Add(work.Make(o, p.Node, p.Num, uint32(b)))
	}
	if len(g.todo) == 0 {
		g.todo = nil
	}
}

// wake queues the tables that have come due, and settles when the next is.
func (g *Tables) wake() {
	g.retry = mad.Never
	for _, t := range g.list {
		if t.suspect != 0 && t.suspectAt <= g.Now {
			t.known &^= t.suspect
			t.suspect = 0
			g.queue(t)
		}
		if t.retryAt != 0 && t.retryAt <= g.Now {
			t.retryAt = 0
			g.queue(t)
		}
		if t.suspect != 0 {
			g.retry = min(g.retry, t.suspectAt)
		}
		if t.retryAt != 0 {
			g.retry = min(g.retry, t.retryAt)
		}
	}
}

// UpkeepDone ends a portion of upkeep: all that was asked is answered.
func (g *Tables) UpkeepDone() { g.asked = g.asked[:0] }

// Build fills the request of an item. Entry 0 of the table is the port's own GUID, which no Set
// changes.
func (g *Tables) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	if it.Op() == work.OpGetGUIDs {
		get(smp.AttrGUIDInfo, it.Extra())
		return true
	}
	p := g.Fabric.PortOf(it.Node(), it.Port())
	t := g.byPort[p.GUID]
	var b smp.GUIDInfo
	for k := range b {
		switch i := int(it.Extra())*smp.GUIDBlockLen + k; {
		case i == 0:
			b[k] = p.GUID
		case i < int(p.Info.GUIDCap):
			b[k] = g.wantedAt(t, i)
		}
	}
	b.Put(set(smp.AttrGUIDInfo, it.Extra()))
	return true
}

// Answered takes the answer to reading or writing a block.
func (g *Tables) Answered(it work.Item, comp *mad.Completion) {
	p := g.Fabric.PortOf(it.Node(), it.Port())
	t := g.byPort[p.GUID]
	if t == nil {
		return
	}
	var b smp.GUIDInfo
	err := work.Answer(comp)
	if err == nil {
		err = b.Decode(smp.Data(comp.MAD))
	}
	switch {
	case err == nil && it.Op() == work.OpSetGUIDs:
		g.written(t, int(it.Extra()), int(p.Info.GUIDCap), &b, comp)
	case err == nil:
		g.read(t, int(it.Extra()), int(p.Info.GUIDCap), &b)
	case mad.Unanswered(err):
		g.unanswered(t, it, comp, err)
	default:
		g.refused(t, it, err)
	}
}

// take notes the entries of a block. most is how many entries the table has.
func (g *Tables) take(t *table, block, most int, b *smp.GUIDInfo) {
	have := slices.Clone(t.have)
	for k, x := range b {
		i := block*smp.GUIDBlockLen + k
		if i == 0 || i >= most {
			continue
		}
		if x == t.port {
			x = 0 // the port repeats its own GUID
		}
		have = Put(have, i, x)
	}
	t.tries = 0
	t.known |= 1 << block
	g.holds(t, have)
	g.queue(t)
}

// read takes a block as it was read.
func (g *Tables) read(t *table, block, most int, b *smp.GUIDInfo) {
	g.take(t, block, most, b)
	if end := (block + 1) * smp.GUIDBlockLen; end >= most || end >= len(t.have) {
		g.doubtOver(t)
	}
}

// written takes what a port says that a block holds after a Set.
func (g *Tables) written(t *table, block, most int, b *smp.GUIDInfo, comp *mad.Completion) {
	var asked smp.GUIDInfo
	_ = asked.Decode(smp.Data(comp.Request))
	bit := uint32(1) << block
	for k, x := range b {
		i := block*smp.GUIDBlockLen + k
		if x == t.port {
			x = 0
		}
		if i > 0 && i < most && x != asked[k] {
			t.refused |= bit
			g.refuse(subnet.Alias{Port: t.port, Index: uint8(i), GUID: asked[k]}, "the port keeps "+x.String())
		}
	}
	if t.wroteBefore(g.Now, bit) || comp.Tries > 1 {
		g.suspectBlock(t, bit)
	}
	g.take(t, block, most, b)
	if comp.Tries > 1 {
		g.doubtAll(t, asked[:])
	}
}

// suspectBlock has a block read again when no copy of an earlier Set can arrive any more.
func (g *Tables) suspectBlock(t *table, bit uint32) {
	t.suspect |= bit
	t.suspectAt = g.Now.Add(mad.LateCopy)
	g.retry = min(g.retry, t.suspectAt)
}

func action(it work.Item) string {
	if it.Op() == work.OpSetGUIDs {
		return "writing its alias GUIDs"
	}
	return "reading its alias GUIDs"
}

// unanswered: whether a Set was applied is not known. What the block was to hold counts as held,
// and is shown, until the port says otherwise or leaves.
func (g *Tables) unanswered(t *table, it work.Item, comp *mad.Completion, err error) {
	if it.Op() == work.OpSetGUIDs {
		var asked smp.GUIDInfo
		_ = asked.Decode(smp.Data(comp.Request))
		t.known &^= 1 << it.Extra()
		g.doubtAll(t, asked[:])
	}
	t.retryAt = g.Now.Add(g.Config.RetryInterval << min(t.tries, 4))
	t.tries = min(t.tries+1, 4)
	g.retry = min(g.retry, t.retryAt)
	what := action(it)
	if g.NoteOnce("guids " + t.port.String() + what) {
		g.Notify(notice.Notice{
			Kind: notice.KindSetFailed, Level: notice.Warn, Where: g.Fabric.Where(it.Node(), int(it.Port())), Err: err,
			Text: what + " failed; it is tried again",
		})
	}
}

// refused: the port does not show a block, or does not let it be written. Nobody waits for a port
// that does not give up a GUID.
func (g *Tables) refused(t *table, it work.Item, err error) {
	block := int(it.Extra())
	t.refused |= 1 << block
	lv := notice.Debug // a port without aliases need not show its table
	if len(t.want) > 0 {
		lv = notice.Warn
	}
	g.Notify(notice.Notice{
		Kind: notice.KindAliasRefused, Level: lv, Where: g.Fabric.Where(it.Node(), int(it.Port())), Err: err,
		Text: action(it) + " was refused: block " + strconv.Itoa(block) + " of port " + t.port.String() +
			" stays as it is until its aliases change or it is reset",
	})
	if it.Op() == work.OpSetGUIDs {
		have := slices.Clone(t.have)
		at := block * smp.GUIDBlockLen
		for i := at; i < min(at+smp.GUIDBlockLen, len(have)); i++ {
			have[i] = 0
		}
		g.holds(t, have)
	}
}

// Canceled takes an item whose answer will not be awaited; sent: its request may have arrived.
func (g *Tables) Canceled(it work.Item, sent bool) {
	t := g.byPort[g.Fabric.PortOf(it.Node(), it.Port()).GUID]
	if t == nil {
		return
	}
	if bit := uint32(1) << it.Extra(); it.Op() == work.OpSetGUIDs && sent {
		t.known &^= bit
		g.suspectBlock(t, bit)
		g.doubtAll(t, t.want)
	}
	g.queue(t)
}

// DropAsked forgets what is known of the tables that were asked in a portion of upkeep whose
// answers will not be seen.
func (g *Tables) DropAsked() {
	for _, t := range g.asked {
		t.known = 0
	}
	g.asked = g.asked[:0]
}
