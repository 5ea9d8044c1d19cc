// Package etcdtest runs clusters of Debian's etcd on loopback for tests: real processes, that can be
// killed and started again.
package etcdtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"heddle/internal/faultdisk"
	"heddle/internal/need"
	"heddle/internal/proc"
)

// Cluster is some members of etcd.
type Cluster struct {
	t       testing.TB
	dir     string
	members []*member
	token   string
	args    []string
	tls     *TLS
	disk    *faultdisk.Disk // of the first member; nil: a directory
}

// TLS are the files of a cluster whose clients need certificates.
type TLS struct{ CA, Cert, Key string }

type member struct {
	name, dir    string
	client, peer string     // HOST:PORT
	p            *proc.Proc // nil: it was killed
}

// Start starts n members and waits until they have a leader. args are further flags of each.
func Start(t testing.TB, n int, args ...string) *Cluster { return start(t, n, nil, nil, args) }

// StartOn is Start with the first member's data on a disk that can be slow or fail. That member is not
// restarted, and its Stop and Continue do nothing.
func StartOn(t testing.TB, d *faultdisk.Disk, n int, args ...string) *Cluster {
	need.FUSE(t)
	return start(t, n, nil, d, args)
}

// StartTLS is Start with certificates for clients and members.
func StartTLS(t testing.TB, n int, files TLS, args ...string) *Cluster {
	return start(t, n, &files, nil, args)
}

func start(t testing.TB, n int, files *TLS, d *faultdisk.Disk, args []string) *Cluster {
	t.Helper()
	need.Tool(t, "etcd")
	c := &Cluster{t: t, dir: t.TempDir(), token: filepath.Base(t.TempDir()), args: args, tls: files, disk: d}
	first := need.Port(t, 2*n)
	for i := range n {
		c.members = append(c.members, &member{
			name: fmt.Sprintf("m%d", i), dir: filepath.Join(c.dir, fmt.Sprintf("m%d", i)),
			client: fmt.Sprintf("127.0.0.1:%d", first+2*i), peer: fmt.Sprintf("127.0.0.1:%d", first+2*i+1),
		})
	}
	t.Cleanup(func() {
		for i := range c.members {
			if m := c.members[i]; t.Failed() && m.p != nil {
				log := m.p.Output()
				t.Logf("etcd %s:\n%s", m.name, log[max(0, len(log)-2000):])
			}
			c.Kill(i)
		}
	})
	for i := range c.members {
		c.Restart(i)
	}
	c.AwaitLeader()
	return c
}

func (c *Cluster) initial() string {
	var list []string
	for _, m := range c.members {
		list = append(list, m.name+"="+c.url(m.peer, false))
	}
	return strings.Join(list, ",")
}

func (c *Cluster) url(addr string, client bool) string {
	if c.tls != nil && client {
		return "https://" + addr
	}
	return "http://" + addr
}

// Endpoints are the addresses for clients.
func (c *Cluster) Endpoints() (list []string) {
	for _, m := range c.members {
		list = append(list, m.client)
	}
	return list
}

// Restart starts a member that does not run, with what it has on disk.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	m := c.members[i]
	args := append([]string{
		"--name", m.name, "--data-dir", m.dir, "--heartbeat-interval", "50", "--election-timeout", "500",
		"--listen-client-urls", c.url(m.client, true), "--advertise-client-urls", c.url(m.client, true),
		"--listen-peer-urls", c.url(m.peer, false), "--initial-advertise-peer-urls", c.url(m.peer, false),
		"--initial-cluster", c.initial(), "--initial-cluster-token", c.token, "--initial-cluster-state", "new",
		"--logger", "zap", "--log-level", "warn",
	}, c.args...)
	if c.tls != nil {
		args = append(args, "--client-cert-auth", "--trusted-ca-file", c.tls.CA, "--cert-file", c.tls.Cert, "--key-file", c.tls.Key)
	}
	if c.disk != nil && i == 0 {
		args[3] = "DIR/data"
		run := faultdisk.Run(c.t, c.disk, need.Tool(c.t, "etcd"), args...)
		go func() { _, _ = io.Copy(io.Discard, run.Out) }()
		return
	}
	p, err := proc.Start(proc.Command(c.dir, nil, need.Tool(c.t, "etcd"), args...))
	if err != nil {
		c.t.Fatal(err)
	}
	m.p = p
}

