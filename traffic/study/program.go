package study

import (
	"heddle/sim/dataplane"
	"heddle/traffic"
)

// program carries out the steps of a collective operation: a rank begins a step
// when the message that it sends in the step before is delivered and the one that
// it expects there is in.
type program struct {
	r       *packetRun
	d       *traffic.Demand
	streams map[int]*pairState // by stream of the engine
	ranks   map[int32]*rank
	left    int            // ranks that have not ended
	ended   dataplane.Time // last delivery
	ideal   dataplane.Time // with free links
}

// pairState is a stream and the messages on it.
type pairState struct {
	src, dst  int32
	packets   []uint64 // by message: delivered ones at its end, from the first message on
	delivered uint64
	done      int // messages
	stream    int // of the engine, -1: none
}

// rank is a host of a collective.
type rank struct {
	plan []part
	at   int // part of plan that it is in
}

// part is what a rank does in a step: nil for nothing.
type part struct {
	send, take *pairState
	packets    uint64 // of the message that it sends
	sent, got  int    // messages on these that are done once the part is
}

func newProgram(r *packetRun, i int, d *traffic.Demand) (*program, error) {
	p := &program{r: r, d: d, streams: map[int]*pairState{}, ranks: map[int32]*rank{}}
	known := map[[2]int32]*pairState{}
	seen := map[*pairState]int{}
	for _, step := range d.Steps {
		n := packetsOf(step.Bytes, d.Spec)
		bytes := float64(n) * float64(d.Spec.Payload+overhead)
		for _, x := range step.Pairs {
			if known[x] != nil || r.net.Gone(x[0]) {
				continue
			}
			s, err := r.posted(i, d, x[0], x[1])
			if err != nil {
				return nil, err
			}
			known[x] = &pairState{src: x[0], dst: x[1], stream: s}
			p.streams[s] = known[x]
		}
		slowest := 0.0
		for range step.Times {
			parts := map[int32]*part{}
			of := func(h int32) *part {
				if parts[h] == nil {
					parts[h] = &part{}
				}
				return parts[h]
			}
			for _, x := range step.Pairs {
				s := known[x]
				slowest = max(slowest, bytes*8000/r.q.hosts[x[0]].Gbps)
				if s == nil {
					s = &pairState{src: x[0], dst: x[1], stream: -1} // never delivered: its host has no link
				}
				seen[s]++
				a, b := of(x[0]), of(x[1])
				a.send, a.sent, a.packets = s, seen[s], n
				b.take, b.got = s, seen[s]
				before := uint64(0)
				if k := len(s.packets); k > 0 {
					before = s.packets[k-1]
				}
				s.packets = append(s.packets, before+n)
			}
			for h, x := range parts {
				if p.ranks[h] == nil {
					p.ranks[h] = &rank{}
				}
				p.ranks[h].plan = append(p.ranks[h].plan, *x)
			}
		}
		p.ideal += dataplane.Time(slowest * float64(step.Times))
	}
	p.left = len(p.ranks)
	return p, nil
}

// begin starts the first step of every rank.
func (p *program) begin() {
	for h := range int32(len(p.r.q.hosts)) {
		if k := p.ranks[h]; k != nil {
			p.order(k)
		}
	}
}

// order sends the message of a rank's part.
func (p *program) order(k *rank) {
	x := &k.plan[k.at]
	if x.send == nil || x.send.stream < 0 {
		return
	}
	p.r.e.Post(x.send.stream, x.packets)
}

// delivered counts a packet.
func (p *program) delivered(stream int, at dataplane.Time) {
	s := p.streams[stream]
	s.delivered++
	p.ended = at
	if s.done < len(s.packets) && s.delivered == s.packets[s.done] {
		s.done++
		p.advance(s.src)
		p.advance(s.dst)
	}
}

// advance takes a rank to its next part, if it has done the present one.
func (p *program) advance(h int32) {
	k := p.ranks[h]
	for k.at < len(k.plan) {
		x := &k.plan[k.at]
		if x.send != nil && x.send.done < x.sent || x.take != nil && x.take.done < x.got {
			return
		}
		if k.at++; k.at == len(k.plan) {
			p.left--
			return
		}
		p.order(k)
	}
}
