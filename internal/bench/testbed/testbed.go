// Package testbed is what the parts of the benchmark have in common: programs under measurement,
// simulated fat trees to run them on, their use of processor and memory, and tables of figures.
//
// One Testbed serves one run of the benchmark. Its parts use it one after the other, from one
// goroutine. A part ends the programs that it has started.
package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"heddle/internal/bench/rawibsim"
)

// Short is a run that is repeated; a longer one is made once.
const Short = 20 * time.Second

// FullHosts is the size of a tree whose hosts, with many LIDs each, fill the
// LID space.
const FullHosts = 2853

// Simulators are those that Simulate starts, Managers those that are compared on them.
var (
	Simulators = []string{"heddle sim", "ibsim"}
	Managers   = []string{"heddle", "OpenSM"}
)

// A Testbed knows the programs, and has a directory for their files.
type Testbed struct {
	Heddle, OpenSM, IBSim string        // programs; OpenSM and IBSim are empty until FindPeers
	Dir                   string        // removed after the run
	Limit                 time.Duration // of one run of a peer
	Runs                  int           // repetitions of short runs, at least 1

	nets  map[int]string // netlists of fat trees, by hosts
	names int
}

// New returns a testbed with files in dir.
func New(heddle, dir string) *Testbed {
	return &Testbed{Heddle: heddle, Dir: dir, Runs: 1, nets: map[int]string{}}
}

// FindPeers looks for the programs with which Heddle is compared.
func (b *Testbed) FindPeers() (err error) {
	if b.OpenSM, err = Find("opensm"); err != nil {
		return err
	}
	b.IBSim, err = Find("ibsim")
	return err
}

// Find finds a program, also outside a user's PATH.
func Find(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	if p, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		return p, nil
	}
	return "", fmt.Errorf("%s is not installed; 'make deps' as root installs it", name)
}

// Name returns a new name for a simulator's socket, also used for files that belong to it.
func (b *Testbed) Name() string {
	b.names++
	return fmt.Sprintf("bench%d-%d", os.Getpid(), b.names)
}

// Netlist returns the file with the netlist of a fat tree.
func (b *Testbed) Netlist(hosts int) (string, error) {
	if p := b.nets[hosts]; p != "" {
		return p, nil
	}
	text, err := Output(b.Dir, nil, b.Heddle, "topo", "gen", "fattree", strconv.Itoa(hosts))
	if err != nil {
		return "", err
	}
	p := filepath.Join(b.Dir, fmt.Sprintf("tree%d.net", hosts))
	b.nets[hosts] = p
	return p, os.WriteFile(p, text, 0o644)
}

// Simulate starts "heddle sim" or "ibsim" with a netlist, and returns the name of its socket when it
// serves.
func (b *Testbed) Simulate(simulator, netlist string, args ...string) (p *Program, sock string, err error) {
	sock = b.Name()
	if simulator == "ibsim" {
		if p, err = Launch(b.Dir, []string{"IBSIM_SOCKNAME=" + sock}, b.IBSim, "-s", "-n", "-N", "20000", "-S", "3000", "-P", "200000", netlist); err != nil {
			return nil, "", err
		}
		err = answers(sock)
	} else {
		if p, err = Launch(b.Dir, nil, b.Heddle, append([]string{"sim", "--netlist", netlist, "--socket", sock, "--ignore-lids"}, args...)...); err != nil {
			return nil, "", err
		}
		_, err = p.Await("READY\n", time.Minute)
	}
	if err != nil {
		p.Stop(syscall.SIGKILL)
		return nil, "", err
	}
	return p, sock, nil
}

// answers waits until ibsim answers, which does not announce that it serves.
func answers(sock string) (err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var c *rawibsim.Client
		if c, err = rawibsim.Attach(sock, 0); err == nil {
			_, err = c.Query(1, time.Time{})
			c.Close()
		}
		if err == nil {
			return nil
		}
	}
	return err
}
