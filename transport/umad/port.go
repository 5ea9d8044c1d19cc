package umad

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/mad"
)

// Options selects the port to open and the methods to register.
type Options struct {
	// Name is the port: "mlx5_0/1", "mlx5_0:1", "mlx5_0", "umad0", "0x<port GUID>", or
	// empty for the first InfiniBand port.
	Name string
	// SMI names the device for QP0 if it differs from that of QP1 (planarized
	// HCAs); empty means the same.
	SMI string
	// Client opens the port without registering any unsolicited method, next to a
	// subnet manager or other clients. A port without QP0 suffices then.
	Client bool
	// OwnRMPP registers the SA agent without the kernel's RMPP: the port then
	// carries single MADs of the SA class, and transport/rmpp on top of it
	// reassembles messages. (The kernel's RMPP would drop an unsegmented error
	// response to a segmented request as unsolicited.)
	OwnRMPP bool
	// SAMethods are the methods that the SA agent registers, unless Client; nil
	// means all that an SA serves.
	SAMethods []ib.Method
	// Agents are further classes whose requests the port receives.
	Agents []Agent
	// Sys and Dev are the directories to search; empty is DefaultSys and
	// DefaultDev.
	Sys, Dev string
}

// Agent is a management class on QP1 whose requests the port receives.
type Agent struct {
	Class   ib.Class
	Version uint8
	OUI     uint32 // vendor classes 0x30..0x4f
	Methods []ib.Method
	RMPP    bool // the kernel does RMPP for it
}

// smMethods are the methods that a subnet manager registers on QP0.
var smMethods = []ib.Method{ib.MethodGet, ib.MethodSet, ib.MethodTrap, ib.MethodTrapRepress}

// saMethods are the methods that subnet administration registers on QP1.
var saMethods = []ib.Method{
	ib.MethodGet, ib.MethodSet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti, ib.MethodDelete,
}

// maxInFlight is how many responses may be in flight without overflowing a
// receive queue of the port (ib_core's recv_queue_size, 512 by default), with a
// reserve for other packets.
const maxInFlight = 128

// Port is an open port. It implements mad.Transport.
type Port struct {
	opts   Options
	dev    Device
	qp1    *file
	qp0    *file // == qp1 unless Options.SMI
	merged chan received
	done   chan struct{} // closed by Close
	wg     sync.WaitGroup
	once   sync.Once

	fixed [256]int16 // agent for a class, -1 = none yet

	mu   sync.Mutex
	more map[agentKey]uint32 // agents made on demand; guarded by mu
	issm int                 // descriptor, -1 = closed; guarded by mu
}

type agentKey struct {
	class, version uint8
	oui            uint32
}

type received struct {
	p   mad.Packet
	err error
}

// OpenPort opens a port.
func OpenPort(o Options) (*Port, error) {
	if o.Dev == "" {
		o.Dev = DefaultDev
	}
	devs, err := Discover(o.Sys)
	if err != nil {
		return nil, err
	}
	d, err := find(devs, o.Name)
	if err != nil {
		return nil, err
	}
	smi := d
	if o.SMI != "" {
		if smi, err = find(devs, o.SMI); err != nil {
			return nil, err
		}
	}
	if !o.Client && !smi.IsInfiniBand() {
		return nil, &Error{Op: "open", Device: smi.Name(), Kind: ErrNoSMI, Hint: fmt.Sprintf("its link layer is %s: a subnet manager needs InfiniBand", smi.LinkLayer)}
	}
	p := &Port{opts: o, dev: *d, done: make(chan struct{}), more: map[agentKey]uint32{}, issm: -1}
	if p.qp1, err = openFile(o.Dev, *d); err != nil {
		return nil, err
	}
	p.qp0 = p.qp1
	if smi.Umad != d.Umad {
		if p.qp0, err = openFile(o.Dev, *smi); err != nil {
			p.qp1.close()
			return nil, err
		}
	}
	if err := p.register(); err != nil {
		p.Close()
		return nil, err
	}
	if p.qp0 != p.qp1 {
		p.merged = make(chan received)
		p.wg.Go(func() { p.pump(p.qp0) })
		p.wg.Go(func() { p.pump(p.qp1) })
	}
	return p, nil
}

