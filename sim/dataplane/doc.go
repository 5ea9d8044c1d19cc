// Package dataplane simulates the packets of an InfiniBand fabric: what they get
// on the forwarding tables, lanes and arbitrations that a manager has written,
// exact to the picosecond and to the credit.
//
//	t, _ := dataplane.FromFabric(f, dataplane.DefaultCable)
//	e, _ := dataplane.New(t, tables, dataplane.Defaults())
//	e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(5), Bytes: 2048 + dataplane.OverheadRC})
//	e.Run(100 * dataplane.Microsecond) // warm up
//	e.ResetStats()
//	e.Run(1100 * dataplane.Microsecond)
//	fmt.Println(e.Stats().Latency.Quantile(0.99))
//
// Topology is the hardware, Tables what a manager has written, Config the model
// of what neither describes, Stream a source of packets. Tables are asked when a
// packet needs them: nothing is compiled into routes. Plain holds Tables in
// memory.
//
// # Model
//
// A packet of L bytes whose head comes in at h and whose tail at t starts at an
// output of r ps a byte at
//
//	max(h + σ, t + σ − L·r, output free, input free to be read, credits for ⌈L/64⌉ blocks)
//
// and its head is at the next port a cable's delay later. This is virtual
// cut-through: all credits of a packet must be there before it starts, and it
// never stops once it has started. σ is Config.SwitchDelay. Hosts add no delay.
//
// An input buffer is split among the operational lanes of its port. A packet that
// is read gives its blocks back one by one at the rate of its output; the sender
// learns of each after the cable, the 8 bytes of a flow control packet and
// Config.CreditDelay. There are no flits and no events for credits: what is free
// at any time follows from a record of each read (credit.go).
//
// By default an input has one queue for each lane, which blocks behind its head
// (FIFO), and one packet is read from it at a time; VOQ, more Reads and
// OldestFirst are options. An output chooses the lane by the VL arbitration
// tables, or in turn where there are none, and among inputs with a packet for
// that lane in turn, by packet. The input whose turn it is keeps it until its
// packet has credits. Lanes change by the SL-to-VL tables at each hop.
//
// A host has a send queue for each stream by default; see Sharing for the
// others. The queues of a lane take turns by packet. A host reads what comes in
// the order of arrival, at its own rate if that is lower than the link's
// (Engine.SetCaps), and so holds credits back.
//
// Limits drop the head of a queue: head of queue life since it became head,
// lifetime in the switch since it was in whole. VLStallCount drops in a row stall
// a lane. Routing and the state of the output are looked up when a packet becomes
// eligible (h + σ); a packet that waits keeps its output, and is dropped if that
// is not Active when it becomes head. A cable that fails loses what is on it and
// not in whole at the far end; the rest of a packet that a switch is already
// passing on is dropped by the next node.
//
// A multicast packet holds its blocks until its last copy has left. Copies leave
// as outputs become free. With VOQ they leave one output after the other.
//
// Causes of loss, and where each is counted, are those of Cause. Engine.Port and
// Engine.Lane are what a PMA shows of a port.
//
// # Programs
//
// A Program is what runs on a host: the Engine calls it when a packet for it has
// come, when one of its packets leaves, and at times that it asks for (Door.Wake).
// It answers by packets with a Payload of 32 bytes. In an instant, calls come with
// the event that causes them, timers after the sources of streams. A Program may
// touch its own host alone. Package sim/host/rc makes queue pairs of this.
//
// # Congestion control
//
// Tables that implement CongestionTables turn it on (congestion.go): marks by
// threshold, rate, length and victim mask; a notification for each marked packet, as
// a packet of its own and never in an acknowledgment; an index for each send queue or
// service level; pauses by the table, (time of the packet >> shift) × multiplier.
// The buffer that a threshold is a share of is that of a lane of the port's input.
// With BySL the queues of a service level share the index, and each pauses by itself.
//
// # Deadlock
//
// A deadlock is found from what waits for what: buffers whose heads all wait for
// credits of other such buffers. After a packet begins to wait for credits that no
// known read will give, Run looks at the next multiple of Config.DetectEvery for
// such a set, and Deadlock names a circle in it. Packets that wait for a host that has
// stopped, for a stalled lane or for a busy output close no circle. Looking
// changes nothing. With limits the circle is broken by loss later.
//
// # Exact and approximated
//
// Exact: serialization, cables and cut-through across rates; credits by block;
// tables at the time of use; arbitration by weights and limits; discards by
// cause; counters, with waiting times in picoseconds.
//
// Approximated: the delay of a switch is constant; flow control packets take no
// bandwidth of the reverse link (below 1 %); arbitration takes no time; blocks of
// a dropped packet come free at once. PortXmitWait includes time in which the
// input of a waiting packet was busy, and none while the port is not Active.
//
// # Management datagrams
//
// A packet of VL15 takes the link as soon as the packet under way is out
// (Engine.Urgent); its buffers are the caller's. A datagram on a data lane
// (Engine.Carry) is a packet with credits that waits for its turn at its end port
// and whose end is reported. Neither is in Stats.
//
// Nothing here is random but sources, so equal saturated flows can fall into
// step: with one read per input, flows to two hosts of the same rate may find the
// input busy forever (validation case V32), and a ring may never lock (V36). Give
// sources a random part, or inputs more reads, where that matters.
//
// # Order and determinism
//
// Events are ordered by (time, kind, port or stream), which no schedule can
// change: of each kind a port has at most one at a time. In an instant packets
// arrive first, then ports and credits come free, then all ports that something
// happened to choose, in the order of their numbers. Run(t) processes what comes
// before t, so what the caller changes at t holds for the packets of t. Each
// stream has random numbers of its own. The same Topology, Tables, Config and
// calls give the same history, which Stats.Hash sums up.
//
// # Workers
//
// Config.Workers divides the switches with their hosts among so many parts, which
// run at the same time in windows as long as the lookahead: the least time after
// which one part feels what another does, over the cables between them. That is
// the delay of a credit, 12 ns with 2 m of cable and QDR. A window must have some
// dozens of events to be worth the meeting at its end, so small fabrics and those
// with little traffic run their windows one after the other. History, counters,
// losses, deadlock and the order of hooks are those of one worker. The goroutines
// are those of package lockstep, and end with Run.
//
// What acts without delay leaves no time for a window: a closed loop with an
// AckDelay below 1 ns, and hooks that may post. Such an Engine runs with one
// worker, somewhat slower than one that has no other.
//
// # Cost
//
// A packet takes about one event at its source, two at each switch and one at its
// end; BenchmarkEngine has the goals. A steady state allocates nothing, and no
// record has a pointer. Clone copies an Engine to go on from one state with
// several changes. Config.Checks asserts at each start that no buffer is overrun,
// and Check compares all counters with what is in queues and on wires.
//
// An Engine belongs to one goroutine. It reads no clock; with one worker no
// goroutine is started.
package dataplane
