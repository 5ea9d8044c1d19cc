package kerneltest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"heddle/agent"
	"heddle/agent/live"
	"heddle/agent/rdmanl"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// netlinkChecks has the kernel judge the messages of heddle agent. It prints a line for each, as
// abitest does. The kernel itself asks nothing here: the device below is no InfiniBand.
func netlinkChecks(w io.Writer) (failed int) {
	check := func(name string, err error) {
		if err != nil {
			failed++
			fmt.Fprintf(w, "FAIL %s: %v\n", name, err)
			return
		}
		fmt.Fprintf(w, "ok %s\n", name)
	}
	r := wire.PathRecord{SGID: ib.MakeGID(1, 2), DGID: ib.MakeGID(1, 3), SLID: 1, DLID: 2, PKey: 0xFFFF, Reversible: true}
	for _, c := range []struct {
		name  string
		b     []byte
		flags uint16 // added
		want  error
	}{
		{"netlink, SET_TIMEOUT", rdmanl.AppendTimeout(nil, 1, 500*time.Millisecond), 0, nil},
		{"netlink, a path that nobody asked for", rdmanl.AppendPath(nil, 2, r), unix.NLM_F_ACK, nil},
		{"netlink, a path as a request", rdmanl.AppendPath(nil, 3, r), unix.NLM_F_ACK | unix.NLM_F_REQUEST, unix.EPERM},
		{"netlink, a miss that nobody asked for", rdmanl.AppendMiss(nil, rdmanl.Resolve, 4), unix.NLM_F_ACK, nil},
		{"netlink, a GID that nobody asked for", rdmanl.AppendGID(nil, 5, r.DGID), unix.NLM_F_ACK, nil},
		{"netlink, a GID as a request", rdmanl.AppendGID(nil, 6, r.DGID), unix.NLM_F_ACK | unix.NLM_F_REQUEST, unix.EPERM},
	} {
		got, err := exchange(c.b, c.flags)
		if err == nil && !errors.Is(got, c.want) {
			err = fmt.Errorf("the kernel says %v, want %v", got, c.want)
		}
		check(c.name, err)
	}
	check("netlink, the agent is the listener", agentListens())
	return failed
}

// exchange sends a message, and returns what the kernel's acknowledgment says.
func exchange(b []byte, flags uint16) (said, err error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, rdmanl.Protocol)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	if err := unix.Bind(s, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: rdmanl.Group}); err != nil {
		return nil, err
	}
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		return nil, err
	}
	binary.NativeEndian.PutUint16(b[6:], binary.NativeEndian.Uint16(b[6:])|flags)
	if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	in := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, in, 0)
	if err != nil {
		return nil, err
	}
	m, _, err := rdmanl.Decode(in[:n])
	if err != nil {
		return nil, err
	}
	if !m.Ack || m.Seq != binary.NativeEndian.Uint32(b[8:]) {
		return nil, fmt.Errorf("received %+v", m)
	}
	if m.Errno != 0 {
		return unix.Errno(m.Errno), nil
	}
	return nil, nil
}

// agentListens runs a server on the kernel's socket, until the kernel has taken its time-out.
func agentListens() error {
	n, err := live.OpenNetlink()
	if err != nil {
		return err
	}
	addresses, err := live.NewAddresses(strings.NewReader(""))
	if err != nil {
		return err
	}
	s, err := live.New(live.Config{
		Netlink: n, Core: agent.Defaults(), KernelWait: 150 * time.Millisecond, Addresses: addresses, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Ports: []live.PortConfig{{Device: "rxe0", Num: 1, Open: func() (live.Port, error) { return &downPort{end: make(chan struct{})}, nil }}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.Status(ctx).Netlink.Served {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the kernel does not acknowledge the agent's time-out")
		}
	}
	cancel()
	<-done
	return nil
}

// downPort is a port without a link.
type downPort struct{ end chan struct{} }

func (p *downPort) Send(*mad.Packet) error { return nil }
func (p *downPort) Recv(*mad.Packet) error { <-p.end; return errors.New("closed") }
func (p *downPort) Close() error           { close(p.end); return nil }
func (p *downPort) SetIsSM(bool) error     { return nil }
func (p *downPort) PortGUID() ib.GUID      { return 1 }
func (p *downPort) SegmentsRMPP() bool     { return true }
func (p *downPort) MaxInFlight() int       { return 1 }
func (p *downPort) KeepsTime() bool        { return false }
func (p *downPort) State(bool) agent.Port  { return agent.Port{} }
