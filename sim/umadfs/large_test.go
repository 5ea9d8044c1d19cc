package umadfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/umadfs/kernel"
	"heddle/transport/umad"
)

func init() {
	children["large server"] = largeServerChild
	children["large client"] = largeClientChild
}

// largeServerChild answers one request with a table of the length that it names,
// and says what became of the write.
func largeServerChild() int {
	p, err := umad.OpenPort(umad.Options{})
	if err != nil {
		return complain("%v", err)
	}
	defer p.Close()
	fmt.Printf("SERVING %d .\n", p.Device().LID)
	var k mad.Packet
	for p.Recv(&k) == nil {
		if k.Status != mad.Received || ib.Class(k.Data[1]) != ib.ClassSA || ib.Method(k.Data[3]) != ib.MethodGetTable {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimRight(k.Data[56:76], "\x00")))
		if err != nil {
			return complain("%v", err)
		}
		r := mad.Packet{Addr: k.Addr, LocalQP: 1, Data: append(k.Data[:56:56], largeTable(n)...)}
		r.Data[3], r.Data[26] = byte(ib.MethodGetTableResp), 1
		err = p.Send(&r)
		fmt.Printf("WROTE %d: %v %v .\n", n, err == nil, errors.Is(err, syscall.ENOMEM))
	}
	return 0
}

func largeTable(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// largeClientChild asks LID os.Args[1] for a table of os.Args[2] bytes.
func largeClientChild() int {
	lid, _ := strconv.Atoi(os.Args[1])
	n, _ := strconv.Atoi(os.Args[2])
	p, err := umad.OpenPort(umad.Options{Client: true})
	if err != nil {
		return complain("%v", err)
	}
	defer p.Close()
	d := p.Device()
	q := saGetTable(0x11, 9)
	copy(q[56:76], os.Args[2])
	k := mad.Packet{Addr: mad.Addr{LID: ib.LID(lid), QP: 1, PKeyIndex: d.DefaultPKeyIndex()}, LocalQP: 1, Data: q[:]}
	k.Timeout = 2 * time.Second
	if n <= kernel.MaxMessage {
		k.Timeout = 2 * need.Patience
	}
	if err := p.Send(&k); err != nil {
		return complain("%v", err)
	}
	var r mad.Packet
	if err := p.Recv(&r); err != nil {
		return complain("%v", err)
	}
	if n > kernel.MaxMessage {
		if r.Status != mad.Failed {
			return complain("%d bytes arrived", len(r.Data))
		}
		return 0
	}
	if r.Status != mad.Received || len(r.Data) != 56+n || !bytes.Equal(r.Data[56:], largeTable(n)) {
		return complain("status %d, %d bytes, want %d", r.Status, len(r.Data), 56+n)
	}
	return 0
}

// TestLargeMessage: a process's message of any length arrives whole, or the write
// fails; it is never cut.
func TestLargeMessage(t *testing.T) {
	tool(t, "opensm")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	l.limit = 3 * need.Patience
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	server := l.start("H3", l.self("large server")...)
	server.wait(" .\n", need.Patience)
	lid := server.log.String()[len("SERVING "):]
	lid = lid[:bytes.IndexByte([]byte(lid), ' ')]
	for _, c := range []struct {
		n    int
		want string
	}{{3 << 20, "true false"}, {65 << 20, "true false"}, {kernel.MaxMessage + 1<<20, "false true"}} {
		l.run(0, "H2", l.self("large client", lid, strconv.Itoa(c.n))...)
		server.wait(fmt.Sprintf("WROTE %d: %s .", c.n, c.want), need.Patience)
	}
}
