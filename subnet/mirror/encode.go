package mirror

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"heddle/ib"
	"heddle/route"
	"heddle/subnet"
)

// Encoder makes the messages of a stream. It keeps the last snapshot that it was given.
type Encoder struct {
	stream uint64
	last   *subnet.Snapshot
	seq    uint64
	w      writer
	a, b   writer // scratch
}

// NewEncoder returns an encoder whose first message is whole. A Mirror tells streams apart by their
// number: that of a new master is another one.
func NewEncoder(stream uint64) *Encoder { return &Encoder{stream: stream} }

// Whole has the next message be whole, for a Mirror that missed one.
func (e *Encoder) Whole() { e.last = nil }

// Next returns the message that brings a Mirror which has the snapshot before to s. It is valid until
// the next call. It takes time proportional to the ports and blocks that the two do not share.
func (e *Encoder) Next(s *subnet.Snapshot) []byte {
	w := &e.w
	w.b = append(w.b[:0], magic...)
	w.b = binary.BigEndian.AppendUint64(w.b, e.stream)
	old := e.last
	if old == nil {
		old = &subnet.Snapshot{}
		w.uint(0)
	} else {
		w.uint(e.seq)
	}
	e.seq++
	w.uint(e.seq)
	w.uint(s.Gen)
	h := headOf(s)
	putHead(w, &h)
	e.policy(old, s)
	e.class(old, s)
	e.nodes(old, s)
	e.vports(old, s)
	e.last = s
	w.b = binary.BigEndian.AppendUint32(w.b, crc32.Checksum(w.b, castagnoli))
	return w.b
}

func headOf(s *subnet.Snapshot) head {
	h := head{
		state: s.State, up: s.Up, warm: s.Warm, veiled: s.Veiled, tables: s.Tables != nil, prefix: s.Prefix, portGUID: s.PortGUID,
		self: keyOf(s, s.Self), lid: s.LID, priority: s.Priority, actCount: s.ActCount, packetLife: s.PacketLife,
		master: s.Master, sms: s.SMs, engine: s.Engine, unsure: s.Unsure, gone: s.Gone,
	}
	if t := s.Tables; t != nil {
		h.topLID, h.numVLs, h.levels = t.TopLID, t.NumVLs, t.SL != nil
		if h.levels {
			h.classes = t.NumClasses
		}
	}
	return h
}

// keyOf names a port by the GUID of its node.
func keyOf(s *subnet.Snapshot, r subnet.Ref) portKey {
	if r.Node < 0 {
		return portKey{}
	}
	return portKey{s.Nodes[r.Node].Info.NodeGUID, r.Port}
}

// optional writes a part if it changed.
func (w *writer) optional(changed bool, part []byte) {
	w.flags(changed)
	if changed {
		w.bytes(part)
	}
}

func (e *Encoder) policy(old, s *subnet.Snapshot) {
	was, is := old.Partitions, s.Partitions
	if was == is {
		e.w.optional(false, nil)
		return
	}
	p := putPolicy(is)
	e.w.optional(was == nil || !bytes.Equal(p, putPolicy(was)), p)
}

func (e *Encoder) class(old, s *subnet.Snapshot) {
	was, is := classOf(old), classOf(s)
	changed := !slices.Equal(was, is)
	e.a.b = e.a.b[:0]
	if changed {
		putClass(&e.a, is)
	}
	e.w.optional(changed, e.a.b)
}

func classOf(s *subnet.Snapshot) []int32 {
	if s.Tables == nil || s.Tables.SL == nil {
		return nil
	}
	return s.Tables.Class
}

// script writes a list as pieces of an older one: runs that are the same, and items that are not.
type script struct {
	w       writer
	steps   int
	from, n int // the run that is not written yet
}

func (x *script) same(old int) {
	if x.n > 0 && x.from+x.n == old {
		x.n++
		return
	}
	x.flush()
	x.from, x.n = old, 1
}

// step writes the beginning of an item that is not the same.
func (x *script) step(kind byte) *writer {
	x.flush()
	x.steps++
	x.w.byte(kind)
	return &x.w
}

func (x *script) flush() {
	if x.n > 0 {
		x.steps++
		x.w.byte(stepCopy)
		x.w.uint(uint64(x.from))
		x.w.uint(uint64(x.n))
	}
	x.n = 0
}

func (x *script) end(w *writer) {
	x.flush()
	w.uint(uint64(x.steps))
	w.b = append(w.b, x.w.b...)
}

