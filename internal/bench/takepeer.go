package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/sim"
)

// openDuo is two OpenSMs on one subnet. They share nothing, as on two hosts.
type openDuo struct {
	b    *bench
	s    *scene
	dir  string
	conf string // options; ""
	prog [2]*program
}

// openPolls are the options of the fastest polls that are sensible: as often as the managers of a pair
// give a sign, and as many until one counts as dead.
const openPolls = "sminfo_polling_timeout 100\npolling_retry_number 4\n"

// takeOff is how many hosts are off while the master dies, and how many registered a service that they
// do not register again.
const takeOff = 8

// takeKept is what the next manager knew.
type takeKept struct {
	hosts          int
	who            string
	services, lids int
}

// takePeers kills the masters of two OpenSMs, with its defaults and with fast polls, and compares what
// the next manager knows with what that of a pair does.
func (b *bench) takePeers(all *takeResults, hosts int) error {
	s, p, err := b.startPair(hosts)
	if err != nil {
		return err
	}
	k, _, err := s.forget(p)
	p.stop()
	s.end()
	if err != nil {
		return err
	}
	k.hosts, k.who = hosts, pairName
	all.kept = append(all.kept, k)
	if err := b.takeOpen(all, hosts, "OpenSM", "", 1); err != nil {
		return err
	}
	return b.takeOpen(all, hosts, "OpenSM, fast polls", openPolls, max(2, *takeovers/10))
}

// takeOpen kills OpenSM some times.
func (b *bench) takeOpen(all *takeResults, hosts int, who, conf string, times int) error {
	s, o, err := b.startOpen(hosts, conf)
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	defer s.end()
	defer o.stop()
	r := takeRow{hosts: hosts, who: who, how: killed}
	begin := time.Now()
	for i := range times {
		var x taken
		if i < times-1 {
			x, err = s.round(o, killed)
		} else {
			var k takeKept
			k, x, err = s.forget(o)
			k.hosts, k.who = hosts, who
			all.kept = append(all.kept, k)
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", who, err, tailOf(o.prog[0], o.prog[1]))
		}
		r.list = append(r.list, x)
	}
	fmt.Fprintf(os.Stderr, "bench: %d hosts, %s: %d times in %.0f s\n", hosts, who, times, time.Since(begin).Seconds())
	all.rows = append(all.rows, r)
	return nil
}

// startOpen brings a subnet up with two OpenSMs.
func (b *bench) startOpen(hosts int, conf string) (*scene, *openDuo, error) {
	b.n++
	s, err := newScene(hosts, fmt.Sprintf("bench%d-%d", os.Getpid(), b.n))
	if err != nil {
		return nil, nil, err
	}
	o := &openDuo{b: b, s: s}
	err = func() error {
		if o.dir, err = os.MkdirTemp(b.dir, "opensm"); err != nil {
			return err
		}
		if conf != "" {
			o.conf = filepath.Join(o.dir, "conf")
			if err := os.WriteFile(o.conf, []byte(conf), 0o644); err != nil {
				return err
			}
		}
		for i := range 2 {
			if err := o.start(i); err != nil {
				return err
			}
			if _, err := o.prog[i].await([]string{"SUBNET UP", "Entering STANDBY"}[i], takeLimit); err != nil {
				return err
			}
		}
		_, err := o.settled()
		return err
	}()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, tailOf(o.prog[0], o.prog[1]))
		o.stop()
		s.end()
		return nil, nil, err
	}
	return s, o, nil
}

func (o *openDuo) start(i int) (err error) {
	reap(o.prog[i])
	dir := filepath.Join(o.dir, fmt.Sprint("host", i))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{o.b.opensm, "-d", "2", "-f", "stdout"}
	if o.conf != "" {
		args = append(args, "-F", o.conf)
	}
	o.prog[i], err = launch(dir, []string{"IBSIM_SOCKNAME=" + o.s.sock, "SIM_HOST=" + o.s.nodes[i], "OSM_TMP_DIR=" + dir, "OSM_CACHE_DIR=" + dir, "LD_PRELOAD="}, "ibsim-run", args...)
	return err
}

