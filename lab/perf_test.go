package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/perf"
	"heddle/sim"
	"heddle/subnet"
)

// perfBed is a cluster with a performance manager, whose totals are compared with what the
// simulator has counted.
type perfBed struct {
	testing.TB
	c     *Cluster
	m     *Manager
	f     *fabric.Fabric
	cfg   perf.Config
	sets  int // Sets of the class that were sent
	last  *perf.Round
	quiet bool // nothing is compared
	// trafficOnly: errors are not compared.
	trafficOnly bool
	wrapped     int // ports whose counters overflowed

	truth map[subnet.Ref]*truth // by node of the fabric and port
}

// truth is what the totals of a port are to be.
type truth struct {
	wraps, ext, full bool
	at               mad.Time
	value            [perf.NumCounters]uint64 // of the last sample, as if 32-bit counters did not overflow
	words            uint64                   // PortXmitData as the agent said it
	offset           [perf.NumCounters]uint64
	traffic, errors  mad.Time                 // when they were cleared last; 0: never
	gone             [perf.NumCounters]uint64 // what was counted then
}

func newPerfBed(t testing.TB, f *fabric.Fabric, sc sim.Config, cfg perf.Config) *perfBed {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	b := &perfBed{TB: t, c: c, f: f, cfg: cfg, truth: map[subnet.Ref]*truth{}}
	b.m, err = c.Attach(firstCA(f), TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.m.OnSend = func(p *mad.Packet) {
		if ib.Class(p.Data[1]) == ib.ClassPerf && ib.Method(p.Data[3]) != ib.MethodGet {
			b.sets++
		}
	}
	b.m.ServeCounters(cfg)
	b.m.OnRound(b.round)
	return b
}

func (b *perfBed) start() {
	b.Helper()
	if err := b.m.Start(); err != nil {
		b.Fatal(err)
	}
	if err := b.c.RunUntil(time.Minute, b.m.Up); err != nil {
		b.Fatal(err)
	}
}

// of is the truth of a port of the fabric.
func (b *perfBed) of(node, port int) *truth {
	k := subnet.Ref{Node: int32(node), Port: uint8(port)}
	if b.truth[k] == nil {
		b.truth[k] = &truth{ext: true}
	}
	return b.truth[k]
}

// counted is what the agent would say now, as if its counters had 64 bits, but for errors.
func (b *perfBed) counted(node, port int) (v [perf.NumCounters]uint64) {
	t := b.c.Sim.Counted(node, port)
	copy(v[:], []uint64{
		t.XmitWords, t.RcvWords, t.XmitPkts, t.RcvPkts, t.XmitPkts - t.XmitMulticast, t.RcvPkts - t.RcvMulticast, t.XmitMulticast, t.RcvMulticast,
	})
	copy(v[8:], t.Errors[:])
	return v
}

// round compares the totals of the ports that were sampled.
func (b *perfBed) round(r *perf.Round) {
	b.last = r
	if b.quiet {
		return
	}
	nodes := map[ib.GUID]int{}
	for i := range b.f.Nodes {
		nodes[b.f.Nodes[i].GUID] = i
	}
	for i := range int32(r.Len()) {
		if !r.Flags(i).Has(perf.Sampled) {
			continue
		}
		if r.Flags(i).Has(perf.Wrapped) {
			b.wrapped++
		}
		p := r.Snap.Ports[i]
		node, ok := nodes[r.Snap.Nodes[p.Node].Info.NodeGUID]
		if !ok {
			continue
		}
		w := b.of(node, int(p.Num))
		now := b.counted(node, int(p.Num))
		var v [perf.NumCounters]uint64
		for c := range perf.NumCounters {
			v[c] = r.Value(i, c)
			since, until := w.traffic, r.At(i)
			if c >= perf.SymbolErrors {
				since = w.errors
			}
			if since > until {
				now[c] = w.gone[c]
			}
			narrow := c < 4 && !w.ext
			if narrow && w.wraps { // the newest value with the same 32 bits
				v[c] = now[c] - (now[c]-v[c])&0xFFFFFFFF
				if w.at == 0 { // nobody knows of overflows before the first sample
					w.offset[c] = r.Value(i, c) - v[c]
				}
			}
			if w.at != 0 && since > w.at && since < until {
				w.offset[c] += w.value[c]
			}
			if !r.Has(i, c) || b.trafficOnly && c >= perf.SymbolErrors {
				continue
			}
			if got, want := r.Total(i, c), v[c]+w.offset[c]; got != want {
				b.Errorf("round %d, %s port %d: %v is %d, want %d (value %d, before %d, cleared %v between %v and %v, flags %b)",
					r.Number, b.f.Nodes[node].Desc, p.Num, c, got, want, r.Value(i, c), w.value[c], since, w.at, until, r.Flags(i))
			}
			if v[c] > now[c] {
				b.Errorf("%s port %d: %v was %d and is %d", b.f.Nodes[node].Desc, p.Num, c, v[c], now[c])
			}
		}
		w.value, w.words, w.at = v, r.Value(i, perf.XmitData), r.At(i)
	}
}

// model changes the agents of a node.
func (b *perfBed) model(node int, p *sim.PMA) {
	b.Helper()
	if err := b.c.Sim.SetPMA(b.f.Nodes[node].Name(), p); err != nil {
		b.Fatal(err)
	}
	for port := range b.f.Nodes[node].Ports {
		w := b.of(node, port)
		w.wraps, w.ext, w.full = p.Wrap, !p.NoExtended, p.FullExtended
	}
}

// clear has another tool clear counters, at a moment when no request is under way: then it is
// certain which sample was before and which one after.
func (b *perfBed) clear(node int, ports []int, traffic, errors bool) {
	b.Helper()
	if err := b.c.RunUntil(20*time.Second, func() bool { return b.m.Counters().InFlight == 0 }); err != nil {
		b.Fatal(err)
	}
	for _, port := range ports {
		w := b.of(node, port)
		if w.traffic > w.at || w.errors > w.at {
			continue // one clear between two samples is enough
		}
		if traffic && w.words < 2e9 {
			continue // it may have counted more than that at the next sample, and nobody would see
		}
		w.gone = b.counted(node, port)
		b.c.Sim.ClearCounters(node, port, traffic, errors)
		if traffic {
			w.traffic = b.c.Sim.Now()
		}
		if errors {
			w.errors = b.c.Sim.Now()
		}
	}
	b.c.Run(time.Microsecond)
}

// tally is random traffic of d on a link of some 32 Gb/s.
func tally(r *rand.Rand, d time.Duration) *sim.Tally {
	var t sim.Tally
	draw := func() (words, pkts, multicast uint64) {
		words = r.Uint64N(uint64(d.Seconds() * 1e9))
		pkts = words / (6 + r.Uint64N(1000))
		return words, pkts, r.Uint64N(pkts/100 + 1)
	}
	t.XmitWords, t.XmitPkts, t.XmitMulticast = draw()
	t.RcvWords, t.RcvPkts, t.RcvMulticast = draw()
	return &t
}

// TestCountersCampaign: totals are the simulator's to the word, over random traffic, counters that
// overflow, clears by others, nodes that begin anew, agents of all kinds, silence, and loss.
func TestCountersCampaign(t *testing.T) {
	var cleared, wrapped, redirected int
	for _, seed := range need.Seeds(8, 300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := countersTrial(t, seed)
			cleared, wrapped = cleared+int(b.m.Counters().Cleared), wrapped+b.wrapped
			for _, n := range b.m.CounterNotices() {
				if n.Kind == perf.KindRedirect {
					redirected++
				}
			}
		})
	}
	t.Logf("%d clears and %d overflows seen, %d redirections", cleared, wrapped, redirected)
	if os.Getenv("HEDDLE_SEED") == "" && (cleared < 10 || wrapped < 10 || redirected < 5) {
		t.Error("that is too little to show anything")
	}
}

