// Package mirror carries the published state of a manager to its standby, so that the standby can
// answer queries as the master did before it has read the subnet itself (docs/ha-rules.md).
//
//	e := mirror.NewEncoder(term)     // at the master
//	send(e.Next(snapshot))           // after each new snapshot
//
//	var m mirror.Mirror              // at the standby
//	err := m.Apply(message)          // an error: ask for a whole one (Encoder.Whole)
//	snapshot := m.Snapshot()         // for sm.SetWarm
//
// The first message of a stream is whole, the others have what changed: nodes, ports, blocks of
// forwarding tables. A message names nodes by GUID, so that a host that leaves does not change the
// others. docs/format/mirror.md has its form.
//
// What is carried is what answers of the SA depend on. Left out are the graph, problems, kept entries,
// multicast trees (their tables are carried), the memory of engines, and all keys. M_Keys and the
// SM_Key never leave a manager by this path.
//
// A Mirror trusts no message: it decodes a message as a whole or not at all, and takes memory in
// proportion to it, up to stated limits.
package mirror

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"heddle/ib"
	"heddle/partition"
	"heddle/route"
	"heddle/subnet"
)

const (
	// magic begins a message; its last byte is the version of the format.
	magic = "HSN\x01"
	// MaxMessage is the most bytes of a message. A whole one of 11,664 hosts has 30 MB.
	MaxMessage = 256 << 20
	// maxTables bounds the forwarding tables of a mirror, in bytes: 10,000 switches with all LIDs. It
	// bounds their tables of service levels too.
	maxTables = 512 << 20
	maxNodes  = 1 << 18
	maxLID    = int(ib.LIDMaxUnicast)
)

