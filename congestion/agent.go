package congestion

import (
	"slices"
	"strings"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
)

// State says what an agent is known to be.
type State uint8

// The states.
const (
	Pending State = iota // it has not been read yet
	Managed              // it has congestion control
	Without              // it refuses the class
	Silent               // it does not answer
	Locked               // it has another CC_Key, which it hides, and takes no settings
)

// String is the name of the state.
func (s State) String() string {
	return [...]string{"pending", "managed", "without", "silent", "locked"}[s]
}

// op is a request to an agent.
type op uint8

const (
	getInfo op = iota
	getClass
	getKey
	getSwitch
	getPorts
	getCA
	getTable
	getLog
	getTime
	setKey
	setSwitch
	setPorts
	setCA
	setTable
	numOps
)

// sets reports whether it is a Set.
func (o op) sets() bool { return o >= setKey }

// attr is its attribute.
func (o op) attr() ib.AttrID {
	return [numOps]ib.AttrID{
		cc.AttrCongestionInfo, cc.AttrClassPortInfo, cc.AttrCongestionKeyInfo, cc.AttrSwitchCongestionSetting,
		cc.AttrSwitchPortCongestionSetting, cc.AttrCACongestionSetting, cc.AttrCongestionControlTable, cc.AttrCongestionLog, cc.AttrTimeStamp,
		cc.AttrCongestionKeyInfo, cc.AttrSwitchCongestionSetting, cc.AttrSwitchPortCongestionSetting, cc.AttrCACongestionSetting,
		cc.AttrCongestionControlTable,
	}[o]
}

// name is a Set as notices have it.
func (o op) name() string {
	d := map[op]Diff{setKey: DiffKey, setSwitch: DiffSwitch, setPorts: DiffPorts, setCA: DiffCA, setTable: DiffTable}[o]
	return "Set(" + strings.Join(d.Names(), "") + ")"
}

// request is a request with the block that it is about.
type request struct {
	op    op
	block uint8
}

// stage is how far a visit to an agent has come.
type stage uint8

const (
	idle    stage = iota
	probing       // whether it has congestion control
	reading
	writing
	proving // that what was written is held
	logging
)

// redirection is where an agent has its requests sent.
type redirection struct {
	to   *cc.ClassPortInfo // nil: nowhere
	hops uint8             // redirections of the visit
}

// agent is the congestion control agent of a switch, or of a port of a channel adapter.
type agent struct {
	guid  ib.GUID // port GUID
	id    int32   // in Core.agents, constant while the agent exists
	port  int32   // index in the snapshot of the port with its LID
	node  int32
	sw    bool // of a switch
	here  bool // it can be asked now
	links links
	place int // in Core.due; -1: none

	state      State
	unread     bool // it was not compared yet with what is wanted in this mode
	told       Diff // of the last reading
	good       bool // it held what is wanted once, in this mode
	stuck      bool // it does not keep what is written; told
	took       bool // it answered a Set well once
	info       cc.CongestionInfo
	classAsked uint8 // tries to read ClassPortInfo without an answer; classTries: it is not asked for
	port0      bool  // of a switch: its port 0 has settings of an adapter
	sends      bool  // it has settings of an adapter
	// refused are attributes that it did not give in this visit: an error may pass.
	refused [numOps]bool

	key     cc.CongestionKeyInfo
	keyRead bool

	held *Settings // as last read; not changed after that
	want *Settings
	have *Settings // that are being read

	// The visit: one request at a time.
	stage    stage
	todo     []request
	busy     bool
	writes   uint8  // how often settings were written
	lost     bool   // a Set was not answered
	why      string // a Set was refused
	addr     mad.Addr
	redirect redirection

	visit  mad.Time // when it is to be read again
	log    mad.Time // when its log is to be read; Never: not
	misses uint8    // visits in a row that were not answered
	last   mad.Time // when its settings were read; 0: never

	// clock is its own time when it was read, in cc.TimeUnit; 0 with clockAt 0: unknown.
	clock   uint32
	clockAt mad.Time
	reborn  bool // it began anew since it was examined
	marks   marks
}

// differs is in which attributes an agent holds other settings than wanted.
func (c *Core) differs(a *agent) (d Diff) {
	h, w := a.held, a.want
	if a.state != Managed && a.state != Locked || h == nil || w == nil {
		return 0
	}
	if a.sw && !a.refused[getSwitch] {
		if !sameSwitch(&h.Switch, &w.Switch) {
			d |= DiffSwitch
		}
		if !a.refused[getPorts] && !samePorts(h.Ports, w.Ports) {
			d |= DiffPorts
		}
	}
	if a.sends {
		if !a.refused[getCA] && !sameCA(&h.CA, &w.CA) {
			d |= DiffCA
		}
		if !a.refused[getTable] && (h.Limit != w.Limit || len(h.Table) < len(w.Table) || !slices.Equal(h.Table[:len(w.Table)], w.Table)) {
			d |= DiffTable
		}
	}
	if c.wrongKey(a) {
		d |= DiffKey
	}
	return d
}

