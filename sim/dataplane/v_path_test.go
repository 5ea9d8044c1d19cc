package dataplane

import (
	"strings"
	"testing"
)

// pathCases are V1–V10: one path.
var pathCases = []vcase{
	{"V1", "one link, RC, back to back", false, func(t *testing.T) (out []result) {
		for _, x := range []struct {
			name    string
			r       Rate
			payload int
			want    float64
		}{{"QDR 2 KiB", qdr, 2048, 31.599}, {"DDR 2 KiB", ddr, 2048, 15.799}, {"EDR 4 KiB", edr, 4096, 99.369}, {"NDR 4 KiB", ndr, 4096, 397.477}} {
			n := chain(x.r)
			e := mustNew(t, &n.Topology, n.tables(1), testConfig())
			mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: x.payload + OverheadRC})
			dur := 10_000 * x.r.Time(x.payload+OverheadRC)
			s := measure(t, e, 20*Microsecond, dur)
			out = append(out, exact(x.name+" packets", float64(s.Delivered), 10_000),
				near(x.name+" Gb/s", gbps(s.Delivered, x.payload, dur), x.want, 0.0005))
		}
		return out
	}},
	{"V2", "three switches, idle", false, func(t *testing.T) []result {
		one := onePacket(t, 0, qdr, qdr, qdr, qdr)
		store := 4*518.5 + 3*100 + 4*10
		return []result{
			exact("ns", one, 518.5+3*100+4*10),
			// Store and forward is a hop with the whole packet in each delay.
			exact("store and forward, ns", onePacket(t, qdr.Time(rc2k), qdr, qdr, qdr, qdr), store),
		}
	}},
	{"V3", "QDR, then DDR, then QDR", false, func(t *testing.T) []result {
		return []result{exact("ns", onePacket(t, 0, qdr, ddr, qdr), 1267)}
	}},
	{"V4", "1X SDR, MTU 256", false, func(t *testing.T) []result {
		n := chain(sdr1)
		e := mustNew(t, &n.Topology, n.tables(1), testConfig())
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc256})
		e.Run(Second)
		return []result{exact("packets in 1 s", float64(e.Stats().Delivered), 886_524)}
	}},
	{"V5", "PortXmitData", false, func(t *testing.T) (out []result) {
		n := chain(qdr, qdr)
		e := mustNew(t, &n.Topology, n.tables(1), testConfig())
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Packets: 1000})
		e.Run(10 * Millisecond)
		for _, l := range n.Links {
			a, b := e.Port(l.A), e.Port(l.B)
			if a.XmitPackets == 0 {
				a, b = b, a
			}
			out = append(out, exact("words", float64(a.XmitWords), 518_000), exact("packets", float64(a.XmitPackets), 1000),
				exact("words in", float64(b.RcvWords), 518_000), exact("packets in", float64(b.RcvPackets), 1000))
		}
		return out
	}},
	{"V6", "a QDR hop with K blocks", false, func(t *testing.T) (out []result) {
		for _, x := range []struct {
			k    int
			want float64
		}{{33, 518.5 / 640.5}, {34, 518.5 / 634}, {40, 518.5 / 538}, {41, 518.5 / 522}, {42, 1}, {50, 1}} {
			n := chain(qdr, qdr)
			c := testConfig()
			c.LaneBuffer = x.k
			e := mustNew(t, &n.Topology, n.tables(1), c)
			mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
			s := measure(t, e, 20*Microsecond, 10_000*qdr.Time(rc2k))
			out = append(out, within("share of the rate", float64(s.Delivered)/10_000, x.want, 0.001))
		}
		return out
	}},
	{"V7", "a buffer smaller than a packet", false, func(t *testing.T) (out []result) {
		n := chain(qdr, qdr)
		c := testConfig()
		c.LaneBuffer = 32
		e := mustNew(t, &n.Topology, n.tables(1), c)
		_, err := e.AddStream(Stream{Src: 0, To: To(1), Bytes: rc2k})
		refused := 0.0
		if err != nil && strings.Contains(err.Error(), "33 blocks") && strings.Contains(err.Error(), "32") {
			refused = 1
		}
		// The same at the host behind the switch: packets get into the switch.
		c.LaneBuffer, c.HostBuffer = 66, 32
		e = mustNew(t, &n.Topology, n.tables(1), c)
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
		e.Run(Millisecond)
		u := e.Undersized()
		if len(u) != 1 {
			t.Fatalf("undersized: %v", u)
		}
		return []result{
			exact("refused with the numbers", refused, 1), exact("delivered", float64(e.Stats().Delivered), 0),
			exact("needed", float64(u[0].Need), 33), exact("present", float64(u[0].Blocks), 32),
		}
	}},
	{"V8", "a host that takes 12.9 of 15.8 Gb/s", false, func(t *testing.T) []result {
		n := chain(ddr, ddr)
		e := mustNew(t, &n.Topology, n.tables(1), testConfig())
		e.SetCaps(1, Rate{}, Cap(12.9, 2048, rc2k))
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
		last := n.Links[1].A
		e.Run(Millisecond)
		w := e.Port(last).XmitWait
		s := measure(t, e, Millisecond, 10*Millisecond)
		return []result{
			within("Gb/s", gbps(s.Delivered, 2048, 10*Millisecond), 12.9, 0.005),
			within("share of time the last port waits", float64(e.Port(last).XmitWait-w)/float64(10*Millisecond), 0.184, 0.005),
		}
	}},
	{"V9", "low table 64 : 192", false, func(t *testing.T) []result {
		e, got := twoLanes(t, Arbitration{Low: []Weight{{0, 64}, {1, 192}}})
		e.Run(5 * Millisecond)
		sum := float64(len(*got))
		one := 0.0
		for _, l := range *got {
			one += float64(l)
		}
		return []result{within("share of lane 0", 1-one/sum, 0.25, 0.01), within("share of lane 1", one/sum, 0.75, 0.01)}
	}},
	{"V10", "high table lane 1", false, func(t *testing.T) []result {
		e, got := twoLanes(t, Arbitration{High: []Weight{{1, 255}}, Low: []Weight{{0, 255}}, HighLimit: 0})
		e.Run(5 * Millisecond)
		same := 0
		seq := (*got)[100:]
		for i := range seq[1:] {
			if seq[i] == seq[i+1] {
				same++
			}
		}
		e, got = twoLanes(t, Arbitration{High: []Weight{{1, 255}}, Low: []Weight{{0, 255}}, HighLimit: 255})
		e.Run(5 * Millisecond)
		low := 0
		for _, l := range (*got)[100:] {
			if l == 0 {
				low++
			}
		}
		return []result{exact("limit 0: packets that follow their own lane", float64(same), 0), exact("limit 255: packets of the low table", float64(low), 0)}
	}},
}

