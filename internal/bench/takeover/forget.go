package takeover

import (
	"errors"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/sim"
)

// fewHosts is how many hosts are off while the master dies, and how many registered a service that they
// do not register again.
const fewHosts = 8

// kept is what the next manager knew.
type kept struct {
	hosts          int
	who            string
	services, lids int
}

// forget kills the master while some hosts are off, after some have registered services that they do
// not register again, and returns what the next one knows of them.
func (s *scene) forget(two duo) (k kept, x taken, err error) {
	if _, err := two.settled(); err != nil {
		return k, x, err
	}
	off, quiet := s.hosts[8:8+fewHosts], s.hosts[32:32+fewHosts]
	lids := map[*sceneHost]ib.LID{}
	for i, h := range quiet {
		if ok, err := s.service(h, uint64(100+i), true); err != nil || !ok {
			return k, x, errors.Join(err, errors.New("a service was not registered"))
		}
	}
	s.d.Do(func(net *sim.Subnet) {
		for _, h := range off {
			lids[h] = h.ep.LID()
			h.off = true
			err = errors.Join(err, net.NodeDown(h.ep.NodeID()))
		}
	})
	if err != nil {
		return k, x, err
	}
	if x, err = s.round(two, killed); err != nil {
		return k, x, err
	}
	known := 0
	for i, h := range quiet {
		ok, err := s.service(h, uint64(100+i), false)
		if err != nil {
			return k, x, err
		}
		if ok {
			known++
		}
	}
	// They come back in another order, with a port that has no LID yet, as hosts do that were replaced
	// or switched off.
	same := 0
	for i := len(off) - 1; i >= 0; i-- {
		h := off[i]
		s.d.Do(func(net *sim.Subnet) {
			h.off, h.in[0].by = false, 0
			err = net.NodeUp(h.ep.NodeID())
		})
		if err == nil {
			err = s.await("a host that was off is back", func(*sim.Subnet) bool { return h.in[0].by != 0 })
		}
		if err != nil {
			return k, x, err
		}
		s.d.Do(func(*sim.Subnet) {
			if h.ep.LID() == lids[h] {
				same++
			}
		})
	}
	k.services, k.lids = known, same
	return k, x, nil
}

// service registers a service of a host, or asks for it, until the SA says yes or no.
func (s *scene) service(h *sceneHost, id uint64, register bool) (bool, error) {
	var answer verdict
	s.d.Do(func(*sim.Subnet) { h.query = none })
	var next time.Time
	err := s.await("an answer about a service", func(*sim.Subnet) bool {
		if answer = h.query; answer != none && (answer == yes || !register) {
			return true
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(changeAgain)
			h.query = none
			r := sa.ServiceRecord{ServiceID: id, ServiceGID: h.gid, ServicePKey: ib.PKeyDefaultFull, ServiceLease: 0xFFFF_FFFF}
			if register {
				h.serve(&r, askedService)
			} else {
				var m ib.MAD
				sa.New(&m, ib.MethodGet, sa.AttrServiceRecord, 0, sa.ServiceCompServiceID|sa.ServiceCompServiceGID|sa.ServiceCompServicePKey)
				r.Put(sa.Data(&m))
				h.send(askedService, &m)
			}
		}
		return false
	})
	return answer == yes, err
}
