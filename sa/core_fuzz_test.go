package sa_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// script plays what a byte string says on a core: requests of all kinds in
// batches, states of the subnet, lost masterships, answers, time, a store that
// fails, restarts. What the core puts out is written down.
type script struct {
	w     *testbed
	in    []byte
	log   bytes.Buffer
	snaps []*subnet.Snapshot
	fail  bool
	seen  map[*sa.View]string // views as they were published
}

func (x *script) byte() (b byte) {
	if len(x.in) > 0 {
		b, x.in = x.in[0], x.in[1:]
	}
	return b
}

func (x *script) step(ev sa.Event) {
	w := x.w
	for ev != nil {
		w.out.Reset()
		w.core.Step(w.now, ev, &w.out)
		ev = nil
		o := &w.out
		if len(o.Persist) > 0 {
			p := sa.Persisted{Gen: o.PersistGen}
			if x.fail {
				p.Err = store.ErrClosed
			} else {
				p.Err = w.store.Apply(o.Persist)
			}
			ev = p
		}
		if o.Publish != nil {
			w.view = o.Publish
			x.seen[w.view] = contents(w.view)
		}
		silent := w.snap.State != subnet.Master
		if silent && len(o.Replies)+len(o.Sends) > 0 {
			w.t.Fatalf("%d replies and %d Reports of a standby", len(o.Replies), len(o.Sends))
		}
		for _, r := range o.Replies {
			if len(r.Data) < wire.HeaderLen || r.Data[3]&0x80 == 0 || !bytes.Equal(r.Data[36:44], make([]byte, 8)) {
				w.t.Fatalf("a reply %x", r.Data[:min(len(r.Data), wire.HeaderLen)])
			}
		}
		fmt.Fprint(&x.log, o.Persist, o.Replies, o.Groups, o.Aliases, o.Read, o.Notices, o.Timer)
		for i := range o.Sends {
			fmt.Fprintf(&x.log, "%v %x", o.Sends[i].Addr, o.Sends[i].Data)
		}
		w.timer = o.Timer
	}
}

func contents(v *sa.View) string {
	var b bytes.Buffer
	for _, g := range v.Groups {
		fmt.Fprintln(&b, *g)
	}
	for _, s := range v.Services {
		fmt.Fprintln(&b, *s)
	}
	for _, s := range v.Subs {
		fmt.Fprintln(&b, *s)
	}
	return b.String()
}

// request makes one of few, so that they meet.
func (x *script) request() sa.Request {
	kind, from := x.byte(), ib.LID(2+x.byte()%5)
	who := ib.LID(2 + x.byte()%5)
	method := []ib.Method{ib.MethodSet, ib.MethodDelete, ib.MethodSet, ib.MethodGetTable}[kind>>6]
	p := x.byte()
	var q []byte
	switch kind % 6 {
	case 0, 1:
		r := joining(gid(fmt.Sprintf("ff12:a01c::%x", p%8)), who, 1+x.byte()%15)
		switch p % 16 {
		case 7:
			r.MGID = bcast
		case 8:
			r.MGID = ib.GID{}
		case 9:
			r.PortGID = ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0xA0+p>>4))
		case 10, 11:
			r.PKey = 0x8005
		}
		q = ask(method, wire.AttrMCMemberRecord, []wire.CompMask{maskCreate, maskJoin}[p>>7], &r)
	case 2:
		r := wire.ServiceRecord{ServiceID: uint64(p % 4), ServiceGID: hostGID(who), ServiceLease: uint32(p % 32), ServicePKey: ib.PKey(p&1) * 0x8005}
		r.ServiceKey[0] = p >> 7
		q = ask(method, wire.AttrServiceRecord, 0x33, &r)
	case 3:
		r := wire.InformInfo{
			LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: p & 1, Type: wire.InformAllTypes,
			TrapNumber: []uint16{64, 65, 66, 67, 128, 144, 256, wire.InformAllTraps}[p>>1&7], Producer: wire.InformAllProducers, QPN: 1,
		}
		if p>>5 == 0 {
			r.GID = hostGID(who)
		}
		q = ask(ib.MethodSet, wire.AttrInformInfo, 0, &r)
	case 4:
		r := wire.GUIDInfoRecord{LID: who}
		r.GUIDInfo[p%8] = ib.GUID(x.byte()&3) * 0xA0
		q = ask(method, wire.AttrGUIDInfoRecord, wire.GUIDInfoCompLID|wire.GUIDInfoCompBlock|wire.GUIDInfoCompGUID0<<(p%8), &r)
	default:
		q = ask(method, wire.AttrSLtoVLRecord, wire.SLtoVLCompLID, &wire.SLtoVLRecord{LID: ib.LID(1 + p%8)})
	}
	if kind&0x20 != 0 {
		q = trusted(q, 7)
	}
	if kind&0x10 != 0 { // whatever else
		q[int(x.byte())%len(q)] = x.byte()
	}
	return sa.Request{From: mad.Addr{LID: from, QP: 1}, Data: q}
}

