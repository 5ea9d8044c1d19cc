package dataplane

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/ib/cc"
)

// simulaTable and mellanoxTable are the two tables of the congestion control tools of
// Lawrence Livermore National Laboratory, of 128 entries.
func simulaTable() []cc.Delay   { return quadratic(3, 106) }
func mellanoxTable() []cc.Delay { return quadratic(0, 95) }

// crowdTable slows n hosts that send to one to half of their fair shares at its end, and
// those with few notifications hardly.
func crowdTable(n int) (t []cc.Delay) {
	for i := range 128 {
		t = append(t, cc.NewDelay(3, uint16(16*n*i*i*i*i/(127*127*127*127))))
	}
	return t
}

func quadratic(shift uint8, scale float64) (t []cc.Delay) {
	for i := range 128 {
		t = append(t, cc.NewDelay(shift, uint16(7*float64(i*i)/(scale*scale)/0.218)))
	}
	return t
}

// slowing is a Throttling that treats all service levels alike.
func slowing(table []cc.Delay, s cc.SLSetting) *Throttling {
	t := &Throttling{Table: table}
	for i := range t.SL {
		t.SL[i] = s
	}
	return t
}

// control turns congestion control on at all nodes; ports to hosts mark as victims too.
func control(n *Topology, p *Plain, m Marking, t *Throttling) {
	p.Marks, p.Throttles = make([][]Marking, len(n.Nodes)), make([][]*Throttling, len(n.Nodes))
	for i, nd := range n.Nodes {
		for range nd.Ports + 1 {
			if nd.Switch {
				p.Marks[i] = append(p.Marks[i], m)
			} else {
				p.Throttles[i] = append(p.Throttles[i], t)
			}
		}
	}
	for _, l := range n.Links {
		for _, x := range [][2]fabric.Ref{{l.A, l.B}, {l.B, l.A}} {
			if n.Nodes[x[0].Node].Switch && !n.Nodes[x[1].Node].Switch {
				p.Marks[x[0].Node][x[0].Port].Victim = m.Threshold > 0
			}
		}
	}
}

// granMarks and granSettings are the parameters of Gran et al. (2010).
func granMarks() Marking         { return Marking{Threshold: 15, MinBytes: 8 * blockBytes} }
func granSettings() cc.SLSetting { return cc.SLSetting{Timer: 150, Increase: 1} }

// congestionCases are V43–V46: congestion control.
var congestionCases = []vcase{
	{"V43", "an index pinned at i: rate 1/(1 + multiplier/2^shift)", false, func(t *testing.T) (out []result) {
		for _, x := range []struct {
			name  string
			table []cc.Delay
			i     uint8
			want  float64
		}{
			{"Simula, i 127", simulaTable(), 127, 1 / (1 + 46/8.0)},
			{"Simula, i 60", simulaTable(), 60, 1 / (1 + 10/8.0)},
			{"Mellanox, i 127", mellanoxTable(), 127, 1 / (1 + 57.0)},
			{"i 0", simulaTable(), 0, 1},
		} {
			n := chain(qdr, qdr)
			p := n.tables(1)
			control(&n.Topology, p, Marking{}, slowing(x.table, cc.SLSetting{Timer: 150, Min: x.i}))
			e := mustNew(t, &n.Topology, p, testConfig())
			mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
			const packets = 4000
			s := measure(t, e, Millisecond, packets*qdr.Time(rc2k))
			out = append(out, within(x.name, float64(s.Delivered)/packets, x.want, 0.005))
		}
		return out
	}},
	{"V44", "the index falls from 127 to 0 in 127 times of its timer", false, func(t *testing.T) []result {
		n, p, e, streams := incast(t, slowing(simulaTable(), cc.SLSetting{Timer: 150, Increase: 127}))
		e.Run(20 * Microsecond)
		high := 0
		for _, s := range streams {
			high = max(high, e.Index(s, 0))
		}
		control(&n.Topology, p, Marking{}, slowing(simulaTable(), cc.SLSetting{Timer: 150, Increase: 127}))
		for i := range n.Nodes {
			e.Refresh(int32(i)) // no marks from now on
		}
		var last, zero Time
		for last == 0 || e.Now() < last+25*Millisecond {
			e.Run(e.Now() + 10*Microsecond)
			for _, s := range streams {
				switch i := e.Index(s, 0); {
				case i == 127:
					last, zero = e.Now(), 0
				case i == 0 && zero == 0 && last != 0:
					zero = e.Now()
				}
			}
		}
		return []result{
			exact("index after notifications", float64(high), 127),
			near("ms to 0", float64(zero-last)/float64(Millisecond), 127*0.1536, 0.1536+0.01),
		}
	}},
	{"V45", "threshold 0: nothing is marked, and all is as without congestion control", false, func(t *testing.T) []result {
		run := func(on bool) (hash, marked uint64) {
			x := newTree(t, fabric.XGFT{Children: []int{4, 4}, Parents: []int{1, 2}}, edr)
			p := x.tables(1)
			if on {
				control(x.top, p, Marking{}, slowing(simulaTable(), granSettings()))
			}
			e := mustNew(t, x.top, p, testConfig())
			for h := 1; h < 16; h++ {
				mustAdd(t, e, Stream{Src: h, To: ToAny().Mixed(0.3, 0), Bytes: rc2k, Arrival: Poisson, Gap: edr.Time(2 * rc2k)})
			}
			s := measure(t, e, 0, Millisecond)
			for _, l := range x.top.Links {
				marked += e.Congestion(l.A).Marked + e.Congestion(l.B).Marked
			}
			return s.Hash, marked
		}
		with, marked := run(true)
		without, _ := run(false)
		same := 0.0
		if with == without {
			same = 1
		}
		return []result{exact("marked", float64(marked), 0), exact("equal histories", same, 1)}
	}},
	{"V46", "all to one, and a victim that shares their way up", false, func(t *testing.T) (out []result) {
		out = hotAndVictim(t, fabric.XGFT{Children: []int{6, 12}, Parents: []int{1, 6}}, 72)
		if full() {
			out = append(out, hotAndVictim(t, fabric.FatTree{Hosts: 648}, 648)...)
		}
		return out
	}},
}

