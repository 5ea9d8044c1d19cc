package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/sim"
)

// pairName is what the tables call two of Heddle's managers.
const pairName = "heddle, a pair"

// pairHosts are the names of this machine for the two managers: each has a certificate.
var pairHosts = [2]string{"localhost", "127.0.0.1"}

// pairDuo is a pair of Heddle's managers.
type pairDuo struct {
	b     *bench
	s     *scene
	dir   string
	guids [2]ib.GUID
	api   [2]string
	ports [2]string
	prog  [2]*program
	cut   [2]bool // its host's cable is pulled out
	cold  bool    // the standby followed nothing when the last fault was made
}

// startPair brings a subnet up with two managers.
func (b *bench) startPair(hosts int) (*scene, *pairDuo, error) {
	b.n++
	s, err := newScene(hosts, fmt.Sprintf("bench%d-%d", os.Getpid(), b.n))
	if err != nil {
		return nil, nil, err
	}
	p := &pairDuo{b: b, s: s}
	err = func() error {
		if p.dir, err = os.MkdirTemp(b.dir, "pair"); err != nil {
			return err
		}
		if _, err := output(p.dir, nil, b.bin, "ctl", "ha", "certs", "--dir", "certs", pairHosts[0], pairHosts[1]); err != nil {
			return err
		}
		for i := range 2 {
			for _, to := range []*string{&p.api[i], &p.ports[i]} {
				if *to, err = freeAddress(); err != nil {
					return err
				}
			}
			s.d.Do(func(net *sim.Subnet) {
				if n, e := net.Node(s.nodes[i]); e == nil {
					p.guids[i] = s.fab.Nodes[n].Ports[1].GUID
				}
			})
		}
		for i := range 2 {
			if err := p.start(i); err != nil {
				return err
			}
		}
		_, err := p.settled()
		return err
	}()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, p.tail())
		p.stop()
		s.end()
		return nil, nil, err
	}
	return s, p, nil
}

// freeAddress is an address on which nobody listens now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (p *pairDuo) tail() string { return tailOf(p.prog[0], p.prog[1]) }

func (p *pairDuo) stop() {
	for _, x := range p.prog {
		reap(x)
	}
}

// start starts manager i, on a host that works.
func (p *pairDuo) start(i int) (err error) {
	reap(p.prog[i])
	if p.cut[i] {
		p.s.d.Do(func(net *sim.Subnet) { err = net.LinkUp(p.s.nodes[i], 1) })
		if err != nil {
			return err
		}
		p.cut[i] = false
	}
	_, port, err := net.SplitHostPort(p.ports[1-i])
	if err != nil {
		return err
	}
	p.prog[i], err = launch(p.dir, []string{"HEDDLE_RUNTIME_DIR=" + filepath.Join(p.dir, fmt.Sprint("run", i))}, p.b.bin,
		"sm", "--port", "ibsim:"+p.s.nodes[i]+"@"+p.s.sock, "--state", p.state(i), "--api", p.api[i], "--peer-api", p.api[1-i],
		"--claim-wait", "1m", "--sa-key", "1", "--peer", pairHosts[1-i]+":"+port, "--peer-guid", p.guids[1-i].String(),
		"--ha-listen", p.ports[i], "--ha-dir", filepath.Join("certs", pairHosts[i]))
	return err
}

func (p *pairDuo) state(i int) string { return filepath.Join(p.dir, fmt.Sprint("state", i)) }

// ask asks manager i.
func (p *pairDuo) ask(i int, path string, to any) error { return askAPI(p.api[i], path, to) }

// askAPI asks the API at an address.
func askAPI(addr, path string, to any) error {
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// settled waits until both have all entries, the standby follows what the active one publishes, the
// subnet is up, and all hosts are members.
func (p *pairDuo) settled() (int, error) {
	return p.until("a warm pair", func(active int, h *[2]api.HA) (bool, error) {
		var st api.Status
		if err := p.ask(active, "/v1/status", &st); err != nil || !st.SubnetUp || !h[1-active].Pair.Warm {
			return false, err
		}
		return p.s.joinedAll(p.s.lidOf(active)), nil
	})
}

// until waits until one manager is active, the other one is a paired standby, and ok.
func (p *pairDuo) until(what string, ok func(active int, h *[2]api.HA) (bool, error)) (int, error) {
	var err error
	for end := time.Now().Add(takeLimit); time.Now().Before(end); time.Sleep(takePoll) {
		var h [2]api.HA
		if err = errors.Join(p.ask(0, "/v1/ha", &h[0]), p.ask(1, "/v1/ha", &h[1])); err != nil {
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
	return 0, fmt.Errorf("not within %v: %s: %w", takeLimit, what, err)
}

// fail notes whether the standby is warm, and has the active manager fail.
func (p *pairDuo) fail(i int, how string) error {
	var h [2]api.HA
	if err := errors.Join(p.ask(0, "/v1/ha", &h[0]), p.ask(1, "/v1/ha", &h[1])); err != nil {
		return err
	}
	if !h[i].Active {
		return errMoved
	}
	p.cold = !h[1-i].Pair.Warm
	switch how {
	case killed:
		p.prog[i].Signal(syscall.SIGKILL)
	case dead:
		p.prog[i].Signal(syscall.SIGSTOP)
		var err error
		p.s.d.Do(func(net *sim.Subnet) { err = net.LinkDown(p.s.nodes[i], 1) })
		p.cut[i] = true
		return err
	case handover:
		_, err := output(p.dir, []string{"HEDDLE_RUNTIME_DIR=" + filepath.Join(p.dir, fmt.Sprint("run", i))}, p.b.bin, "ctl", "ha", "handover", "--api", p.api[i])
		return err
	}
	return nil
}

func (p *pairDuo) writes(i int) (int, error) {
	var h api.HA
	err := p.ask(i, "/v1/ha", &h)
	if err != nil {
		return 0, err
	}
	return int(h.Pair.Entries), nil
}
