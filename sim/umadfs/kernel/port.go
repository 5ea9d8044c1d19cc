// Package kernel emulates Linux' MAD layer (ib_mad and ib_umad) for one
// simulated port: open files of its umad device, agents and their method masks,
// transaction IDs, time-outs and retries, RMPP, the issm device and the loss of
// the device. It turns the system calls on sim/umadfs' virtual devices into
// MADs on a Wire.
//
// A process sees the behavior of a real device: the same errors for the same
// calls, the same bytes from read, the same MADs on the wire. The invisible
// parts are simpler: a MAD passed to the wire has been sent, so sends never
// wait and never fail.
//
// A Port and its Files have one owner: every call, timer and delivery must come
// under the same lock (sim/live's). Deliveries may come from within Wire.Send;
// they are queued until the call that caused them is done.
package kernel

import (
	"syscall"
	"time"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/mad"
)

// Wire is the port underneath, a sim.Endpoint behind an adapter.
type Wire interface {
	// Now is the current time.
	Now() mad.Time
	// At runs fn at t, under the owner's lock.
	At(t mad.Time, fn func())
	// Send puts a MAD on the wire. It keeps neither p nor p.Data.
	Send(p *mad.Packet)
	// SetIsSM sets or clears CapabilityMask.IsSM of the port.
	SetIsSM(on bool) error
	// LMC is the port's LID mask control.
	LMC() uint8
	// NumGIDs is the size of the port's GID table.
	NumGIDs() int
}

// Limits. The first is the kernel's own since 6.11, for one open file. The
// others, for a port, keep another process from filling the simulator's memory
// with messages that it does not read or finish and with requests that never
// end.
const (
	maxQueued  = 200000
	maxHeld    = 256 << 20 // bytes, unread or partly received
	maxPending = 1 << 17   // sends
	maxSending = 2 * MaxMessage
)

// MaxMessage is the largest RMPP message in bytes of data, written or received:
// more than an SA's response to one query, and as much as fits maxHeld in
// segments. A real kernel is limited by its memory only.
const MaxMessage = 192 << 20

// The largest version of a class that can be registered (MAX_MGMT_VERSION).
const maxClassVersion = 0x83

// hiBits is how many bits of a transaction ID above the client's 32 number the
// agent. A real kernel uses 32; the simulated fabric keeps bits 63..48.
const hiBits = 16

// tidMask selects the bits of a transaction ID that the fabric leaves
// unchanged.
const tidMask = 1<<(32+hiBits) - 1

// Port is the kernel state of one port.
type Port struct {
	wire    Wire
	hasSMI  bool
	files   map[*File]struct{}
	agents  map[uint16]*agent    // by number, TID bits 47..32
	lastNum *uint16              // of an agent, on any port
	owners  map[methodKey]*agent // owner of each unsolicited method
	issm    issm
	removed bool

	busy  bool // a call is in progress; deliveries wait in inbox
	inbox []*mad.Packet
	spare []*mad.Packet // used-up packets of inbox

	timers  timers
	armed   mad.Time // earliest time passed to wire.At, Never if none
	expire  func()   // p.onTimer, made once
	free    []*send
	held    int    // bytes, see maxHeld
	pending int    // sends that are not released
	sending int    // bytes of their messages
	dropped uint64 // received MADs that no agent accepted
}

// methodKey names one method of one class: what an agent owns on a port. The
// directed-route and the LID-routed SM classes are separate.
type methodKey struct {
	version uint8
	class   uint8
	method  uint8
	oui     uint32
}

// New makes the kernel's state of a port. A port without SMI (RoCE) refuses
// agents on QP0. Agents are numbered on from *lastNum, which outlives the port:
// a transaction ID that was used a moment ago names an old message to its
// receiver.
func New(w Wire, hasSMI bool, lastNum *uint16) *Port {
	p := &Port{
		wire: w, hasSMI: hasSMI, lastNum: lastNum, files: map[*File]struct{}{},
		agents: map[uint16]*agent{}, owners: map[methodKey]*agent{}, armed: mad.Never,
	}
	p.expire = p.onTimer
	p.timers.heap.Moved = (*timer).moved
	return p
}

// agent is one registration of one file.
type agent struct {
	file   *File
	id     uint32 // slot in the file
	num    uint16 // port-wide number
	reg    umadabi.Agent
	noMask bool  // class 0: only sends
	rmpp   *rmpp // kernel RMPP, nil without: no rmpp_version, or the process does it
}

func (a *agent) kernelRMPP() bool { return a.rmpp != nil }

// enter marks the port busy; leave processes what arrived since. Both nest:
// only the outermost leave drains.
func (p *Port) enter() (outer bool) {
	outer = !p.busy
	p.busy = true
	return outer
}

