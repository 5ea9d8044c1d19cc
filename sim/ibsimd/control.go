package ibsimd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/sim"
)

// control processes the messages on a control socket.
func (s *Server) control(fd int, udp bool) {
	var buf [ctlLen + 8]byte
	for range batch {
		n, from, err := unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT)
		if err != nil || from == nil {
			return
		}
		var m ctlMsg
		if m.Decode(buf[:n]) != nil {
			continue // no reply, like ibsim
		}
		if u, ok := from.(*unix.SockaddrUnix); ok {
			if u.Name == "" {
				continue // not bound: no address for a reply
			}
			// The name was cut at the NUL that ends it.
			from = &unix.SockaddrUnix{Name: strings.TrimSuffix(u.Name, "\x00") + "\x00"}
		}
		if !s.answer(&m, from, udp) {
			continue
		}
		m.Put(&s.reply)
		_ = unix.Sendto(fd, s.reply[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, from)
	}
}

// answer turns a request into its reply; false: there is none.
func (s *Server) answer(m *ctlMsg, from unix.Sockaddr, udp bool) bool {
	if m.Op == opConnect || m.Op == opSetIsSM {
		s.probe() // a client that was just killed may hold what this one requests
	}
	if m.Op == opConnect {
		var in clientInfo
		in.Decode(&m.Data)
		c, err := s.connect(&in, from, udp)
		if err != nil {
			s.log.Warn("client refused", "node", in.NodeID, "id", in.ID, "err", err)
			m.Op = opError
			return true
		}
		out := clientInfo{ID: uint32(c.slot), QP: in.QP, IsSM: in.IsSM, NodeID: c.node, InFlight: inFlightLocal, Ext: extReassembles | extAddr}
		if udp {
			out.InFlight = inFlightUDP
		}
		out.Put(&m.Data)
		s.log.Info("client connected", "slot", c.slot, "node", c.node, "id", c.id, "issm", in.IsSM)
		return true
	}
	if int64(m.Client) >= int64(len(s.clients)) {
		return false
	}
	c := s.clients[m.Client]
	if c == nil || !c.isFrom(from, udp) {
		return false
	}
	if m.Op == opDisconnect {
		s.release(c, "disconnect")
		return true
	}
	s.drv.Begin()
	defer s.drv.End()
	s.now = s.drv.Now()
	c.query(m)
	return true
}

func (c *client) isFrom(from unix.Sockaddr, udp bool) bool {
	switch a := from.(type) {
	case *unix.SockaddrUnix:
		return !udp && a.Name == c.ctl.(*unix.SockaddrUnix).Name
	case *unix.SockaddrInet4:
		return udp && a.Port == c.ctlP
	}
	return false
}

// query answers a query about the client's port. The driver's lock is held.
func (c *client) query(m *ctlMsg) {
	ne := binary.NativeEndian
	ep := c.ep
	d := &m.Data
	switch m.Op {
	case opGetPort:
		clear(d[:])
		ne.PutUint16(d[0:], uint16(ep.LID()))
		d[2] = byte(ep.PortInfo().PortState)
	case opGetVendor:
		ni := ep.NodeInfo()
		clear(d[:])
		ne.PutUint32(d[0:], ni.VendorID)
		ne.PutUint32(d[4:], uint32(ni.DeviceID))
		ne.PutUint32(d[8:], ni.Revision)
		ne.PutUint64(d[16:], 1)
	case opGetGID:
		clear(d[:])
		pi := ep.PortInfo()
		binary.BigEndian.PutUint64(d[0:], uint64(pi.GidPrefix))
		binary.BigEndian.PutUint64(d[8:], uint64(ep.PortGUID()))
	case opGetGUID:
		clear(d[:])
		ne.PutUint64(d[0:], uint64(ep.NodeInfo().NodeGUID))
	case opGetNodeInfo:
		ni := ep.NodeInfo()
		ni.LocalPortNum = ep.PortNum()
		ni.PortGUID = ep.PortGUID()
		// The preload library takes NodeGUID + LocalPortNum for the port GUID.
		ni.NodeGUID = ni.PortGUID - ib.GUID(ni.LocalPortNum)
		clear(d[:])
		ni.Put(d[:])
	case opGetPortInfo:
		num := d[0]
		pi := ep.PortInfoOf(num)
		ni := ep.NodeInfo()
		switch {
		case ni.NodeType == ib.NodeSwitch:
			pi.LocalPortNum = 0
		case num == 0 || num > ni.NumPorts:
			pi.LocalPortNum = ep.PortNum()
		default:
			pi.LocalPortNum = num
		}
		clear(d[:])
		pi.Put(d[:])
	case opSetIsSM:
		on := ne.Uint32(d[0:]) != 0
		if err := ep.SetIsSM(on); err != nil {
			c.srv.log.Warn("IsSM refused", "slot", c.slot, "node", c.node, "err", err)
			m.Op = opError
		}
	case opGetPKeys:
		clear(d[:])
		for i, k := range ep.PKeys(nil) {
			if i == ctlPayload/2 {
				break
			}
			binary.BigEndian.PutUint16(d[2*i:], uint16(k))
		}
	}
}