// incast is four hosts that send to a fifth on one switch.
func incast(t *testing.T, th *Throttling) (*net, *Plain, *Engine, []int) {
	n := newNet(5, 1, 5)
	for h := range 5 {
		n.link(h, 5, edr)
	}
	p := n.tables(1)
	control(&n.Topology, p, granMarks(), th)
	e := mustNew(t, &n.Topology, p, testConfig())
	var streams []int
	for h := 1; h < 5; h++ {
		streams = append(streams, mustAdd(t, e, Stream{Src: h, To: To(0), Bytes: rc2k}))
	}
	return n, p, e, streams
}

// hotAndVictim has all hosts but one send to host 0. The last one sends to a host whose
// packets take the same way up.
func hotAndVictim(t *testing.T, topo fabric.Topology, hosts int) []result {
	run := func(on bool, in Queueing) (victim, hot float64) {
		x := newTree(t, topo, edr)
		p := x.tables(1)
		if on {
			control(x.top, p, Marking{Threshold: 8, MinBytes: 8 * blockBytes}, slowing(crowdTable(hosts), cc.SLSetting{Timer: uint16(hosts / 3), Increase: 1}))
		}
		c := testConfig()
		c.Input, c.Reads = in, 3
		e := mustNew(t, x.top, p, c)
		leaf := x.leaf(e)
		src, dst := hosts-1, -1
		for d := 1; d < hosts && dst < 0; d++ {
			if leaf[d] != leaf[0] && leaf[d] != leaf[src] && p.Route(leaf[src], e.hosts[d].lid) == p.Route(leaf[src], e.hosts[0].lid) {
				dst = d
			}
		}
		for h := 1; h < src; h++ {
			mustAdd(t, e, Stream{Src: h, To: To(0), Bytes: rc2k})
		}
		const load = 0.8
		v := mustAdd(t, e, Stream{Src: src, To: To(dst), Bytes: rc2k, Arrival: Constant, Gap: Time(float64(edr.Time(rc2k)) / load)})
		warm := Time(hosts) * 100 * Microsecond // two times that of the index from its end to 0
		slots := Time(500 * hosts)
		s := measure(t, e, warm, slots*edr.Time(rc2k))
		got := float64(e.Flow(v).Delivered)
		return got / float64(slots) / load, (float64(s.Delivered) - got) / float64(slots)
	}
	victim, hot := run(true, VOQ)
	without, _ := run(false, VOQ)
	// Where inputs are FIFOs it waits behind each packet to the hot spot that waits.
	fifo, _ := run(true, FIFO)
	fifoWithout, _ := run(false, FIFO)
	name := func(what string) string { return fmt.Sprintf("%d hosts, %s", hosts, what) }
	return []result{
		least(name("victim"), victim, 0.9), least(name("hot link"), hot, 0.9), most(name("victim without"), without, 0.25),
		most(name("victim, FIFO"), fifo, 0.9), least(name("victim, FIFO, gain"), fifo/fifoWithout, 10),
	}
}
