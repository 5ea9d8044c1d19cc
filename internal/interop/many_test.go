package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// The programs that ibsim's sources have as tests, as they are run beside a
// manager: many requests at once (query_many), a discovery with many
// outstanding (subnet_discover). The storm of joins (mcast_storm) is
// lab.TestMulticastStorm.

// prober sends many SMPs at once from a node and collects the answers.
type prober struct {
	t    *testing.T
	conn *ibsim.Conn
	eng  *mad.Engine
	from time.Time
	in   chan mad.Packet
	done func(mad.Completion)
}

func newProber(t *testing.T, node, sock string, window int) *prober {
	t.Helper()
	conn, err := ibsim.Dial(t.Context(), ibsim.Options{Node: node, SockName: sock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &prober{t: t, conn: conn, from: time.Now(), in: make(chan mad.Packet, 4096)}
	p.eng = mad.NewEngine(mad.Config{Window: window, MaxWindow: window, Timeout: upTime})
	go func() {
		defer close(p.in)
		for {
			var q mad.Packet
			if conn.Recv(&q) != nil {
				return
			}
			p.in <- q
		}
	}()
	return p
}

func (p *prober) now() mad.Time { return mad.Time(time.Since(p.from)) }

// get asks along a directed route.
func (p *prober) get(attr ib.AttrID, mod uint32, path []byte, token uint64) {
	r := mad.Request{Addr: mad.Addr{LID: ib.LIDPermissive}, Token: token}
	smp.NewDR(&r.MAD, ib.MethodGet, attr, mod, 0, path)
	if err := p.eng.Submit(&r); err != nil {
		p.t.Fatal(err)
	}
}

// run sends what was asked for, and what done asks for besides, until all is
// answered.
func (p *prober) run() {
	p.t.Helper()
	send := func(q *mad.Packet) {
		if err := p.conn.Send(q); err != nil {
			p.t.Fatal(err)
		}
	}
	limit := time.NewTimer(upTime)
	defer limit.Stop()
	for p.eng.Poll(p.now(), send); !p.eng.Idle(); p.eng.Poll(p.now(), send) {
		wake := time.NewTimer(max(0, p.eng.NextTimer().Sub(p.now())))
		select {
		case q, ok := <-p.in:
			if !ok {
				p.t.Fatal("the port is gone")
			}
			if c, kind := p.eng.Receive(p.now(), &q); kind == mad.KindCompletion {
				p.done(c)
			}
		case <-wake.C:
			p.eng.Expire(p.now(), p.done)
		case <-limit.C:
			p.t.Fatalf("%d requests are not answered", p.eng.Outstanding()+p.eng.Queued())
		}
		wake.Stop()
	}
}

// TestManyRequests: hundreds of concurrent SMPs to one node, and a discovery of the
// whole fabric with hundreds outstanding, during a manager's sweep.
func TestManyRequests(t *testing.T) {
	need.Tool(t, "smpquery")
	b := testNet{name: "tree", gen: []string{"fattree", "324"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	addr := need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.sm+"@"+sock, "--api", addr, "--sweep-interval", "50ms")
	sm.await("SUBNET UP\n", 0, upTime)

	for _, q := range []struct {
		name string
		attr ib.AttrID
		n    int
		path []byte
	}{
		{"NodeInfo of the own node", smp.AttrNodeInfo, 100, nil},
		{"PortInfo of the own node", smp.AttrPortInfo, 500, nil},
		{"PortInfo of the leaf switch", smp.AttrPortInfo, 500, []byte{0, 1}},
		{"NodeInfo two hops away", smp.AttrNodeInfo, 1000, []byte{0, 1, 20}},
	} {
		p := newProber(t, b.cas[7], sock, 256)
		answered, hop := 0, q.path
		if len(hop) > 0 {
			hop = hop[1:]
		}
		p.done = func(c mad.Completion) {
			if c.Err != nil || smp.StatusOf(c.MAD) != 0 {
				t.Fatalf("%s: %v", q.name, c.Err)
			}
			answered++
		}
		for i := range q.n {
			mod := uint32(0)
			if q.attr == smp.AttrPortInfo {
				mod = 1
			}
			p.get(q.attr, mod, hop, uint64(i))
		}
		p.run()
		if answered != q.n {
			t.Errorf("%s: %d of %d answered", q.name, answered, q.n)
		}
		p.conn.Close()
	}

	// Every link is crossed from both ends; what is found is the netlist.
	p := newProber(t, b.cas[100], sock, 512)
	type place struct {
		path []byte
		guid ib.GUID
		num  uint8 // the port that path leaves the node before by
	}
	at := []place{{}}
	seen := map[ib.GUID]bool{}
	var links []string
	p.done = func(c mad.Completion) {
		here := &at[c.Token]
		var ni smp.NodeInfo
		if c.Err != nil {
			return // a port without a cable
		}
		if err := ni.Decode(smp.Data(c.MAD)); err != nil {
			t.Fatal(err)
		}
		if len(here.path) > 0 {
			x, y := fmt.Sprintf("%v[%d]", here.guid, here.num), fmt.Sprintf("%v[%d]", ni.NodeGUID, ni.LocalPortNum)
			links = append(links, min(x, y)+" - "+max(x, y))
		}
		if seen[ni.NodeGUID] {
			return
		}
		seen[ni.NodeGUID] = true
		if ni.NodeType != ib.NodeSwitch && len(here.path) > 0 {
			return
		}
		from, path := ni.NodeGUID, here.path
		for num := uint8(1); num <= ni.NumPorts; num++ {
			if ni.NodeType != ib.NodeSwitch && num != ni.LocalPortNum {
				continue
			}
			i := b.fab.FindGUID(from)
			if i < 0 || !b.fab.Nodes[i].Ports[num].Cabled() {
				continue
			}
			at = append(at, place{append(slices.Clone(path), num), from, num})
			p.get(smp.AttrNodeInfo, 0, at[len(at)-1].path, uint64(len(at)-1))
		}
	}
	p.get(smp.AttrNodeInfo, 0, nil, 0)
	p.run()
	slices.Sort(links)
	links = slices.Compact(links)
	if len(seen) != len(b.fab.Nodes) {
		t.Errorf("%d nodes discovered, the fabric has %d", len(seen), len(b.fab.Nodes))
	}
	if d := diff(links, cables(b.fab)); d != "" {
		t.Errorf("links discovered:\n%s", d)
	}
	if st := status(t, addr); !st.SubnetUp || st.Problems != 0 {
		t.Errorf("the manager suffered: %+v", st)
	}
}
