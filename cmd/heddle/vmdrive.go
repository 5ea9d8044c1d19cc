package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"heddle/api"
	"heddle/daemon/process"
	"heddle/sim"
	"heddle/sim/hypervisor/guests"
	"heddle/vmdriver"
	"heddle/vmdriver/live"
)

// guestFlags describe the VMs that a driver starts on simulated hypervisors.
type guestFlags struct{ cfg guests.Config }

func (f *guestFlags) register(fs *pflag.FlagSet) {
	f.cfg = guests.Defaults()
	m := &f.cfg.Machine
	fs.Var((*byteCount)(&m.Memory), "vm-memory", "`SIZE` of the memory of a VM that a driver starts")
	fs.Var((*byteRate)(&m.Dirty), "vm-dirty", "`SIZE` of memory that such a VM writes in a second")
	fs.Float64Var(&m.Hot, "vm-hot", m.Hot, "`SHARE` of its memory that it writes, above 0 and at most 1")
	fs.Var((*byteRate)(&f.cfg.Rate), "vm-copy-rate", "`SIZE` that a hypervisor copies in a second at most, all its migrations together; 0 = what its link carries")
	fs.DurationVar(&m.Pause, "vm-pause", m.Pause, "`TIME`: a VM is stopped when what is left to copy takes no longer")
	fs.DurationVar(&f.cfg.Probe, "vm-probe", f.cfg.Probe, "`TIME` between two probes of a peer to a VM that migrates; 0 = none")
}

// check refuses what cannot be a VM.
func (f *guestFlags) check(seed uint64) error {
	f.cfg.Seed = seed
	switch m := &f.cfg.Machine; {
	case m.Memory < 1<<20 || m.Memory > 1<<42:
		return usagef("--vm-memory %v: want 1MiB to 4TiB", (*byteCount)(&m.Memory))
	case !(m.Hot > 0 && m.Hot <= 1):
		return usagef("--vm-hot %v: want a share above 0 and at most 1", m.Hot)
	}
	f.cfg.Machine.Memory -= f.cfg.Machine.Memory % int64(f.cfg.Machine.Page)
	return nil
}

// byteCount and byteRate are sizes as people write them: 512MiB, 1.5GB.
type (
	byteCount int64
	byteRate  float64
)

func (b *byteCount) Type() string   { return "SIZE" }
func (b *byteRate) Type() string    { return "SIZE" }
func (b *byteCount) String() string { return sizeText(float64(*b)) }
func (b *byteRate) String() string  { return sizeText(float64(*b)) }
func (b *byteRate) Set(s string) error {
	v, err := parseSize(s)
	*b = byteRate(v)
	return err
}

func (b *byteCount) Set(s string) error {
	v, err := parseSize(s)
	*b = byteCount(v)
	return err
}

// sizeUnits are the units of sizes, the largest first.
var sizeUnits = []struct {
	name string
	n    float64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

func parseSize(text string) (float64, error) {
	n, unit := text, 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			n, unit = strings.TrimSpace(rest), u.n
			break
		}
	}
	v, err := strconv.ParseFloat(n, 64)
	if err != nil || !(v >= 0 && v*unit < 1<<60) {
		return 0, errors.New("want a size such as 512MiB, 4GiB or 100MB")
	}
	return v * unit, nil
}

func sizeText(v float64) string {
	for _, u := range sizeUnits {
		if n := v / u.n; v >= u.n && n == float64(int64(n*10))/10 {
			return strconv.FormatFloat(n, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// simHypervisors are the hypervisors of a simulated subnet, for a driver.
type simHypervisors struct {
	do  func(func(*sim.Subnet))
	cfg guests.Config
	g   *guests.Guests
	err error
}

// newSimHypervisors prepares the hypervisors of a subnet to which do gives access.
func newSimHypervisors(do func(func(*sim.Subnet)), cfg guests.Config) (*simHypervisors, error) {
	h := &simHypervisors{do: do, cfg: cfg}
	do(func(s *sim.Subnet) { h.g, h.err = guests.New(s, cfg) })
	return h, h.err
}

func (h *simHypervisors) Begin(tell func(vmdriver.Event)) (inv vmdriver.Inventory) {
	h.do(func(*sim.Subnet) {
		h.g.OnStatus = tell
		inv = h.g.Inventory()
	})
	return inv
}

func (h *simHypervisors) Do(o vmdriver.Order) { h.do(func(*sim.Subnet) { h.g.Do(o) }) }

// drive runs a driver for simulated hypervisors until ctx ends; then the channel is closed.
func drive(ctx context.Context, h live.Hypervisors, find func() (live.Manager, error), name string, log *slog.Logger) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		live.Run(ctx, live.Config{Manager: find, Hypervisors: h, Core: vmdriver.Defaults(), Name: name, Log: log.With("driver", name)})
	}()
	return done
}

// inside serves the API of a manager to a client in the same process, with the rights of
// the owner.
func inside(ctx context.Context, p *process.Process, log *slog.Logger) (find func() (live.Manager, error), served chan struct{}) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	served = serving(ctx, l, p.Handler(api.Options{AllowWrite: true}), log)
	client := &http.Client{Transport: &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 64}}
	return func() (live.Manager, error) { return live.Manager{URL: "http://localhost", Client: client}, nil }, served
}

// pipeListener accepts connections of the same process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "this process" }

// autoManager as --manager: the manager that ctl would talk to.
const autoManager = "auto"

// findManager returns how a driver finds the manager at an address.
func findManager(addr string) func() (live.Manager, error) {
	if addr == autoManager {
		addr = ""
	}
	return func() (live.Manager, error) {
		m, err := (&place{addr: addr}).locate()
		if err != nil {
			return live.Manager{}, fmt.Errorf("manager %s: %w", addr, err)
		}
		return live.Manager{URL: m.base, Token: m.token, Client: &http.Client{Transport: m.transport}}, nil
	}
}
