package sim

import (
	"time"

	"heddle/ib"
	"heddle/ib/cc"
)

// cctBlocks is how many blocks of its congestion control table an adapter has.
const cctBlocks = 2

// congestion is the state of the congestion control agent of an end port (IBA annex
// A10): a switch has the settings that mark packets, an adapter those that slow its
// queue pairs, an enhanced port 0 both.
type congestion struct {
	key    cc.CongestionKeyInfo
	lease  uint32 // number of the running lease of the key; 0: none
	leases uint32

	sw     cc.SwitchCongestionSetting
	ports  []cc.PortSetting // of a switch, by port
	marked []uint64         // packets that a port of a switch has marked, as readers of the log know

	ca    cc.CACongestionSetting
	limit uint16 // highest index of table that is used
	table [cctBlocks * cc.EntriesPerBlock]cc.Delay

	logged uint64 // events of the data plane that readers of the log have seen
}

// congestionOf returns the agent's state of end port ep, and creates it if needed.
func (s *Subnet) congestionOf(ep int32) *congestion {
	c := s.coldOf(ep)
	if c.cong == nil {
		c.cong = &congestion{}
		if d := &s.devs[s.ports[ep].dev]; d.isSwitch() {
			c.cong.ports, c.cong.marked = make([]cc.PortSetting, int(d.nports)+1), make([]uint64, int(d.nports)+1)
		}
	}
	return c.cong
}

// cca is the congestion control agent.
func (s *Subnet) cca(f *flight, d *device) {
	m := &f.mad
	if m.ClassVersion() != cc.ClassVersion {
		s.reply(f, d, ib.StatusBadVersion)
		return
	}
	at := d
	d = s.ccaFor(f, d)
	ep := f.port
	if d.isSwitch() {
		ep = d.first
	}
	model := d.ccaModel()
	if model.Request != nil {
		model.Request(m)
	}
	if model.Silent {
		s.drop(f, DropNobody)
		return
	}
	if model.Refuse != 0 {
		s.reply(f, at, model.Refuse)
		return
	}
	if st, ok := s.ccaRedirects(f, d); ok {
		s.reply(f, at, st)
		return
	}
	get := m.Method() == ib.MethodGet
	if !get && model.RefuseSets != 0 && (model.RefuseSetsOf == 0 || model.RefuseSetsOf == m.AttrID()) {
		s.reply(f, at, model.RefuseSets)
		return
	}
	c := s.congestionOf(ep)
	if !s.checkCCKey(c, f, get) {
		s.drop(f, DropKey)
		return
	}
	s.stats.GMPs++
	get = get || model.Deaf
	r := ccRequest{s: s, d: d, ep: ep, c: c, data: cc.Data(m), mod: m.AttrMod(), get: get, right: c.key.Key == 0 || cc.Key(m) == c.key.Key}
	r.blocks = model.blocks()
	r.sends = !d.isSwitch() || d.sw.info.EnhancedPort0
	var st ib.Status
	switch m.AttrID() {
	case cc.AttrClassPortInfo:
		st = r.classPortInfo()
	case cc.AttrCongestionInfo:
		st = r.info()
	case cc.AttrCongestionKeyInfo:
		st = r.keyInfo()
	case cc.AttrCongestionLog:
		r.data = cc.Log(m)
		st = r.log()
	case cc.AttrSwitchCongestionSetting:
		st = r.switchSetting()
	case cc.AttrSwitchPortCongestionSetting:
		st = r.portSetting()
	case cc.AttrCACongestionSetting:
		st = r.caSetting()
	case cc.AttrCongestionControlTable:
		st = r.controlTable()
	case cc.AttrTimeStamp:
		st = r.timeStamp()
	default:
		st = ib.StatusBadMethodAttr
	}
	if model.Answer != nil {
		model.Answer(m)
	}
	s.reply(f, at, st)
}

// checkCCKey applies the rules of the CC_Key, those of an M_Key, to f: a stored key of
// 0 makes every key right, and a Get passes with any. A refusal counts and starts the
// lease; a right key stops it.
func (s *Subnet) checkCCKey(c *congestion, f *flight, get bool) bool {
	if c.key.Key == 0 || cc.Key(&f.mad) == c.key.Key {
		c.lease = 0
		return true
	}
	if get {
		return true
	}
	if c.key.Violations != 0xFFFF {
		c.key.Violations++
	}
	if c.key.LeasePeriod != 0 && c.lease == 0 {
		c.leases++
		c.lease = c.leases
		gen := c.lease
		s.After(time.Duration(c.key.LeasePeriod)*time.Second, func() {
			if c.lease == gen {
				c.lease, c.key.Protect = 0, false
			}
		})
	}
	return false
}

// ccRequest is a request to the congestion control agent.
type ccRequest struct {
	s     *Subnet
	d     *device
	ep    int32
	c     *congestion
	data  []byte // of the request, then of the answer
	mod   uint32
	get   bool
	right bool // it has the right key
	sends bool // the port has the settings of an adapter
	// blocks is how many blocks its table has.
	blocks uint32
}

