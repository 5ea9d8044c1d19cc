package sm

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// upkeepGUIDs asks up to most ports for the next thing about their tables.
func (c *Core) upkeepGUIDs(most int) {
	g := &c.guids
	if g.retry <= c.Now {
		g.retry = mad.Never
		for _, t := range g.list {
			if t.suspect != 0 && t.suspectAt <= c.Now {
				t.known &^= t.suspect
				t.suspect = 0
				g.queue(t)
			}
			if t.retryAt != 0 && t.retryAt <= c.Now {
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
	// One that has to wait for another is queued again when that one is done.
	for len(g.todo) > 0 && c.Pending < most {
		t := g.todo[0]
		g.todo = g.todo[1:]
		t.queued = false
		b, read, ok := c.guidWork(t)
		if !ok {
			continue
		}
		o := work.OpSetGUIDs
		if read {
			o = work.OpGetGUIDs
		}
		p := c.EndPort(t.port)
		g.asked = append(g.asked, t)
		c.Add(work.Make(o, p.Node, p.Num, uint32(b)))
	}
	if len(g.todo) == 0 {
		g.todo = nil
	}
}

// doubtGUIDs notes that a port may have GUIDs in its table: no other gets them before it
// has been read.
func (c *Core) doubtGUIDs(t *guidTable, list []ib.GUID) {
	for _, x := range list {
		if x != 0 && x != t.port {
			c.guids.doubt[x] = t
		}
	}
}

// doubted reports whether a port other than that of t may have a GUID. It sees to it
// that its table is read.
func (c *Core) doubted(x ib.GUID, t *guidTable) bool {
	g := &c.guids
	o := g.doubt[x]
	if o == nil || o == t || c.EndPort(o.port) == nil || o.refused != 0 {
		return false
	}
	if !slices.Contains(g.asked, o) {
		o.known = 0
		g.queue(o)
	}
	return true
}

// doubtOver ends the doubts about a port whose table was read.
func (c *Core) doubtOver(t *guidTable) {
	g := &c.guids
	var over []ib.GUID
	for x, o := range g.doubt {
		if o == t {
			over = append(over, x)
		}
	}
	slices.Sort(over)
	for _, x := range over {
		delete(g.doubt, x)
		if o, ok := g.owner[x]; ok && o.t != t {
			g.queue(o.t)
		}
	}
}

// wroteBefore notes that a Set of a block was acknowledged. It reports whether that
// followed another one so soon that a copy of that may still come, and undo it.
func (t *guidTable) wroteBefore(now mad.Time, bit uint32) bool {
	if now.Sub(t.wroteAt) >= mad.LateCopy {
		t.recent = 0
	}
	again := t.recent&bit != 0
	t.recent |= bit
	t.wroteAt = now
	return again
}

// buildGUIDs fills a block to write. Entry 0 of the table is the port's own
// GUID, which no Set changes.
func (c *Core) buildGUIDs(p *topo.Port, block int) (b smp.GUIDInfo) {
	t := c.guids.byPort[p.GUID]
	for k := range b {
		switch i := block*smp.GUIDBlockLen + k; {
		case i == 0:
			b[k] = p.GUID
		case i < int(p.Info.GUIDCap):
			b[k] = c.guidWanted(t, i)
		}
	}
	return b
}

// onGUIDs takes the answer to reading or writing a block.
func (c *Core) onGUIDs(it work.Item, comp *mad.Completion) {
	g := &c.guids
	p := c.Fabric.PortOf(it.Node(), it.Port())
	t := g.byPort[p.GUID]
	if t == nil {
		return
	}
	block := int(it.Extra())
	bit := uint32(1) << block
	var b, asked smp.GUIDInfo
	err := work.Answer(comp)
	if err == nil {
		err = b.Decode(smp.Data(comp.MAD))
	}
	set := it.Op() == work.OpSetGUIDs
	if set {
		_ = asked.Decode(smp.Data(comp.Request))
	}
	what := "reading its alias GUIDs"
	if set {
		what = "writing its alias GUIDs"
	}
	at := block * smp.GUIDBlockLen
	switch {
	case err == nil:
		t.tries = 0
		have := slices.Clone(t.have)
		refused := false
		for k, x := range b {
			i := at + k
			if i == 0 || i >= int(p.Info.GUIDCap) {
				continue
			}
			if x == p.GUID {
				x = 0 // said again, not another
			}
			have = guidPut(have, i, x)
			if set && x != asked[k] {
				refused = true
				c.aliasRefused(subnet.Alias{Port: t.port, Index: uint8(i), GUID: asked[k]}, "the port keeps "+x.String())
			}
		}
		t.known |= bit
		if set && (t.wroteBefore(c.Now, bit) || comp.Tries > 1) {
			t.suspect |= bit
			t.suspectAt = c.Now.Add(mad.LateCopy)
			g.retry = min(g.retry, t.suspectAt)
		}
		if refused {
			t.refused |= bit
		}
		c.haveGUIDs(t, have)
		g.queue(t)
		switch {
		case set && comp.Tries > 1:
			c.doubtGUIDs(t, asked[:])
		case !set && (at+smp.GUIDBlockLen >= int(p.Info.GUIDCap) || at+smp.GUIDBlockLen >= len(t.have)):
			c.doubtOver(t)
		}
	case mad.Unanswered(err):
		// Whether a Set was applied is not known. What it was to hold stays
		// shown and held until the port says otherwise or leaves.
		if set {
			t.known &^= bit
			c.doubtGUIDs(t, asked[:])
		}
		t.retryAt = c.Now.Add(c.Config.RetryInterval << min(t.tries, 4))
		t.tries = min(t.tries+1, 4)
		g.retry = min(g.retry, t.retryAt)
		if c.NoteOnce("guids " + t.port.String() + what) {
			c.Notify(notice.Notice{Kind: notice.KindSetFailed, Level: notice.Warn, Where: c.Fabric.Where(it.Node(), int(it.Port())), Err: err, Text: what + " failed; it is tried again"})
		}
	default:
		t.refused |= bit
		lv := notice.Debug // that a port without aliases does not show its table is no matter
		if len(t.want) > 0 {
			lv = notice.Warn
		}
		c.Notify(notice.Notice{
			Kind: notice.KindAliasRefused, Level: lv, Where: c.Fabric.Where(it.Node(), int(it.Port())), Err: err,
			Text: what + " was refused: block " + strconv.Itoa(block) + " of port " + t.port.String() + " stays as it is until its aliases change or it is reset",
		})
		if set { // nobody waits for a port that does not let go
			have := slices.Clone(t.have)
			for i := at; i < min(at+smp.GUIDBlockLen, len(have)); i++ {
				have[i] = 0
			}
			c.haveGUIDs(t, have)
		}
	}
}

// dropAskedGUIDs forgets the ports whose answers will not be seen.
func (c *Core) dropAskedGUIDs() {
	for _, t := range c.guids.asked {
		t.known = 0
	}
	c.guids.asked = c.guids.asked[:0]
}

// aliasesOf are the alias GUIDs that a port is known to hold.
func (c *Core) aliasesOf(p *topo.Port) []ib.GUID {
	if len(c.guids.list) == 0 || !p.Has(topo.PortEnd) {
		return nil
	}
	if t := c.guids.byPort[p.GUID]; t != nil {
		return c.aliasesShown(t)
	}
	return nil
}
