package main

import (
	"sync"
	"time"

	"heddle/api/show"
	"heddle/fabric"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// simMeter measures the cables of a simulated subnet by the packets of its data
// plane (show.Meter).
type simMeter struct {
	do    func(func(*sim.Subnet)) // live.Driver.Do
	ports []meterPort

	mu   sync.Mutex
	kept []meterSample // the oldest first; guarded by mu
}

// meterPort is a port with a cable.
type meterPort struct {
	ref  fabric.Ref
	sent show.Sent
	rate float64 // words a second
}

// meterSample is what all ports had sent by a time of the data plane.
type meterSample struct {
	at    dataplane.Time
	words []uint64
}

// Measurements are means over meterSpan, of samples that are meterStep apart: the
// gentle load of 'heddle up' is some packets a second on each cable.
const (
	meterStep = time.Second
	meterSpan = 10 * meterStep
)

func newSimMeter(do func(func(*sim.Subnet)), f *fabric.Fabric) *simMeter {
	m := &simMeter{do: do}
	for a, b := range f.Links {
		for _, r := range [2]fabric.Ref{a, b} {
			p := f.Port(r)
			rate := dataplane.LinkRate(p.Width, p.Speed)
			if rate.Unlimited() {
				continue
			}
			m.ports = append(m.ports, meterPort{
				ref: r, sent: show.Sent{Node: f.Nodes[r.Node].GUID, Port: r.Port, Gbps: rate.Gbps()}, rate: rate.Gbps() * 1e9 / 32,
			})
		}
	}
	return m
}

// Measure implements show.Meter. It looks at the counters at most once for each
// meterStep.
func (m *simMeter) Measure() show.Measurement {
	m.mu.Lock()
	defer m.mu.Unlock()
	running := false
	m.do(func(s *sim.Subnet) {
		e := s.Data()
		if running = e != nil; !running {
			m.kept = nil
			return
		}
		if n := len(m.kept); n > 0 && (e.Now()-m.kept[n-1].at).Duration() < meterStep {
			return
		}
		x := meterSample{at: e.Now(), words: make([]uint64, len(m.ports))}
		for i := range m.ports {
			x.words[i] = e.Port(m.ports[i].ref).XmitWords
		}
		m.kept = append(m.kept, x)
		for len(m.kept) > 2 && (x.at-m.kept[0].at).Duration() > meterSpan+meterStep {
			m.kept = m.kept[1:]
		}
	})
	if !running {
		return show.Measurement{Source: "no packets are simulated"}
	}
	out := show.Measurement{Source: "packets of the simulated hosts"}
	first, last := &m.kept[0], &m.kept[len(m.kept)-1]
	if out.Span = (last.at - first.at).Duration(); out.Span == 0 {
		return out
	}
	out.Sent = make([]show.Sent, 0, len(m.ports))
	for i := range m.ports {
		x := m.ports[i].sent
		x.Share = float64(last.words[i]-first.words[i]) / (m.ports[i].rate * out.Span.Seconds())
		out.Sent = append(out.Sent, x)
	}
	return out
}