func (o *openDuo) stop() {
	for _, p := range o.prog {
		reap(p)
	}
}

// settled waits until the last one that became master has brought the subnet up, the other one is
// standby, and all hosts are members.
func (o *openDuo) settled() (int, error) {
	for end := time.Now().Add(takeLimit); time.Now().Before(end); time.Sleep(10 * takePoll) {
		var state [2]string
		for i, p := range o.prog {
			out := p.Output()
			at := strings.LastIndex(out, "Entering ")
			if at < 0 {
				continue
			}
			state[i], _, _ = strings.Cut(out[at+len("Entering "):], " ")
			if state[i] == "MASTER" && !strings.Contains(out[at:], "SUBNET UP") {
				state[i] = ""
			}
		}
		for i := range state {
			if state[i] == "MASTER" && state[1-i] == "STANDBY" && o.s.joinedAll(o.s.lidOf(i)) {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("not within %v: a master and a standby", takeLimit)
}

func (o *openDuo) fail(i int, how string) error {
	if how != killed {
		return errors.New("OpenSM cannot: " + how)
	}
	o.prog[i].Signal(syscall.SIGKILL)
	return nil
}

func (o *openDuo) writes(int) (int, error) { return 0, nil }

// forget kills the master while some hosts are off, after some have registered services that they do
// not register again, and returns what the next one knows of them.
func (s *scene) forget(two duo) (k takeKept, x taken, err error) {
	if _, err := two.settled(); err != nil {
		return k, x, err
	}
	off, quiet := s.hosts[8:8+takeOff], s.hosts[32:32+takeOff]
	lids := map[*sceneHost]ib.LID{}
	for i, h := range quiet {
		if ok, err := s.service(h, uint64(100+i), true); err != nil || !ok {
			return k, x, errors.Join(err, errors.New("a service was not registered"))
		}
	}
	s.d.Do(func(net *sim.Subnet) {
		for _, h := range off {
			lids[h] = h.ep.LID()
			h.off = true
			err = errors.Join(err, net.NodeDown(h.ep.NodeID()))
		}
	})
	if err != nil {
		return k, x, err
	}
	if x, err = s.round(two, killed); err != nil {
		return k, x, err
	}
	known := 0
	for i, h := range quiet {
		ok, err := s.service(h, uint64(100+i), false)
		if err != nil {
			return k, x, err
		}
		if ok {
			known++
		}
	}
	// They come back in another order, with a port that has no LID yet, as hosts do that were replaced
	// or switched off.
	same := 0
	for i := len(off) - 1; i >= 0; i-- {
		h := off[i]
		s.d.Do(func(net *sim.Subnet) {
			h.off, h.in[0].by = false, 0
			err = net.NodeUp(h.ep.NodeID())
		})
		if err == nil {
			err = s.await("a host that was off is back", func(*sim.Subnet) bool { return h.in[0].by != 0 })
		}
		if err != nil {
			return k, x, err
		}
		s.d.Do(func(*sim.Subnet) {
			if h.ep.LID() == lids[h] {
				same++
			}
		})
	}
	k.services, k.lids = known, same
	return k, x, nil
}

// service registers a service of a host, or asks for it, until the SA says yes or no.
func (s *scene) service(h *sceneHost, id uint64, register bool) (bool, error) {
	var answer verdict
	s.d.Do(func(*sim.Subnet) { h.query = none })
	var next time.Time
	err := s.await("an answer about a service", func(*sim.Subnet) bool {
		if answer = h.query; answer != none && (answer == yes || !register) {
			return true
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(changeAgain)
			h.query = none
			r := sa.ServiceRecord{ServiceID: id, ServiceGID: h.gid, ServicePKey: ib.PKeyDefaultFull, ServiceLease: 0xFFFF_FFFF}
			if register {
				h.serve(&r, askedService)
			} else {
				var m ib.MAD
				sa.New(&m, ib.MethodGet, sa.AttrServiceRecord, 0, sa.ServiceCompServiceID|sa.ServiceCompServiceGID|sa.ServiceCompServicePKey)
				r.Put(sa.Data(&m))
				h.send(askedService, &m)
			}
		}
		return false
	})
	return answer == yes, err
}
