package subnet

import (
	"strings"
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

// TestRedirected: a redirection leads to a port of the subnet with a P_Key of the sender, by LID or
// GID, with the level, QP and Q_Key that it names.
func TestRedirected(t *testing.T) {
	s := bed(t)
	from := s.PortByPortGUID(11)
	to := s.Ports[s.PortByPortGUID(41)]
	for _, c := range []struct {
		name string
		ci   ib.ClassPortInfo
		want Redirect
		err  string
	}{
		{"by LID", ib.ClassPortInfo{RedirectLID: to.LID, RedirectQP: 9, RedirectSL: 3, RedirectQKey: 77}, Redirect{AgentAddr{LID: to.LID, SL: 3}, 9, 77}, ""},
		{"with the usual Q_Key, and no QP", ib.ClassPortInfo{RedirectLID: to.LID, RedirectQKey: ib.QKeyGSI}, Redirect{AgentAddr{LID: to.LID}, 1, 0}, ""},
		{"by GID", ib.ClassPortInfo{RedirectGID: ib.MakeGID(s.Prefix, 41), RedirectQP: 9}, Redirect{AgentAddr{LID: to.LID}, 9, 0}, ""},
		{"to nobody", ib.ClassPortInfo{RedirectLID: 0x1234}, Redirect{}, "which the subnet does not have"},
		{"to a group", ib.ClassPortInfo{RedirectLID: 0xC001}, Redirect{}, "which the subnet does not have"},
		{"with a P_Key that the sender does not have", ib.ClassPortInfo{RedirectLID: to.LID, RedirectPKey: 0x8123}, Redirect{}, "no path or P_Key"},
	} {
		got, err := s.Redirected(from, &c.ci)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", c.name, got, err, c.want, c.err)
		}
		if !Redirects(&c.ci) {
			t.Errorf("%s: it does not redirect", c.name)
		}
	}
	if Redirects(&ib.ClassPortInfo{RedirectQP: 5}) {
		t.Error("neither LID nor GID, and it redirects")
	}
}