// Kill ends a member with SIGKILL and waits for its end.
func (c *Cluster) Kill(i int) {
	if m := c.members[i]; m.p != nil {
		m.p.Kill()
		m.p = nil
	}
}

// Stop makes a member hang, and Continue lets it go on.
func (c *Cluster) Stop(i int)     { c.signal(i, syscall.SIGSTOP) }
func (c *Cluster) Continue(i int) { c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, s syscall.Signal) {
	if p := c.members[i].p; p != nil {
		p.Signal(s)
	}
}

// Client returns a client of the members, closed when the test ends.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	cfg := clientv3.Config{Logger: zap.NewNop(), DialTimeout: need.Patience}
	for _, m := range c.members {
		cfg.Endpoints = append(cfg.Endpoints, c.url(m.client, true))
	}
	cli, err := clientv3.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cli.Close() })
	return cli
}

// AwaitLeader waits until the running members have a leader, and returns its index. Members with TLS
// are only waited for until they listen.
func (c *Cluster) AwaitLeader() int {
	c.t.Helper()
	limit := time.After(need.Patience)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if i, ok := c.leader(); ok {
			return i
		}
		select {
		case <-look.C:
		case <-limit:
			c.t.Fatal("etcd has no leader")
		}
		for _, m := range c.members {
			if m.p == nil {
				continue
			}
			select {
			case <-m.p.Done():
				c.t.Fatalf("etcd %s ended: %s", m.name, m.p.Output())
			default:
			}
		}
	}
}

// Lead has a member lead.
func (c *Cluster) Lead(i int) {
	c.t.Helper()
	_, id, err := c.status(i)
	if err != nil {
		c.t.Fatal(err)
	}
	for at := c.AwaitLeader(); at != i; at = c.AwaitLeader() {
		c.ctl("--endpoints", c.url(c.members[at].client, true), "move-leader", fmt.Sprintf("%x", id))
	}
}

func (c *Cluster) leader() (int, bool) {
	if c.tls != nil {
		for _, m := range c.members {
			conn, err := net.Dial("tcp", m.client)
			if err != nil {
				return 0, false
			}
			conn.Close()
		}
		return 0, true
	}
	var running []int
	for i, m := range c.members {
		if m.p != nil || i == 0 && c.disk != nil {
			running = append(running, i)
		}
	}
	at := -1
	for _, i := range running {
		leader, me, err := c.status(i)
		if err != nil || leader == 0 {
			return 0, false
		}
		if leader == me {
			at = i
		}
	}
	return at, at >= 0
}

func (c *Cluster) status(i int) (leader, me uint64, err error) {
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{c.url(c.members[i].client, true)}, Logger: zap.NewNop()})
	if err != nil {
		return 0, 0, err
	}
	defer cli.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := cli.Status(ctx, c.url(c.members[i].client, true))
	if err != nil {
		return 0, 0, err
	}
	return s.Leader, s.Header.MemberId, nil
}

// Backup saves a backup, as etcdctl snapshot save does, and returns its file.
func (c *Cluster) Backup() string {
	c.t.Helper()
	path := filepath.Join(c.dir, "backup.db")
	c.ctl("--endpoints", c.url(c.members[0].client, true), "snapshot", "save", path)
	return path
}

// Restore ends all members and starts them with the contents of a backup.
func (c *Cluster) Restore(backup string) {
	c.t.Helper()
	for i, m := range c.members {
		c.Kill(i)
		m.dir += "-restored"
		c.ctl("snapshot", "restore", backup, "--name", m.name, "--data-dir", m.dir, "--initial-cluster", c.initial(),
			"--initial-cluster-token", c.token, "--initial-advertise-peer-urls", c.url(m.peer, false))
	}
	for i := range c.members {
		c.Restart(i)
	}
	c.AwaitLeader()
}

// Ctl runs etcdctl with the first member.
func (c *Cluster) Ctl(args ...string) {
	c.t.Helper()
	c.ctl(append([]string{"--endpoints", c.url(c.members[0].client, true)}, args...)...)
}

func (c *Cluster) ctl(args ...string) {
	c.t.Helper()
	r := proc.Run(need.Patience, proc.Command(c.dir, []string{"ETCDCTL_API=3"}, need.Tool(c.t, "etcdctl"), args...))
	if r.Err != nil || r.Code != 0 {
		c.t.Fatalf("etcdctl %s: exit %d, %v\n%s", strings.Join(args, " "), r.Code, r.Err, r.Out)
	}
}
