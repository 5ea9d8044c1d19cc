package guests

import (
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/vmdriver"
)

// feeler is a peer that sends probes to a VM that migrates. It knows what a path query
// would tell it: when a probe is not answered, it asks again for the VM's address.
type feeler struct {
	from    sim.VF
	key     ib.PKey
	to      mad.Addr
	last    *sim.Probe
	sent    mad.Time // when last was sent
	heard   mad.Time // when the last answered probe was sent
	worst   time.Duration
	expires mad.Time // after the VM runs again
}

// candidates is how many hosts and VMs are tried as peers, and patience how long a peer
// goes on after the VM runs again.
const (
	candidates = 16
	patience   = 5 * time.Second
)

// feel has a peer send probes to x until it has been answered at its new place.
func (g *Guests) feel(x *guest) {
	x.felt = nil
	if g.cfg.Probe <= 0 {
		return
	}
	f := &feeler{expires: mad.Never}
	x.felt = f
	if !g.resolve(x, f) {
		x.felt = nil
		return
	}
	g.choose(x, f, g.peers(x))
}

// peers are where probes may come from: hosts, then other VMs, not at the places of x.
func (g *Guests) peers(x *guest) (list []sim.VF) {
	a, z := g.ports[x.from].Node, g.ports[x.to].Node
	add := func(f sim.VF) {
		if f.Node >= 0 && f.Node != a && f.Node != z && len(list) < candidates {
			list = append(list, f)
		}
	}
	for _, h := range g.s.LIDs() {
		if len(list) < candidates/2 && h.Port > 0 {
			add(sim.VF{Node: h.Node, Port: h.Port})
		}
	}
	for _, name := range g.s.VMs() {
		if st, _ := g.s.VM(name); name != x.Name && !st.Stopped {
			add(st.At)
		}
	}
	return list
}

// choose tries the peers, one after the other, and takes the first that is answered.
func (g *Guests) choose(x *guest, f *feeler, list []sim.VF) {
	st, _ := g.s.VM(x.Name)
	for len(list) > 0 {
		from := list[0]
		list = list[1:]
		for _, key := range st.PKeys {
			p, err := g.s.Probe(from, f.to, key)
			if err != nil || p.Done && !p.Answered {
				continue
			}
			f.from, f.key, f.last, f.sent, f.heard = from, key, p, g.s.Now(), g.s.Now()
			if p.Answered {
				g.s.After(g.cfg.Probe, func() { g.probe(x, f) })
				return
			}
			g.s.After(max(g.cfg.Probe, 10*time.Millisecond), func() { // it is on its way
				switch {
				case x.felt != f:
				case p.Answered:
					g.probe(x, f)
				default:
					g.choose(x, f, list)
				}
			})
			return
		}
	}
	if x.felt == f {
		x.felt = nil // nobody shares a partition with it
	}
}

// resolve asks for the address of x.
func (g *Guests) resolve(x *guest, f *feeler) bool {
	st, ok := g.s.VM(x.Name)
	if !ok || st.LID == 0 || st.State != ib.StateActive {
		return false
	}
	f.to = mad.Addr{LID: st.LID, HasGRH: true, GRH: mad.GRH{GID: st.GID, HopLimit: 1}}
	return true
}

// probe looks at the last probe and sends the next.
func (g *Guests) probe(x *guest, f *feeler) {
	if x.felt != f || g.list[x.Name] != x {
		return
	}
	now := g.s.Now()
	if f.last.Answered {
		f.worst = max(f.worst, f.sent.Sub(f.heard))
		f.heard = f.sent
	} else {
		g.resolve(x, f)
	}
	if x.To == (vmdriver.Place{}) && x.copy == nil { // the migration is over
		if f.expires == mad.Never {
			f.expires = now.Add(patience)
		} else if f.last.Answered || now >= f.expires {
			x.felt = nil
			if f.last.Answered {
				x.Copy.Felt = f.worst
				g.status(x, "")
			}
			return
		}
	}
	p, err := g.s.Probe(f.from, f.to, f.key)
	if err != nil {
		x.felt = nil
		return
	}
	f.last, f.sent = p, now
	g.s.After(g.cfg.Probe, func() { g.probe(x, f) })
}