// answer writes v where the request was.
func (r *ccRequest) answer(v interface{ Put(b []byte) }) ib.Status {
	clear(r.data)
	v.Put(r.data)
	return ib.StatusOK
}

func (r *ccRequest) classPortInfo() ib.Status {
	if !r.get {
		return ib.StatusBadMethodAttr
	}
	i := ib.ClassPortInfo{BaseVersion: 1, ClassVersion: cc.ClassVersion, RespTimeValue: defaultRespTime}
	if r.d.isSwitch() && r.sends {
		i.CapabilityMask |= cc.CapEnhancedPort0
	}
	return r.answer(&i)
}

func (r *ccRequest) info() ib.Status {
	if !r.get || r.mod != 0 {
		return ib.StatusInvalidField
	}
	var i cc.CongestionInfo
	if r.sends {
		i.ControlTableCap = uint8(r.blocks)
	}
	return r.answer(&i)
}

func (r *ccRequest) keyInfo() ib.Status {
	if r.mod != 0 {
		return ib.StatusInvalidField
	}
	if !r.get {
		var in cc.CongestionKeyInfo
		_ = in.Decode(r.data)
		was := r.c.key.Violations
		r.c.key = in
		if in.Violations != 0 { // only 0 is written
			r.c.key.Violations = was
		}
	}
	out := r.c.key
	if out.Protect && !r.right {
		out.Key = 0
	}
	return r.answer(&out)
}

func (r *ccRequest) switchSetting() ib.Status {
	if !r.d.isSwitch() || r.mod != 0 {
		return ib.StatusInvalidField
	}
	if !r.get {
		var in cc.SwitchCongestionSetting
		_ = in.Decode(r.data)
		w := &r.c.sw
		w.ControlMap = in.ControlMap
		if in.ControlMap&cc.MapVictimMask != 0 {
			w.VictimMask = in.VictimMask
		}
		if in.ControlMap&cc.MapCreditMask != 0 {
			w.CreditMask = in.CreditMask
		}
		if in.ControlMap&cc.MapThreshold != 0 {
			w.Threshold, w.PacketSize = in.Threshold, in.PacketSize
		}
		if in.ControlMap&cc.MapStarvation != 0 {
			w.CSThreshold, w.CSReturnDelay = in.CSThreshold, in.CSReturnDelay
		}
		if in.ControlMap&cc.MapMarkingRate != 0 {
			w.MarkingRate = in.MarkingRate
		}
		r.s.dataChanged(r.s.ports[r.ep].dev)
	}
	return r.answer(&r.c.sw)
}

func (r *ccRequest) portSetting() ib.Status {
	first := int(r.mod) * cc.PortsPerBlock
	if !r.d.isSwitch() || r.mod > 255/cc.PortsPerBlock || first > int(r.d.nports) {
		return ib.StatusInvalidField
	}
	have := r.c.ports[first:min(first+cc.PortsPerBlock, len(r.c.ports))]
	var v cc.SwitchPortCongestionSetting
	if !r.get {
		_ = v.Decode(r.data)
		copy(have, v.Port[:])
		v = cc.SwitchPortCongestionSetting{}
		r.s.dataChanged(r.s.ports[r.ep].dev)
	}
	copy(v.Port[:], have)
	return r.answer(&v)
}

func (r *ccRequest) caSetting() ib.Status {
	if !r.sends || r.mod != 0 {
		return ib.StatusInvalidField
	}
	if !r.get {
		var in cc.CACongestionSetting
		_ = in.Decode(r.data)
		r.c.ca.PortControl, r.c.ca.ControlMap = in.PortControl, in.ControlMap
		for sl, v := range in.SL {
			if in.ControlMap>>sl&1 != 0 {
				r.c.ca.SL[sl] = v
			}
		}
		r.s.dataChanged(r.s.ports[r.ep].dev)
	}
	return r.answer(&r.c.ca)
}

func (r *ccRequest) controlTable() ib.Status {
	if !r.sends || r.mod >= r.blocks {
		return ib.StatusInvalidField
	}
	block := r.c.table[r.mod*cc.EntriesPerBlock : (r.mod+1)*cc.EntriesPerBlock]
	var v cc.CongestionControlTable
	if !r.get {
		_ = v.Decode(r.data)
		if uint32(v.Limit) >= r.blocks*cc.EntriesPerBlock {
			return ib.StatusInvalidField
		}
		r.c.limit = v.Limit
		copy(block, v.Entry[:])
		r.s.dataChanged(r.s.ports[r.ep].dev)
	}
	v.Limit = r.c.limit
	copy(v.Entry[:], block)
	return r.answer(&v)
}

// ccTime is the clock of a node's logs: it begins when the node does.
func (s *Subnet) ccTime(d *device) uint32 { return uint32((s.k.now - d.began) / cc.TimeUnit) }

func (r *ccRequest) timeStamp() ib.Status {
	if !r.get || r.mod != 0 {
		return ib.StatusInvalidField
	}
	return r.answer(&cc.TimeStamp{Time: r.s.ccTime(r.d)})
}
