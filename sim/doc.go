// Package sim is a simulated InfiniBand subnet: switches, channel adapters and
// routers that answer real 256-byte management datagrams, links that come and
// go, and a discrete-event kernel with virtual time.
//
// A Subnet is built from a fabric.Fabric. Programs attach to a port of it with
// Attach and then send and receive MADs through the Endpoint as through a real
// port: directed-route SMPs are processed hop by hop by the SMI of every node
// (IBA Vol. 1, §14.2.2), LID-routed packets follow the installed forwarding
// tables, and every node has an SMA and a PMA of its own that keep the
// attributes, the M_Key, the port state machine, the counters and the traps.
//
//	s, _ := sim.New(f, sim.Config{Seed: 1})
//	e, _ := s.Attach("")
//	e.OnPacket = func(p *mad.Packet) { ... }
//	e.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: smp[:]})
//	s.RunUntil(s.NextEvent())
//
// # Promises
//
// The same fabric, Config and sequence of calls give the same packets at the
// same virtual times, in the same order: events are ordered by time, then by the
// order in which they were scheduled, and every node draws from its own random
// stream derived from (Config.Seed, node GUID), so adding a node does not
// reshuffle the others.
//
// With all latencies and probabilities zero, Send runs a packet, and the answer
// to it, to completion before it returns, without the event queue and without
// allocation. A Send from inside a callback is queued and runs as soon as the
// current packet is done, so managers may answer from OnPacket without growing
// the stack.
//
// Nothing in this package reads a clock, starts a goroutine or opens a file. A
// Subnet and its Endpoints belong to one goroutine; sim/live shares one between
// several under a lock and ties virtual to real time.
//
// # Hypervisors
//
// AddHypervisor gives the port of a channel adapter virtual functions (VFs) of
// one of three models: a shared port, a vSwitch, or the VPorts of InfiniBand
// virtualization. All belong to the port and add nothing to the topology; Graph
// shows a vSwitch as a leaf that accepts many LIDs. A manager configures them by
// SMPs to the port; the host's actions are methods (EnableVPort, PlaceVM, MoveVM
// …). A VM has a name, a function, the state that its hypervisor moves with
// it, and the endpoints of its programs (AttachVM). Probe sends a data packet
// from any function or port to any address, through the installed tables, and
// reports the result.
//
// An arriving packet with a GRH goes to the VPort with its LID and GID; one
// without, to the default VPort of its LID, which owns the LID; a multicast
// packet to every endpoint that listens to the group (Endpoint.Listen). VPorts
// other than 0 send no SMPs, nothing while they are not Active, nothing on SLs
// that are not theirs, and nothing without a GRH if their LID is another's.
// docs/virtualization.md lists the attributes and our choices.
//
// # Datagrams among packets
//
// StartData adds packets between hosts. From then on an SMP takes its time on each
// link, on VL15: before all packets, except for the one that is being sent. It is
// lost if it finds the VL15 buffer of a switch port full (Config.VL15Buffer). A
// unicast GMP is a packet on the data lane that its SL maps to: it needs credits,
// and waits where packets wait. The time of a hop is that of the wire, or
// HopLatency for an SMP if that is longer. Config.Carriage keeps GMPs, or all
// datagrams, apart. Multicast GMPs, probes, and all GMPs once a cable has been
// moved are always apart.
//
// # Device behavior
//
// Where the specification leaves a choice, devices behave as follows: a Set
// applies every valid field and answers 0x001C if one was not; a PortState equal
// to the current state answers 0x001C; counters count every packet of every VL
// (VL15 too) as 72 words, as ibsim does; the 32-bit and the 64-bit traffic
// counters are cleared independently, error counters are one set with two
// widths; a switch delivers its own LID to port 0 regardless of its table; port
// 0 of a switch is always Active; enabled widths and speeds take effect when the
// link trains again; a CA that is told to change another of its ports answers
// success and the current data.
package sim