// wrongKey reports whether the key of an agent is to be set.
func (c *Core) wrongKey(a *agent) bool {
	k, w := &a.key, &c.cfg.Key
	switch {
	case !w.Write || !a.keyRead || a.refused[getKey]:
		return false
	case c.mode == Withdraw:
		return k.Key == w.Key && w.Key != 0
	}
	return k.Key != w.Key || k.Protect != w.Protect || k.LeasePeriod != w.Lease
}

// keyOf is the key for requests to an agent: the one that it showed, or that of this manager.
func (c *Core) keyOf(a *agent) uint64 {
	if a.keyRead && a.key.Key != 0 {
		return a.key.Key
	}
	return c.cfg.Key.Key
}

// sameSwitch compares what w has bits for.
func sameSwitch(h, w *cc.SwitchCongestionSetting) bool {
	m := w.ControlMap
	return (m&cc.MapVictimMask == 0 || h.VictimMask == w.VictimMask) &&
		(m&cc.MapCreditMask == 0 || h.CreditMask == w.CreditMask) &&
		(m&cc.MapThreshold == 0 || h.Threshold == w.Threshold && h.PacketSize == w.PacketSize) &&
		(m&cc.MapStarvation == 0 || h.CSThreshold == w.CSThreshold && h.CSReturnDelay == w.CSReturnDelay) &&
		(m&cc.MapMarkingRate == 0 || h.MarkingRate == w.MarkingRate)
}

// samePorts compares entries that are valid on either side.
func samePorts(h, w []cc.PortSetting) bool {
	for i := range max(len(h), len(w)) {
		if x, y := portAt(h, i), portAt(w, i); (x.Valid || y.Valid) && x != y {
			return false
		}
	}
	return true
}

// portAt is entry i of a list whose last ones may be left out.
func portAt(list []cc.PortSetting, i int) cc.PortSetting {
	if i < len(list) {
		return list[i]
	}
	return cc.PortSetting{}
}

// sameCA compares the service levels that w has bits for.
func sameCA(h, w *cc.CACongestionSetting) bool {
	if (h.PortControl^w.PortControl)&cc.PortControlSL != 0 {
		return false
	}
	for sl := range w.SL {
		if w.ControlMap>>sl&1 != 0 && h.SL[sl] != w.SL[sl] {
			return false
		}
	}
	return true
}

// blocks is how many blocks of a table n entries take, at least one.
func blocks(n int) int { return max((n+cc.EntriesPerBlock-1)/cc.EntriesPerBlock, 1) }

// portBlocks is how many blocks of port settings a switch has.
func (c *Core) portBlocks(a *agent) int {
	return int(c.snap.Nodes[a.node].Info.NumPorts)/cc.PortsPerBlock + 1
}

// put writes what a request carries into the data area of a MAD.
func (c *Core) put(a *agent, r request, data []byte) {
	w := a.want
	switch r.op {
	case setKey:
		k := cc.CongestionKeyInfo{Violations: a.key.Violations} // which stays
		if c.mode != Withdraw {
			k.Key, k.Protect, k.LeasePeriod = c.cfg.Key.Key, c.cfg.Key.Protect, c.cfg.Key.Lease
		}
		k.Put(data)
	case setSwitch:
		w.Switch.Put(data)
	case setPorts:
		var v cc.SwitchPortCongestionSetting
		for i := range v.Port {
			v.Port[i] = portAt(w.Ports, int(r.block)*cc.PortsPerBlock+i)
		}
		v.Put(data)
	case setCA:
		w.CA.Put(data)
	case setTable:
		v := cc.CongestionControlTable{Limit: w.Limit}
		copy(v.Entry[:], w.Table[min(len(w.Table), int(r.block)*cc.EntriesPerBlock):])
		v.Put(data)
	}
}

// wanted computes what an agent is to hold. Agents that are to hold the same share it.
func (c *Core) wanted(a *agent) {
	s := c.snap
	w := &Settings{}
	if a.sw {
		w.Switch, w.Ports = c.cfg.Policy.switchSetting(s, a.node), c.cfg.Policy.portSettings(s, a.node)
	}
	if a.sends {
		p := s.Ports[a.port]
		at := port{senders: c.senders, entries: int(a.info.ControlTableCap) * cc.EntriesPerBlock, rate: p.Rate, mtu: p.MTU}
		if x := c.shared[at]; x != nil && !a.sw {
			a.want = x
			return
		}
		w.CA, w.Table = c.cfg.Policy.caSetting(at)
		if !a.sw {
			c.shared[at] = w
		}
	}
	if c.mode == Withdraw {
		w.Switch, w.CA, w.Table = off()
		w.Ports = nil
	}
	w.Limit = uint16(max(len(w.Table), 1) - 1)
	a.want = w
}