func (p *Port) leave(outer bool) {
	if !outer {
		return
	}
	for i := 0; i < len(p.inbox); i++ {
		pk := p.inbox[i]
		p.inbox[i] = nil
		p.receive(pk)
		if len(p.spare) < 256 {
			p.spare = append(p.spare, pk)
		}
	}
	p.inbox = p.inbox[:0]
	p.busy = false
	p.arm()
}

// Deliver hands the port a MAD from the wire. pk is valid only during the
// call.
func (p *Port) Deliver(pk *mad.Packet) {
	if p.removed {
		return
	}
	if !p.busy {
		outer := p.enter()
		p.receive(pk)
		p.leave(outer)
		return
	}
	var c *mad.Packet
	if n := len(p.spare); n > 0 {
		c, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		c = new(mad.Packet)
	}
	buf := c.Data
	*c = *pk
	c.Data = append(buf[:0], pk.Data...)
	p.inbox = append(p.inbox, c)
}

// Accepts reports whether an agent of this port would take a MAD that answers
// nothing: a trap, an SMInfo or an SA request, a segment's acknowledgment.
func (p *Port) Accepts(pk *mad.Packet) bool {
	if p.removed || len(pk.Data) < umadabi.RMPPHeaderLen {
		return false
	}
	a := p.owner(pk.Data)
	return a != nil && p.valid(pk)
}

// Dropped is how many received MADs no agent accepted.
func (p *Port) Dropped() uint64 { return p.dropped }

// owner finds the agent that registered the method of an unsolicited MAD.
func (p *Port) owner(m []byte) *agent {
	k := methodKey{version: m[2], class: m[1], method: m[3] & 0x7F}
	if isVendor(m[1]) {
		if len(m) < 40 {
			return nil
		}
		k.oui = uint32(m[37])<<16 | uint32(m[38])<<8 | uint32(m[39])
	}
	return p.owners[k]
}

// valid is the kernel's check that class and queue pair fit and that the base
// version is 1.
func (p *Port) valid(pk *mad.Packet) bool {
	m := pk.Data
	if len(m) < umadabi.RMPPHeaderLen || m[0] != 1 {
		return false
	}
	smp := isSMP(m[1])
	return smp == (pk.LocalQP == 0) && (!smp || p.hasSMI)
}

func (p *Port) receive(pk *mad.Packet) {
	if p.removed || !p.valid(pk) {
		p.dropped++
		return
	}
	m := pk.Data
	resp := isResponse(m)
	var a *agent
	if resp {
		setTID(m, tid(m)&tidMask) // the fabric's bits are not ours
		a = p.agents[uint16(tid(m)>>32)]
	} else {
		a = p.owner(m)
	}
	if a == nil {
		p.dropped++
		return
	}
	if a.rmpp != nil && rmppActive(m) && isRMPPClass(m[1]) {
		a.rmpp.receive(pk)
		return
	}
	if !resp {
		a.queue(pk, m, false)
		return
	}
	s := a.match(pk)
	switch {
	case s != nil:
		p.release(s)
		a.queue(pk, m, false)
	case isRMPPClass(m[1]) && rmppActive(m):
		// After the first segment no request waits; a process that implements RMPP
		// itself (by the agent's flag or rmpp_version 0) sees all segments.
		a.queue(pk, m, false)
	default:
		p.dropped++ // no request matches, or its time is over
	}
}

// match finds the request that a response answers: same transaction and class,
// both or neither with a GRH, and sent to the GID that the request was from, as
// the kernel checks it. The responder's address does not count: a request to a
// service GID, such as the SA's, is answered from another. Directed routes are
// not compared further.
func (a *agent) match(pk *mad.Packet) *send {
	m := pk.Data
	s := a.file.sends[sendKey{tid: tid(m), class: m[1]}]
	if s == nil || s.response || s.agent != a {
		return nil
	}
	if m[1] == uint8(ib.ClassSubnDR) {
		return s
	}
	if s.packet.Addr.HasGRH != pk.Addr.HasGRH {
		return nil
	}
	if s.packet.Addr.HasGRH {
		if s.packet.Addr.GRH.GIDIndex != pk.Addr.GRH.GIDIndex {
			return nil
		}
		return s
	}
	lmc := a.file.port.wire.LMC()
	if (s.packet.Addr.PathBits^pk.Addr.PathBits)&(1<<lmc-1) != 0 {
		return nil
	}
	return s
}

// Remove removes the device, like hot removal: readers and pollers wake with
// errors, agents and pending requests are dropped.
func (p *Port) Remove() {
	if p.removed {
		return
	}
	p.removed = true
	for f := range p.files {
		f.dead = true
		f.dropAgents()
		f.ready()
	}
	p.issm.remove(p)
}

