package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"heddle/api"
	"heddle/internal/bench/joinload"
	"heddle/transport/ibsim"
)

// joins measures how many joins an SA answers, from requests of hosts to their answers: new ones, and those of members
// that join again.
func (b *bench) joins(sizes []int) error {
	t := b.table(fmt.Sprintf("Joins: %d hosts at most join the same %d groups, each with %d requests in flight", joinload.Most, joinload.Groups, joinload.Window),
		"hosts", "SA", "joins", "joins/s", "lowest", "highest", "median", "99 %", "busy", "sent again")
	for _, n := range sizes {
		netlist, err := b.net(n)
		if err != nil {
			return err
		}
		for _, start := range []func(string) (*served, error){b.theirSA, b.ourJoins, b.pairJoins, b.etcdJoins} {
			if err := b.joinsOf(t, n, netlist, start); err != nil {
				return fmt.Errorf("%d hosts: %w", n, err)
			}
		}
	}
	return nil
}

// joinsOf measures one SA.
func (b *bench) joinsOf(t table, hosts int, netlist string, start func(string) (*served, error)) error {
	s, err := start(netlist)
	if s != nil {
		defer s.end()
	}
	if err != nil {
		return err
	}
	list, err := joinload.Attach(s.sock, hosts)
	defer func() { joinload.Close(list) }()
	if err != nil {
		return err
	}
	var runs [2][]joinload.Result
	for i := range b.runs {
		for k := range runs { // new ones, then the same again
			r, err := joinload.Join(list, i*joinload.Groups)
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", s.who, err, tailOf(s.procs...))
			}
			runs[k] = append(runs[k], r)
		}
	}
	for k, what := range []string{"new", "again"} {
		t.row("%d|%s|%s|%s", hosts, s.who, what, joinload.Medians(runs[k]))
	}
	return nil
}

// joinsManager starts a manager that keeps its state, on a host, and waits until the subnet is up.
func (b *bench) joinsManager(s *served, host int, args ...string) (*program, error) {
	name := fmt.Sprintf("%s-%d", s.sock, host)
	p, err := launch(b.dir, []string{"HEDDLE_RUNTIME_DIR=" + filepath.Join(b.dir, name+".run")}, b.bin, append([]string{
		"sm", "--port", fmt.Sprintf("ibsim:host-%d@%s", host, s.sock), "--state", filepath.Join(b.dir, name), "--sa-key", "1", "--claim-wait", "1m",
	}, args...)...)
	if err == nil {
		s.procs = append(s.procs, p)
	}
	return p, err
}

func (b *bench) ourJoins(netlist string) (*served, error) {
	s, err := b.onSim("heddle", netlist)
	if err != nil {
		return nil, err
	}
	p, err := b.joinsManager(s, 1, "--api", "", "--api-socket", filepath.Join(b.dir, s.sock+".api"))
	if err == nil {
		_, err = p.await("SUBNET UP", b.limit)
	}
	return s, err
}

func (b *bench) pairJoins(netlist string) (*served, error) {
	s, err := b.onSim(pairName, netlist)
	if err != nil {
		return nil, err
	}
	certs := filepath.Join(b.dir, s.sock+".certs")
	if _, err := output(b.dir, nil, b.bin, "ctl", "ha", "certs", "--dir", certs, pairHosts[0], pairHosts[1]); err != nil {
		return s, err
	}
	d := &pairDuo{b: b}
	for i := range 2 {
		for _, to := range []*string{&d.api[i], &d.ports[i]} {
			if *to, err = freeAddress(); err != nil {
				return s, err
			}
		}
		c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: s.sock, Node: fmt.Sprintf("host-%d", 1+i)})
		if err != nil {
			return s, err
		}
		d.guids[i] = c.PortGUID()
		c.Close()
	}
	for i := range 2 {
		_, port, err := net.SplitHostPort(d.ports[1-i])
		if err != nil {
			return s, err
		}
		if _, err := b.joinsManager(s, 1+i, "--api", d.api[i], "--peer-api", d.api[1-i], "--peer", pairHosts[1-i]+":"+port,
			"--peer-guid", d.guids[1-i].String(), "--ha-listen", d.ports[i], "--ha-dir", filepath.Join(certs, pairHosts[i])); err != nil {
			return s, err
		}
	}
	_, err = d.until("the subnet is up", func(active int, _ *[2]api.HA) (bool, error) {
		var st api.Status
		err := d.ask(active, "/v1/status", &st)
		return st.SubnetUp, err
	})
	return s, err
}

// etcdJoins has one manager with a cluster of three members of etcd.
func (b *bench) etcdJoins(netlist string) (*served, error) {
	etcd, err := find("etcd")
	if err != nil {
		return nil, err
	}
	s, err := b.onSim("heddle, etcd", netlist)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "etcd")
	if err != nil {
		return s, err
	}
	members, clients, err := joinload.Etcd(3, s.sock, freeAddress)
	if err != nil {
		return s, err
	}
	for _, args := range members {
		p, err := launch(dir, nil, etcd, args...)
		if err != nil {
			return s, err
		}
		s.procs = append(s.procs, p)
	}
	p, err := b.joinsManager(s, 1, "--api", "", "--api-socket", filepath.Join(b.dir, s.sock+".api"), "--store", "etcd://"+clients)
	if err == nil {
		_, err = p.await("SUBNET UP", b.limit)
	}
	return s, err
}
