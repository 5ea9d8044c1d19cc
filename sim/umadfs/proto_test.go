package umadfs

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"heddle/internal/need"
	"heddle/internal/umadabi"
	"heddle/sim"
	"heddle/sim/live"
)

// directDriver runs a subnet without a clock.
type directDriver struct{ s *sim.Subnet }

func (d directDriver) Do(fn func(*sim.Subnet))    { fn(d.s) }
func (d directDriver) AfterUnlock(f live.Flusher) { f.Flush() }

// newConn makes a connection whose replies go to a file.
func newConn(t testing.TB, out *os.File) *conn {
	t.Helper()
	s, err := sim.New(smallNet(t), sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := &Server{driver: directDriver{s}, hcas: map[hcaID]*hca{}}
	c := &conn{srv: srv, fd: int(out.Fd()), handles: map[uint64]*handle{}, pending: map[uint64]func(){}}
	id, err := idOf(s, "H6")
	if err != nil {
		t.Fatal(err)
	}
	h, err := openHCA(s, id, new(uint16))
	if err != nil {
		t.Fatal(err)
	}
	c.hcas = []*hca{h}
	c.tree = newTree(c.hcas)
	return c
}

func message(opcode uint32, nodeid uint64, body ...[]byte) []byte {
	b := make([]byte, inHeaderLen)
	le.PutUint32(b[4:], opcode)
	le.PutUint64(b[8:], 77)
	le.PutUint64(b[16:], nodeid)
	for _, x := range body {
		b = append(b, x...)
	}
	le.PutUint32(b, uint32(len(b)))
	return b
}

// walk finds a node by its path.
func walk(t testing.TB, c *conn, path string) *node {
	t.Helper()
	n := c.tree.nodes[0]
	for name := range strings.SplitSeq(path, "/") {
		if n = n.child(name); n == nil {
			t.Fatalf("no %s in %s", name, path)
		}
	}
	return n
}

// TestTree: the files of a node with two ports.
func TestTree(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c := newConn(t, null)
	for path, want := range map[string]string{
		"class/infiniband_mad/abi_version":                   "5",
		"class/infiniband_mad/umad1/ibdev":                   "heddle0",
		"class/infiniband_mad/issm1/port":                    "2",
		"class/infiniband/heddle0/node_type":                 "1: CA",
		"class/infiniband/heddle0/node_desc":                 "host6",
		"class/infiniband/heddle0/ports/1/state":             "2: INIT",
		"class/infiniband/heddle0/ports/1/phys_state":        "5: LinkUp",
		"class/infiniband/heddle0/ports/2/state":             "1: DOWN",
		"class/infiniband/heddle0/ports/1/link_layer":        "InfiniBand",
		"class/infiniband/heddle0/ports/1/lid":               "0x0",
		"class/infiniband/heddle0/ports/1/pkeys/0":           "0xffff",
		"class/infiniband/heddle0/ports/1/gid_attrs/types/0": "IB/RoCE v1",
		"class/infiniband/heddle0/ports/1/gids/0":            gidText(c.hcas[0].ports[0].ep.GIDs(nil)[0]),
		"class/infiniband/heddle0/node_guid":                 guidText(c.hcas[0].ports[0].ep.NodeInfo().NodeGUID),
		"class/infiniband/heddle0/ports/1/rate":              rateText(c.hcas[0].ports[0]),
	} {
		if got := walk(t, c, path).text(); got != want+"\n" {
			t.Errorf("%s says %q, want %q", path, got, want)
		}
	}
	for _, p := range c.hcas[0].ports {
		p.kernel.Remove()
	}
	if c.tree.nodes[0].child("class").child("infiniband").child("heddle0") != nil || c.tree.nodes[0].child("infiniband").child("umad0") != nil {
		t.Error("a removed device is still there")
	}
}

// FuzzRequest: no input from the FUSE device ends the loop. (The kernel is trusted, but
// our reading of it may be wrong.)
func FuzzRequest(f *testing.F) {
	u64 := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	f.Add(message(opInit, 0, make([]byte, 16)))
	f.Add(message(opLookup, 1, []byte("class\x00")))
	f.Add(message(opReaddir, 1, u64(1), u64(0), u64(4096), make([]byte, 16)))
	f.Add(message(opRead, 1, u64(2), u64(0), u64(320), make([]byte, 16)))
	f.Add(message(opWrite, 1, u64(2), u64(0), u64(100), make([]byte, 16), make([]byte, 100)))
	arg := make([]byte, umadabi.AgentLen)
	ioctl := le.AppendUint32(u64(2), 0)
	for _, v := range []uint32{umadabi.RegisterAgent, 0, 0, umadabi.AgentLen, umadabi.AgentLen} {
		ioctl = le.AppendUint32(ioctl, v)
	}
	f.Add(message(opIoctl, 1, ioctl, arg))
	f.Add(message(opPoll, 1, u64(2), u64(9), u64(1)))
	f.Add(message(opInterrupt, 0, u64(77)))
	f.Add(message(opRelease, 1, u64(2), make([]byte, 16)))
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newConn(t, null)
		dir, dev := walk(t, c, "class"), walk(t, c, "infiniband/umad0")
		for _, n := range []*node{dir, dev} {
			c.handle(&request{opcode: opOpen, nodeid: n.id, body: make([]byte, 8)})
		}
		for range 2 {
			if r, ok := parseRequest(b); ok {
				c.handle(&r)
			}
		}
		for fh := range c.handles {
			c.release(fh)
		}
	})
}

// TestInvalidClients: invalid messages on the socket.
func TestInvalidClients(t *testing.T) {
	l := newLab(t, smallNet(t), sim.Config{})
	dial := func() *net.UnixConn {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: SocketName(l.name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(need.Patience))
		return c
	}
	refused := func(what string, c *net.UnixConn) {
		t.Helper()
		if a, err := recvAnswer(c); err != nil || a.Error == "" {
			t.Errorf("%s: answer %+v, %v", what, a, err)
		}
	}
	c := dial()
	if _, err := c.Write(bytes.Repeat([]byte{0xff}, 100)); err != nil {
		t.Fatal(err)
	}
	refused("no descriptor", c)

	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c = dial()
	if err := sendHello(c, hello{Nodes: []string{"H1"}}, int(null.Fd())); err != nil {
		t.Fatal(err)
	}
	refused("/dev/null", c)

	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fuse)
	c = dial()
	if err := sendHello(c, hello{Nodes: make([]string, maxNodes+1)}, fuse); err != nil {
		t.Fatal(err)
	}
	refused("too many nodes", c)
	c = dial()
	if err := sendHello(c, hello{Nodes: []string{"H1", strings.Repeat("x", maxHello)}}, fuse); err != nil {
		t.Fatal(err)
	}
	refused("long message", c)
	c = dial()
	if err := sendHello(c, hello{Nodes: []string{"H1", "nobody"}}, fuse); err != nil {
		t.Fatal(err)
	}
	refused("unknown node", c)
	l.run(0, "H1", "true")
}
