// Package jointest is a load of many hosts that join multicast groups and leave them while managers are killed (Churn),
// over the sockets of a simulator in another process. The hosts know which memberships the SA must have afterward.
package jointest

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// window is how many requests of a host may be without an answer.
const window = 4

// Host is a host that joins.
type Host struct {
	conn *ibsim.Conn
	sa   ib.LID
	in   chan ib.MAD // answers of the SA, and of the host's own port to askSA
	port chan ib.MAD // other answers of the port
	tid  uint32
}

// Attach attaches to hosts by their names: 512 at most in one process. Close also those that it returns with an error.
func Attach(sock string, nodes []string) (list []*Host, err error) {
	for _, n := range nodes {
		c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: n})
		if err != nil {
			return list, err
		}
		h := &Host{conn: c, in: make(chan ib.MAD, 2*window), port: make(chan ib.MAD, 2)}
		list = append(list, h)
		info, err := c.PortInfo(1)
		if err != nil {
			return list, err
		}
		h.sa = info.MasterSMLID
		go h.receive()
	}
	return list, nil
}

// Close ends the connections of hosts.
func Close(list []*Host) {
	for _, h := range list {
		h.conn.Close()
	}
}

// receive passes answers on until the connection ends.
func (h *Host) receive() {
	defer close(h.in)
	var p mad.Packet
	for h.conn.Recv(&p) == nil {
		if p.Status != mad.Received || len(p.Data) < ib.MADLen || !ib.Method(p.Data[3]).IsResponse() {
			continue
		}
		m := (*ib.MAD)(p.Data)
		switch {
		case m.Class() == ib.ClassSA, m.Class() == ib.ClassSubnDR && uint32(m.TID()) == askSATID:
			h.in <- *m
		case m.Class() == ib.ClassSubnDR:
			select {
			case h.port <- *m:
			default: // nobody waits for it
			}
		}
	}
}

// askSATID is the transaction of askSA, and that of no other request.
const askSATID = 1<<32 - 1

// askSA asks the host's port where the SA is. The simulator answers hundreds of hosts that ask so; its control socket
// is for one request at a time.
func (h *Host) askSA() error { return h.askPort(smp.AttrPortInfo, 1, askSATID) }

func (h *Host) askPort(attr ib.AttrID, mod uint32, tid uint64) error {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, attr, mod, 0, nil)
	m.SetTID(tid)
	return h.conn.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
}

// own asks the host's own port, and waits.
func (h *Host) own(attr ib.AttrID, mod uint32, wait time.Duration) (*ib.MAD, error) {
	again := time.NewTicker(sendAgain)
	defer again.Stop()
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		if err := h.askPort(attr, mod, uint64(attr)); err != nil {
			return nil, err
		}
		for sent := true; sent; {
			select {
			case w := <-h.port:
				if w.AttrID() == attr && smp.StatusOf(&w) == 0 {
					return &w, nil
				}
			case <-again.C:
				sent = false
			case <-late.C:
				return nil, fmt.Errorf("%s does not answer", h.conn.Node())
			}
		}
	}
}

// MGID is that of a group.
func MGID(group int) (g ib.GID) {
	copy(g[:], []byte{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF})
	binary.BigEndian.PutUint64(g[8:], uint64(group+1))
	return g
}

// request asks for a join (Set) or a leave (Delete). h.tid identifies it.
func (h *Host) request(how ib.Method, group int) error {
	h.tid++
	m := Request(how, group, h.conn.PortGUID())
	m.SetTID(uint64(h.tid))
	return h.conn.Send(&mad.Packet{Addr: mad.Addr{LID: h.sa, QP: 1}, LocalQP: 1, Data: m[:]})
}

// Request is what a port sends to join a group (Set) or to leave it (Delete).
func Request(how ib.Method, group int, port ib.GUID) (m ib.MAD) {
	r := sa.MCMemberRecord{
		MGID: MGID(group), PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, port),
		QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: sa.JoinFull,
	}
	mask := sa.MCMemberCompMGID | sa.MCMemberCompPortGID | sa.MCMemberCompJoinState
	if how == ib.MethodSet {
		mask |= sa.MCMemberCompQKey | sa.MCMemberCompTClass | sa.MCMemberCompPKey | sa.MCMemberCompSL | sa.MCMemberCompFlowLabel
	}
	sa.New(&m, how, sa.AttrMCMemberRecord, 0, mask)
	r.Put(sa.Data(&m))
	return m
}
