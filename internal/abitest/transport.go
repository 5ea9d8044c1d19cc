package abitest

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/mad"
	"heddle/transport/umad"
)

// addr is the far end as transport/umad addresses it.
func (e *Env) addr() mad.Addr {
	a := mad.Addr{LID: ib.LID(e.To.LID), QP: 1, HasGRH: e.To.GRHPresent}
	if a.HasGRH {
		a.GRH = mad.GRH{GID: e.To.GID, GIDIndex: e.To.GIDIndex, HopLimit: e.To.HopLimit}
	}
	return a
}

func (e *Env) port(name string, agents ...umad.Agent) (*umad.Port, error) {
	return umad.OpenPort(umad.Options{Name: name, Client: true, Agents: agents, Sys: e.Sys, Dev: e.Dev})
}

// recvWithin bounds a Recv by closing the port when time is up.
func recvWithin(p *umad.Port, k *mad.Packet) error {
	t := time.AfterFunc(patience, func() { p.Close() })
	defer t.Stop()
	return p.Recv(k)
}

// transportTraffic: transport/umad carries a request and its answer, a
// segmented answer longer than its standing buffer, and a time-out.
func transportTraffic(e *Env) error {
	q, err := e.port(e.B, umad.Agent{Class: plainClass, Version: plainVersion, Methods: []ib.Method{ib.MethodGet}},
		umad.Agent{Class: ib.ClassSA, Version: 2, Methods: []ib.Method{ib.MethodGetTable}, RMPP: true})
	if err != nil {
		return err
	}
	defer q.Close()
	p, err := e.port(e.A)
	if err != nil {
		return err
	}
	defer p.Close()
	var rx, tx, ans mad.Packet
	tx = mad.Packet{Addr: e.addr(), LocalQP: 1, Timeout: patience}
	ask := func(m []byte) error {
		tx.Data = m
		if err := p.Send(&tx); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if err := recvWithin(q, &rx); err != nil {
			return fmt.Errorf("request does not arrive: %w", err)
		}
		if rx.Status != mad.Received || rx.LocalQP != 1 || rx.Addr.QP != 1 || uint32(tid(rx.Data)) != uint32(tid(m)) {
			return fmt.Errorf("request arrived as %+v", rx.Addr)
		}
		return nil
	}
	answer := func() error {
		if err := q.Send(&rx); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if err := recvWithin(p, &ans); err != nil {
			return fmt.Errorf("answer does not arrive: %w", err)
		}
		if ans.Status != mad.Received || uint32(tid(ans.Data)) != uint32(tid(tx.Data)) {
			return fmt.Errorf("answer has status %d, %d bytes: % x", ans.Status, len(ans.Data), ans.Data[:24])
		}
		return nil
	}

	if err := ask(request(plainClass, plainVersion, ib.MethodGet, 0x1001)); err != nil {
		return err
	}
	rx.Data[3] |= 0x80
	if err := answer(); err != nil {
		return err
	}

	if err := ask(message(ib.MethodGetTable, 0x1002, 200, false)); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	table := message(ib.MethodGetTableResp, 0, 500*64, true)
	copy(table[8:16], rx.Data[8:16])
	rx.Data = table
	if err := answer(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	if len(ans.Data) != len(table) || string(ans.Data[36:]) != string(table[36:]) {
		return fmt.Errorf("table of %d bytes arrived, %d were sent", len(ans.Data), len(table))
	}

	tx.Timeout = 100 * time.Millisecond
	if err := ask(request(plainClass, plainVersion, ib.MethodGet, 0x1003)); err != nil {
		return err
	}
	if err := recvWithin(p, &ans); err != nil {
		return fmt.Errorf("time-out: %w", err)
	}
	if ans.Status != mad.Failed || len(ans.Data) != umadabi.MADHeaderLen || uint32(tid(ans.Data)) != 0x1003 {
		return fmt.Errorf("time-out: status %d, %d bytes", ans.Status, len(ans.Data))
	}
	return nil
}

// transportManager: a manager opens a port with QP0 only once; tests the errors
// for a port without QP0 and for an issm device in use.
func transportManager(e *Env) error {
	m, err := umad.OpenPort(umad.Options{Name: e.A, Sys: e.Sys, Dev: e.Dev})
	if !e.SMI {
		if !errors.Is(err, umad.ErrNoSMI) {
			return fmt.Errorf("manager on a port without QP0: %v", err)
		}
	} else {
		if err != nil {
			return err
		}
		_, err := umad.OpenPort(umad.Options{Name: e.A, Sys: e.Sys, Dev: e.Dev})
		m.Close()
		if !errors.Is(err, umad.ErrBusy) {
			return fmt.Errorf("second manager: %v", err)
		}
	}
	p, err := e.port(e.A)
	if err != nil {
		return err
	}
	defer p.Close()
	fd, err := unix.Open(filepath.Join(e.Dev, e.Issm), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = p.SetIsSM(true)
	unix.Close(fd)
	if !errors.Is(err, umad.ErrBusy) {
		return fmt.Errorf("issm held by another: %v", err)
	}
	const isSM = 2
	for _, on := range []bool{true, false, true} {
		if err := p.SetIsSM(on); err != nil {
			return err
		}
		if v, err := e.capMask(); err != nil || v&isSM != 0 != on {
			return fmt.Errorf("capability mask %#x after SetIsSM(%v), %v", v, on, err)
		}
	}
	p.Close()
	if v, err := e.capMask(); err != nil || v&isSM != 0 {
		return fmt.Errorf("capability mask %#x after Close, %v", v, err)
	}
	var k mad.Packet
	if err := p.Recv(&k); !errors.Is(err, umad.ErrClosed) {
		return fmt.Errorf("receive after Close: %v", err)
	}
	return nil
}
