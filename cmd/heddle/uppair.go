package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"heddle/fabric"
	"heddle/ib"
	process "heddle/internal/proc"
	"heddle/settings"
	simlive "heddle/sim/live"
)

// restartAfter is how long a manager of 'heddle up --pair' that ended stays away.
const restartAfter = 5 * time.Second

// upPairDir has the certificates of 'heddle up --pair', below the directory of the state. Each run
// replaces it, so nobody else would choose its name.
const upPairDir = "up-pair-certificates"

// spare is a manager of 'heddle up --pair', as a process of its own, so that it can be killed.
type spare struct {
	name string
	api  string
	args []string
	env  []string
}

// pairOf prepares two managers of the simulated subnet on two hosts.
func (f *upFlags) pairOf(d *simlive.Driver, fab *fabric.Fabric, dir string) (pair [2]spare, err error) {
	nodes, err := f.pairNodes(fab)
	if err != nil {
		return pair, err
	}
	hosts := [2]string{"localhost", "127.0.0.1"} // the same machine under two names: each has a certificate
	if err := makePair(filepath.Join(dir, upPairDir), hosts[:], time.Now()); err != nil {
		return pair, err
	}
	var guids [2]ib.GUID
	var listen, api [2]string
	for i, n := range nodes {
		p, err := d.Port(n)
		if err != nil {
			return pair, err
		}
		guids[i] = p.PortGUID()
		p.Close()
		if listen[i], err = freeAddress(); err != nil {
			return pair, err
		}
	}
	if api, err = f.pairAPI(); err != nil {
		return pair, err
	}
	key := newSAKey()
	for i := range pair {
		_, port, _ := net.SplitHostPort(listen[1-i])
		pair[i] = spare{
			name: "manager " + strconv.Itoa(i+1), api: api[i], env: f.pass(key),
			args: []string{
				"sm", "--port", "ibsim:" + nodes[i] + "@" + f.socket, "--state", filepath.Join(dir, "state-"+strconv.Itoa(i+1)),
				"--api", api[i], "--peer-api", api[1-i], "--peer", net.JoinHostPort(hosts[1-i], port), "--peer-guid", guids[1-i].String(),
				"--ha-listen", listen[i], "--ha-dir", filepath.Join(dir, upPairDir, hosts[i]),
			},
		}
	}
	return pair, nil
}

// pairNodes are the hosts of the managers: that of --node and the next one.
func (f *upFlags) pairNodes(fab *fabric.Fabric) (nodes [2]string, err error) {
	var ids []string
	for i := range fab.Nodes {
		if n := &fab.Nodes[i]; n.Type == ib.NodeCA {
			ids = append(ids, n.ID)
		}
	}
	first := 0
	if f.node != "" {
		first = slices.Index(ids, f.node)
	}
	if len(ids) < 2 || first < 0 {
		return nodes, usagef("--pair: needs two hosts; --node names the first by its netlist id")
	}
	return [2]string{ids[first], ids[(first+1)%len(ids)]}, nil
}

// pairAPI are the addresses of the two APIs: that of --api, and the next port.
func (f *upFlags) pairAPI() (api [2]string, err error) {
	host, port, err := net.SplitHostPort(f.API.Addr)
	n, bad := strconv.Atoi(port)
	switch {
	case err != nil || bad != nil || n > 65534:
		return api, usagef("%s %q: --pair wants HOST:PORT, and the next port for the second manager", f.From("api"), f.API.Addr)
	case n > 0:
		return [2]string{f.API.Addr, net.JoinHostPort(host, strconv.Itoa(n+1))}, nil
	}
	for i := range api {
		if api[i], err = freeAddress(); err != nil {
			return api, err
		}
	}
	return api, nil
}

// freeAddress is an address of this machine on which nobody listens now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// pass is the environment of a manager: the settings of this command that it takes, and an SA key.
func (f *upFlags) pass(key uint64) (env []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "HEDDLE_") || slices.Contains(envNotSettings, name) {
			env = append(env, e)
		}
	}
	own := []string{"state", "api", "api-socket", "ufm-listen"}
	for _, s := range settings.SecretFiles() {
		if s.Value != "" {
			own = append(own, s.Setting) // its value is passed
		}
	}
	for _, s := range settings.Of("up") {
		if slices.Contains(own, s.Name) || !slices.Contains(settings.Of("sm"), s) {
			continue
		}
		if text := f.Text(s.Name); text != s.Default() {
			env = append(env, envName(s.Name)+"="+text)
		}
	}
	if !f.SAKey.Given { // one for both
		env = append(env, fmt.Sprintf("%s=%#x", envName("sa-key"), key))
	}
	return env
}

// managePair runs two managers as processes until ctx ends. One that ended is started again.
func (f *upFlags) managePair(ctx context.Context, d *simlive.Driver, fab *fabric.Fabric, out io.Writer) (err error) {
	dir := f.Files.State
	if dir == "" {
		if dir, err = os.MkdirTemp("", "heddle-pair-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := os.RemoveAll(filepath.Join(dir, upPairDir)); err != nil { // the certificates of an earlier run
		return err
	}
	pair, err := f.pairOf(d, fab, dir)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	tell := &teller{out: out}
	var running sync.WaitGroup
	for i := range pair {
		running.Go(func() { pair[i].run(ctx, exe, tell) })
	}
	running.Wait()
	return nil
}

// run runs a manager again and again until ctx ends.
func (s *spare) run(ctx context.Context, exe string, tell *teller) {
	for {
		c := exec.CommandContext(ctx, exe, s.args...)
		c.Env = s.env
		// Ctrl-C is for this process, which ends them. The kernel does if it is killed: their subnet is here.
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 2 * restartAfter
		r, w := io.Pipe()
		c.Stdout, c.Stderr = w, w
		read := make(chan struct{})
		go func() {
			defer close(read)
			tell.lines(s, r)
		}()
		err := process.Launch(c)
		if err == nil {
			tell.started(s, c.Process.Pid)
			tell.say(s.name, fmt.Sprintf("pid %d, page http://%s/", c.Process.Pid, s.api))
			err = c.Wait()
		}
		w.Close()
		<-read
		if ctx.Err() != nil {
			return
		}
		tell.say(s.name, fmt.Sprintf("ended (%v); it starts again in %v", cmp.Or(err, errors.New("no error")), restartAfter))
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
			return
		}
	}
}

// teller writes lines of several programs, and which of them is active.
type teller struct {
	mu     sync.Mutex
	out    io.Writer
	pids   map[*spare]int
	active *spare
}

// started notes the process of a manager, before it says anything.
func (t *teller) started(s *spare, pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pids == nil {
		t.pids = map[*spare]int{}
	}
	t.pids[s] = pid
	if t.active == s {
		t.active = nil
	}
}

// up says that a manager is active, which has brought the subnet up, if another one was.
func (t *teller) up(s *spare) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active != s {
		t.active = s
		fmt.Fprintf(t.out, "%s is active: pid %d, page http://%s/\n", s.name, t.pids[s], s.api)
	}
}

func (t *teller) say(who, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "%s: %s\n", who, line)
}

func (t *teller) lines(s *spare, r io.Reader) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		t.say(s.name, in.Text())
		if in.Text() == "SUBNET UP" { // only the active one says it
			t.up(s)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line that is too long ends the reading, not the program
}