func (x *script) run() {
	w := x.w
	for len(x.in) > 0 {
		switch op := x.byte(); op % 12 {
		case 0:
			w.snap = x.snaps[int(x.byte())%len(x.snaps)]
			x.step(sa.Published{Snap: w.snap})
		case 1:
			w.now = w.now.Add(time.Duration(x.byte()) * 250 * time.Millisecond)
			x.step(sa.Timer{})
		case 2:
			if w.timer != mad.Never {
				w.now = max(w.now, w.timer)
				x.step(sa.Timer{})
			}
		case 3:
			x.step(sa.Trap{Notice: smp.NewTrap(smp.TrapPortStateChange, smp.ProducerSwitch, 1, smp.DetailLID{LID: 1})})
		case 4:
			if len(w.out.Sends) > 0 { // answer the first one
				p := w.out.Sends[0]
				p.Data = bytes.Clone(p.Data)
				p.Data[3] |= byte(ib.MethodResponseBit)
				x.step(sa.Received{P: &p})
			}
		case 5:
			x.fail = x.byte() < 128
		case 6:
			if x.byte() < 32 && !x.fail {
				w.now += mad.Time(11 * time.Second) // what the store did not take is in it now
				x.step(sa.Timer{})
				st, err := w.store.Load()
				if err != nil {
					w.t.Fatal(err)
				}
				was := w.view
				w.core = sa.NewCore(w.cfg)
				x.step(sa.Start{Records: st.Records, Wall: int64(w.now)})
				if now := w.view; was != nil && dump(now) != dump(was) {
					w.t.Fatalf("before the restart\n%safter it\n%s", dump(was), dump(now))
				}
				x.step(sa.Published{Snap: w.snap})
			}
		default:
			var list []sa.Request
			for range 1 + op>>6 {
				list = append(list, x.request())
			}
			x.step(sa.Requests{List: list})
		}
	}
	for v, was := range x.seen {
		if contents(v) != was {
			w.t.Fatal("a view that was published has changed")
		}
	}
}

// FuzzCore: no sequence of requests and events makes a core panic, send while it is not
// master, change a published view, or lose stored state; the same sequence has the same
// results.
func FuzzCore(f *testing.F) {
	for seed := range 8 {
		in := make([]byte, 400)
		for i := range in {
			in[i] = byte((i*i*(2*seed+3) + i*7 + seed) >> (seed % 3))
		}
		f.Add(in)
	}
	base := up(5)
	base.Nodes[0].Switch.MulticastFDBCap = 6
	base.Partitions = &partition.Policy{Partitions: append([]partition.Partition{
		{Name: "tenant", PKey: 5, Members: []partition.Member{{Kind: partition.Port, GUID: 0xA0, As: partition.Full}}},
	}, base.Partitions.Partitions...)}
	for i := range base.Ports {
		base.Ports[i].Info.GUIDCap = 8
	}
	port(base, 3).PKeys = []ib.PKey{0xFFFF, 0x8005}
	port(base, 4).PKeys = nil
	base = clone(base)
	alias := clone(base)
	port(alias, 2).Aliases = []ib.GUID{0, 0xA0, 0x140}
	standby, other := clone(base), clone(base)
	standby.State, standby.Up = subnet.Standby, false
	other.State, other.Up, other.Master = subnet.Standby, false, subnet.SM{GUID: 99}
	fewer := clone(base)
	fewer.Nodes[0].Switch.MulticastFDBCap = 2
	snaps := []*subnet.Snapshot{base, without(base, 3), without(base, 2, 4), clone(alias), standby, other, fewer}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 4096 {
			return
		}
		var logs [2][]byte
		for i := range logs {
			x := &script{in: slices.Clone(in), snaps: snaps, seen: map[*sa.View]string{}}
			x.w = &testbed{t: t, cfg: usual(sa.Config{SAKey: 7, RejoinTime: time.Minute}), store: store.NewMemory(), snap: base}
			x.w.core = sa.NewCore(x.w.cfg)
			x.step(sa.Start{})
			x.step(sa.Published{Snap: base})
			x.run()
			logs[i] = x.log.Bytes()
		}
		if !bytes.Equal(logs[0], logs[1]) {
			t.Fatal("done again it puts out something else")
		}
	})
}
