// Package pair runs two of Heddle's managers as processes that are a pair, each with state and an API
// of its own, on two hosts of a simulated subnet.
package pair

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/bench/testbed"
)

// Name is what tables call a pair.
const Name = "heddle, a pair"

const (
	limit = 3 * time.Minute // of a wait
	poll  = 10 * time.Millisecond
)

// certified are the names of this machine for the two managers: each has a certificate.
var certified = [2]string{"localhost", "127.0.0.1"}

// At is where the managers are in the subnet of a simulator.
type At struct {
	Sock  string
	Nodes [2]string
	GUIDs [2]ib.GUID // of the ports
}

// A Pair has two managers, number 0 and number 1.
type Pair struct {
	Programs [2]*testbed.Program // nil until they are started

	b         *testbed.Testbed
	at        At
	dir       string
	api, peer [2]string // addresses: of the API, and for the partner
}

// New prepares a pair. Start starts its managers.
func New(b *testbed.Testbed, at At) (*Pair, error) {
	p := &Pair{b: b, at: at}
	var err error
	if p.dir, err = os.MkdirTemp(b.Dir, "pair"); err != nil {
		return nil, err
	}
	for i := range 2 {
		for _, to := range []*string{&p.api[i], &p.peer[i]} {
			if *to, err = testbed.FreeAddress(); err != nil {
				return nil, err
			}
		}
	}
	_, err = testbed.Output(p.dir, nil, b.Heddle, "ctl", "ha", "certs", "--dir", "certs", certified[0], certified[1])
	return p, err
}

// Start starts manager i, after the end of its process if there is one.
func (p *Pair) Start(i int) error {
	testbed.Kill(p.Programs[i])
	_, port, err := net.SplitHostPort(p.peer[1-i])
	if err != nil {
		return err
	}
	p.Programs[i], err = testbed.Launch(p.dir, p.env(i), p.b.Heddle,
		"sm", "--port", "ibsim:"+p.at.Nodes[i]+"@"+p.at.Sock, "--state", p.State(i), "--api", p.api[i], "--peer-api", p.api[1-i],
		"--claim-wait", "1m", "--sa-key", "1", "--peer", certified[1-i]+":"+port, "--peer-guid", p.at.GUIDs[1-i].String(),
		"--ha-listen", p.peer[i], "--ha-dir", filepath.Join("certs", certified[i]))
	return err
}

func (p *Pair) env(i int) []string {
	return []string{"HEDDLE_RUNTIME_DIR=" + filepath.Join(p.dir, fmt.Sprint("run", i))}
}

// State is the state directory of manager i.
func (p *Pair) State(i int) string { return filepath.Join(p.dir, fmt.Sprint("state", i)) }

// Kill kills both managers.
func (p *Pair) Kill() { testbed.Kill(p.Programs[:]...) }

// Tail is the end of what the managers printed.
func (p *Pair) Tail() string { return testbed.Tail(p.Programs[:]...) }

// Ask asks the API of manager i.
func (p *Pair) Ask(i int, path string, to any) error { return testbed.AskAPI(p.api[i], path, to) }

// Status is what both managers say about the pair.
func (p *Pair) Status() (h [2]api.HA, err error) {
	return h, errors.Join(p.Ask(0, "/v1/ha", &h[0]), p.Ask(1, "/v1/ha", &h[1]))
}

// Handover has manager i hand over.
func (p *Pair) Handover(i int) error {
	_, err := testbed.Output(p.dir, p.env(i), p.b.Heddle, "ctl", "ha", "handover", "--api", p.api[i])
	return err
}

// Until waits until one manager is active, the other one is a paired standby, and ok. It returns the
// active one.
func (p *Pair) Until(what string, ok func(active int, h *[2]api.HA) (bool, error)) (int, error) {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(poll) {
		var h [2]api.HA
		if h, err = p.Status(); err != nil {
			continue
		}
		if h[0].State != "paired" || h[1].State != "paired" || h[0].Active == h[1].Active {
			continue
		}
		active := 0
		if h[1].Active {
			active = 1
		}
		var done bool
		if done, err = ok(active, &h); done {
			return active, nil
		}
	}
	return 0, fmt.Errorf("not within %v: %s: %w", limit, what, err)
}