// Restore brings a removed device back. Files that were open stay dead.
func (p *Port) Restore() { p.removed = false }

// Removed reports whether the device is away.
func (p *Port) Removed() bool { return p.removed }

// Idle reports whether no file of the port is open.
func (p *Port) Idle() bool { return len(p.files) == 0 && p.issm.idle() }

// register makes an agent. The order of the checks is the kernel's, because
// it decides which error a call with several faults gets.
func (p *Port) register(f *File, reg umadabi.Agent) (*agent, syscall.Errno) {
	if reg.QPN == 0 && !p.hasSMI {
		return nil, syscall.EPROTONOSUPPORT
	}
	if reg.RMPP > 1 {
		return nil, syscall.EINVAL
	}
	a := &agent{file: f, reg: reg, noMask: reg.Class == 0}
	if a.noMask {
		if reg.Flags&umadabi.FlagUserRMPP != 0 {
			return nil, syscall.EINVAL
		}
	} else if e := p.checkClass(&reg); e != 0 {
		return nil, e
	}
	if len(p.agents) >= 1<<hiBits-1 {
		return nil, syscall.ENOMEM
	}
	if reg.RMPP == 1 && reg.Flags&umadabi.FlagUserRMPP == 0 {
		a.rmpp = newRMPP(a)
	}
	n := p.lastNum
	for *n++; *n == 0 || p.agents[*n] != nil; *n++ {
	}
	a.num = *n
	p.agents[a.num] = a
	if !a.noMask {
		p.eachMethod(&reg, func(k methodKey) { p.owners[k] = a })
	}
	return a, 0
}

func (p *Port) checkClass(reg *umadabi.Agent) syscall.Errno {
	smp := isSMP(reg.Class)
	switch {
	case reg.Version >= maxClassVersion,
		reg.Class >= 0x50 && reg.Class != uint8(ib.ClassSubnDR),
		isVendor(reg.Class) && reg.OUI&0xFFFFFF == 0,
		reg.RMPP != 0 && !isRMPPClass(reg.Class),
		smp != (reg.QPN == 0):
		return syscall.EINVAL
	}
	used := false
	p.eachMethod(reg, func(k methodKey) { used = used || p.owners[k] != nil })
	if used {
		return syscall.EINVAL // "Method already in use"
	}
	return 0
}

func (p *Port) eachMethod(reg *umadabi.Agent, fn func(methodKey)) {
	k := methodKey{version: reg.Version, class: reg.Class}
	if isVendor(reg.Class) {
		k.oui = reg.OUI & 0xFFFFFF
	}
	// Bits 128..255 do not exist; bit 7 of a method is the R bit, which no
	// unsolicited MAD has.
	for m := range 128 {
		if reg.Methods[m/64]>>(m%64)&1 != 0 {
			k.method = uint8(m)
			fn(k)
		}
	}
}

func (p *Port) unregister(a *agent) {
	delete(p.agents, a.num)
	if !a.noMask {
		p.eachMethod(&a.reg, func(k methodKey) {
			if p.owners[k] == a {
				delete(p.owners, k)
			}
		})
	}
	if a.rmpp != nil {
		a.rmpp.close()
	}
	a.file.dropSends(a)
}

// isResponse is the kernel's ib_response_mad.
func isResponse(m []byte) bool {
	return m[3]&0x80 != 0 || m[3] == uint8(ib.MethodTrapRepress) ||
		(m[1] == uint8(ib.ClassBM) && m[23]&1 != 0)
}

func isSMP(class uint8) bool {
	return class == uint8(ib.ClassSubnLID) || class == uint8(ib.ClassSubnDR)
}

// isVendor is the range of vendor classes with an OUI.
func isVendor(class uint8) bool { return class >= 0x30 && class <= 0x4F }

// isRMPPClass is the kernel's ib_is_mad_class_rmpp.
func isRMPPClass(class uint8) bool {
	switch class {
	case 0x03, 0x06, 0x10, 0x12:
		return true
	}
	return isVendor(class)
}

// dataOffset is where a class' data begins, after what every RMPP segment
// repeats (the kernel's ib_get_mad_data_offset).
func dataOffset(class uint8) int {
	switch {
	case class == 0x03:
		return 56
	case class == 0x06, class == 0x10, class == 0x12:
		return 64
	case isVendor(class):
		return 40
	}
	return 24
}

const rmppFlagActive = 1

func rmppActive(m []byte) bool { return m[26]&rmppFlagActive != 0 }

func ms(v uint32) time.Duration { return time.Duration(v) * time.Millisecond }
