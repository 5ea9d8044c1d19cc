package subnet

import (
	"errors"
	"fmt"
	"slices"

	"heddle/internal/pages"
)

// Check reports violations of this package's promises: entries of virtual ports that
// contradict their physical ports, and lookups that contradict the ports. It is for
// tests of snapshot builders; it takes as long as Finish.
func (s *Snapshot) Check() error {
	var errs []error
	bad := func(i int, format string, args ...any) {
		if len(errs) < 8 {
			errs = append(errs, fmt.Errorf("subnet: snapshot %d, port %d (%v): %s", s.Gen, i, s.Ports[i].GUID, fmt.Sprintf(format, args...)))
		}
	}
	last := (*Virtual)(nil)
	for i := range s.Ports {
		p := s.Ports[i]
		v := p.Virtual
		if v == nil {
			if last != nil {
				bad(i, "an entry of a node's port is behind those of virtual ports")
			}
			continue
		}
		if last != nil && i < int(s.vsorted) && comparePlace(last, v) >= 0 {
			bad(i, "VPort %d of port %d is not behind VPort %d of port %d", v.Index, v.Port, last.Index, last.Port)
		}
		if last = v; s.VPort(v.Port, v.Index) != int32(i) {
			bad(i, "VPort %d of port %d is not found there", v.Index, v.Port)
		}
		if v.Port < 0 || int(v.Port) >= len(s.Ports) || s.Ports[v.Port].Virtual != nil {
			bad(i, "its physical port %d is none", v.Port)
			continue
		}
		q := s.Ports[v.Port]
		switch {
		case v.Index == 0:
			bad(i, "VPort 0 is the physical port itself")
		case p.Node != q.Node || p.Num != q.Num || p.Peer != q.Peer:
			bad(i, "it is at node %d port %d, its physical port at node %d port %d", p.Node, p.Num, q.Node, q.Num)
		case p.LMC != 0:
			bad(i, "a VPort has LMC %d", p.LMC)
		case p.EndPort >= 0 && (p.EndPort != q.EndPort || p.LID == 0 || p.GUID == 0):
			bad(i, "it can be reached as end port %d with LID %v; its physical port is end port %d", p.EndPort, p.LID, q.EndPort)
		case p.EndPort >= 0 && (p.MTU != q.MTU || p.Rate != q.Rate):
			bad(i, "MTU %v and rate %v are not those of its physical port, %v and %v", p.MTU, p.Rate, q.MTU, q.Rate)
		}
	}
	t := *s
	t.guidPort, t.lidPort, t.wires, t.switches = pages.List[guidRef]{}, lidTable{}, nil, nil
	t.Finish()
	switch {
	case len(s.Ports)-int(s.vsorted) > MaxUnsorted:
		errs = append(errs, fmt.Errorf("subnet: snapshot %d: %d virtual ports are not in order", s.Gen, len(s.Ports)-int(s.vsorted)))
	case t.vfirst != s.vfirst:
		errs = append(errs, fmt.Errorf("subnet: snapshot %d: virtual ports begin at %d, and are looked for at %d", s.Gen, t.vfirst, s.vfirst))
	case !slices.Equal(t.guidPort.Values(), s.guidPort.Values()):
		errs = append(errs, fmt.Errorf("subnet: snapshot %d: its lookup by GUID, of %d, is not that of its ports, of %d", s.Gen, s.guidPort.Len(), t.guidPort.Len()))
	case !t.lidPort.equal(&s.lidPort):
		errs = append(errs, fmt.Errorf("subnet: snapshot %d: its lookup by LID, up to %d, is not that of its ports, up to %d", s.Gen, s.lidPort.n-1, t.lidPort.n-1))
	case t.Counts != s.Counts:
		errs = append(errs, fmt.Errorf("subnet: snapshot %d: it counts %+v, its ports are %+v", s.Gen, s.Counts, t.Counts))
	case !slices.Equal(t.wires, s.wires) || !slices.Equal(t.switches, s.switches):
		errs = append(errs, fmt.Errorf("subnet: snapshot %d: paths are not walked over its links as they are", s.Gen))
	}
	return errors.Join(errs...)
}