func countersTrial(t *testing.T, seed uint64) *perfBed {
	r := rand.New(rand.NewPCG(seed, 15))
	f := gen(t, "mport", "4", "3")
	sc := sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, ExtendedErrorCounters: r.IntN(2) == 0}
	cfg := perf.Defaults()
	cfg.Period, cfg.Timeout = time.Second, 20*time.Millisecond
	cfg.Lanes, cfg.FirstTID = r.IntN(2) == 0, r.Uint32()
	b := newPerfBed(t, f, sc, cfg)
	for i := range f.Nodes {
		var p sim.PMA
		switch r.IntN(8) {
		case 0:
			p = sim.PMA{NoExtended: true, Wrap: true}
		case 1:
			p = sim.PMA{NoIETF: true}
		case 2:
			p = sim.PMA{FullExtended: true}
		case 3:
			p = sim.PMA{NoSamples: true, NoExtended: true, Wrap: true}
		case 4:
			p = sim.PMA{NoSamples: true, Drops: true}
		case 5:
			p = sim.PMA{NoSamples: true, NoClassPortInfo: true, NoExtended: true, Drops: r.IntN(2) == 0}
		}
		if f.Nodes[i].IsSwitch() {
			if r.IntN(3) == 0 {
				to := r.IntN(len(f.Nodes))
				p.RedirectTo, p.RedirectQP, p.RedirectByStatus = f.Nodes[to].Name(), uint32(100+i), r.IntN(2) == 0
			}
		}
		b.model(i, &p)
		for port := 1; port < len(f.Nodes[i].Ports); port++ {
			var start sim.Tally
			start.XmitWords, start.XmitPkts = 1<<31+r.Uint64N(1<<31), 1e6+r.Uint64N(1e6)
			start.RcvWords, start.RcvPkts = 1<<31+r.Uint64N(1<<31), 1<<32-1-r.Uint64N(1e6)
			start.XmitMulticast, start.RcvMulticast = 1e5, 1e5
			b.c.Sim.Count(i, port, &start)
		}
	}
	b.start()
	b.c.Sim.SetDrop([]float64{0, 0.01, 0.05}[r.IntN(3)])
	b.c.Sim.SetDuplicate(0.01)
	increments := 0
	const step = 50 * time.Millisecond
	for range 400 {
		b.c.Run(step)
		for i := range f.Nodes {
			for port := 1; port < len(f.Nodes[i].Ports); port++ {
				if r.IntN(2) == 0 {
					continue
				}
				x := tally(r, step)
				// A clear shows if a counter is less than before, so errors that come
				// right after one would hide it from every observer.
				if w := b.of(i, port); r.IntN(50) == 0 && w.errors <= w.at {
					x.Errors[r.IntN(len(x.Errors))] = 1 + r.Uint64N(20)
				}
				b.c.Sim.Count(i, port, x)
				increments++
			}
		}
		if r.IntN(20) == 0 {
			n := r.IntN(len(f.Nodes))
			ports := []int{1 + r.IntN(len(f.Nodes[n].Ports)-1)}
			if r.IntN(4) == 0 {
				ports = ports[:0]
				for k := range f.Nodes[n].Ports {
					ports = append(ports, k)
				}
			}
			what := r.IntN(3)
			b.clear(n, ports, what != 0, what != 1)
		}
	}
	b.c.Sim.SetDrop(0)
	b.c.Run(3 * cfg.Period)
	if b.sets != 0 {
		t.Errorf("%d Sets", b.sets)
	}
	missing := 0
	for i := range int32(b.last.Len()) {
		p := b.last.Snap.Ports[i]
		polled := p.Num != 0 && p.Info.PortPhysicalState == ib.PhysLinkUp
		if polled && !b.last.Flags(i).Has(perf.Sampled) {
			missing++
			t.Logf("%v port %d: at %v, flags %b", b.last.Snap.Nodes[p.Node].Desc, p.Num, b.last.At(i), b.last.Flags(i))
		}
	}
	if missing > 0 {
		t.Errorf("%d ports were not sampled in the last round", missing)
	}
	t.Logf("%d increments, %d rounds, %d ports cleared, %d requests, %d failed", increments, b.last.Number, b.m.Counters().Cleared, b.m.Counters().Requests, b.m.Counters().Failed)
	return b
}
