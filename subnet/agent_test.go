package subnet

import (
	"testing"

	"heddle/ib"
)

// TestAgent: datagrams to agents go on the manager's level if it has one, otherwise on that of the
// path, with a P_Key of both ports.
func TestAgent(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to ib.GUID
		level    ib.SL
		own, its []ib.PKey
		key      ib.PKey
		want     AgentAddr
		ok       bool
	}{
		{"the path's level", 11, 41, 0, nil, nil, 0, AgentAddr{LID: 4, SL: 1}, true},
		{"the manager's level", 11, 41, 6, nil, nil, 0, AgentAddr{LID: 4, SL: 6}, true},
		{"a switch, on the manager's level", 11, 30, 6, nil, nil, 0, AgentAddr{LID: 3, SL: 6}, true},
		{"the second P_Key", 11, 41, 0, []ib.PKey{0x8001, 0x8002}, []ib.PKey{0x8002}, 0, AgentAddr{LID: 4, SL: 1, PKeyIndex: 1}, true},
		{"a named P_Key", 11, 41, 0, []ib.PKey{0x8001, 0x8002}, []ib.PKey{0x8001}, 0x8002, AgentAddr{LID: 4, SL: 1, PKeyIndex: 1}, true},
		{"no P_Key of both", 11, 41, 0, []ib.PKey{0x8001}, []ib.PKey{0x8002}, 0, AgentAddr{}, false},
		{"a P_Key that it does not have", 11, 41, 0, []ib.PKey{0x8001}, nil, 0x8002, AgentAddr{}, false},
		{"no P_Key at all", 11, 41, 0, []ib.PKey{0x8001, 0}, nil, 0x8000, AgentAddr{}, false},
		{"no path", 51, 41, 6, nil, nil, 0, AgentAddr{}, false},
		{"no LID", 11, 70, 6, nil, nil, 0, AgentAddr{}, false},
		{"from nowhere", 99, 41, 0, nil, nil, 0, AgentAddr{}, false},
		{"to nobody", 11, 99, 0, nil, nil, 0, AgentAddr{}, false},
	} {
		s := bed(t)
		port := func(g ib.GUID) int32 {
			for i, p := range s.Ports {
				if p.GUID == g && (s.Nodes[p.Node].SwitchIndex >= 0 || p.Num > 0) {
					return int32(i)
				}
			}
			return -1
		}
		from, to := port(c.from), port(c.to)
		if from >= 0 {
			s.Ports[from].Info.MasterSMSL, s.Ports[from].PKeys = c.level, c.own
		}
		if to >= 0 {
			s.Ports[to].PKeys = c.its
		}
		if got, ok := s.Agent(from, to, c.key); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