// The steps of a script.
const (
	stepCopy  = iota // some items of the old list, from an index on
	stepPatch        // an item of the old list with changes
	stepNew
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrGap says that a message is of another stream, or continues one that the Mirror does not have: it
// needs a whole one.
var ErrGap = errors.New("mirror: the message does not continue what is mirrored")

// Mirror is the state that messages have brought. The zero Mirror has none. It is used by one
// goroutine; the snapshots that it makes are for any.
type Mirror struct {
	i    image
	made *subnet.Snapshot
}

// image is immutable; a newer one shares what did not change.
type image struct {
	stream, seq, gen uint64
	head             head
	policy           *partition.Policy
	class            []int32
	nodes            []*nodeImage // ascending by GUID
	vports           []vportImage
	tables           int // bytes of all rows
}

type nodeImage struct {
	node   subnet.Node
	ports  []portImage
	row    []byte // nil: unknown
	levels []ib.SL
	lanes  *subnet.LaneTables
	mft    []subnet.MFTBlock
}

// portImage is a port without indices of nodes.
type portImage struct {
	p    *subnet.Port
	peer ib.GUID // node at the far end; 0: none
}

type vportImage struct {
	p  *subnet.Port // with Virtual
	at portKey      // its physical port
}

// Generation is that of the snapshot that is mirrored, 0 if there is none.
func (m *Mirror) Generation() uint64 { return m.i.gen }

// Apply takes a message. After an error the mirror is as it was: after ErrGap it needs a whole
// message, and any other error says that the message is damaged or of another version.
func (m *Mirror) Apply(b []byte) error {
	if len(b) > MaxMessage {
		return fmt.Errorf("mirror: a message of %d bytes is longer than %d", len(b), MaxMessage)
	}
	if len(b) < len(magic)+8+4 || !bytes.Equal(b[:3], []byte(magic[:3])) {
		return errors.New("mirror: not a message of this kind")
	}
	if b[3] != magic[3] {
		return fmt.Errorf("mirror: version %d is not known: give both managers the same version of heddle", b[3])
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("mirror: the message is damaged")
	}
	r := &reader{b: body[len(magic)+8:]}
	next := image{stream: binary.BigEndian.Uint64(body[len(magic):])}
	base := r.uint(1<<63 - 1)
	next.seq, next.gen = r.uint(1<<63-1), r.uint(1<<63-1)
	if next.seq <= base {
		r.fail(errValue)
	}
	old := &m.i
	switch {
	case r.err != nil:
		return fmt.Errorf("mirror: %w", r.err)
	case base == 0:
		old = &image{}
	case old.stream != next.stream || old.seq != base:
		return ErrGap
	}
	next.head = getHead(r)
	next.policy, next.class = old.policy, old.class
	if r.flags(1)[0] {
		var err error
		if next.policy, err = getPolicy(r.bytes()); err != nil {
			return fmt.Errorf("mirror: partitions: %w", err)
		}
	}
	if r.flags(1)[0] {
		sub := &reader{b: r.bytes()}
		if next.class = getClass(sub); sub.err != nil || len(sub.b) > 0 {
			r.fail(errValue)
		}
	}
	next.getNodes(r, old)
	next.getVPorts(r, old)
	if len(r.b) > 0 || next.head.levels && next.switches() > maxTables/max(next.head.classes, 1) {
		r.fail(errValue)
	}
	if r.err != nil {
		return fmt.Errorf("mirror: %w", r.err)
	}
	m.i, m.made = next, nil
	return nil
}

// copied reads a run of the old list.
func copied[T any](r *reader, old, list []T) []T {
	from, n := int(r.uint(1<<31)), int(r.uint(1<<31))
	if from+n > len(old) || len(list)+n > maxItems {
		r.fail(errValue)
		return list
	}
	return append(list, old[from:from+n]...)
}

// maxItems bounds lists that are copied: a run of the old list has few bytes.
const maxItems = 1 << 21

func (x *image) getNodes(r *reader, old *image) {
	x.nodes = make([]*nodeImage, 0, len(old.nodes))
	done := 0
	for range r.count(1) {
		switch r.byte() {
		case stepCopy:
			x.nodes = copied(r, old.nodes, x.nodes)
		case stepPatch:
			k := r.uint(maxNodes)
			if k >= uint64(len(old.nodes)) {
				r.fail(errValue)
				return
			}
			x.nodes = append(x.nodes, getPatch(r, old.nodes[k]))
		case stepNew:
			x.nodes = append(x.nodes, getPatch(r, nil))
		default:
			r.fail(errValue)
		}
		if r.err == nil {
			r.err = x.check(&done)
		}
		if r.err != nil {
			return
		}
	}
}

// switches is how many nodes have a place in the graph.
func (x *image) switches() (n int) {
	for _, i := range x.nodes {
		if i.node.SwitchIndex >= 0 {
			n++
		}
	}
	return n
}

// check checks the nodes from number done on.
func (x *image) check(done *int) error {
	if len(x.nodes) > maxNodes {
		return errValue
	}
	for ; *done < len(x.nodes); *done++ {
		n := x.nodes[*done]
		if *done > 0 && n.node.Info.NodeGUID <= x.nodes[*done-1].node.Info.NodeGUID {
			return errValue
		}
		if x.tables += len(n.row); x.tables > maxTables {
			return errValue
		}
	}
	return nil
}

// getPatch reads a node; old is what it changes, nil for a new one.
func getPatch(r *reader, old *nodeImage) *nodeImage {
	n := &nodeImage{}
	if old != nil {
		*n = *old
	}
	f := r.flags(6)
	if f[0] {
		was := n.node.Info
		n.node = getNode(r)
		if old != nil && (n.node.Info.NodeGUID != was.NodeGUID || n.node.Info.NumPorts != was.NumPorts) {
			r.fail(errValue)
		}
	}
	if old == nil {
		if !f[0] || !f[1] {
			r.fail(errValue)
			return n
		}
		n.ports = make([]portImage, int(n.node.Info.NumPorts)+1)
	}
	if f[1] {
		n.getPorts(r, old == nil)
	}
	if f[2] {
		n.getRow(r)
	}
	if f[3] {
		p := r.bytes()
		n.levels = nil
		if len(p) > 0 {
			n.levels = make([]ib.SL, len(p))
			for i := range p {
				n.levels[i] = ib.SL(p[i])
			}
		}
	}
	if f[4] {
		sub := &reader{b: r.bytes()}
		if n.lanes = getLanes(sub); sub.err != nil || len(sub.b) > 0 {
			r.fail(errValue)
		}
	}
	if f[5] {
		sub := &reader{b: r.bytes()}
		if n.mft = getMFT(sub); sub.err != nil {
			r.fail(errValue)
		}
	}
	return n
}

// getPorts reads ports; all says that none may be missing.
func (n *nodeImage) getPorts(r *reader, all bool) {
	n.ports = slices.Clone(n.ports)
	count := r.count(portLen)
	if all && count != len(n.ports) {
		r.fail(errValue)
		return
	}
	for i := range count {
		k := int(r.byte())
		p, peer := getPort(r)
		if r.err != nil || k >= len(n.ports) || all && k != i {
			r.fail(errValue)
			return
		}
		p.Num = uint8(k)
		n.ports[k] = portImage{&p, peer}
	}
}

// getRow reads the blocks of a forwarding table that changed.
func (n *nodeImage) getRow(r *reader) {
	blocks := int(r.uint(uint64(route.RowLen(ib.LIDMaxUnicast) / route.BlockLen)))
	if blocks == 0 {
		n.row = nil
		return
	}
	row := make([]byte, blocks*route.BlockLen)
	for at := copy(row, n.row); at < len(row); {
		at += copy(row[at:], dropped[:])
	}
	b := -1
	for range r.count(1 + route.BlockLen) {
		b += 1 + int(r.uint(uint64(blocks)))
		p := r.raw(route.BlockLen)
		if p == nil || b >= blocks {
			r.fail(errValue)
			return
		}
		copy(row[b*route.BlockLen:], p)
	}
	n.row = row
}

func (x *image) getVPorts(r *reader, old *image) {
	for range r.count(1) {
		switch r.byte() {
		case stepCopy:
			x.vports = copied(r, old.vports, x.vports)
		case stepNew:
			p, _ := getPort(r)
			v, at := getVirtual(r)
			p.Virtual = &v
			x.vports = append(x.vports, vportImage{&p, at})
		default:
			r.fail(errValue)
		}
		if r.err != nil {
			return
		}
	}
}
