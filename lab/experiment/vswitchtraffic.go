package experiment

import (
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/report"
	"heddle/route/move"
	"heddle/sim/dataplane"
)

// Packets to a VM that migrates: so many hosts send one every senderGap.
const (
	senders     = 24
	senderGap   = 2 * dataplane.Microsecond
	senderBytes = 256 + dataplane.OverheadRC
	// aroundMove is how long they send before and after a migration, and drainTime how long
	// packets are given to end.
	aroundMove = 100 * time.Microsecond
	drainTime  = time.Millisecond
)

// sender is a host that sends packets to a LID while there is one.
type sender struct {
	door  *dataplane.Door
	queue int
	to    ib.LID
}

func (p *sender) Receive(*dataplane.Arrived) {}
func (p *sender) Left(int)                   {}

func (p *sender) Timer() {
	if p.to != 0 {
		p.door.Send(p.queue, &dataplane.Message{DLID: p.to, Bytes: senderBytes})
	}
	p.door.Wake(p.door.Now() + senderGap)
}

// arrivals are the ends of packets to VMs that migrate, all counted on the data plane.
type arrivals struct {
	moves             int
	sent              uint64
	old, new          int           // delivered at the old and at the new place
	away, early       int           // came to the old adapter after the VM, to the new one before its address
	wrong             int           // came to any other port
	lost              int           // ended on the way
	live              uint64        // never ended: they loop
	outage, worst     time.Duration // between the last delivery at the old place and the first at the new, mean and worst
	causes            map[dataplane.Cause]int
	lastOld, firstNew dataplane.Time
}

// traffic lets VMs migrate one after the other while hosts send to them. With an error it returns what
// was counted until then.
func (w *wire) traffic(vms []*wireVM) (*arrivals, error) {
	e, err := w.c.Sim.StartData(dataplane.Defaults(), dataplane.DefaultCable)
	if err != nil {
		return nil, err
	}
	defer w.c.Sim.StopData()
	busy := map[int]bool{w.c.Fabric.Find(w.m.Node): true}
	for _, v := range vms {
		busy[v.on.Node], busy[v.off.Node] = true, true
	}
	var list []*sender
	rng := rand.New(rand.NewPCG(w.seed, 0x7472616666))
	for _, h := range rng.Perm(e.NumHosts()) {
		if busy[int(e.HostPort(h).Node)] || len(list) == senders {
			continue
		}
		p := &sender{}
		if p.door, err = e.Attach(h, p); err != nil {
			return nil, err
		}
		p.queue = p.door.OpenQueue(0)
		p.door.Wake(p.door.Now() + dataplane.Time(rng.Uint64N(uint64(senderGap))))
		list = append(list, p)
	}
	a := &arrivals{causes: map[dataplane.Cause]int{}}
	for _, v := range vms {
		if err := w.migrateUnder(e, list, v, a); err != nil {
			return a, err
		}
	}
	st := e.Stats()
	a.sent, a.live = st.Created, e.Live()
	if err := e.Check(); err != nil {
		return nil, err
	}
	return a, nil
}

