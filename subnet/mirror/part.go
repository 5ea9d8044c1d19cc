package mirror

import (
	"encoding/json"
	"math"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/subnet"
)

// The parts of a snapshot on the wire. What is an index in a snapshot is the GUID of a node here, and
// an index in a graph is left out, so that a node that comes or goes changes nothing but itself and
// its links.

// head is what a snapshot has beside nodes and virtual ports.
type head struct {
	state          subnet.SMState
	up, warm       bool
	veiled, tables bool
	prefix         ib.SubnetPrefix
	portGUID       ib.GUID
	self           portKey // node 0: none
	lid            ib.LID
	priority       uint8
	actCount       uint32
	packetLife     uint8
	master         subnet.SM
	sms            []subnet.SM
	engine         string
	unsure, gone   []ib.GUID
	topLID         ib.LID
	numVLs         int
	levels         bool // Tables.SL is set
	classes        int
}

// portKey names a port by its node.
type portKey struct {
	node ib.GUID
	num  uint8
}

func putHead(w *writer, h *head) {
	w.byte(byte(h.state))
	w.flags(h.up, h.warm, h.veiled, h.tables, h.levels)
	w.guid(ib.GUID(h.prefix))
	w.guid(h.portGUID)
	w.guid(h.self.node)
	w.byte(h.self.num)
	w.u16(uint16(h.lid))
	w.byte(h.priority)
	w.uint(uint64(h.actCount))
	w.byte(h.packetLife)
	putSM(w, &h.master)
	w.uint(uint64(len(h.sms)))
	for i := range h.sms {
		putSM(w, &h.sms[i])
	}
	w.string(h.engine)
	putGUIDs(w, h.unsure)
	putGUIDs(w, h.gone)
	w.u16(uint16(h.topLID))
	w.uint(uint64(h.numVLs))
	w.uint(uint64(h.classes))
}

func getHead(r *reader) (h head) {
	h.state = subnet.SMState(r.byte())
	f := r.flags(5)
	h.up, h.warm, h.veiled, h.tables, h.levels = f[0], f[1], f[2], f[3], f[4]
	h.prefix, h.portGUID = ib.SubnetPrefix(r.guid()), r.guid()
	h.self = portKey{r.guid(), r.byte()}
	h.lid, h.priority, h.actCount, h.packetLife = ib.LID(r.u16()), r.byte(), uint32(r.uint(math.MaxUint32)), r.byte()
	h.master = getSM(r)
	for range r.count(smLen) {
		h.sms = append(h.sms, getSM(r))
	}
	h.engine = r.string()
	h.unsure, h.gone = getGUIDs(r), getGUIDs(r)
	h.topLID, h.numVLs, h.classes = ib.LID(r.u16()), int(r.uint(255)), int(r.uint(uint64(maxLID)))
	if !h.topLID.IsUnicast() && h.topLID != 0 || h.levels && !h.tables {
		r.fail(errValue)
	}
	return h
}

// smLen is the least number of bytes of another manager.
const smLen = 13

func putSM(w *writer, m *subnet.SM) {
	w.guid(m.GUID)
	w.u16(uint16(m.LID))
	w.byte(m.Priority)
	w.byte(byte(m.State))
	w.uint(uint64(m.ActCount))
}

func getSM(r *reader) subnet.SM {
	return subnet.SM{
		GUID: r.guid(), LID: ib.LID(r.u16()), Priority: r.byte(), State: subnet.SMState(r.byte()),
		ActCount: uint32(r.uint(math.MaxUint32)),
	}
}

func putGUIDs(w *writer, list []ib.GUID) {
	w.uint(uint64(len(list)))
	for _, g := range list {
		w.guid(g)
	}
}

func getGUIDs(r *reader) (list []ib.GUID) {
	for range r.count(8) {
		list = append(list, r.guid())
	}
	return list
}

// putPolicy writes a policy, of which nil is none, in the form in which managers store it.
func putPolicy(p *partition.Policy) []byte {
	if p == nil {
		return nil
	}
	b, err := json.Marshal(p.Partitions)
	if err != nil {
		panic("mirror: a policy is plain values: " + err.Error())
	}
	return b
}