// register makes the standing agents.
func (p *Port) register() error {
	for i := range p.fixed {
		p.fixed[i] = -1
	}
	sm, sa := smMethods, p.opts.SAMethods
	if sa == nil {
		sa = saMethods
	}
	if p.opts.Client {
		sm, sa = nil, nil
	}
	agents := []struct {
		f *file
		a umadabi.Agent
	}{
		{p.qp0, umadabi.Agent{QPN: 0, Class: uint8(ib.ClassSubnDR), Version: 1, Methods: umadabi.MaskOf(sm...)}},
		{p.qp0, umadabi.Agent{QPN: 0, Class: uint8(ib.ClassSubnLID), Version: 1, Methods: umadabi.MaskOf(sm...)}},
		{p.qp1, umadabi.Agent{QPN: 1, Class: uint8(ib.ClassSA), Version: 2, Methods: umadabi.MaskOf(sa...), RMPP: p.kernelRMPP()}},
		{p.qp1, umadabi.Agent{QPN: 1, Class: uint8(ib.ClassPerf), Version: 1}},
	}
	for _, x := range agents {
		id, err := x.f.register(x.a)
		if errors.Is(err, syscall.EPROTONOSUPPORT) && x.a.QPN == 0 && p.opts.Client {
			continue
		}
		if err != nil {
			return registerError(x.f, &x.a, err)
		}
		p.fixed[x.a.Class] = int16(id)
	}
	for _, a := range p.opts.Agents {
		reg := umadabi.Agent{QPN: 1, Class: uint8(a.Class), Version: a.Version, OUI: a.OUI, Methods: umadabi.MaskOf(a.Methods...)}
		if a.RMPP {
			reg.RMPP = 1
		}
		if a.Class == ib.ClassSA {
			reg.RMPP = min(reg.RMPP, p.kernelRMPP())
		}
		id, err := p.qp1.register(reg)
		if err != nil {
			return registerError(p.qp1, &reg, err)
		}
		p.more[agentKey{reg.Class, reg.Version, reg.OUI}] = id
		if p.fixed[reg.Class] >= 0 {
			// Responses must be sent through the agent that received the request: the
			// kernel looks there for the transfer of an acknowledgment.
			p.fixed[reg.Class] = int16(id)
		}
	}
	return nil
}

func registerError(f *file, a *umadabi.Agent, err error) error {
	op := fmt.Sprintf("register for class %#02x on QP%d of", a.Class, a.QPN)
	switch {
	case errors.Is(err, syscall.EINVAL) && a.Methods != (umadabi.Mask{}):
		return &Error{
			Op: op, Device: f.dev.Name(), Kind: ErrBusy, Err: err,
			Hint: "its methods are taken: stop the other manager (opensm?), use another port, or open the port as a client",
		}
	case errors.Is(err, syscall.EPROTONOSUPPORT):
		return &Error{Op: op, Device: f.dev.Name(), Kind: ErrNoSMI, Err: err, Hint: "name the device that carries the SMI"}
	}
	return wrap(op, f.dev.Name(), err)
}

// Device describes the port as it was when it was opened.
func (p *Port) Device() Device { return p.dev }

// Refresh reads the port's current state (LID, state, tables) from sysfs.
func (p *Port) Refresh() Device {
	d := p.dev
	d.read(p.sys())
	return d
}

// RefreshAddress reads only LID, LMC, SMLID, SMSL and State, some ten times as fast.
func (p *Port) RefreshAddress(d *Device) { d.readAddress(p.sys()) }

func (p *Port) sys() string {
	if p.opts.Sys == "" {
		return DefaultSys
	}
	return p.opts.Sys
}

// PortGUID implements mad.Transport.
func (p *Port) PortGUID() ib.GUID { return p.dev.PortGUID }

// kernelRMPP is the RMPP version that SA agents are registered with.
func (p *Port) kernelRMPP() uint8 {
	if p.opts.OwnRMPP {
		return 0
	}
	return 1
}

// SegmentsRMPP implements mad.Transport: the kernel does RMPP for the SA
// class, unless Options.OwnRMPP.
func (p *Port) SegmentsRMPP() bool { return !p.opts.OwnRMPP }

// MaxInFlight implements mad.Transport.
func (p *Port) MaxInFlight() int { return maxInFlight }

// rmppRetries is how often the kernel repeats unacknowledged segments of an
// answer.
const rmppRetries = 3

// Send implements mad.Transport.
func (p *Port) Send(k *mad.Packet) error {
	if len(k.Data) < umadabi.MADHeaderLen {
		return &Error{Op: "send through", Device: p.dev.Name(), Err: fmt.Errorf("a MAD of %d bytes has no header", len(k.Data))}
	}
	class := k.Data[1]
	f := p.qp1
	if ib.Class(class) == ib.ClassSubnDR || ib.Class(class) == ib.ClassSubnLID {
		f = p.qp0
	}
	id, err := p.agent(f, k.Data)
	if err != nil {
		return err
	}
	var retries uint32
	if len(k.Data) > 26 && ib.Class(class) == ib.ClassSA && k.Data[26]&1 != 0 && p.SegmentsRMPP() {
		retries = rmppRetries
	}
	return f.send(id, retries, k)
}