// nodes writes the nodes, which ascend by GUID in both snapshots.
func (e *Encoder) nodes(old, s *subnet.Snapshot) {
	var x script
	// Ports that share their memory are the same only if indices of nodes mean the same.
	sameIndex := slices.EqualFunc(old.Nodes, s.Nodes, func(a, b subnet.Node) bool { return a.Info.NodeGUID == b.Info.NodeGUID })
	sharedRows := sameIndex && old.Tables == s.Tables && slices.EqualFunc(old.Nodes, s.Nodes, func(a, b subnet.Node) bool { return a.SwitchIndex == b.SwitchIndex })
	j := 0
	for i := range s.Nodes {
		g := s.Nodes[i].Info.NodeGUID
		for j < len(old.Nodes) && old.Nodes[j].Info.NodeGUID < g {
			j++
		}
		c := comparison{old: old, s: s, i: int32(i), j: -1, sharedPorts: sameIndex, sharedRows: sharedRows, a: &e.a, b: &e.b}
		if j < len(old.Nodes) && old.Nodes[j].Info.NodeGUID == g && old.Nodes[j].Info.NumPorts == s.Nodes[i].Info.NumPorts {
			c.j = int32(j)
		}
		switch {
		case c.j >= 0 && c.equal():
			x.same(j)
		case c.j >= 0:
			w := x.step(stepPatch)
			w.uint(uint64(j))
			c.put(w)
		default:
			c.put(x.step(stepNew))
		}
	}
	x.end(&e.w)
}

// comparison is a node of a snapshot, i, beside the same one of an older snapshot, j, -1 for none.
type comparison struct {
	old, s                  *subnet.Snapshot
	i, j                    int32
	sharedPorts, sharedRows bool
	a, b                    *writer
}

// equal reports whether nothing of a node changed. It is exact but for what put leaves out.
func (c *comparison) equal() bool {
	changed := c.changes()
	return !changed.info && len(changed.ports) == 0 && !changed.row && !changed.levels && !changed.lanes && !changed.mft
}

type changes struct {
	info, row, levels, lanes, mft bool
	ports                         []uint8
}

func (c *comparison) changes() (x changes) {
	n := &c.s.Nodes[c.i]
	if c.j < 0 {
		x = changes{true, true, true, true, true, nil}
		for k := range int(n.Info.NumPorts) + 1 {
			x.ports = append(x.ports, uint8(k))
		}
		return x
	}
	x.info = c.differ(func(w *writer, s *subnet.Snapshot, at int32) { putNode(w, &s.Nodes[at]) })
	ports, was := c.s.NodePorts(c.i), c.old.NodePorts(c.j)
	for k, p := range ports {
		if c.sharedPorts && p == was[k] {
			continue
		}
		if c.differ(func(w *writer, s *subnet.Snapshot, at int32) {
			p := s.NodePorts(at)[k]
			putPort(w, p, keyOf(s, p.Peer).node)
		}) {
			x.ports = append(x.ports, uint8(k))
		}
	}
	if !c.sharedRows {
		x.row = c.rowDiffers()
		x.levels = !slices.Equal(levelsOf(c.old, c.j), levelsOf(c.s, c.i))
	}
	if lanesOf(c.old, c.j) != lanesOf(c.s, c.i) {
		x.lanes = c.differ(func(w *writer, s *subnet.Snapshot, at int32) { putLanes(w, lanesOf(s, at)) })
	}
	if a, b := c.old.MFTBlocks(c.j), c.s.MFTBlocks(c.i); len(a) != len(b) || len(a) > 0 && &a[0] != &b[0] {
		x.mft = c.differ(func(w *writer, s *subnet.Snapshot, at int32) { putMFT(w, s.MFTBlocks(at)) })
	}
	return x
}

// differ reports whether a part of the node is another one in the two snapshots.
func (c *comparison) differ(put func(w *writer, s *subnet.Snapshot, at int32)) bool {
	c.a.b, c.b.b = c.a.b[:0], c.b.b[:0]
	put(c.a, c.old, c.j)
	put(c.b, c.s, c.i)
	return !bytes.Equal(c.a.b, c.b.b)
}

func lanesOf(s *subnet.Snapshot, node int32) *subnet.LaneTables {
	if int(node) < len(s.Lanes) {
		return s.Lanes[node]
	}
	return nil
}

// levelsOf are the service levels of paths from a switch, by class; nil without any.
func levelsOf(s *subnet.Snapshot, node int32) []ib.SL {
	k, t := int(s.Nodes[node].SwitchIndex), s.Tables
	if k < 0 || t == nil || t.SL == nil {
		return nil
	}
	return t.SL[k*t.NumClasses : (k+1)*t.NumClasses]
}

// rowOf is the forwarding table of a switch, by blocks; blocks is 0 if it is unknown.
type rowOf struct {
	t      *route.Tables
	s      int32
	blocks int
}

func tableOf(s *subnet.Snapshot, node int32) (r rowOf) {
	k := s.Nodes[node].SwitchIndex
	if k < 0 || s.Tables == nil || int(k) >= s.Tables.Switches() || !s.Tables.Known(k) {
		return r
	}
	r = rowOf{s.Tables, k, route.RowLen(s.Tables.TopLID) / route.BlockLen}
	return r
}

