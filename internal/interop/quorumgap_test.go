package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
)

// trio is three managers of one fabric with one state in etcd, as processes.
type trio struct {
	b       *built
	t       *testing.T
	cluster *etcdtest.Cluster
	sock    string
	addr    [3]string // of their APIs
	peers   [3]string // where they show what they publish
	prog    [3]program
	more    []string // arguments of all
}

// newTrio prepares three managers on the first three hosts.
func newTrio(t *testing.T, b *built, sock string, more ...string) *trio {
	t.Helper()
	return newTrioOn(t, b, sock, etcdtest.Start(t, 3), more...)
}

// newTrioOn is newTrio with a given cluster.
func newTrioOn(t *testing.T, b *built, sock string, cluster *etcdtest.Cluster, more ...string) *trio {
	t.Helper()
	x := &trio{b: b, t: t, cluster: cluster, sock: sock, more: more}
	first := need.Port(t, 6)
	for i := range 3 {
		x.peers[i], x.addr[i] = fmt.Sprintf("127.0.0.%d:%d", i+1, first+i), fmt.Sprintf("127.0.0.1:%d", first+3+i)
	}
	must(t, upTime, b.dir, nil, heddle, "ctl", "ha", "certs", "--dir", "trio", "127.0.0.1", "127.0.0.2", "127.0.0.3")
	return x
}

// start starts manager i, and waits until it serves its API.
func (x *trio) start(i int) {
	x.t.Helper()
	x.prog[i] = x.run(i)
	x.prog[i].await("serving the API", 0, upTime)
}

// run starts manager i.
func (x *trio) run(i int) program {
	x.t.Helper()
	args := []string{
		"sm", "--port", "ibsim:" + x.b.cas[i] + "@" + x.sock, "--store", "etcd://" + strings.Join(x.cluster.Endpoints(), ",") + "/trio",
		"--api", x.addr[i], "--log-level", "info", "--claim-wait", "1m", "--sa-key", "1",
		"--peer", strings.Join(x.peers[:], ","), "--ha-listen", x.peers[i],
		"--ha-dir", filepath.Join(x.b.dir, "trio", fmt.Sprintf("127.0.0.%d", i+1)),
	}
	return start(x.t, x.b.dir, nil, heddle, append(args, x.more...)...)
}

// ha is how manager i says that it stands; ok is false if it does not answer.
func (x *trio) ha(i int) (h api.HA, ok bool) {
	return h, tryJSON("http://"+x.addr[i]+"/v1/ha", &h) == nil
}

// settled waits until one of the living managers has the term, the subnet is up, and the others are on
// standby with what it publishes, and returns it.
func (x *trio) settled(dead int) int {
	x.t.Helper()
	for end := time.Now().Add(need.Patience); ; {
		master, ready := -1, true
		for i := range 3 {
			if i == dead {
				continue
			}
			h, ok := x.ha(i)
			switch {
			case !ok:
				ready = false
			case h.State == "term" && master < 0 && status(x.t, x.addr[i]).SubnetUp:
				master = i
			case h.State != "follower" || !h.Quorum.Warm:
				ready = false
			}
		}
		if master >= 0 && ready {
			return master
		}
		if time.Now().After(end) {
			x.t.Fatalf("the three are not settled:\n%s\n\n%s\n\n%s", tail(x.prog[0].Output()), tail(x.prog[1].Output()), tail(x.prog[2].Output()))
		}
		<-time.After(askAgain)
	}
}

// TestQuorumGap measures how long a host gets no answer of the SA when the master of three managers with
// one state in etcd is killed, or its host dies with the leader of etcd on it. docs/ha-measured.md has the numbers.
// With HEDDLE_LONG=11664 the subnet has as many hosts, and each is done twice.
func TestQuorumGap(t *testing.T) {
	need.Long(t)
	size, rounds := "648", 5
	if os.Getenv("HEDDLE_LONG") == "11664" {
		size, rounds = "11664", 2
	}
	b := testNet{name: "tree", gen: []string{"fattree", size}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	x := newTrio(t, &b, sock)
	for i := range 3 {
		x.start(i)
	}
	x.settled(-1)
	w := watchLID(t, sock, b.cas[100], b.portGUID(b.cas[200]), 0)
	gaps := map[string][]time.Duration{}
	for range rounds {
		for _, how := range []string{"kill -9", "host dies, with etcd's leader"} {
			master := x.settled(-1)
			for i := range 3 { // one that reads the subnet for the first time keeps others from taking over
				if i != master {
					awaitState(t, &b, x.addr[i], "STANDBY", need.Patience)
				}
			}
			leader := x.cluster.AwaitLeader()
			for w.answered(t); w.longest() > 50*time.Millisecond; w.answered(t) { // until a quiet moment
			}
			if how == "kill -9" {
				x.prog[master].stop(syscall.SIGKILL)
			} else {
				// Nothing says that it is dead, as its connections do when a process dies.
				x.cluster.Stop(leader)
				x.prog[master].Signal(syscall.SIGSTOP)
			}
			next := x.settled(master)
			w.answered(t)
			gaps[how] = append(gaps[how], w.longest())
			t.Logf("%s of %d: %d is next, without an answer for %v", how, master, next, gaps[how][len(gaps[how])-1])
			if gaps[how][len(gaps[how])-1] > time.Second {
				t.Logf("manager %d:\n%s", next, tail(x.prog[next].Output()))
				t.Logf("manager %d:\n%s", 3-next-master, tail(x.prog[3-next-master].Output()))
			}
			if how != "kill -9" {
				x.cluster.Continue(leader)
				x.prog[master].stop(syscall.SIGKILL)
			}
			x.start(master)
		}
	}
	for how, list := range gaps {
		goal := time.Second // of a host that dies
		if how == "kill -9" {
			goal /= 2
		}
		gapWithin(t, how, list, goal)
	}
}
