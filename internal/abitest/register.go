package abitest

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/umadabi"
)

// plainClass is an unused class without RMPP and without OUI: in the first
// range of vendor classes.
const plainClass, plainVersion = 0x09, 1

// Checks are all checks, in the order in which they run.
var Checks = []Check{
	{"ENABLE_PKEY before and after registration", enablePKey},
	{"registration errors", registerErrors},
	{"SM classes and queue pairs", smClasses},
	{"methods are owned", ownership},
	{"REGISTER_AGENT2", register2},
	{"unregister", unregister},
	{"32 agents", manyAgents},
	{"unknown ioctl", unknownIoctl},
	{"empty reads", emptyReads},
	{"write errors", writeErrors},
	{"request and response", requestResponse},
	{"send-only agent", sendOnly},
	{"old header", oldHeader},
	{"wrong method is not delivered", wrongMethod},
	{"duplicate request", duplicate},
	{"no time-out, no response", fireAndForget},
	{"time-out and retries", timeout},
	{"RMPP answer and ENOSPC", rmppAnswer},
	{"RMPP small message", rmppSmall},
	{"RMPP large message", rmppLarge},
	{"RMPP request and answer", rmppBothWays},
	{"RMPP time-out", rmppTimeout},
	{"RMPP by the process", userRMPP},
	{"issm", issm},
	{"transport traffic", transportTraffic},
	{"transport managers and issm", transportManager},
	{"hot removal", removal},
}

func enablePKey(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	if _, err := d.register(umadabi.Agent{QPN: 1, Class: plainClass, Version: plainVersion}); err != nil {
		return err
	}
	return want("after registration", d.ioctl(umadabi.EnablePKey, nil), syscall.EINVAL)
}

func registerErrors(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	for _, c := range []struct {
		what string
		a    umadabi.Agent
		no   syscall.Errno
	}{
		{"QP 2", umadabi.Agent{QPN: 2, Class: 4, Version: 1}, syscall.EINVAL},
		{"class 0x01 on QP1", umadabi.Agent{QPN: 1, Class: 1, Version: 1}, syscall.EINVAL},
		{"class 0x81 on QP1", umadabi.Agent{QPN: 1, Class: 0x81, Version: 1}, syscall.EINVAL},
		{"RMPP on class 4", umadabi.Agent{QPN: 1, Class: 4, Version: 1, RMPP: 1}, syscall.EINVAL},
		{"RMPP version 2", umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 2}, syscall.EINVAL},
		{"class 0x50", umadabi.Agent{QPN: 1, Class: 0x50, Version: 1}, syscall.EINVAL},
		{"vendor class without OUI", umadabi.Agent{QPN: 1, Class: 0x32, Version: 1}, syscall.EINVAL},
		{"vendor class with OUI", umadabi.Agent{QPN: 1, Class: 0x32, Version: 1, OUI: 0x123456, RMPP: 1}, 0},
		{"class version 9", umadabi.Agent{QPN: 1, Class: plainClass, Version: 9}, 0},
		{"PerfMgt client", umadabi.Agent{QPN: 1, Class: 4, Version: 1}, 0},
		{"SA with RMPP", umadabi.Agent{QPN: 1, Class: 3, Version: 2, RMPP: 1}, 0},
	} {
		_, err := d.register(c.a)
		if err := want(c.what, err, c.no); err != nil {
			return err
		}
	}
	return nil
}

func smClasses(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	no := syscall.EPROTONOSUPPORT
	if e.SMI {
		no = 0
	}
	for _, class := range []uint8{0x81, 0x01, 0} {
		_, err := d.register(umadabi.Agent{QPN: 0, Class: class, Version: 1})
		if err := want(fmt.Sprintf("class %#x on QP0", class), err, no); err != nil {
			return err
		}
	}
	if e.SMI {
		_, err := d.register(umadabi.Agent{QPN: 0, Class: 4, Version: 1})
		return want("class 4 on QP0", err, syscall.EINVAL)
	}
	return nil
}

