package subnet

import "heddle/ib"

// AgentAddr is how a manager sends to the agents behind QP 1 of a port.
type AgentAddr struct {
	LID       ib.LID
	SL        ib.SL
	PKeyIndex uint16 // in the P_Key table of the manager's port
}

// Agent finds the way from the port with index from to the agents of the port with index to, on the
// level of the manager's datagrams if they have their own, with a P_Key that both ports have, or with
// key if it is not 0. It reports false if there is no path or P_Key.
func (s *Snapshot) Agent(from, to int32, key ib.PKey) (a AgentAddr, ok bool) {
	if from < 0 || to < 0 || s.Ports[to].LID == 0 {
		return a, false
	}
	own, lid := s.Ports[from], s.Ports[to].LID
	path, ok := s.Path(from, lid)
	if !ok {
		return a, false
	}
	a = AgentAddr{LID: lid, SL: path.SL}
	if sl := own.Info.MasterSMSL; sl > 0 {
		a.SL = sl // on a lane that no path uses
	}
	if key == 0 {
		if key = s.SharedPKey(from, to); key == 0 {
			return AgentAddr{}, false
		}
	}
	for i, k := range own.Keys() {
		if k.Base() == key.Base() && !k.IsEmpty() {
			a.PKeyIndex = uint16(i)
			return a, true
		}
	}
	return AgentAddr{}, false
}
