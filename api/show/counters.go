package show

import (
	"cmp"
	"errors"
	"fmt"

	"heddle/api"
	"heddle/ib"
	"heddle/perf"
	"heddle/subnet"
)

// RoundMeter is a Meter of the links of a subnet whose counters are read. newest returns the last
// round, nil before the first.
func RoundMeter(newest func() *perf.Round) Meter { return roundMeter(newest) }

type roundMeter func() *perf.Round

// Measure implements Meter.
func (m roundMeter) Measure() Measurement {
	r := m()
	if r == nil {
		return Measurement{}
	}
	out := Measurement{Source: "port counters", Span: r.Period}
	for i := range int32(r.Len()) {
		if r.Elapsed(i) <= 0 {
			continue
		}
		p := r.Snap.Ports[i]
		g := perf.DataGbps(r.Snap, i)
		if g == 0 {
			continue
		}
		out.Sent = append(out.Sent, Sent{
			Node: r.Snap.Nodes[p.Node].Info.NodeGUID, Port: p.Num, Share: r.Use(i, perf.XmitData), Gbps: g,
		})
	}
	return out
}

// Counters is /v1/counters: what the performance manager does, and the ports, all or the worst.
func Counters(r *perf.Round, q api.CountersQuery) (out api.Counters, err error) {
	out.Ports = []api.PortUse{}
	if r == nil {
		return out, nil
	}
	st := &r.Status
	out = api.Counters{
		Round: r.Number, Period: r.Period.Seconds(), Generation: r.Snap.Gen, Polled: st.Ports, Agents: st.Agents, Silent: st.Silent,
		Requests: st.Requests, Failed: st.Failed, Cleared: st.Cleared, Ports: []api.PortUse{},
	}
	by, ok := orders[cmp.Or(q.By, "use")]
	if !ok {
		return out, fmt.Errorf("by=%q: want use, wait, discards or errors", q.By)
	}
	list := ranking{most: q.Limit}
	for i := range int32(r.Len()) {
		if r.At(i) == 0 {
			continue
		}
		if v := by(r, i); v > 0 || q.All {
			list.add(i, v)
		}
	}
	out.Ports = list.uses(r)
	return out, nil
}

// orders are what ports can be ordered by, the highest first.
var orders = map[string]func(r *perf.Round, i int32) float64{
	"use":      func(r *perf.Round, i int32) float64 { return max(r.Use(i, perf.XmitData), r.Use(i, perf.RcvData)) },
	"wait":     func(r *perf.Round, i int32) float64 { return max(r.WaitShare(i), r.Rate(i, perf.XmitWait)*1e-15) },
	"discards": func(r *perf.Round, i int32) float64 { return r.Rate(i, perf.XmitDiscards) },
	"errors": func(r *perf.Round, i int32) float64 {
		n, rate := 0.0, 0.0
		for c := range perf.NumCounters {
			if c.IsError() {
				if total := r.Total(i, c); total > 0 {
					n += float64(total)
					rate += r.Rate(i, c)
				}
			}
		}
		return rate + n*1e-15 // those that grow first
	},
}

// portUse is one row.
func portUse(r *perf.Round, i int32) api.PortUse {
	p := r.Snap.Ports[i]
	n := &r.Snap.Nodes[p.Node]
	u := api.PortUse{
		GUID: n.Info.NodeGUID.String(), Description: n.Desc, Port: int(p.Num), Gbps: perf.DataGbps(r.Snap, i),
		Xmit: r.Use(i, perf.XmitData), Rcv: r.Use(i, perf.RcvData), Wait: r.WaitShare(i),
		XmitPackets: r.Rate(i, perf.XmitPkts), RcvPackets: r.Rate(i, perf.RcvPkts), Flags: flagNames(r.Flags(i)),
	}
	if q := r.Snap.Port(p.Peer); q != nil {
		to := &r.Snap.Nodes[q.Node]
		u.Peer = &api.LinkEnd{GUID: to.Info.NodeGUID.String(), Description: to.Desc, Port: int(q.Num), State: q.State().String()}
	}
	for c := range perf.NumCounters {
		if c.IsError() && r.Total(i, c) > 0 {
			if u.Errors == nil {
				u.Errors = map[string]uint64{}
			}
			u.Errors[c.String()] = r.Total(i, c)
		}
		if rate := r.Rate(i, c); c.IsError() && rate > 0 {
			if u.Growing == nil {
				u.Growing = map[string]float64{}
			}
			u.Growing[c.String()] = rate
		}
	}
	return u
}

func flagNames(f perf.Flags) []string {
	names := []string{}
	for _, x := range []struct {
		f    perf.Flags
		name string
	}{
		{perf.Sampled, "sampled"},
		{perf.Cleared, "cleared"},
		{perf.Wrapped, "overflowed"},
		{perf.Stuck, "stuck"},
		{perf.Narrow, "narrow"},
		{perf.Silent, "silent"},
	} {
		if f.Has(x.f) {
			names = append(names, x.name)
		}
	}
	return names
}