// agent finds the agent for a MAD, and registers one for a new class.
func (p *Port) agent(f *file, m []byte) (uint32, error) {
	if id := p.fixed[m[1]]; id >= 0 {
		return uint32(id), nil
	}
	k := agentKey{class: m[1], version: m[2]}
	if k.class >= 0x30 && k.class <= 0x4F && len(m) >= 40 {
		k.oui = uint32(m[37])<<16 | uint32(m[38])<<8 | uint32(m[39])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.more[k]; ok {
		return id, nil
	}
	reg := umadabi.Agent{QPN: 1, Class: k.class, Version: k.version, OUI: k.oui}
	if f == p.qp0 && (ib.Class(k.class) == ib.ClassSubnDR || ib.Class(k.class) == ib.ClassSubnLID) {
		reg.QPN = 0
	}
	id, err := f.register(reg)
	if err != nil {
		return 0, registerError(f, &reg, err)
	}
	p.more[k] = id
	return id, nil
}

// Recv implements mad.Transport.
func (p *Port) Recv(k *mad.Packet) error {
	if p.merged == nil {
		return p.qp1.recv(k)
	}
	select {
	case r := <-p.merged:
		if r.err != nil {
			return r.err
		}
		data := append(k.Data[:0], r.p.Data...)
		*k = r.p
		k.Data = data
		return nil
	case <-p.done:
		return &Error{Op: "receive from", Device: p.dev.Name(), Kind: ErrClosed}
	}
}

// Bursts implements mad.Burster.
func (p *Port) Bursts() bool { return p.merged == nil }

// BurstsRMPP implements mad.Burster.
func (p *Port) BurstsRMPP() bool { return p.SegmentsRMPP() }

// TryRecv implements mad.Burster.
func (p *Port) TryRecv(k *mad.Packet) (bool, error) { return p.qp1.tryRecv(k) }

// TrySend implements mad.Burster. A device accepts one packet per call, and
// never blocks.
func (p *Port) TrySend(ps []mad.Packet) (int, error) {
	for i := range ps {
		if err := p.Send(&ps[i]); err != nil {
			return i, err
		}
	}
	return len(ps), nil
}

// pump reads from one of two devices.
func (p *Port) pump(f *file) {
	for {
		var r received
		r.err = f.recv(&r.p)
		select {
		case p.merged <- r:
		case <-p.done:
			return
		}
		if r.err != nil {
			return
		}
	}
}

// SetIsSM implements mad.Transport: the issm device is held open while the
// port's IsSM bit is to be set. ErrBusy means that another program holds it.
func (p *Port) SetIsSM(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return &Error{Op: "set IsSM of", Device: p.dev.Name(), Kind: ErrClosed}
	default:
	}
	if on == (p.issm >= 0) {
		return nil
	}
	if !on {
		fd := p.issm
		p.issm = -1
		return wrap("clear IsSM of", p.dev.Name(), unix.Close(fd))
	}
	d := &p.qp0.dev
	if d.Issm == "" {
		return &Error{Op: "set IsSM of", Device: d.Name(), Kind: ErrNoSMI, Hint: "the port has no issm device"}
	}
	fd, err := openRetry(filepath.Join(p.opts.Dev, d.Issm))
	if err == unix.EAGAIN {
		return &Error{
			Op: "set IsSM of", Device: d.Name(), Kind: ErrBusy, Err: err,
			Hint: "another program holds " + d.Issm + " open; stop it first",
		}
	}
	if err != nil {
		return wrap("set IsSM of", d.Name(), err)
	}
	p.issm = fd
	return nil
}

func openRetry(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Close implements mad.Transport. It ends a Recv in progress, releases all
// methods and clears IsSM.
func (p *Port) Close() error {
	var err error
	p.once.Do(func() {
		close(p.done)
		p.mu.Lock()
		if p.issm >= 0 {
			unix.Close(p.issm)
			p.issm = -1
		}
		p.mu.Unlock()
		err = wrap("close", p.dev.Name(), p.qp1.close())
		if p.qp0 != p.qp1 {
			err = errors.Join(err, wrap("close", p.qp0.dev.Name(), p.qp0.close()))
		}
		p.wg.Wait()
	})
	return err
}
