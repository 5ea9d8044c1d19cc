package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/qos"
	"heddle/subnet"
)

// pathValues are the values that selectors apply to.
type pathValues struct {
	mtu  ib.MTU
	rate ib.Rate
	life uint8 // 4.096 µs × 2^n
}

// limit applies a QoS level.
func (v *pathValues) limit(l *qos.Level, loopback bool) {
	if l == nil {
		return
	}
	if l.MTULimit != 0 {
		v.mtu = min(v.mtu, l.MTULimit)
	}
	if o := l.RateLimit.Order(); o != 0 && o < v.rate.Order() {
		v.rate = l.RateLimit
	}
	if l.HasLife && !loopback {
		v.life = l.PacketLife
	}
}

// Each selector and its value form one component; one without the other has no
// effect.
const (
	pathCompMTU  = wire.PathCompMTU | wire.PathCompMTUSelector
	pathCompRate = wire.PathCompRate | wire.PathCompRateSelector
	pathCompLife = wire.PathCompPacketLifeTime | wire.PathCompLifeSelector
)

// fit applies the selectors of a query (IBA §15.2.5.16). A path may be used
// below its capacity, so values are lowered to the requested ones. A rate is not
// lowered for "exactly", because the sender injects at that rate.
func (v *pathValues) fit(mask wire.CompMask, r *wire.PathRecord) bool {
	if !mask.Any(pathCompMTU | pathCompRate | pathCompLife) {
		return true
	}
	if mask.Has(pathCompMTU) {
		n, ok := adjust(int(v.mtu), int(r.MTU), 1, r.MTUSelector)
		if v.mtu = ib.MTU(n); !ok {
			return false
		}
	}
	if mask.Has(pathCompRate) {
		have, asked := v.rate.Order(), r.Rate.Order()
		switch r.RateSelector {
		case wire.SelGreater:
			if have <= asked {
				return false
			}
		case wire.SelLess:
			if have >= asked {
				if v.rate = r.Rate.Slower(); v.rate == 0 {
					return false
				}
			}
		case wire.SelExactly:
			if have != asked {
				return false
			}
		}
	}
	if mask.Has(pathCompLife) {
		n, ok := adjust(int(v.life), int(r.PacketLifeTime), 0, r.PacketLifeTimeSelector)
		if v.life = uint8(n); !ok {
			return false
		}
	}
	return true
}

// adjust applies a selector to an ordered value whose smallest is least.
func adjust(have, asked, least int, sel uint8) (int, bool) {
	switch sel {
	case wire.SelGreater:
		return have, have > asked
	case wire.SelLess:
		if have < asked {
			return have, true
		}
		return asked - 1, asked > least
	case wire.SelExactly:
		return asked, have >= asked
	}
	return have, true
}

// understood lowers a rate to one that the port's software knows. Rates of 2x
// links, HDR and NDR are later additions, each with a capability bit.
func understood(r ib.Rate, p *subnet.Port) ib.Rate {
	switch r {
	case ib.Rate28, ib.Rate50, ib.Rate400, ib.Rate600, ib.Rate800, ib.Rate1200:
	default:
		return r
	}
	var have ib.CapMask2
	if p.Info.CapabilityMask.Has(ib.CapIsCapabilityMask2Supported) {
		have = p.Info.CapabilityMask2
	}
	wide, hdr, ndr := have.Has(ib.Cap2IsLinkWidth2xSupported), have.Has(ib.Cap2IsLinkSpeedHDRSupported), have.Has(ib.Cap2IsLinkSpeedNDRSupported)
	ext := p.Info.CapabilityMask.Has(ib.CapIsExtendedSpeedsSupported)
	switch r {
	case ib.Rate800, ib.Rate1200:
		if ndr {
			return r
		}
		if hdr {
			return ib.Rate600
		}
	case ib.Rate400, ib.Rate600:
		if wide || hdr || ndr {
			return r
		}
	case ib.Rate50:
		if wide || hdr || ndr {
			return r
		}
		return ib.Rate40
	case ib.Rate28:
		switch {
		case wide:
			return r
		case ext:
			return ib.Rate25
		}
		return ib.Rate20
	}
	if ext {
		return ib.Rate300
	}
	return ib.Rate120
}

// raw reports whether the query asks for a path for raw packets, which have no
// P_Key.
func (q *query) raw(r *wire.PathRecord) bool { return q.has(wire.PathCompRawTraffic) && r.RawTraffic }

