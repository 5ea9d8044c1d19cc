package study

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/sim/dataplane"
	"heddle/traffic"
	"heddle/traffic/inject"
	"heddle/traffic/maxmin"
)

// PacketOptions are the model of packets where neither netlist nor tables say it.
type PacketOptions struct {
	// Warmup is the first part of Question.Time, in which nothing is counted.
	Warmup time.Duration
	Buffer int // bytes of the input buffer of a port, split equally among its lanes
	VOQ    bool
	// Reads is how many packets a switch reads from an input at once. With 1, flows
	// that are always ready can fall into step, so that one starves.
	Reads int
	// Managed, if set, brings up a subnet with a manager that uses the engines of a
	// choice. It is asked for cuts under traffic, which the manager then repairs by
	// itself. ManagedModel says in a sentence what it simulates.
	Managed      func(c Choice, d dataplane.Config) (Subnet, error)
	ManagedModel string
	// CutAt is when Question.Cuts are lost under traffic, RepairTime how long after
	// that the repaired tables are in all switches; 0: lost from the start.
	CutAt, RepairTime time.Duration
}

// Subnet carries packets under the tables that a manager writes.
type Subnet interface {
	Packets() *dataplane.Engine // its time 0 is when the subnet was up
	RunTo(t dataplane.Time)     // runs what happens before t
	Cut(r fabric.Ref) error     // loses a cable
}

// DefaultPackets are the usual options.
func DefaultPackets() PacketOptions {
	return PacketOptions{Warmup: 100 * time.Microsecond, Buffer: 65536, Reads: 1, RepairTime: 100 * time.Microsecond}
}

// checkPackets reports questions that packets cannot answer.
func (q *Question) checkPackets() error {
	o := &q.Packets
	if o.Warmup < 0 || o.Warmup >= q.Time {
		return wrong("warmup", "%v; want less than the time of %v, so that something is counted", o.Warmup, q.Time)
	}
	if o.CutAt != 0 && (o.CutAt < 0 || o.CutAt >= q.Time || len(q.Cuts) == 0) {
		return wrong("cut", "the cable is lost at %v, and the run lasts for %v", o.CutAt, q.Time)
	}
	if o.Reads < 1 {
		return wrong("reads", "%d; want 1 or more", o.Reads)
	}
	if o.RepairTime < 0 {
		return wrong("repair-time", "%v; want 0 or more", o.RepairTime)
	}
	levels := 0
	for _, s := range q.Specs {
		bytes := s.Payload + overhead
		if lane := o.Buffer / 64 / q.VLs; lane < dataplane.Blocks(bytes) {
			return wrong("buffer", "%d bytes for %d lanes are %d blocks of 64 bytes for each; "+
				"a packet with %d bytes of payload needs %d and could never start",
				o.Buffer, q.VLs, lane, s.Payload, dataplane.Blocks(bytes))
		} else if lane > maxLaneBlocks {
			return wrong("buffer", "%d bytes for %d lanes are %d blocks of 64 bytes for each; flow control "+
				"counts up to %d, so want at most %d bytes",
				o.Buffer, q.VLs, lane, maxLaneBlocks, maxLaneBlocks*64*q.VLs)
		}
		if s.End > 0 && s.End <= o.Warmup {
			return wrong("pattern", "%q ends at %v, and nothing is counted before the warm-up of %v is over",
				s.Text, s.End, o.Warmup)
		}
		if s.SL >= 0 {
			levels++
		}
	}
	if levels > 0 && levels < len(q.Specs) {
		return wrong("pattern", "sl= is given for some patterns; packets need it for all or for none")
	}
	if q.CutEach {
		if err := q.checkFlow(); err != nil {
			return err
		}
	}
	return q.checkWork()
}

// maxLaneBlocks is what a lane can advertise: half of the 12-bit counters of flow
// control (IBA 7.9.4.4).
const maxLaneBlocks = 2048

// maxPackets is how many packets a run may have: some hours.
const maxPackets = 2e10