// connect attaches a client.
func (s *Server) connect(in *clientInfo, from unix.Sockaddr, udp bool) (*client, error) {
	for _, c := range s.clients {
		if c != nil && !udp && !c.udp && c.id == in.ID {
			s.release(c, "its id connects again") // it died, or its name would be in use
		}
	}
	c := &client{srv: s, slot: -1, udp: udp, id: in.ID, ctl: from, fd: -1, all: in.IsSM, extAddr: in.Ext&extAddr != 0, times: in.Ext&extTimes != 0}
	if a, ok := from.(*unix.SockaddrInet4); ok {
		c.ctlP = a.Port
	}
	c.pend.init()
	if err := s.openData(c); err != nil {
		return nil, err
	}
	if err := s.attach(c, in); err != nil {
		s.closeData(c)
		return nil, err
	}
	s.clients[c.slot] = c
	return c, nil
}

func (s *Server) attach(c *client, in *clientInfo) error {
	sub := s.drv.Begin()
	defer s.drv.End()
	s.now = s.drv.Now()
	ep, err := sub.Attach(in.NodeID)
	if err != nil && len(in.NodeID) == nodeIDLen-1 {
		if name := longName(sub, in.NodeID); name != "" {
			ep, err = sub.Attach(name)
		}
	}
	if err != nil {
		return err
	}
	c.ep, c.tag, c.node = ep, uint64(ep.Tag())<<48, ep.NodeID()
	ep.SingleMAD = in.Ext&extReassembles == 0 // the preload library cannot reassemble RMPP
	ep.OnPacket, ep.Accepts, ep.OnUndeliverable = c.take, c.accepts, c.undeliverable
	for len(s.byTag) <= int(ep.Tag()) {
		s.byTag = append(s.byTag, nil)
	}
	s.byTag[ep.Tag()] = c
	if in.IsSM {
		if err := ep.SetIsSM(true); err != nil {
			s.detach(c)
			return err
		}
	}
	return nil
}

// longName finds the only node whose ID, or otherwise description, begins with
// prefix; "": none or several.
func longName(sub *sim.Subnet, prefix string) string {
	f := sub.Fabric()
	var id, desc string
	var ids, descs int
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if strings.HasPrefix(n.ID, prefix) {
			id = n.ID
			ids++
		}
		if strings.HasPrefix(n.Desc, prefix) {
			desc = n.Desc
			descs++
		}
	}
	switch {
	case ids == 1:
		return id
	case ids == 0 && descs == 1:
		return desc
	}
	return ""
}

// detach removes c from the subnet. The driver's lock is held.
func (s *Server) detach(c *client) {
	if s.byTag[c.tag>>48] == c {
		s.byTag[c.tag>>48] = nil
	}
	c.ep.OnPacket, c.ep.OnUndeliverable = nil, nil
	c.ep.Close()
}

// openData creates and connects the data socket of the lowest free slot.
func (s *Server) openData(c *client) error {
	for slot := 0; slot < s.opt.MaxClients; slot++ {
		if slot == len(s.clients) {
			s.clients = append(s.clients, nil)
		}
		if s.clients[slot] != nil {
			continue
		}
		var fd int
		var err error
		var peer unix.Sockaddr
		if c.udp {
			port := s.opt.UDPPort + 1 + slot
			if port > 65535 {
				return errors.New("no UDP port left for another client")
			}
			fd, err = bound(unix.AF_INET, loopback(port))
			peer = loopback(int(c.id))
		} else {
			fd, err = bound(unix.AF_UNIX, &unix.SockaddrUnix{Name: outName(s.opt.SockName, slot)})
			peer = &unix.SockaddrUnix{Name: inName(s.opt.SockName, c.id)}
		}
		if errors.Is(err, unix.EADDRINUSE) {
			continue // another program's; try the next
		}
		if err != nil {
			return fmt.Errorf("data socket: %w", err)
		}
		if err := unix.Connect(fd, peer); err != nil {
			unix.Close(fd)
			return fmt.Errorf("the client's data socket: %w", err)
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20)
		if err := s.epoll(unix.EPOLL_CTL_ADD, fd, int32(slot), unix.EPOLLIN); err != nil {
			unix.Close(fd)
			return fmt.Errorf("epoll: %w", err)
		}
		c.slot, c.fd = slot, fd
		return nil
	}
	return fmt.Errorf("%d clients are attached", s.opt.MaxClients)
}

func (s *Server) closeData(c *client) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

// release frees a client's slot and its resources.
func (s *Server) release(c *client, why string) {
	s.drv.Begin()
	s.now = s.drv.Now()
	s.detach(c)
	late, expired := c.late, c.expired
	s.drv.End()
	s.closeData(c)
	s.clients[c.slot] = nil
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	s.log.Info("client gone", "slot", c.slot, "node", c.node, "id", c.id, "reason", why,
		"unanswered", expired, "late", late, "queue_full", lost)
}

// reap releases clients whose sockets refused a message.
func (s *Server) reap() {
	for _, c := range s.clients {
		if c != nil && c.dead.Load() {
			s.release(c, "socket refused a message")
		}
	}
}

// probe releases clients whose data socket is gone. A datagram socket does not
// report that its peer has died, so probe tries the name: while the client
// lives, its socket is connected to ours and refuses others with EPERM, and its
// UDP port cannot be bound.
func (s *Server) probe() {
	for _, c := range s.clients {
		if c == nil {
			continue
		}
		if c.udp {
			if fd, err := bound(unix.AF_INET, loopback(int(c.id))); err == nil {
				unix.Close(fd)
				s.release(c, "UDP port is free")
			}
			continue
		}
		fd, err := dgram(unix.AF_UNIX)
		if err != nil {
			return
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: inName(s.opt.SockName, c.id)})
		unix.Close(fd)
		if err == unix.ECONNREFUSED {
			s.release(c, "socket name is free")
		}
	}
}
