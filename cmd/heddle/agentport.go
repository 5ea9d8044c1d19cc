package main

import (
	"errors"
	"slices"
	"strings"

	"heddle/agent"
	"heddle/agent/live"
	"heddle/ib"
	"heddle/mad"
	"heddle/transport/umad"
)

// agentPort is a user-MAD device as a port of a path cache.
type agentPort struct {
	*umad.Port
	dev  umad.Device // as read last
	deaf bool        // another program receives the Reports
}

// State implements live.Port.
func (p *agentPort) State(quick bool) agent.Port {
	if quick {
		p.RefreshAddress(&p.dev)
	} else {
		p.dev = p.Refresh()
	}
	d := &p.dev
	s := agent.Port{
		Active: d.State == ib.StateActive, LID: d.LID, LMC: d.LMC, Deaf: p.deaf,
		SM: mad.Addr{LID: d.SMLID, SL: d.SMSL, PKeyIndex: d.DefaultPKeyIndex()},
	}
	s.GIDs = slices.DeleteFunc(slices.Clone(d.GIDs), ib.GID.IsZero)
	s.PKeys = slices.DeleteFunc(slices.Clone(d.PKeys), func(k ib.PKey) bool { return k == 0 })
	return s
}

// agentPorts are the ports named by --port; without any, all InfiniBand ports whose link is up.
func agentPorts(specs []string) (list []live.PortConfig, err error) {
	devs, err := umad.Discover("")
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		kind, name, ok := strings.Cut(s, ":")
		if !ok || kind != "umad" {
			return nil, usagef("--port %q: want umad:DEVICE/PORT; 'heddle attach NODE -- heddle agent' runs an agent on a simulated node", s)
		}
		p, err := umad.OpenPort(umad.Options{Name: name, Client: true})
		if err != nil {
			return nil, err
		}
		d := p.Device()
		p.Close()
		list = append(list, portConfig(&d))
	}
	if len(specs) > 0 {
		return list, nil
	}
	for i := range devs {
		if d := &devs[i]; d.IsInfiniBand() && d.NodeType != ib.NodeSwitch && d.PhysState == ib.PhysLinkUp {
			list = append(list, portConfig(d))
		}
	}
	if len(list) == 0 {
		_, err := umad.OpenPort(umad.Options{Client: true})
		if err == nil {
			err = errors.New("no InfiniBand port of this machine has a link; name one with --port to wait for its link")
		}
		return nil, err
	}
	return list, nil
}

func portConfig(d *umad.Device) live.PortConfig {
	name := d.Umad
	return live.PortConfig{Device: d.CA, Num: uint8(d.Port), NodeGUID: d.NodeGUID, Open: func() (live.Port, error) { return openAgentPort(name) }}
}

// openAgentPort opens a port that receives Reports, or, if another program receives them,
// one that does not.
func openAgentPort(name string) (*agentPort, error) {
	o := umad.Options{Name: name, Client: true, Agents: []umad.Agent{{Class: ib.ClassSA, Version: 2, Methods: []ib.Method{ib.MethodReport}, RMPP: true}}}
	p, err := umad.OpenPort(o)
	deaf := errors.Is(err, umad.ErrBusy)
	if deaf {
		o.Agents = nil
		p, err = umad.OpenPort(o)
	}
	if err != nil {
		return nil, err
	}
	return &agentPort{Port: p, dev: p.Device(), deaf: deaf}, nil
}
