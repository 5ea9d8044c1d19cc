package trap

import (
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
)

// A trap is a hint, and any host can send one. It counts as a trap of the port that it came from,
// whose LID the hardware writes. A trap that names another node as its issuer, and a trap from a
// LID that no port has, is false. A false trap is repressed and counted. It has one warning in
// Window for each sender, and leads to at most a light sweep, which reads what is true.

// origin finds the port that a trap came from, an index in the ports of the last snapshot, or -1
// if no port has the LID. honest reports whether the trap claims to be from that node.
func (r *Receiver) origin(p *mad.Packet, lids [2]ib.LID) (from int32, honest bool) {
	s := r.Snapshot
	if from = s.PortByLID(p.Addr.LID); p.Addr.LID == 0 {
		from = s.PortIndex(s.Self)
	}
	if from < 0 {
		return -1, false
	}
	from = s.Physical(from)
	for _, l := range lids {
		if l == 0 {
			continue
		}
		if i := s.PortByLID(l); i < 0 || s.Ports[s.Physical(i)].Node != s.Ports[from].Node {
			return from, false
		}
	}
	return from, true
}

// reject takes a false trap. from is the port that sent it, or -1.
func (r *Receiver) reject(n *smp.Notice, from int32, claimed ib.LID) {
	s := Source{Trap: False}
	if from >= 0 {
		s.LID = r.Snapshot.Ports[from].LID
	}
	r.falseCount++
	if r.table.Count(r.Now, s) > 1 {
		if r.Phase == notice.PhaseIdle {
			r.needs.Light.By(r.Now.Add(Window))
		}
		return
	}
	r.needs.Light.Soon()
	w := notice.Notice{
		Kind: notice.KindTrapFalse, Level: notice.Warn,
		Text: "trap " + number(n) + " came from a LID that is not assigned; it is ignored",
	}
	if from >= 0 {
		w.Text = "trap " + number(n) + " claims to be from LID " + claimed.String() + " but came from this port; it is ignored"
		w.Where = r.where(from)
	}
	r.Notify(w)
}

// where is a port of the last snapshot, for messages.
func (r *Receiver) where(i int32) notice.Where {
	q := r.Snapshot.Ports[i]
	nd := &r.Snapshot.Nodes[q.Node]
	return notice.Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: int(q.Num), LID: q.LID, Path: nd.Path, Known: true}
}

// tell notifies of a trap. port is the port that it is about, if it is not the one with the LID.
func (r *Receiver) tell(k notice.Kind, lv notice.Level, lid ib.LID, port uint8, text string) {
	n := notice.Notice{Kind: k, Level: lv, Text: text}
	if i := r.Snapshot.PortByLID(lid); i >= 0 {
		n.Where = r.where(i)
		n.Where.LID = lid
		if port != 0 {
			n.Where.Port = int(port)
		}
	} else {
		n.Text += " from LID " + lid.String() + ", which is not assigned"
	}
	r.Notify(n)
}

// number is the number of a trap, for messages.
func number(n *smp.Notice) string {
	if t, ok := n.Trap(); ok {
		return strconv.Itoa(int(t))
	}
	return strconv.Itoa(int(n.TrapNumber))
}
