package ibsim

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// Requests on the control channel, and what the server said when we attached.

// ctlTimeout bounds a control exchange after Dial.
const ctlTimeout = 2 * time.Second

func (c *Conn) request(what string, typ uint32, data []byte) (*ctl, error) {
	c.ctlMu.Lock()
	defer c.ctlMu.Unlock()
	return c.requestLocked(what, typ, data)
}

func (c *Conn) requestLocked(what string, typ uint32, data []byte) (*ctl, error) {
	if err := c.ended(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ctlTimeout)
	defer cancel()
	r, err := c.exchange(ctx, typ, data)
	if err != nil {
		return nil, fmt.Errorf("ibsim: %s of %s at %s: %w", what, c.node, c.o.where(), err)
	}
	return r, nil
}

// SetIsSM implements mad.Transport. Only a client with IsSM set is given
// requests; others get the answers to their own.
func (c *Conn) SetIsSM(on bool) error {
	c.ctlMu.Lock()
	defer c.ctlMu.Unlock()
	var b [4]byte
	if on {
		c.knock()
		binary.NativeEndian.PutUint32(b[:], 1)
	}
	if _, err := c.requestLocked("set IsSM", ctlSetIsSM, b[:]); err != nil {
		return err
	}
	c.isSM = on
	return nil
}

// knock makes ibsim detect dead managers of this port. ibsim keeps the slot of a killed
// client, one of ten, until a write to it fails, and passes requests for the port to the
// lowest slot with IsSM, so those of dead clients get the first traps. One SMInfo request
// frees one slot. A live manager answers, and the answer is ignored.
func (c *Conn) knock() {
	if c.served {
		return // heddle sim detects them itself
	}
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrSMInfo, 0, 0, nil)
	m.SetTID(ownTID)
	for range stockSlots - 1 {
		_ = c.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
	}
}

// ownTID marks requests that Conn makes for itself; ibsim puts a slot into the 16 bits above.
const ownTID = 0x6865_6464_6C65

// own reports whether a packet is a request of knock, or an answer to one or to learnPort: nothing
// for the user of the Conn.
func own(p *mad.Packet) bool {
	if len(p.Data) < ib.MADLen {
		return false
	}
	m := (*ib.MAD)(p.Data)
	return m.TID()&(1<<48-1) == ownTID && m.Class().IsSMP() && (m.AttrID() == smp.AttrSMInfo || m.AttrID() == smp.AttrNodeInfo)
}

// PortInfo returns the PortInfo of a port of the node, 0 = the attached one.
func (c *Conn) PortInfo(port uint8) (smp.PortInfo, error) {
	var pi smp.PortInfo
	b := make([]byte, 64)
	b[0] = port
	r, err := c.request("get PortInfo", ctlGetPortInfo, b)
	if err != nil {
		return pi, err
	}
	err = pi.Decode(r.data()[:smp.PortInfoLen])
	return pi, err
}

// PortGUID implements mad.Transport.
func (c *Conn) PortGUID() ib.GUID { return c.portGUID }

// PortNum is the number of the attached port; 0 on a switch with ibsim the
// port that NodeInfo names.
func (c *Conn) PortNum() uint8 { return c.portNum }

// Node is the id of the attached node.
func (c *Conn) Node() string { return c.node }

// SegmentsRMPP implements mad.Transport: every packet is one MAD.
func (c *Conn) SegmentsRMPP() bool { return false }

// TellsRequesters reports whether the server says for each request if its
// sender reassembles RMPP messages (mad.Packet.SingleMAD): heddle sim does,
// ibsim does not.
func (c *Conn) TellsRequesters() bool { return c.tells }

// MaxInFlight implements mad.Transport.
func (c *Conn) MaxInFlight() int { return c.maxFly }