func ownership(e *Env) error {
	a, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer b.close()
	reg := umadabi.Agent{QPN: 1, Class: plainClass, Version: plainVersion, Methods: umadabi.MaskOf(ib.MethodGet, ib.MethodSet)}
	id, err := a.register(reg)
	if err != nil {
		return err
	}
	other := reg
	other.Methods = umadabi.MaskOf(ib.MethodSet, ib.MethodTrap)
	_, err = b.register(other)
	if err := want("one method taken", err, syscall.EINVAL); err != nil {
		return err
	}
	_, err = a.register(other)
	if err := want("taken by the same file", err, syscall.EINVAL); err != nil {
		return err
	}
	other.Methods = umadabi.MaskOf(ib.MethodTrap)
	if _, err = b.register(other); err != nil {
		return want("another method", err, 0)
	}
	other = reg
	other.Version++
	if _, err = b.register(other); err != nil {
		return want("another version", err, 0)
	}
	if err := a.unregister(id); err != nil {
		return err
	}
	_, err = b.register(reg)
	return want("after the owner let go", err, 0)
}

func register2(e *Env) error {
	d, err := e.open(e.A, false)
	if err != nil {
		return err
	}
	defer d.close()
	_, flags, err := d.register2(umadabi.Agent{QPN: 1, Class: 3, Version: 2, Flags: 8})
	if err := want("unknown flag", err, syscall.EINVAL); err != nil {
		return err
	}
	if flags != umadabi.FlagUserRMPP {
		return fmt.Errorf("supported flags %#x, want 1", flags)
	}
	_, _, err = d.register2(umadabi.Agent{QPN: 1, Class: 3, Version: 2, Flags: umadabi.FlagUserRMPP, RMPP: 1})
	if err := want("USER_RMPP", err, 0); err != nil {
		return err
	}
	_, _, err = d.register2(umadabi.Agent{QPN: 7, Class: 3, Version: 2})
	if err := want("QP 7", err, syscall.EINVAL); err != nil {
		return err
	}
	return want("ENABLE_PKEY after it", d.ioctl(umadabi.EnablePKey, nil), syscall.EINVAL)
}

func unregister(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	id, err := d.register(umadabi.Agent{QPN: 1, Class: 4, Version: 1})
	if err != nil {
		return err
	}
	if err := want("first", d.unregister(id), 0); err != nil {
		return err
	}
	if err := want("again", d.unregister(id), syscall.EINVAL); err != nil {
		return err
	}
	return want("agent 99", d.unregister(99), syscall.EINVAL)
}

func manyAgents(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	for i := range umadabi.MaxAgents {
		id, err := d.register(umadabi.Agent{QPN: 1, Class: 4, Version: 1})
		if err != nil || id != uint32(i) {
			return fmt.Errorf("agent %d: id %d, %v", i, id, err)
		}
	}
	_, err = d.register(umadabi.Agent{QPN: 1, Class: 4, Version: 1})
	return want("the 33rd", err, syscall.ENOMEM)
}

func unknownIoctl(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	return want("ioctl 0x1b77", d.ioctl(0x1b77, nil), syscall.ENOTTY)
}

func emptyReads(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	_, err = unix.Read(d.fd, make([]byte, 512))
	if err := want("empty", err, syscall.EAGAIN); err != nil {
		return err
	}
	_, err = unix.Read(d.fd, make([]byte, 40))
	if err := want("40 bytes", err, syscall.EINVAL); err != nil {
		return err
	}
	ev, err := d.events(0)
	if err != nil || ev != 0 {
		return fmt.Errorf("poll for input says %#x, %v", ev, err)
	}
	fds := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLOUT}}
	if _, err := unix.Poll(fds, 0); err != nil || fds[0].Revents&unix.POLLOUT == 0 {
		return fmt.Errorf("poll for output says %#x, %v", fds[0].Revents, err)
	}
	return nil
}

