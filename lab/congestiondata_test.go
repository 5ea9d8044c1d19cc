package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/ib"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// hotSpot is a data plane in which all hosts but one send to one host. The last one sends, at 0.8 of
// its rate, to a host whose packets take the same path up.
type hotSpot struct {
	*ccBed
	e           *dataplane.Engine
	victim, hot int // a stream; a host
}

const hotLoad = 0.8

func newHotSpot(b *ccBed) *hotSpot {
	b.Helper()
	dc := dataplane.Defaults()
	dc.Input, dc.Reads, dc.Buffer, dc.HostBuffer, dc.Checks = dataplane.VOQ, 3, 2048, 2048, true
	e, err := b.c.Sim.StartData(dc, dataplane.DefaultCable)
	if err != nil {
		b.Fatal(err)
	}
	h := &hotSpot{ccBed: b, e: e, hot: 1, victim: -1}
	leaf := func(host int) int32 { return b.f.Port(e.HostPort(host)).Peer.Node }
	lid := func(host int) (up uint8) { // by which port packets leave the leaf of the last host
		r := e.HostPort(host)
		l := b.c.Sim.PortInfo(int(r.Node), int(r.Port)).LID
		if b.c.Sim.LFT(int(leaf(e.NumHosts()-1)), nil)[l] == 0xFF {
			b.Fatal("no route")
		}
		return b.c.Sim.LFT(int(leaf(e.NumHosts()-1)), nil)[l]
	}
	const bytes = 2048 + dataplane.OverheadRC
	src := e.NumHosts() - 1
	for d := range src {
		if d != h.hot && leaf(d) != leaf(h.hot) && leaf(d) != leaf(src) && lid(d) == lid(h.hot) {
			r := dataplane.LinkRate(b.f.Port(e.HostPort(src)).Width, b.f.Port(e.HostPort(src)).Speed)
			gap := dataplane.Time(float64(r.Time(bytes)) / hotLoad)
			if h.victim, err = e.AddStream(dataplane.Stream{Src: src, To: dataplane.To(d), Bytes: bytes, Arrival: dataplane.Constant, Gap: gap}); err != nil {
				b.Fatal(err)
			}
			break
		}
	}
	if h.victim < 0 {
		b.Fatal("no host shares a path with the hot spot")
	}
	for s := range src {
		if s == h.hot {
			continue
		}
		if _, err := e.AddStream(dataplane.Stream{Src: s, To: dataplane.To(h.hot), Bytes: bytes}); err != nil {
			b.Fatal(err)
		}
	}
	return h
}

// run runs for d in steps, as a manager's clock goes on.
func (h *hotSpot) run(d time.Duration) {
	for range d / (20 * time.Microsecond) {
		_ = h.c.RunUntil(20*time.Microsecond, func() bool { return false })
	}
}

// measure is what the victim and the hot link get: of what it sends, and of the link.
func (h *hotSpot) measure(d time.Duration) (victim, hot float64) {
	h.e.ResetStats()
	h.run(d)
	s := h.e.Stats()
	got := float64(h.e.Flow(h.victim).Delivered)
	p := h.f.Port(h.e.HostPort(h.hot))
	slots := float64(dataplane.Time(d)*dataplane.Nanosecond) / float64(dataplane.LinkRate(p.Width, p.Speed).Time(2048+dataplane.OverheadRC))
	return got / slots / hotLoad, (float64(s.Delivered) - got) / slots
}

// TestCongestionHelpsVictims: with the settings that the manager writes, while the hot spot is there, a
// victim beside it gets its rate back and the hot link stays busy (V46); the log names the flows. When
// the settings are withdrawn all is as before.
func TestCongestionHelpsVictims(t *testing.T) {
	for _, lanes := range []uint8{1, 4} { // codes of VLCap: 1 lane and 8
		t.Run(fmt.Sprintf("%d lanes", ib.VLsOf(lanes)), func(t *testing.T) { testVictims(t, lanes) })
	}
}

func testVictims(t *testing.T, lanes uint8) {
	cfg := ccConfig(congestion.Observe)
	cfg.Logs, cfg.Rate = 20*time.Millisecond, 50_000
	sc := sim.Config{Seed: 1, VLCap: lanes}
	b := newCCBed(t, gen(t, "xgft", "2", "6,12", "1,6"), sc, cfg)
	b.start()
	b.c.Run(2 * time.Second)
	h := newHotSpot(b)
	h.run(2 * time.Millisecond)
	before, _ := h.measure(4 * time.Millisecond)
	b.m.SetCongestionMode(congestion.Act)
	if err := b.c.RunUntil(2*time.Second, b.equal); err != nil {
		t.Fatalf("%v: %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	h.run(20 * time.Millisecond)
	victim, hot := h.measure(10 * time.Millisecond)
	t.Logf("victim %.3f, with congestion control %.3f and %.3f of the hot link", before, victim, hot)
	if before > 0.3 || victim < 0.9 || hot < 0.9 {
		t.Errorf("victim %.3f, with congestion control %.3f and %.3f of the hot link", before, victim, hot)
	}
	h.run(60 * time.Millisecond)
	st := b.m.CongestionStatus()
	if st.Marks == 0 || st.Slowed == 0 || b.told(congestion.KindMarking) == 0 {
		t.Errorf("%+v\n%s", st, b.lines())
	}
	hotDesc := b.f.Nodes[h.e.HostPort(h.hot).Node].Desc
	if !strings.Contains(b.lines(), "to \""+hotDesc+"\"") {
		t.Errorf("no notice names %q:\n%s", hotDesc, b.lines())
	}
	b.m.SetCongestionMode(congestion.Withdraw)
	if err := b.c.RunUntil(2*time.Second, b.equal); err != nil {
		t.Fatalf("%v: %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	h.run(4 * time.Millisecond)
	if after, _ := h.measure(4 * time.Millisecond); after > 0.3 {
		t.Errorf("after the withdrawal the victim has %.3f", after)
	}
	if err := h.e.Check(); err != nil {
		t.Error(err)
	}
}