// checkWork reports questions that would take days.
func (q *Question) checkWork() error {
	demands, err := q.demands(q.First)
	if err != nil {
		return err
	}
	load, total := q.Loads[len(q.Loads)-1], 0.0
	for _, d := range demands {
		bits, n := float64(d.Spec.Payload+overhead)*8, 0.0
		for i := range d.Streams {
			s := &d.Streams[i]
			n += q.hosts[s.Src].Gbps * 1e9 * s.Rate * load * d.Spec.Duty() * q.Time.Seconds() / bits
		}
		for _, s := range d.Steps {
			n += float64(packetsOf(s.Bytes, d.Spec)) * float64(s.Times) * float64(len(s.Pairs))
		}
		for _, m := range d.Messages {
			n += float64(packetsOf(m.Bytes, d.Spec))
		}
		if total += n; total > maxPackets {
			return wrong("pattern", "%q would send %.2g packets, and 1e6 of them take about a second; "+
				"ask for less time or smaller messages, or for fair shares (--flow)", d.Spec.Text, n)
		}
	}
	return nil
}

// packetModel says what the numbers mean.
func (q *Question) packetModel() []string {
	queueing := "one FIFO for each input and lane, which blocks behind its head"
	if q.Packets.VOQ {
		queueing = "a queue for each input, lane and output (VoQ)"
	}
	if q.Packets.Reads > 1 {
		queueing += fmt.Sprintf("; %d packets are read from an input at once", q.Packets.Reads)
	}
	out := []string{
		fmt.Sprintf("Packets with credits of 64 bytes; cut-through switches with %v of delay and %s.",
			dataplane.Defaults().SwitchDelay, queueing),
		fmt.Sprintf("%d bytes of buffer for each port, split equally among %d lanes; 2 m of cable; "+
			"packet lifetimes are unlimited.", q.Packets.Buffer, q.VLs),
	}
	if q.Packets.Warmup > 0 {
		out = append(out, fmt.Sprintf("The first %v are not counted.", q.Packets.Warmup))
	}
	switch {
	case q.Packets.CutAt > 0 && q.Packets.Managed != nil:
		out = append(out, fmt.Sprintf("The cut is at %v under traffic. %s", q.Packets.CutAt, q.Packets.ManagedModel))
	case q.Packets.CutAt > 0:
		out = append(out, fmt.Sprintf("The cut is at %v under traffic; %v later all switches have the repaired tables.",
			q.Packets.CutAt, q.Packets.RepairTime))
	}
	return out
}

// packetRun is one run of the packet simulator.
type packetRun struct {
	q   *Question
	s   *state
	net *maxmin.Net
	e   *dataplane.Engine
	// subnet has a manager, if a cut waits for one; else plain has the tables.
	subnet Subnet
	plain  *dataplane.Plain
	t      *route.Tables // in the switches now
	load   float64
	tell   func(share float64)

	host     []int      // by host: end port of the engine
	streams  []streamOf // by stream of the engine
	gone     []flowRate // streams of hosts without a link
	programs []*program // of collectives
	posts    []post     // of traces, by time
	before   []dataplane.PortCounters
	lanes    [][]uint64
	out      *outcome

	lost                           []uint64 // packets by stream, after countFrom
	countFrom, firstLoss, lastLoss dataplane.Time
	newlyLost                      float64 // packets since the last part of the series
	sw                             []int32
}

// streamOf says what a stream of the engine is.
type streamOf struct {
	demand, src, dst, dests int32
	offered                 float64 // Gb/s, for sources without a rate of their own
	bytes                   int
	silent                  bool // its host has no link
}

// post is a message of a trace.
type post struct {
	at      dataplane.Time
	stream  int
	packets uint64
}

// build makes the engine, with all streams.
func (r *packetRun) build(seed uint64, demands []*traffic.Demand) error {
	if err := r.engine(seed); err != nil {
		return err
	}
	for i, d := range demands {
		if err := r.add(i, d); err != nil {
			return fmt.Errorf("pattern %q: %w", d.Spec.Text, err)
		}
	}
	slices.SortStableFunc(r.posts, func(a, b post) int { return cmp.Compare(a.at, b.at) })
	return nil
}

