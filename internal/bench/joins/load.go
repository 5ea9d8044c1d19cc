package joins

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/ibsimd"
	simlive "heddle/sim/live"
)

// The load: each host has window requests in flight, and joins groups groups, which are those of all others.
const (
	window = 4
	groups = 50

	first  = 3               // the first host that joins; managers are on the two before
	resend = 2 * time.Second // without an answer
	limit  = 5 * time.Minute // of one run
)

// subnet is a simulated fat tree in this process, whose hosts join groups. So the processors do the work of
// the SA and of one simulator, and not also that of programs which pass packets of hosts to it.
type subnet struct {
	d     *simlive.Driver
	srv   *ibsimd.Server
	end   context.CancelFunc
	hosts []*host
	run   *run // under way; belongs to the driver's lock
}

// result is that of one run of all hosts. Times are in ms, from the first request for a join to its answer;
// late are requests that were sent again.
type result struct {
	rate, p50, p99 float64
	busy, late     int
	cpu            float64 // processor time of the SA's programs for each join, in µs
}

// host joins. It belongs to the driver's lock.
type host struct {
	net  *subnet
	ep   *sim.Endpoint
	tid  uint32
	next int // group of the next join
	open map[uint32]joining
}

// joining is a join that waits for its answer.
type joining struct {
	group       int
	begun, sent time.Time
}

// run is one run of all hosts.
type run struct {
	from, left int
	begun      time.Time
	times      []float64
	busy, late int
	err        error
	done       chan struct{}
}

// serve serves a fat tree, to managers on its first hosts.
func serve(hosts int, name string) (*subnet, error) {
	t, o, err := fabric.ParseTopology("fattree", []string{fmt.Sprint(hosts)}, 1)
	if err != nil {
		return nil, err
	}
	fab, err := fabric.Generate(t, o)
	if err != nil {
		return nil, err
	}
	net, err := sim.New(fab, sim.Config{})
	if err != nil {
		return nil, err
	}
	n := &subnet{d: simlive.New(net)}
	if n.srv, err = ibsimd.Listen(n.d, ibsimd.Options{SockName: name}); err != nil {
		n.d.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = n.srv.Serve(ctx) // nil, or Close was called
	}()
	n.end = func() {
		cancel()
		<-served
		n.srv.Close()
		n.d.Close()
	}
	n.d.Do(func(net *sim.Subnet) {
		seen := 0
		for i := range fab.Nodes {
			if fab.Nodes[i].Type != ib.NodeCA {
				continue
			}
			if seen++; seen < first {
				continue
			}
			h := &host{net: n, open: map[uint32]joining{}}
			if h.ep, err = net.Attach(fab.Nodes[i].ID); err != nil {
				return
			}
			h.ep.OnPacket = h.receive
			n.hosts = append(n.hosts, h)
		}
	})
	if err != nil {
		n.end()
		return nil, err
	}
	return n, nil
}

// join has each host join the groups from number from on, once.
func (n *subnet) join(from int) (r result, err error) {
	x := &run{from: from, left: len(n.hosts) * groups, begun: time.Now(), done: make(chan struct{})}
	n.d.Do(func(*sim.Subnet) {
		n.run = x
		for _, h := range n.hosts {
			h.next = from
			clear(h.open)
			for range window {
				h.join()
			}
		}
	})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; {
		select {
		case <-x.done:
			took := time.Since(x.begun)
			if x.err != nil {
				return r, x.err
			}
			slices.Sort(x.times)
			return result{
				rate: float64(len(x.times)) / took.Seconds(), p50: x.times[len(x.times)/2], p99: x.times[len(x.times)*99/100], busy: x.busy, late: x.late,
			}, nil
		case now := <-tick.C:
			if now.After(end) {
				return r, fmt.Errorf("%d joins were not answered within %v", x.left, limit)
			}
			n.d.Do(func(*sim.Subnet) {
				for _, h := range n.hosts {
					h.again(now)
				}
			})
		}
	}
}

// join sends the next request, if there is one.
func (h *host) join() {
	if h.next == h.net.run.from+groups {
		return
	}
	now := time.Now()
	h.send(joining{group: h.next, begun: now, sent: now})
	h.next++
}

// again repeats the requests that have waited too long.
func (h *host) again(now time.Time) {
	for tid, j := range h.open {
		if now.Sub(j.sent) > resend {
			delete(h.open, tid)
			h.net.run.late++
			j.sent = now
			h.send(j)
		}
	}
}

// send sends the request for a join.
func (h *host) send(j joining) {
	h.tid++
	h.open[h.tid] = j
	m := request(h.ep.PortGUID(), j.group, h.tid)
	h.ep.Send(&mad.Packet{Addr: mad.Addr{LID: h.ep.PortInfo().MasterSMLID, QP: 1}, LocalQP: 1, Data: m[:]})
}

// receive takes an answer.
func (h *host) receive(p *mad.Packet) {
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	x := h.net.run
	j, ok := h.open[uint32(m.TID())]
	if !m.Method().IsResponse() || m.Class() != ib.ClassSA || !ok {
		return
	}
	delete(h.open, uint32(m.TID()))
	switch m.Status() {
	case ib.StatusOK:
		x.times = append(x.times, time.Since(j.begun).Seconds()*1e3)
		h.join()
	case ib.StatusBusy:
		x.busy++
		j.sent = time.Now()
		h.send(j)
		return
	default:
		x.err = fmt.Errorf("a join was refused: %v", m.Status())
		h.join()
	}
	if x.left--; x.left == 0 {
		close(x.done)
	}
}

// request is a host's request to join a group as a full member.
func request(port ib.GUID, group int, tid uint32) (m ib.MAD) {
	r := sa.MCMemberRecord{PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, port), QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: sa.JoinFull}
	copy(r.MGID[:], []byte{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF})
	binary.BigEndian.PutUint64(r.MGID[8:], uint64(group+1))
	sa.New(&m, ib.MethodSet, sa.AttrMCMemberRecord, 0, sa.MCMemberCompMGID|sa.MCMemberCompPortGID|sa.MCMemberCompJoinState|
		sa.MCMemberCompQKey|sa.MCMemberCompTClass|sa.MCMemberCompPKey|sa.MCMemberCompSL|sa.MCMemberCompFlowLabel)
	r.Put(sa.Data(&m))
	m.SetTID(uint64(tid))
	return m
}

// medians are cells of a table: the rate with the lowest and the highest, both times, how many requests were
// BUSY and were sent again, and the processor time.
func medians(runs []result) string {
	of := func(f func(r *result) float64) (list []float64) {
		for i := range runs {
			list = append(list, f(&runs[i]))
		}
		slices.Sort(list)
		return list
	}
	mid := func(f func(r *result) float64) float64 { return of(f)[len(runs)/2] }
	rate := of(func(r *result) float64 { return r.rate })
	return fmt.Sprintf("%.0f|%.0f|%.0f|%.1f ms|%.1f ms|%.0f|%.0f|%.1f µs", rate[len(rate)/2], rate[0], rate[len(rate)-1],
		mid(func(r *result) float64 { return r.p50 }), mid(func(r *result) float64 { return r.p99 }),
		mid(func(r *result) float64 { return float64(r.busy) }), mid(func(r *result) float64 { return float64(r.late) }),
		mid(func(r *result) float64 { return r.cpu }))
}
