package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"heddle/fabric"
	"heddle/flood"
	"heddle/flood/live"
	process "heddle/internal/proc"
	"heddle/lab/experiment"
)

// floodTestbed runs managers as processes for experiments: this program as
// simulator and manager, and OpenSM through ibsim's preload library. It
// implements experiment.Rig.
type floodTestbed struct {
	ctx context.Context
	dir string // for sockets, netlists and OpenSM's files; created when needed, under mu
	n   int

	mu     sync.Mutex
	procs  []*process.Proc // all that were started
	closed bool            // nothing is started or created any more
}

func newFloodTestbed(ctx context.Context) *floodTestbed { return &floodTestbed{ctx: ctx} }

// errClosed ends an experiment that was interrupted and goes on in the background.
var errClosed = errors.New("interrupted")

// close stops what an experiment that was interrupted left running, and removes its files.
func (r *floodTestbed) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, p := range r.procs {
		select {
		case <-p.Done(): // its number may be another program's by now
		default:
			p.Stop()
		}
	}
	if r.dir != "" {
		os.RemoveAll(r.dir)
	}
}

// findOpenSM finds OpenSM and ibsim-run; daemons may be outside a user's PATH.
func findOpenSM() (sm string, ok bool) {
	if _, err := exec.LookPath("ibsim-run"); err != nil {
		return "", false
	}
	for _, name := range []string{"opensm", "/usr/sbin/opensm"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, true
		}
	}
	return "", false
}

// Managers implements experiment.Rig.
func (r *floodTestbed) Managers() []string {
	if _, ok := findOpenSM(); ok {
		return []string{"OpenSM", "heddle"}
	}
	return []string{"heddle"}
}

// startLimit bounds the bring-up of a subnet of ten hosts.
const startLimit = time.Minute

// Start implements experiment.Rig. The subnet has the size of the paper's: two
// switches and ten hosts, the manager on the first.
func (r *floodTestbed) Start(manager string) (_ experiment.Flooded, err error) {
	f, err := fabric.Generate(fabric.Mesh{Dims: []int{2}, Hosts: 5}, fabric.GenerateOptions{})
	if err != nil {
		return nil, err
	}
	s, err := r.serve(f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if manager == "heddle" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return s, s.run("SUBNET UP", []string{runtimeVariable + "=" + r.dir}, self, "sm", "--port", "ibsim:"+s.hosts[0]+"@"+s.sock, "--api", "", "--api-socket", filepath.Join(r.dir, s.sock+".api"))
	}
	return s, s.opensm()
}

// serve starts the simulator with f.
func (r *floodTestbed) serve(f *fabric.Fabric) (_ *flooded, err error) {
	if err := r.makeDir(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r.n++
	s := &flooded{testbed: r, sock: fmt.Sprintf("flood%d-%d", os.Getpid(), r.n)}
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			s.hosts = append(s.hosts, f.Nodes[i].ID)
		}
	}
	net := filepath.Join(r.dir, s.sock+".net")
	if err := writeFile(net, func(w io.Writer) error { return fabric.WriteNetlist(w, f) }); err != nil {
		return nil, err
	}
	if err := s.run("READY", nil, self, "sim", "--netlist", net, "--socket", s.sock); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// makeDir creates the directory of the testbed, once.
func (r *floodTestbed) makeDir() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return errClosed
	case r.dir == "":
		r.dir, err = os.MkdirTemp("", "heddle-flood-")
	}
	return err
}

// start starts a program in the directory.
func (r *floodTestbed) start(env []string, name string, args ...string) (*process.Proc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	p, err := process.Start(process.Command(r.dir, env, name, args...))
	if err == nil {
		r.procs = append(r.procs, p)
	}
	return p, err
}

// opensm starts OpenSM on the first host and waits until the subnet is up.
func (s *flooded) opensm(args ...string) error {
	tmp := filepath.Join(s.testbed.dir, s.sock)
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	sm, _ := findOpenSM()
	env := []string{"IBSIM_SOCKNAME=" + s.sock, "SIM_HOST=" + s.hosts[0], "OSM_TMP_DIR=" + tmp, "OSM_CACHE_DIR=" + tmp}
	// -d 2 flushes its log, which is its standard output and the only sign that
	// the subnet is up.
	return s.run("SUBNET UP", env, "ibsim-run", append([]string{sm, "-d", "2", "-f", "stdout"}, args...)...)
}

// flooded is a simulated subnet with its manager.
type flooded struct {
	testbed *floodTestbed
	sock    string
	hosts   []string
	procs   []*process.Proc
}

// run starts a program and waits until it prints that it is ready.
func (s *flooded) run(ready string, env []string, name string, args ...string) error {
	p, err := s.testbed.start(env, name, args...)
	if err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	return p.WaitFor(ready, startLimit)
}

// Stop implements experiment.Flooded.
func (s *flooded) Stop() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		s.procs[i].Stop()
	}
	s.procs = nil
}

// Flood implements experiment.Flooded: SIF and MIFs each on a host of their
// own, none on the manager's.
func (s *flooded) Flood(mifs int, p flood.Plan, seed uint64, dots int) ([]flood.Round, error) {
	if mifs+2 > len(s.hosts) {
		return nil, fmt.Errorf("%d MIFs: there are %d hosts", mifs, len(s.hosts))
	}
	specs := []portFlag{}
	for _, h := range s.hosts[1 : mifs+2] {
		specs = append(specs, portFlag{"--mif", "ibsim:" + h + "@" + s.sock})
	}
	fs, _, closeAll, err := openFlooders(s.testbed.ctx, specs, floodTarget{seed: seed, dots: dots}, nil)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	prog := flood.NewExperiment(p, fs[0].Flooder, flooders(fs[1:]))
	if err := live.Run(s.testbed.ctx, fs, prog, nil); err != nil {
		return nil, err
	}
	return prog.Rounds(), s.testbed.ctx.Err()
}
