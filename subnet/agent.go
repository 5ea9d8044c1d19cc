package subnet

import (
	"fmt"

	"heddle/ib"
)

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

// Redirect is where an agent has its requests sent (IBA §13.5.2).
type Redirect struct {
	AgentAddr
	QP   uint32
	QKey ib.QKey // 0: that of QP 1
}

// Redirects reports whether a ClassPortInfo names another agent.
func Redirects(ci *ib.ClassPortInfo) bool { return ci.RedirectLID != 0 || ci.RedirectGID != ib.GID{} }

// Redirected finds the way from the port with index from to the agent that ci names. It must be at a
// port of the subnet, and the sender must have its P_Key. The error says what ci names, as in
// "redirects to LID 9 ...".
func (s *Snapshot) Redirected(from int32, ci *ib.ClassPortInfo) (r Redirect, err error) {
	to := int32(-1)
	switch {
	case ci.RedirectLID.IsUnicast():
		to = s.PortByLID(ci.RedirectLID)
	case ci.RedirectLID == 0:
		to = s.PortByGID(ci.RedirectGID)
	}
	if to < 0 {
		return r, fmt.Errorf("redirects to LID %v, GID %v, which the subnet does not have", ci.RedirectLID, ci.RedirectGID)
	}
	a, ok := s.Agent(from, to, ci.RedirectPKey)
	if !ok {
		return r, fmt.Errorf("redirects to LID %v with P_Key %v, to which this manager has no path or P_Key", ci.RedirectLID, ci.RedirectPKey)
	}
	if ci.RedirectLID != 0 {
		a.LID = ci.RedirectLID
	}
	a.SL = ci.RedirectSL
	r = Redirect{a, max(ci.RedirectQP, 1), ci.RedirectQKey}
	if r.QKey == ib.QKeyGSI {
		r.QKey = 0
	}
	return r, nil
}