func getPolicy(b []byte) (*partition.Policy, error) {
	if len(b) == 0 {
		return nil, nil
	}
	p := &partition.Policy{}
	if err := json.Unmarshal(b, &p.Partitions); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

func putClass(w *writer, class []int32) {
	w.uint(uint64(len(class)))
	for _, c := range class {
		w.uint(uint64(c + 1))
	}
}

func getClass(r *reader) (class []int32) {
	for range r.count(1) {
		class = append(class, int32(r.uint(uint64(maxLID)+1))-1)
	}
	return class
}

func putNode(w *writer, n *subnet.Node) {
	n.Info.Put(w.raw(smp.NodeInfoLen))
	w.flags(n.OK, n.Unseen, n.SwitchIndex >= 0, n.Said != "")
	if n.Info.NodeType == ib.NodeSwitch {
		n.Switch.Put(w.raw(smp.SwitchInfoLen))
	}
	w.string(n.Desc)
	if n.Said != "" {
		w.string(n.Said)
	}
}

// getNode reads a node; SwitchIndex is 0 if it has a place in the graph, else -1.
func getNode(r *reader) (n subnet.Node) {
	if p := r.raw(smp.NodeInfoLen); p != nil && n.Info.Decode(p) != nil {
		r.fail(errValue)
	}
	f := r.flags(4)
	n.OK, n.Unseen, n.SwitchIndex = f[0], f[1], -1
	if f[2] {
		n.SwitchIndex = 0
	}
	if n.Info.NodeType == ib.NodeSwitch {
		if p := r.raw(smp.SwitchInfoLen); p != nil && n.Switch.Decode(p) != nil {
			r.fail(errValue)
		}
	} else if f[2] {
		r.fail(errValue)
	}
	n.Desc = r.string()
	if f[3] {
		if n.Said = r.string(); n.Said == "" {
			r.fail(errValue)
		}
	}
	return n
}

// putPort writes a port, or the part that a virtual port has as well. peer is the node at the far end
// of its link, 0 without one.
func putPort(w *writer, p *subnet.Port, peer ib.GUID) {
	info := p.Info != smp.PortInfo{}
	w.flags(p.Known, p.Held, p.EndPort >= 0, info, peer != 0, p.Placed != 0, p.Adapter != nil, p.LID != 0)
	w.guid(p.GUID)
	if info {
		p.Info.Put(w.raw(smp.PortInfoLen))
	}
	if peer != 0 {
		w.guid(peer)
		w.byte(p.Peer.Port)
	}
	if p.LID != 0 {
		w.u16(uint16(p.LID))
		w.byte(p.LMC)
	}
	w.byte(byte(p.MTU))
	w.byte(byte(p.Rate))
	putKeys(w, p.PKeys)
	w.uint(uint64(lenOrNil(p.Aliases)))
	for _, g := range p.Aliases {
		w.guid(g)
	}
	if p.Placed != 0 {
		w.guid(p.Placed)
	}
	if a := p.Adapter; a != nil {
		w.byte(byte(a.Model))
		a.Info.Put(w.raw(smp.VirtualizationInfoLen))
		w.uint(uint64(a.Functions))
	}
}

// portLen is the least number of bytes of a port.
const portLen = 13

// getPort reads a port; EndPort is 0 if it has a place in the graph, else -1.
func getPort(r *reader) (p subnet.Port, peer ib.GUID) {
	f := r.flags(8)
	p.Known, p.Held, p.EndPort, p.Peer = f[0], f[1], -1, subnet.NoRef()
	if f[2] {
		p.EndPort = 0
	}
	p.GUID = r.guid()
	if f[3] {
		if b := r.raw(smp.PortInfoLen); b != nil && p.Info.Decode(b) != nil {
			r.fail(errValue)
		}
	}
	if f[4] {
		peer, p.Peer.Port = r.guid(), r.byte()
	}
	if f[7] {
		p.LID, p.LMC = ib.LID(r.u16()), r.byte()
		if !p.LID.IsUnicast() || p.LMC > 7 || int(p.LID)+1<<p.LMC-1 > maxLID {
			r.fail(errValue)
		}
	}
	p.MTU, p.Rate = ib.MTU(r.byte()), ib.Rate(r.byte())
	p.PKeys = getKeys(r)
	if n := r.count1(8); n >= 0 {
		p.Aliases = make([]ib.GUID, n)
		for i := range p.Aliases {
			p.Aliases[i] = r.guid()
		}
	}
	if f[5] {
		p.Placed = r.guid()
	}
	if f[6] {
		a := &subnet.Adapter{Model: subnet.Model(r.byte())}
		if b := r.raw(smp.VirtualizationInfoLen); b != nil && a.Info.Decode(b) != nil {
			r.fail(errValue)
		}
		a.Functions = int(r.uint(math.MaxUint16))
		p.Adapter = a
	}
	return p, peer
}

// lenOrNil is 0 for nil, and otherwise one more than the length.
func lenOrNil[T any](list []T) int {
	if list == nil {
		return 0
	}
	return len(list) + 1
}

// count1 is count for lenOrNil: -1 for nil.
func (r *reader) count1(size int) int {
	n := r.uint(1 << 31)
	if n > uint64(len(r.b)/size)+1 {
		r.fail(errShort)
		return -1
	}
	return int(n) - 1
}

func putKeys(w *writer, keys []ib.PKey) {
	w.uint(uint64(lenOrNil(keys)))
	for _, k := range keys {
		w.u16(uint16(k))
	}
}

func getKeys(r *reader) (keys []ib.PKey) {
	n := r.count1(2)
	if n < 0 {
		return nil
	}
	keys = make([]ib.PKey, n)
	for i := range keys {
		keys[i] = ib.PKey(r.u16())
	}
	return keys
}

// putVirtual writes what only the entry of a virtual port has; at is its physical port.
func putVirtual(w *writer, v *subnet.Virtual, at portKey) {
	w.guid(at.node)
	w.byte(at.num)
	w.u16(v.Index)
	w.flags(v.OwnLID)
	v.Info.Put(w.raw(smp.VPortInfoLen))
	v.Node.Put(w.raw(smp.VNodeInfoLen))
	w.string(v.Desc)
}

func getVirtual(r *reader) (v subnet.Virtual, at portKey) {
	at = portKey{r.guid(), r.byte()}
	v.Index = r.u16()
	v.OwnLID = r.flags(1)[0]
	if b := r.raw(smp.VPortInfoLen); b != nil && v.Info.Decode(b) != nil {
		r.fail(errValue)
	}
	if b := r.raw(smp.VNodeInfoLen); b != nil && v.Node.Decode(b) != nil {
		r.fail(errValue)
	}
	v.Desc = r.string()
	return v, at
}

// putLanes writes the SL-to-VL and VL arbitration tables of a node; nothing for nil.
func putLanes(w *writer, l *subnet.LaneTables) {
	if l == nil {
		return
	}
	w.flags(l.Complete)
	for _, list := range [2][]uint16{l.SL, l.Arb} {
		w.uint(uint64(len(list)))
		for _, k := range list {
			w.uint(uint64(k))
		}
	}
	w.uint(uint64(len(l.SLRows)))
	for i := range l.SLRows {
		l.SLRows[i].Put(w.raw(smp.SLtoVLLen))
	}
	w.uint(uint64(len(l.ArbRows)))
	for i := range l.ArbRows {
		l.ArbRows[i].Put(w.raw(smp.VLArbLen))
	}
}

func getLanes(r *reader) *subnet.LaneTables {
	if len(r.b) == 0 {
		return nil
	}
	l := &subnet.LaneTables{Complete: r.flags(1)[0]}
	for _, list := range [2]*[]uint16{&l.SL, &l.Arb} {
		*list = make([]uint16, r.count(1))
		for i := range *list {
			(*list)[i] = uint16(r.uint(math.MaxUint16))
		}
	}
	l.SLRows = make([]smp.SLtoVL, r.count(smp.SLtoVLLen))
	for i := range l.SLRows {
		if b := r.raw(smp.SLtoVLLen); b == nil || l.SLRows[i].Decode(b) != nil {
			r.fail(errValue)
			return nil
		}
	}
	l.ArbRows = make([]smp.VLArb, r.count(smp.VLArbLen))
	for i := range l.ArbRows {
		if b := r.raw(smp.VLArbLen); b == nil || l.ArbRows[i].Decode(b) != nil {
			r.fail(errValue)
			return nil
		}
	}
	return l
}

// putMFT writes the known blocks of a multicast table; nothing for none.
func putMFT(w *writer, list []subnet.MFTBlock) {
	for i := range list {
		w.u16(list[i].Block)
		w.byte(list[i].Position)
		list[i].Masks.Put(w.raw(smp.MFTLen))
	}
}

func getMFT(r *reader) (list []subnet.MFTBlock) {
	for len(r.b) > 0 {
		b := subnet.MFTBlock{Block: r.u16(), Position: r.byte(), Masks: new(smp.MFT)}
		if p := r.raw(smp.MFTLen); p == nil || b.Masks.Decode(p) != nil {
			r.fail(errValue)
			return nil
		}
		if n := len(list); n > 0 && subnet.CompareMFTBlocks(list[n-1], b) >= 0 {
			r.fail(errValue)
			return nil
		}
		list = append(list, b)
	}
	return list
}