// engine makes the engine: with a manager for cuts under traffic that wait for one,
// else with the tables of the question.
func (r *packetRun) engine(seed uint64) error {
	q := r.q
	c := dataplane.Defaults()
	c.Seed, c.Lanes = seed, q.VLs
	c.Buffer, c.HostBuffer = q.Packets.Buffer/64, q.Packets.Buffer/64
	if q.Packets.VOQ {
		c.Input = dataplane.VOQ
	}
	c.Reads = q.Packets.Reads
	place := map[fabric.Ref]int{}
	for h := range q.hosts {
		place[q.hosts[h].Port] = h
	}
	var hostOf []int32 // by end port
	var err error
	switch {
	case r.s.later != nil && q.Packets.Managed != nil:
		if q.Specs[0].SL >= 0 {
			c.SL = nil // that of the patterns
		}
		if r.subnet, err = q.Packets.Managed(r.s.choice, c); err != nil {
			return err
		}
		r.e = r.subnet.Packets()
	default:
		if q.Specs[0].SL < 0 {
			c.SL = func(src, dst int) ib.SL {
				a, b := hostOf[src], hostOf[dst]
				if a < 0 || b < 0 {
					return 0
				}
				return r.t.PathSL(q.hosts[a].Switch, q.hosts[b].LID)
			}
		}
		if err = r.plainEngine(c); err != nil {
			return err
		}
	}
	r.host = make([]int, len(q.hosts))
	for p := range r.e.NumEnds() {
		h, ok := place[r.e.HostPort(p)]
		if !ok {
			hostOf = append(hostOf, -1)
			continue
		}
		hostOf = append(hostOf, int32(h))
		r.host[h] = p
	}
	return nil
}

// hostsApart is the size of a fabric from which two workers on one run are 1.5
// times as fast as one.
const hostsApart = 2000

// engineWorkers is how many workers a run may use itself, because there are fewer
// seeds than workers. Sources that act at once on what they hear leave no time for
// windows.
func (q *Question) engineWorkers() int {
	for _, s := range q.Specs {
		if s.Kind.Collective() || s.Kind == traffic.Trace || s.Arrival == traffic.Closed {
			return 1
		}
	}
	if len(q.hosts) < hostsApart && !q.alwaysApart {
		return 1
	}
	return max(q.Options.Workers/max(q.Seeds, 1), 1)
}

// plainEngine makes an engine under the tables of the question, without the cables
// that are lost from the start.
func (r *packetRun) plainEngine(c dataplane.Config) error {
	q := r.q
	top, err := dataplane.FromFabric(q.Fabric, dataplane.DefaultCable)
	if err != nil {
		return err
	}
	r.plain = dataplane.NewPlain(top, q.VLs)
	r.write(r.s)
	for i := range q.Fabric.Nodes {
		for j := range q.Fabric.Nodes[i].Ports {
			if l := q.Fabric.Nodes[i].Ports[j].LID; l != 0 {
				r.plain.Attr[i][j].LID = l
			}
		}
	}
	c.Workers = q.engineWorkers()
	if r.e, err = dataplane.New(top, r.plain, c); err != nil {
		return err
	}
	for _, c := range r.s.cuts {
		r.e.CutLink(c)
	}
	return nil
}

