package takeover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"heddle/internal/bench/pair"
	"heddle/internal/bench/testbed"
)

// openDuo is two OpenSMs on one subnet. They share nothing, as on two hosts.
type openDuo struct {
	b    *testbed.Testbed
	s    *scene
	dir  string
	conf string // options; ""
	prog [2]*testbed.Program
}

// openPolls are the options of the fastest polls that are sensible: as often as the managers of a pair
// give a sign, and as many until one counts as dead.
const openPolls = "sminfo_polling_timeout 100\npolling_retry_number 4\n"

// measurePeers kills the masters of two OpenSMs, with its defaults and with fast polls, and compares what
// the next manager knows with what that of a pair does.
func measurePeers(b *testbed.Testbed, o *Options, all *results, hosts int) error {
	s, p, err := startPair(b, hosts)
	if err != nil {
		return err
	}
	k, _, err := s.forget(p)
	p.stop()
	s.end()
	if err != nil {
		return err
	}
	k.hosts, k.who = hosts, pair.Name
	all.kept = append(all.kept, k)
	if err := measureOpenSM(b, all, hosts, "OpenSM", "", 1); err != nil {
		return err
	}
	return measureOpenSM(b, all, hosts, "OpenSM, fast polls", openPolls, max(2, o.Kills/10))
}

// measureOpenSM kills OpenSM some times.
func measureOpenSM(b *testbed.Testbed, all *results, hosts int, who, conf string, times int) error {
	s, o, err := startOpen(b, hosts, conf)
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	defer s.end()
	defer o.stop()
	r := row{hosts: hosts, who: who, how: killed}
	begin := time.Now()
	for i := range times {
		var x taken
		if i < times-1 {
			x, err = s.round(o, killed)
		} else {
			var k kept
			k, x, err = s.forget(o)
			k.hosts, k.who = hosts, who
			all.kept = append(all.kept, k)
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", who, err, testbed.Tail(o.prog[0], o.prog[1]))
		}
		r.list = append(r.list, x)
	}
	fmt.Fprintf(os.Stderr, "bench: %d hosts, %s: %d times in %.0f s\n", hosts, who, times, time.Since(begin).Seconds())
	all.rows = append(all.rows, r)
	return nil
}

// startOpen brings a subnet up with two OpenSMs.
func startOpen(b *testbed.Testbed, hosts int, conf string) (*scene, *openDuo, error) {
	s, err := newScene(hosts, b.Name())
	if err != nil {
		return nil, nil, err
	}
	o := &openDuo{b: b, s: s}
	err = func() error {
		if o.dir, err = os.MkdirTemp(b.Dir, "opensm"); err != nil {
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
			if _, err := o.prog[i].Await([]string{"SUBNET UP", "Entering STANDBY"}[i], waitLimit); err != nil {
				return err
			}
		}
		_, err := o.settled()
		return err
	}()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, testbed.Tail(o.prog[0], o.prog[1]))
		o.stop()
		s.end()
		return nil, nil, err
	}
	return s, o, nil
}

func (o *openDuo) start(i int) (err error) {
	testbed.Kill(o.prog[i])
	dir := filepath.Join(o.dir, fmt.Sprint("host", i))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{o.b.OpenSM, "-d", "2", "-f", "stdout"}
	if o.conf != "" {
		args = append(args, "-F", o.conf)
	}
	o.prog[i], err = o.b.StartOpenSM(dir, o.s.sock, o.s.nodes[i], args...)
	return err
}

func (o *openDuo) stop() {
	for _, p := range o.prog {
		testbed.Kill(p)
	}
}

// settled waits until the last one that became master has brought the subnet up, the other one is
// standby, and all hosts are members.
func (o *openDuo) settled() (int, error) {
	for end := time.Now().Add(waitLimit); time.Now().Before(end); time.Sleep(10 * poll) {
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
	return 0, fmt.Errorf("not within %v: a master and a standby", waitLimit)
}

func (o *openDuo) fail(i int, how string) error {
	if how != killed {
		return errors.New("OpenSM cannot: " + how)
	}
	o.prog[i].Signal(syscall.SIGKILL)
	return nil
}

func (o *openDuo) last(int) (uint64, error)       { return 0, nil }
func (o *openDuo) joins(int, uint64) (int, error) { return 0, nil }