func writeErrors(e *Env) error {
	d, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer d.close()
	id, err := d.register(umadabi.Agent{QPN: 1, Class: plainClass, Version: plainVersion})
	if err != nil {
		return err
	}
	for i, c := range []struct {
		what string
		id   uint32
		n    int
		no   syscall.Errno
	}{
		{"30 bytes", id, 30, syscall.EINVAL},
		{"60 bytes", id, 60, 0},
		{"256 bytes", id, 256, 0},
		{"257 bytes", id, 257, syscall.EINVAL},
		{"unregistered agent", 7, 256, syscall.EIO},
		{"agent 40", 40, 256, syscall.EINVAL},
	} {
		m := append(request(plainClass, plainVersion, ib.MethodGet, uint32(i)), 0)
		if err := want(c.what, d.write(e.to(c.id, 0, 0), m[:c.n]), c.no); err != nil {
			return err
		}
	}
	return nil
}

func issm(e *Env) error {
	path := e.Dev + "/" + e.Issm
	const isSM = 2
	before, err := e.capMask()
	if err != nil {
		return err
	}
	if before&isSM != 0 {
		return fmt.Errorf("IsSM is set already: %#x", before)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if v, err := e.capMask(); err != nil || v != before|isSM {
		unix.Close(fd)
		return fmt.Errorf("capability mask %#x while open, before %#x: %v", v, before, err)
	}
	_, err = unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err := want("second open", err, syscall.EAGAIN); err != nil {
		unix.Close(fd)
		return err
	}
	got := make(chan error, 1)
	go func() {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		for err == unix.EINTR {
			fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		}
		unix.Close(fd)
		got <- err
	}()
	select {
	case err := <-got:
		unix.Close(fd)
		return fmt.Errorf("blocking second open did not wait: %v", err)
	case <-time.After(quiet):
	}
	unix.Close(fd)
	select {
	case err := <-got:
		if err != nil {
			return fmt.Errorf("blocking second open: %w", err)
		}
	case <-time.After(patience):
		return fmt.Errorf("blocking second open still waits after the first closed")
	}
	if v, err := e.capMask(); err != nil || v != before {
		return fmt.Errorf("capability mask %#x after close, before %#x: %v", v, before, err)
	}
	return nil
}

func removal(e *Env) error {
	r, err := e.open(e.A, true)
	if err != nil {
		return err
	}
	defer r.close()
	id, err := r.register(umadabi.Agent{QPN: 1, Class: plainClass, Version: plainVersion})
	if err != nil {
		return err
	}
	if e.WakesReads {
		if err := unix.SetNonblock(r.fd, false); err != nil {
			return err
		}
	}
	got := make(chan error, 1)
	go func() {
		if !e.WakesReads {
			if _, err := r.events(patience); err != nil {
				got <- err
				return
			}
		}
		_, err := unix.Read(r.fd, make([]byte, 512))
		for err == unix.EINTR {
			_, err = unix.Read(r.fd, make([]byte, 512))
		}
		got <- err
	}()
	if err := e.Remove(); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	select {
	case err := <-got:
		if err := want("reader that waited", err, syscall.EIO); err != nil {
			return err
		}
	case <-time.After(patience):
		return fmt.Errorf("the reader still waits")
	}
	if err := want("writer", r.write(e.to(id, 0, 0), request(plainClass, plainVersion, ib.MethodGet, 1)), syscall.EIO); err != nil {
		return err
	}
	_, err = r.register(umadabi.Agent{QPN: 1, Class: 4, Version: 1})
	if err := want("registration", err, syscall.EPIPE); err != nil {
		return err
	}
	ev, err := r.events(patience)
	if err != nil || ev&unix.POLLERR == 0 {
		return fmt.Errorf("poll says %#x, %v; want POLLERR", ev, err)
	}
	if d, err := e.open(e.A, true); err == nil {
		d.close()
		return fmt.Errorf("the device can still be opened")
	}
	return nil
}