func (r *rowOf) block(b int, to *[route.BlockLen]byte) []byte {
	if p := r.t.Part(r.s, b); len(p) == route.BlockLen {
		return p
	}
	r.t.Block(r.s, uint16(b), to)
	return to[:]
}

func (c *comparison) rowDiffers() bool {
	a, b := tableOf(c.old, c.j), tableOf(c.s, c.i)
	if a.blocks != b.blocks {
		return true
	}
	var x, y [route.BlockLen]byte
	for k := range a.blocks {
		if !bytes.Equal(a.block(k, &x), b.block(k, &y)) {
			return true
		}
	}
	return false
}

// put writes what changed of a node.
func (c *comparison) put(w *writer) {
	x := c.changes()
	w.flags(x.info, len(x.ports) > 0, x.row, x.levels, x.lanes, x.mft)
	if x.info {
		putNode(w, &c.s.Nodes[c.i])
	}
	if len(x.ports) > 0 {
		w.uint(uint64(len(x.ports)))
		ports := c.s.NodePorts(c.i)
		for _, k := range x.ports {
			w.byte(k)
			putPort(w, ports[k], keyOf(c.s, ports[k].Peer).node)
		}
	}
	if x.row {
		c.putRow(w)
	}
	if x.levels {
		list := levelsOf(c.s, c.i)
		w.uint(uint64(len(list)))
		for _, sl := range list {
			w.byte(byte(sl))
		}
	}
	if x.lanes {
		c.a.b = c.a.b[:0]
		putLanes(c.a, lanesOf(c.s, c.i))
		w.bytes(c.a.b)
	}
	if x.mft {
		c.a.b = c.a.b[:0]
		putMFT(c.a, c.s.MFTBlocks(c.i))
		w.bytes(c.a.b)
	}
}

// putRow writes the blocks of a forwarding table that changed, each with its distance from the one
// before.
func (c *comparison) putRow(w *writer) {
	r := tableOf(c.s, c.i)
	w.uint(uint64(r.blocks))
	if r.blocks == 0 {
		return
	}
	var was rowOf
	if c.j >= 0 {
		was = tableOf(c.old, c.j)
	}
	c.a.b = c.a.b[:0]
	n, last := 0, -1
	var x, y [route.BlockLen]byte
	for b := range r.blocks {
		now := r.block(b, &x)
		then := dropped[:]
		if b < was.blocks {
			then = was.block(b, &y)
		}
		if !bytes.Equal(now, then) {
			c.a.uint(uint64(b - last - 1))
			c.a.b = append(c.a.b, now...)
			n, last = n+1, b
		}
	}
	w.uint(uint64(n))
	w.b = append(w.b, c.a.b...)
}

// dropped is a block without a route.
var dropped = func() (b [route.BlockLen]byte) {
	for i := range b {
		b[i] = route.Drop
	}
	return b
}()

// vports writes the virtual ports, in the order of the snapshot.
func (e *Encoder) vports(old, s *subnet.Snapshot) {
	var x script
	was, is := old.VPorts(), s.VPorts()
	sameIndex := subnet.SameNodes(old, s) ||
		slices.EqualFunc(old.Nodes, s.Nodes, func(a, b subnet.Node) bool {
			return a.Info.NodeGUID == b.Info.NodeGUID && a.First == b.First
		})
	var places map[vportKey]int // of the old ones, made when needed
	for i, p := range is {
		k := vportKeyOf(s, p)
		j := i
		if j >= len(was) || vportKeyOf(old, was[j]) != k {
			if places == nil {
				places = make(map[vportKey]int, len(was))
				for j, q := range was {
					places[vportKeyOf(old, q)] = j
				}
			}
			var ok bool
			if j, ok = places[k]; !ok {
				j = -1
			}
		}
		if j >= 0 && sameIndex && was[j] == p {
			x.same(j)
			continue
		}
		e.a.b = e.a.b[:0]
		putVPort(&e.a, s, p)
		if j >= 0 {
			e.b.b = e.b.b[:0]
			putVPort(&e.b, old, was[j])
			if bytes.Equal(e.a.b, e.b.b) {
				x.same(j)
				continue
			}
		}
		w := x.step(stepNew)
		w.b = append(w.b, e.a.b...)
	}
	x.end(&e.w)
}

type vportKey struct {
	at    portKey
	index uint16
}

func vportKeyOf(s *subnet.Snapshot, p *subnet.Port) vportKey {
	q := s.Ports[p.Virtual.Port]
	return vportKey{portKey{s.Nodes[q.Node].Info.NodeGUID, q.Num}, p.Virtual.Index}
}

func putVPort(w *writer, s *subnet.Snapshot, p *subnet.Port) {
	putPort(w, p, 0)
	putVirtual(w, p.Virtual, vportKeyOf(s, p).at)
}