// migrateUnder lets one VM migrate while all senders send to it.
func (w *wire) migrateUnder(e *dataplane.Engine, list []*sender, v *wireVM, a *arrivals) error {
	from, to := int32(v.on.Node), int32(v.off.Node)
	a.lastOld, a.firstNew = -1, -1
	e.SetHooks(dataplane.Hooks{
		OnDeliver: func(d *dataplane.Delivery) {
			switch e.HostPort(d.Host).Node {
			case from:
				a.old++
				a.lastOld = d.At
			case to:
				if a.new++; a.firstNew < 0 {
					a.firstNew = d.At
				}
			default:
				a.wrong++
			}
		},
		OnDrop: func(d *dataplane.Drop) {
			switch {
			case d.Cause != dataplane.WrongHost:
				a.lost++
				a.causes[d.Cause]++
			case d.Port.Node == from:
				a.away++
			case d.Port.Node == to:
				a.early++
			default:
				a.wrong++
			}
		},
	})
	for _, p := range list {
		p.to = v.lid
	}
	w.c.Run(aroundMove)
	if _, _, err := w.migrate(v); err != nil {
		return err
	}
	w.c.Run(aroundMove)
	for _, p := range list {
		p.to = 0
	}
	w.c.Run(drainTime)
	w.c.Sim.Data()
	e.SetHooks(dataplane.Hooks{})
	if a.lastOld < 0 || a.firstNew < 0 {
		return fmt.Errorf("%s: no packet came to it before, or none after it had moved", v.name)
	}
	a.moves++
	if a.lastOld > a.firstNew { // the VM is in two places
		a.wrong++
	}
	gap := (a.firstNew - a.lastOld).Duration()
	a.outage += (gap - a.outage) / time.Duration(a.moves)
	a.worst = max(a.worst, gap)
	return nil
}

// trafficSection is what becomes of packets to VMs that migrate.
func trafficSection(o *Options, hosts int) (s report.Section, err error) {
	s = report.Section{
		Title: fmt.Sprintf("Packets to a VM that migrates, %d hosts", hosts),
		Text: fmt.Sprintf("%d hosts send packets of %d bytes to the VM's LID, one every %v each, over the data plane, while the VM is moved: from %v before its hypervisor takes it down until %v after the manager has reported it at the new place. "+
			"Each packet is counted where it ends. The VM is up at the new place as soon as it is down at the old one, so what comes to either adapter without being delivered is lost to the VM itself.",
			senders, senderBytes, senderGap.Duration(), aroundMove, aroundMove),
		Table: report.Table{Columns: []string{
			"LIDs", "mode", "migrations", "sent", "delivered, old place", "delivered, new place", "at the old adapter after it", "at the new adapter before its address",
			"at any other port", "lost on the way", "never ended", "outage, mean, us", "outage, worst, us",
		}},
	}
	var all arrivals
	for _, kind := range []move.Kind{move.Copy, move.Swap} {
		o.say("%d hosts, %s, packets to VMs that migrate", hosts, lidsAre[kind])
		for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
			w, err := newWire(wireOptions{hosts: hosts, kind: kind, modes: []move.Mode{mode}, pairs: min(vswitchPairs(o, hosts), 12), vfs: 1, every: true, seed: o.Seed})
			if err != nil {
				return s, err
			}
			if _, err := w.create(); err != nil {
				return s, err
			}
			a, err := w.traffic(w.vms)
			if err != nil {
				return s, fmt.Errorf("%s, %v: %w", lidsAre[kind], mode, err)
			}
			s.Table.Rows = append(s.Table.Rows, []any{
				lidsAre[kind], mode.String(), a.moves, int(a.sent), a.old, a.new, a.away, a.early, a.wrong, a.lost, int(a.live), us(a.outage), us(a.worst),
			})
			all.sent += a.sent
			all.wrong += a.wrong
			all.lost += a.lost
			all.live += a.live
			all.away += a.away + a.early
			all.moves += a.old + a.new
		}
	}
	s.Claim = []report.Claim{
		{What: "no packet to a VM that migrates comes to another host", Published: "not in the paper", Measured: fmt.Sprintf("%d of %d", all.wrong, all.sent), Holds: all.wrong == 0},
		{What: "none loops, and none is lost on the way", Published: "not in the paper", Measured: fmt.Sprintf("%d never ended, %d lost on the way", all.live, all.lost), Holds: all.live == 0 && all.lost == 0},
		{
			What: "all others are delivered, or come to an adapter while the VM is not there", Published: "the VM is down while it migrates",
			Measured: fmt.Sprintf("%d delivered, %d at an adapter", all.moves, all.away), Holds: uint64(all.moves+all.away) == all.sent && all.moves > 0 && all.away > 0,
		},
	}
	return s, nil
}