// onePacket sends a 2 KiB packet over links of the given rates, and returns how
// long it takes in ns; each switch takes more time than usual.
func onePacket(t *testing.T, more Time, rates ...Rate) float64 {
	n := chain(rates...)
	c := testConfig()
	c.SwitchDelay += more
	e := mustNew(t, &n.Topology, n.tables(1), c)
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Packets: 1})
	e.Run(Millisecond)
	mustCheck(t, e)
	if e.Stats().Delivered != 1 {
		t.Fatalf("delivered %d", e.Stats().Delivered)
	}
	return float64(e.Stats().Latency.Max) / float64(Nanosecond)
}

// twoLanes sends on two lanes from two hosts to a third, through a switch with
// the given arbitration, and lists the lanes of what arrives.
func twoLanes(t *testing.T, a Arbitration) (*Engine, *[]int) {
	n := newNet(3, 1, 3)
	for h := range 3 {
		n.link(h, 3, qdr)
	}
	p := n.tables(2)
	p.Arb[3][3] = a
	c := testConfig()
	c.Lanes = 2
	e := mustNew(t, &n.Topology, p, c)
	got := new([]int)
	e.SetHooks(Hooks{OnDeliver: func(d *Delivery) { *got = append(*got, int(d.Lane)) }})
	mustAdd(t, e, Stream{Src: 0, To: To(2), Bytes: rc2k, SL: 0})
	mustAdd(t, e, Stream{Src: 1, To: To(2), Bytes: rc2k, SL: 1})
	return e, got
}
