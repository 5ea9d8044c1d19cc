package joins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"heddle/api"
	"heddle/internal/bench/pair"
	"heddle/internal/bench/testbed"
	"heddle/transport/ibsim"
)

// served is an SA under measurement, on its own subnet.
type served struct {
	who   string
	sock  string
	net   *subnet
	procs []*testbed.Program // managers and members of etcd
}

func (s *served) end() {
	testbed.Kill(s.procs...)
	s.net.end()
}

// cpuTime is the processor time of the programs so far.
func (s *served) cpuTime() (sum time.Duration) {
	for _, p := range s.procs {
		sum += testbed.CPUTime(p.Pid())
	}
	return sum
}

// onSim serves a subnet for an SA.
func onSim(b *testbed.Testbed, who string, hosts int) (*served, error) {
	n, err := serve(hosts, b.Name())
	if err != nil {
		return nil, err
	}
	return &served{who: who, net: n, sock: n.srv.SockName()}, nil
}

func openSM(b *testbed.Testbed, hosts int) (*served, error) {
	s, err := onSim(b, "OpenSM", hosts)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.Dir, "opensm")
	if err != nil {
		return s, err
	}
	p, err := b.StartOpenSM(dir, s.sock, "", "-d", "2", "-f", "stdout", "-R", "minhop")
	if err != nil {
		return s, err
	}
	s.procs = append(s.procs, p)
	_, err = p.Await("SUBNET UP", b.Limit)
	return s, err
}

func heddle(b *testbed.Testbed, hosts int) (*served, error) {
	s, err := onSim(b, "heddle", hosts)
	if err != nil {
		return nil, err
	}
	return s, s.alone(b)
}

// alone starts one manager, which keeps its state in a directory unless args say where.
func (s *served) alone(b *testbed.Testbed, args ...string) error {
	p, err := testbed.Launch(b.Dir, []string{"HEDDLE_RUNTIME_DIR=" + filepath.Join(b.Dir, s.sock+".run")}, b.Heddle, append([]string{
		"sm", "--port", "ibsim:host-1@" + s.sock, "--state", filepath.Join(b.Dir, s.sock), "--sa-key", "1", "--claim-wait", "1m",
		"--api", "", "--api-socket", filepath.Join(b.Dir, s.sock+".api"),
	}, args...)...)
	if err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	_, err = p.Await("SUBNET UP", b.Limit)
	return err
}

func heddlePair(b *testbed.Testbed, hosts int) (*served, error) {
	s, err := onSim(b, pair.Name, hosts)
	if err != nil {
		return nil, err
	}
	at := pair.At{Sock: s.sock, Nodes: [2]string{"host-1", "host-2"}}
	for i, node := range at.Nodes {
		c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: s.sock, Node: node})
		if err != nil {
			return s, err
		}
		at.GUIDs[i] = c.PortGUID()
		c.Close()
	}
	p, err := pair.New(b, at)
	if err != nil {
		return s, err
	}
	for i := range at.Nodes {
		if err := p.Start(i); err != nil {
			return s, err
		}
		s.procs = append(s.procs, p.Programs[i])
	}
	_, err = p.Until("the subnet is up", func(active int, _ *[2]api.HA) (bool, error) {
		var st api.Status
		err := p.Ask(active, "/v1/status", &st)
		return st.SubnetUp, err
	})
	return s, err
}

// heddleEtcd has one manager with a cluster of three members of etcd.
func heddleEtcd(b *testbed.Testbed, hosts int) (*served, error) {
	etcd, err := testbed.Find("etcd")
	if err != nil {
		return nil, err
	}
	s, err := onSim(b, "heddle, etcd", hosts)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.Dir, "etcd")
	if err != nil {
		return s, err
	}
	members, clients, err := etcdMembers(3, s.sock)
	if err != nil {
		return s, err
	}
	for _, args := range members {
		p, err := testbed.Launch(dir, nil, etcd, args...)
		if err != nil {
			return s, err
		}
		s.procs = append(s.procs, p)
	}
	return s, s.alone(b, "--store", "etcd://"+clients)
}

// etcdMembers returns the arguments of n members of a cluster, which keep their data in the directory
// in which they are started, and their endpoints.
func etcdMembers(n int, token string) (members [][]string, endpoints string, err error) {
	var clients, peers, initial []string
	for i := range n {
		for _, to := range []*[]string{&clients, &peers} {
			a, err := testbed.FreeAddress()
			if err != nil {
				return nil, "", err
			}
			*to = append(*to, a)
		}
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	for i := range n {
		members = append(members, []string{
			"--name", fmt.Sprint("m", i), "--data-dir", fmt.Sprint("m", i),
			"--listen-client-urls", "http://" + clients[i], "--advertise-client-urls", "http://" + clients[i],
			"--listen-peer-urls", "http://" + peers[i], "--initial-advertise-peer-urls", "http://" + peers[i],
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", token, "--logger", "zap", "--log-level", "warn",
		})
	}
	return members, strings.Join(clients, ","), nil
}