// PortCounters is /v1/ports/{guid}/{num}/counters. guid is that of the node or of the port.
func PortCounters(r *perf.Round, guid string, num int) (out api.PortCounters, err error) {
	if r == nil {
		return out, errNoCounters
	}
	g, err := ib.ParseGUID(guid)
	if err != nil {
		return out, err
	}
	i := portOf(r.Snap, g, num)
	if i < 0 || int(i) >= r.Len() {
		return out, fmt.Errorf("there is no port %d of a node or port with GUID %v", num, g)
	}
	if r.At(i) == 0 {
		return out, fmt.Errorf("port %d of %v has not been read", num, g)
	}
	out = api.PortCounters{
		PortUse: portUse(r, i), Round: r.Number, Age: r.Ended.Sub(r.At(i)).Seconds(), Seconds: r.Elapsed(i).Seconds(),
		Counters: map[string]api.Counter{}, WaitTick: r.WaitTick(i).Seconds(), History: []api.CounterPoint{}, Virtual: []api.VirtualCounters{},
	}
	for c := range perf.NumCounters {
		if r.Has(i, c) {
			out.Counters[c.String()] = api.Counter{Total: r.Total(i, c), Value: r.Value(i, c), Delta: r.Delta(i, c), Rate: r.Rate(i, c)}
		}
	}
	for _, p := range r.History(i) {
		if p.Elapsed > 0 {
			out.History = append(out.History, api.CounterPoint{
				Round: p.Number, Age: r.Ended.Sub(p.Began).Seconds(), Seconds: p.Elapsed.Seconds(), Xmit: p.Xmit, Rcv: p.Rcv, Wait: p.Wait, Errors: int(p.ErrorDelta),
			})
		}
	}
	out.Details = details(r, i)
	own := r.Snap.Ports[i].GUID
	for k := range r.Virtual {
		v := &r.Virtual[k]
		if v.Port != own || r.Snap.Nodes[r.Snap.Ports[i].Node].SwitchIndex >= 0 {
			continue
		}
		x := api.VirtualCounters{Index: int(v.Index), Seconds: v.Elapsed.Seconds(), Counters: map[string]api.Counter{}}
		for c, name := range virtualNames {
			x.Counters[name] = api.Counter{Total: v.Total[c], Value: v.Value[c], Delta: v.Delta[c]}
		}
		out.Virtual = append(out.Virtual, x)
	}
	return out, nil
}

// virtualNames are the counters of perf.VPortSample.
var virtualNames = func() (names [perf.NumVPortCounters]string) {
	for c := range perf.SymbolErrors {
		names[c] = c.String()
	}
	names[perf.NumVPortCounters-1] = "PortRelayErrors"
	return names
}()

var errNoCounters = errors.New("no counters have been read")

// portOf finds a port by the GUID of its node, or of the port.
func portOf(s *subnet.Snapshot, g ib.GUID, num int) int32 {
	if num < 0 || num > 254 {
		return -1
	}
	n := s.NodeByGUID(g)
	if n < 0 {
		if i := s.PortByPortGUID(g); i >= 0 && s.Ports[i].Virtual == nil {
			n = s.Ports[i].Node
		}
	}
	if n < 0 {
		return -1
	}
	return s.PortIndex(subnet.Ref{Node: n, Port: uint8(num)})
}

// details are the counters that only some ports are asked for.
func details(r *perf.Round, i int32) map[string]uint64 {
	out := map[string]uint64{}
	add := func(name string, v uint64) {
		if v != 0 {
			out[name] = v
		}
	}
	if d := r.Details(i); d != nil {
		for k, name := range []string{
			"PortLocalPhysicalErrors", "PortMalformedPacketErrors", "PortBufferOverrunErrors", "PortDLIDMappingErrors", "PortVLMappingErrors", "PortLoopingErrors",
		} {
			add(name, d.Rcv[k])
		}
		for k, name := range []string{"PortInactiveDiscards", "PortNeighborMTUDiscards", "PortSwLifetimeLimitDiscards", "PortSwHOQLifetimeLimitDiscards"} {
			add(name, d.Discards[k])
		}
		for vl := range d.VLWait {
			add(fmt.Sprintf("PortVLXmitWait%d", vl), uint64(d.VLWait[vl]))
			add(fmt.Sprintf("PortVLOpData%d", vl), uint64(d.VLData[vl]))
			add(fmt.Sprintf("PortVLOpPackets%d", vl), uint64(d.VLPackets[vl]))
		}
	}
	s := r.Speeds(i)
	add("SyncHeaderErrorCounter", uint64(s.SyncHeaderErrorCounter))
	add("UnknownBlockCounter", uint64(s.UnknownBlockCounter))
	add("PortFECCorrectableBlockCtr", uint64(s.PortFECCorrectable))
	add("PortFECUncorrectableBlockCtr", uint64(s.PortFECUncorrectable))
	add("PortFECCorrectedSymbolCtr", uint64(s.PortFECCorrected))
	for lane := range s.ErrorDetection {
		add(fmt.Sprintf("ErrorDetectionCounterLane%d", lane), uint64(s.ErrorDetection[lane]))
		add(fmt.Sprintf("FECCorrectableBlockCtrLane%d", lane), uint64(s.FECCorrected[lane]))
		add(fmt.Sprintf("FECUncorrectableBlockCtrLane%d", lane), uint64(s.FECUncorrected[lane]))
	}
	return out
}
