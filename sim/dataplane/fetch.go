package dataplane

import "heddle/sim/dataplane/wheel"

// fetcher reads what the events of a bucket will need, before the first of them
// is processed. A large fabric has far more records than the caches hold, and
// events jump from port to port. Each event would wait for one record, then for
// the one that it points to; the reads here do not depend on those of other
// events, so the processor waits for many at once. Nothing is changed, and what is
// read is not used: results do not depend on it.
type fetcher struct {
	on      bool
	bucket  int64
	outs    []int32 // outputs that packets of the bucket go to
	ins     []int32 // inputs that may be read
	nothing uint64  // where what is read goes
}

// largeFabric is how many ports make a fabric whose records exceed the caches.
const largeFabric = 20_000

// fetch follows pointers in rounds: the reads of one give the addresses for the
// next.
func (e *part) fetch(events []wheel.Event) {
	x := uint64(0)
	for k := range events {
		ev := &events[k]
		i := int32(ev.Key & (1<<keyBits - 1))
		switch ev.Key &^ (1<<keyBits - 1) {
		case evEligible:
			x += uint64(e.packets[ev.Arg].dlid) + uint64(e.in[i].node) + uint64(e.inLanes[e.queueOf(i, 0, 0)].head)
		case evDeliver:
			x += uint64(e.packets[ev.Arg].dlid) + uint64(e.hosts[i].port)
		case evFree:
			x += e.fetchOut(i)
		case evCredit:
			x += e.fetchOut(i/e.stride) + uint64(e.outLanes[i].rr)
		}
	}
	f := &e.fetcher
	f.outs, f.ins = f.outs[:0], f.ins[:0]
	for k := range events {
		ev := &events[k]
		i := int32(ev.Key & (1<<keyBits - 1))
		switch ev.Key &^ (1<<keyBits - 1) {
		case evEligible:
			nd := &e.nodes[e.in[i].node]
			if out := e.tables.Route(nd.ref, e.packets[ev.Arg].dlid); int32(out) < nd.radix {
				f.outs = append(f.outs, nd.first+int32(out))
			}
			f.ins = append(f.ins, i)
		case evDeliver:
			p := &e.packets[ev.Arg]
			if p.stream < 0 { // a datagram
				continue
			}
			x += uint64(e.streams[p.stream].Src) + e.flows[p.stream].Delivered + uint64(e.in[e.hosts[i].port].n)
		case evFree:
			if j := e.out[i].reading; j >= 0 {
				f.ins = append(f.ins, j)
			}
			x += e.fetchTurn(i)
		case evCredit:
			x += e.fetchTurn(i / e.stride)
		}
	}
	for _, oi := range f.outs {
		x += e.fetchOut(oi)
	}
	x += e.fetchIns()
	f.nothing += x
}

// fetchOut reads the records of an output.
func (e *part) fetchOut(oi int32) uint64 {
	o := &e.out[oi]
	return uint64(o.busy) + uint64(o.num) + uint64(e.outLanes[oi*e.stride].rr) + e.requests[oi*e.stride*e.words]
}

// fetchTurn notes the input whose turn it is at an output, or reads the queue of a
// host.
func (e *part) fetchTurn(oi int32) uint64 {
	o := &e.out[oi]
	if o.source >= 0 {
		return uint64(e.hostLanes[o.source*e.stride].head)
	}
	ol := oi * e.stride
	if num := nextInput(e.requests[ol*e.words:][:e.words], e.noneBusy, e.outLanes[ol].rr); num >= 0 {
		e.fetcher.ins = append(e.fetcher.ins, e.nodes[o.node].first+num)
	}
	return 0
}

// fetchIns reads the records of inputs, then their heads and the sender's lane,
// which gets credits, then the reads that it knows of.
func (e *part) fetchIns() (x uint64) {
	ins := e.fetcher.ins
	for _, i := range ins {
		x += uint64(e.in[i].up) + uint64(e.inLanes[e.queueOf(i, 0, 0)].head)
	}
	for _, i := range ins {
		if h := e.inLanes[e.queueOf(i, 0, 0)].head; h >= 0 {
			x += uint64(e.packets[h].flags)
		}
		if up := e.in[i].up; up >= 0 && !e.in[i].far {
			x += uint64(e.outLanes[up*e.stride].readHead)
		}
	}
	for _, i := range ins {
		if up := e.in[i].up; up >= 0 && !e.in[i].far {
			if l := &e.outLanes[up*e.stride]; l.readHead >= 0 {
				x += uint64(e.reads[l.readHead].end) + uint64(e.reads[l.readTail].next)
			}
		}
	}
	return x
}