// pathKey is the P_Key of the paths between two ports; none reports that no key
// matches. A requested key is returned as requested. Otherwise it is the lowest
// shared key, with the membership of the source, which looks it up in its own
// table.
func (q *query) pathKey(r *wire.PathRecord, w *way) (key ib.PKey, none bool) {
	a, b := q.s.Ports[w.src.port].Keys(), q.s.Ports[w.dst.port].Keys()
	switch {
	case q.raw(r):
		return 0, false
	case q.has(wire.PathCompPKey):
		return r.PKey, commonKey(a, b, r.PKey.Base(), w.level) == 0
	}
	key = commonKey(a, b, 0, w.level)
	return key, key == 0
}

// commonKey is the lowest key of table a through which its port reaches the port
// with table b: at least one of them must be a full member. only restricts the
// base value, l the keys to those of a QoS level. A port with both a full and a
// limited key uses the full one. 0: none.
func commonKey(a, b []ib.PKey, only ib.PKey, l *qos.Level) (best ib.PKey) {
	if len(a) == 1 && len(b) == 1 && a[0] == ib.PKeyDefaultFull && b[0] == ib.PKeyDefaultFull && only == 0 && l == nil {
		return ib.PKeyDefaultFull
	}
	take := func(k ib.PKey) {
		switch {
		case k.IsEmpty(), only != 0 && k.Base() != only, l != nil && !l.Allows(k):
		case best == 0, k.Base() < best.Base():
			best = k
		case k.Base() == best.Base():
			best |= k
		}
	}
	for _, x := range a {
		for _, y := range b {
			if x.Base() == y.Base() && (x.IsFull() || y.IsFull()) {
				take(x)
			}
		}
	}
	return best
}

// level is the QoS level that the policy assigns to the paths between two
// ports.
func (q *query) level(r *wire.PathRecord, a, b int32) *qos.Level {
	src, dst := q.qosEnd(a), q.qosEnd(b)
	x := qos.Query{Src: &src, Dst: &dst}
	if x.HasPKey = q.has(wire.PathCompPKey); x.HasPKey {
		x.PKey = r.PKey
	}
	if x.HasServiceID = q.has(wire.PathCompServiceID8 | wire.PathCompServiceID56); x.HasServiceID {
		x.ServiceID = r.ServiceID
	}
	switch {
	case q.has(wire.PathCompQoSClass):
		x.QoSClass, x.HasQoSClass = r.QoSClass, true
	case q.has(wire.PathCompTClass) && r.TClass != 0:
		// With IPv6 addresses, RDMA CM puts a socket's type of service here.
		x.QoSClass, x.HasQoSClass = uint16(r.TClass), true
	}
	return q.opt.QoS.Level(&x)
}

func (q *query) qosEnd(i int32) qos.End {
	p := q.s.Ports[i]
	n := &q.s.Nodes[p.Node]
	e := qos.End{
		GUID: p.GUID, Node: n.Desc, Port: p.Num, Type: n.Info.NodeType, PKeys: p.PKeys,
		Self: i == q.s.PortIndex(q.s.Self),
	}
	if v := p.Virtual; v != nil {
		e.Node, e.Port = v.Desc, v.Node.LocalPortNum
	}
	return e
}

// pathSL is the service level of a path. If the routing engine uses virtual
// lanes, the engine prescribes it, because packets of another level could close
// a cycle. Otherwise the QoS level, the partition or the requester decides. ok
// is false if the request names another level, or if a level that is not
// prescribed has no lane on the path.
func (q *query) pathSL(r *wire.PathRecord, w *way, engine ib.SL, dlid ib.LID) (sl ib.SL, ok bool) {
	if slow, ok := q.slowSL(r, w); ok {
		return slow, true
	}
	asked := q.has(wire.PathCompSL)
	prescribed := true
	switch {
	case q.s.Tables != nil && q.s.Tables.SL != nil:
		sl = engine
	case w.level != nil:
		sl = w.level.SL
	default:
		sl, prescribed = q.partitionSL(w.key)
	}
	switch {
	case !asked:
	case prescribed && r.SL != sl:
		return sl, false
	default:
		if sl = r.SL; !prescribed && sl != 0 && !q.hasLane(w.src.port, dlid, sl) {
			return sl, false
		}
	}
	if v := q.s.FirstVPort(); w.src.port >= v || w.dst.port >= v {
		return q.virtualSL(w, sl, asked || prescribed, dlid)
	}
	return sl, true
}
