package sim

import (
	"fmt"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
)

// Probe is a data packet to an address, and the echo from its receiver. Both
// are real packets: they follow the installed tables and pass every check.
// Without latency the probe is done when Subnet.Probe returns; with latency its
// fields change over time.
type Probe struct {
	// Done is set when the echo returned or a packet was lost.
	Done bool
	// Arrived is set when the packet was received, at At; Answered when its sender
	// received the echo.
	Arrived, Answered bool
	At                VF
	// Lost and LostAt give the reason and the port of a loss, if the probe is done
	// without an echo.
	Lost   DropReason
	LostAt fabric.Ref
	// Hops is how many links the packet crossed.
	Hops int

	from VF
}

// String describes the result of p.
func (p *Probe) String() string {
	switch {
	case !p.Done:
		return "under way"
	case p.Answered:
		return fmt.Sprintf("answered by node %d port %d VF %d after %d hops", p.At.Node, p.At.Port, p.At.Index, p.Hops)
	case p.Arrived:
		return fmt.Sprintf("received by node %d port %d VF %d, its echo lost at node %d port %d: %v",
			p.At.Node, p.At.Port, p.At.Index, p.LostAt.Node, p.LostAt.Port, p.Lost)
	}
	return fmt.Sprintf("lost at node %d port %d: %v", p.LostAt.Node, p.LostAt.Port, p.Lost)
}

// Probe sends a packet from a virtual function, or, with index 0, from the end
// port itself, to an address: LID, SL, path bits, and the GRH if there is one.
// It carries P_Key key as the sender's table has it. If the table has no entry
// with its 15 bits, the probe is lost with DropKey.
func (s *Subnet) Probe(from VF, to mad.Addr, key ib.PKey) (*Probe, error) {
	var v *vport
	var port int32
	if from.Index > 0 {
		f, err := s.function(from)
		if err != nil {
			return nil, err
		}
		v, port = f, f.h.port
	} else {
		if from.Node < 0 || from.Node >= len(s.devs) {
			return nil, fmt.Errorf("sim: probe from node %d: %w", from.Node, ErrNoNode)
		}
		p, err := s.portIndex(s.f.Nodes[from.Node].ID, int(from.Port))
		if err != nil {
			return nil, err
		}
		if port = p; s.endPort(p) != p {
			return nil, fmt.Errorf("sim: %s is an external port of a switch: probe from port 0", s.portName(p))
		}
	}
	p := &Probe{from: from, At: VF{Node: -1}, LostAt: fabric.NoRef()}
	e := Endpoint{s: s, port: port, vp: v} // as if a program on it had sent it
	idx := -1
	for i := range s.pkeyCap(port) {
		if k := e.pkeyAt(i); key&0x7FFF != 0 && (k^key)&0x7FFF == 0 {
			idx = i
			break
		}
	}
	if idx < 0 {
		p.Done, p.Lost, p.LostAt = true, DropKey, fabric.Ref{Node: s.ports[port].dev, Port: s.ports[port].num}
		return p, nil
	}
	if v.absent() {
		p.Done, p.Lost, p.LostAt = true, DropStopped, fabric.Ref{Node: s.ports[port].dev, Port: s.ports[port].num}
		return p, nil
	}
	to.PKeyIndex = uint16(idx)
	f := s.newFlight()
	clear(f.mad[:])
	f.mad.SetHeader(ib.ClassCM, 2, ib.MethodSend, 0, 0)
	f.probe = p
	s.address(f, &e, to)
	f.dqp, f.sqp = probeQP, probeQP
	f.stage = stSend
	s.start(f)
	return p, nil
}

// probeQP is the queue pair that probes come from and go to.
const probeQP = 2

// probed receives a probe, or its echo, at its destination.
func (s *Subnet) probed(f *flight) {
	p := f.probe
	at := VF{Node: int(s.ports[f.port].dev), Port: s.ports[f.port].num}
	if s.devs[at.Node].isSwitch() {
		at.Port = 0
	}
	if f.dvp != nil {
		at.Index = f.dvp.idx
	}
	if f.mad.Method().IsResponse() { // the echo
		p.Done = true
		p.Answered = at == p.from
		if !p.Answered {
			s.drop(f, DropUnmatched)
			return
		}
		s.stats.Delivered++
		f.stage = stDone
		return
	}
	p.Arrived, p.At, p.Hops = true, at, int(f.hops)
	s.stats.Delivered++
	f.mad.SetMethod(f.mad.Method() | ib.MethodResponseBit)
	ep := s.endPort(f.port)
	key := s.pkeyAt(ep, int(f.pkeyIdx))
	if f.dvp != nil {
		key = s.vpkeyAt(f.dvp, int(f.pkeyIdx))
	}
	if f.local && f.svp == nil && f.dvp == nil {
		key = f.pkey // a loopback packet is not checked
	}
	f.pkey = key
	s.turn(f)
}

// probeLost records where a probe was lost.
func (s *Subnet) probeLost(f *flight, why DropReason) {
	p, pt := f.probe, &s.ports[f.port]
	p.Done, p.Lost, p.LostAt = true, why, fabric.Ref{Node: pt.dev, Port: pt.num}
}
