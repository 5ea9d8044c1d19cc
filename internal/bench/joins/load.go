package joins

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// The load: at most most hosts have window requests in flight each, and join groups groups, which are
// those of all others.
const (
	window = 4
	groups = 50
	most   = 510 // a process can attach to 512 hosts

	first  = 3               // the first host that joins; managers are on the two before
	resend = 2 * time.Second // without an answer
	limit  = 5 * time.Minute // of one run
)

// host is a host that joins.
type host struct {
	conn *ibsim.Conn
	sa   ib.LID
	in   chan ib.MAD
	tid  uint32
}

// attach attaches to hosts without a manager, most at most.
func attach(sock string, hosts int) (list []*host, err error) {
	for n := first; n <= min(hosts, first+most-1); n++ {
		c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: fmt.Sprintf("host-%d", n)})
		if err != nil {
			return list, err
		}
		h := &host{conn: c, in: make(chan ib.MAD, 2*window)}
		list = append(list, h)
		info, err := c.PortInfo(1)
		if err != nil {
			return list, err
		}
		h.sa = info.MasterSMLID
		go func() {
			defer close(h.in)
			var p mad.Packet
			for c.Recv(&p) == nil {
				if p.Status == mad.Received && len(p.Data) >= ib.MADLen && ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]).IsResponse() {
					h.in <- *(*ib.MAD)(p.Data)
				}
			}
		}()
	}
	return list, nil
}

// result is that of one run of all hosts. Times are in ms, from the first request for a join to its answer; Late are requests
// that were sent again.
type result struct {
	Rate, P50, P99 float64
	Busy, Late     int
}

// joinAll has each host join the groups from number from on, once.
func joinAll(list []*host, from int) (r result, err error) {
	var mu sync.Mutex
	var times []float64
	var running sync.WaitGroup
	begin := time.Now()
	for _, h := range list {
		running.Go(func() {
			took, busy, late, e := h.join(from, begin.Add(limit))
			mu.Lock()
			defer mu.Unlock()
			times = append(times, took...)
			r.Busy, r.Late = r.Busy+busy, r.Late+late
			err = cmp.Or(err, e)
		})
	}
	running.Wait()
	took := time.Since(begin)
	if err != nil {
		return r, err
	}
	slices.Sort(times)
	r.Rate = float64(len(times)) / took.Seconds()
	r.P50, r.P99 = times[len(times)/2], times[len(times)*99/100]
	return r, nil
}

// joining is a join that waits for its answer.
type joining struct {
	group       int
	begun, sent time.Time
}

// join joins the groups.
func (h *host) join(from int, end time.Time) (took []float64, busy, late int, err error) {
	open := map[uint32]joining{}
	todo := make([]joining, 0, groups)
	for g := groups - 1; g >= 0; g-- {
		todo = append(todo, joining{group: from + g})
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for len(todo)+len(open) > 0 {
		for len(open) < window && len(todo) > 0 {
			j := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if err := h.send(&j); err != nil {
				return nil, 0, 0, err
			}
			open[h.tid] = j
		}
		select {
		case m, ok := <-h.in:
			if !ok {
				return nil, 0, 0, errors.New("a host lost its port")
			}
			j, is := open[uint32(m.TID())]
			if !is {
				continue
			}
			delete(open, uint32(m.TID()))
			switch m.Status() {
			case 0:
				took = append(took, time.Since(j.begun).Seconds()*1e3)
			case ib.StatusBusy:
				busy++
				todo = append(todo, j)
			default:
				return nil, 0, 0, fmt.Errorf("a join was refused: %v", m.Status())
			}
		case now := <-tick.C:
			if now.After(end) {
				return nil, 0, 0, fmt.Errorf("%d joins of a host were not answered within %v", len(todo)+len(open), limit)
			}
			before := late
			for tid, j := range open {
				if now.Sub(j.sent) > resend {
					delete(open, tid)
					late++
					todo = append(todo, j)
				}
			}
			if late > before { // another manager may have taken over
				info, err := h.conn.PortInfo(1)
				if err != nil {
					return nil, 0, 0, err
				}
				h.sa = info.MasterSMLID
			}
		}
	}
	return took, busy, late, nil
}

// send sends the request for a join.
func (h *host) send(j *joining) error {
	h.tid++
	j.sent = time.Now()
	if j.begun.IsZero() {
		j.begun = j.sent
	}
	r := sa.MCMemberRecord{PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, h.conn.PortGUID()), QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: sa.JoinFull}
	copy(r.MGID[:], []byte{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF})
	binary.BigEndian.PutUint64(r.MGID[8:], uint64(j.group+1))
	var m ib.MAD
	sa.New(&m, ib.MethodSet, sa.AttrMCMemberRecord, 0, sa.MCMemberCompMGID|sa.MCMemberCompPortGID|sa.MCMemberCompJoinState|
		sa.MCMemberCompQKey|sa.MCMemberCompTClass|sa.MCMemberCompPKey|sa.MCMemberCompSL|sa.MCMemberCompFlowLabel)
	r.Put(sa.Data(&m))
	m.SetTID(uint64(h.tid))
	return h.conn.Send(&mad.Packet{Addr: mad.Addr{LID: h.sa, QP: 1}, LocalQP: 1, Data: m[:]})
}

// closeAll ends the connections of hosts.
func closeAll(list []*host) {
	for _, h := range list {
		h.conn.Close()
	}
}

// medians are cells of a table: the rate with the lowest and the highest, both times, and how many requests were BUSY and
// were sent again.
func medians(runs []result) string {
	of := func(f func(r *result) float64) (list []float64) {
		for i := range runs {
			list = append(list, f(&runs[i]))
		}
		slices.Sort(list)
		return list
	}
	mid := func(f func(r *result) float64) float64 { return of(f)[len(runs)/2] }
	rate := of(func(r *result) float64 { return r.Rate })
	return fmt.Sprintf("%.0f|%.0f|%.0f|%.1f ms|%.1f ms|%.0f|%.0f", rate[len(rate)/2], rate[0], rate[len(rate)-1],
		mid(func(r *result) float64 { return r.P50 }), mid(func(r *result) float64 { return r.P99 }),
		mid(func(r *result) float64 { return float64(r.Busy) }), mid(func(r *result) float64 { return float64(r.Late) }))
}