// write puts tables into the switches. Hosts use their service levels at once.
func (r *packetRun) write(s *state) {
	r.t = s.t
	for i, n := range r.sw {
		r.plain.LFT[n] = s.t.LFT[i]
	}
	index := map[int32]int32{}
	for i, n := range r.sw {
		index[n] = int32(i)
		r.plain.MFT[n] = nil
	}
	if m := s.t.Multicast; m != nil {
		for k := range m.Trees {
			tree := &m.Trees[k]
			for i, sw := range tree.Switches {
				n := r.sw[sw]
				if r.plain.MFT[n] == nil {
					r.plain.MFT[n] = map[ib.LID]dataplane.PortMask{}
				}
				r.plain.MFT[n][tree.MLID] = dataplane.PortMask(tree.Ports[i])
			}
		}
	}
	vls := uint8(r.q.VLs)
	r.plain.SLtoVL = func(node int32, in, out uint8, sl ib.SL) ib.VL {
		if i, ok := index[node]; ok {
			return s.t.VL(i, in, out, sl, vls)
		}
		return ib.VL(uint8(sl) % vls)
	}
}

// add adds a demand.
func (r *packetRun) add(i int, d *traffic.Demand) error {
	for k := range d.Streams {
		if err := r.stream(i, d, &d.Streams[k]); err != nil {
			return err
		}
	}
	if len(d.Steps) > 0 {
		p, err := newProgram(r, i, d)
		if err != nil {
			return err
		}
		r.programs = append(r.programs, p)
	}
	place := map[[2]int32]int{}
	for _, m := range d.Messages {
		at := dataplane.FromDuration(m.At)
		if m.At >= r.q.Time || r.net.Gone(m.Src) {
			continue
		}
		k := [2]int32{m.Src, m.Dst}
		s, ok := place[k]
		if !ok {
			var err error
			if s, err = r.posted(i, d, m.Src, m.Dst); err != nil {
				return err
			}
			place[k] = s
		}
		r.posts = append(r.posts, post{at, s, packetsOf(m.Bytes, d.Spec)})
	}
	return nil
}

// packetsOf is how many packets a message has. The last one counts as a full one.
func packetsOf(bytes int64, s *traffic.Spec) uint64 {
	return uint64((bytes + int64(s.Payload) - 1) / int64(s.Payload))
}

// posted adds a stream that sends what it is told to.
func (r *packetRun) posted(i int, d *traffic.Demand, src, dst int32) (int, error) {
	n, err := r.e.AddStream(dataplane.Stream{
		Src: r.host[src], To: dataplane.To(r.host[dst]), Bytes: d.Spec.Payload + overhead, Arrival: dataplane.Posted,
		SL: ib.SL(max(d.Spec.SL, 0)),
	})
	r.streams = append(r.streams, streamOf{
		demand: int32(i), src: src, dst: dst, dests: 1, bytes: d.Spec.Payload + overhead,
	})
	return n, err
}

// stream adds a stream of a demand.
func (r *packetRun) stream(i int, d *traffic.Demand, s *traffic.Stream) error {
	spec, h := d.Spec, &r.q.hosts[s.Src]
	of := streamOf{demand: int32(i), src: s.Src, dst: s.To, dests: 1, bytes: spec.Payload + overhead}
	if len(s.Among) > 0 {
		of.dst, of.dests = -1, int32(len(s.Among)-1)
	}
	if d.Members != nil {
		of.dests = int32(len(d.Members) - 1)
	}
	if r.net.Gone(s.Src) {
		offered := h.Gbps * s.Rate * r.load * spec.Duty()
		r.gone = append(r.gone, flowRate{
			demand: of.demand, src: of.src, dst: of.dst, dests: of.dests, offered: offered, lost: 1,
		})
		// A silent stream in its place: what others draw depends on their number.
		of.silent = true
		_, err := r.e.AddStream(dataplane.Stream{
			Src: r.host[s.Src], To: dataplane.ToAny(), Bytes: of.bytes, Arrival: dataplane.Posted,
		})
		r.streams = append(r.streams, of)
		return err
	}
	x := inject.Ends(r.host).Stream(spec, s, h.Gbps*s.Rate*r.load)
	if d.Members != nil {
		x.To = dataplane.ToGroup(groupOf(i))
	}
	if x.Arrival == dataplane.Saturated || x.Arrival == dataplane.Closed {
		of.offered = h.Gbps
	}
	_, err := r.e.AddStream(x)
	r.streams = append(r.streams, of)
	return err
}
