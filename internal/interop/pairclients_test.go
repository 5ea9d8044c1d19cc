package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// clientBound is the longest that a client may wait for an answer through a takeover. Changes wait for
// 2 s (docs/ha.md), and osmtest repeats a request after a second and starts anew after three.
const clientBound = 10 * time.Second

// client does something with the SA again and again, in a loop of its own. What fails it tries again.
type client struct {
	name string
	once func() error

	mu      sync.Mutex
	runs    int           // guarded by mu
	failed  int           // attempts; guarded by mu
	longest time.Duration // from the beginning of the first attempt to success; guarded by mu
	usual   time.Duration // the shortest; guarded by mu
	last    error         // guarded by mu
	fresh   chan struct{} // holds something when one that began after the last call of next succeeded
	after   time.Time     // that call; guarded by mu
}

// clients run until the test ends.
func clients(t *testing.T, list ...*client) {
	end := make(chan struct{})
	var done sync.WaitGroup
	for _, c := range list {
		c.fresh = make(chan struct{}, 1)
		done.Go(func() {
			for {
				began := time.Now()
				for c.try() != nil {
					select {
					case <-end:
						return
					default:
					}
				}
				c.succeeded(began)
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	t.Cleanup(func() {
		close(end)
		done.Wait()
	})
}

func (c *client) try() error {
	err := c.once()
	if err != nil {
		c.mu.Lock()
		c.failed++
		c.last = err
		c.mu.Unlock()
	}
	return err
}

func (c *client) succeeded(began time.Time) {
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.longest = max(c.longest, took)
	if c.usual == 0 || took < c.usual {
		c.usual = took
	}
	if began.After(c.after) {
		select {
		case c.fresh <- struct{}{}:
		default:
		}
	}
}

// next waits until the client has done what it does from its beginning to its end.
func (c *client) next(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	c.after = time.Now()
	select {
	case <-c.fresh:
	default:
	}
	c.mu.Unlock()
	select {
	case <-c.fresh:
	case <-time.After(need.Patience):
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Fatalf("%s does not succeed: %v", c.name, c.last)
	}
}

// TestPairClients: clients that know nothing of a pair get through takeovers, by kill -9 and by
// handover in turn: a host that joins a group and leaves it, Debian's saquery, and osmtest. With
// HEDDLE_LONG there are 50 takeovers for each kind of LID, and none waits for longer than a bound.
func TestPairClients(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "saquery")
	need.Tool(t, "osmtest")
	takeovers := 2
	if os.Getenv("HEDDLE_LONG") != "" {
		takeovers = 50
	}
	for _, kind := range []string{"own", "floating"} {
		t.Run(kind, func(t *testing.T) { pairClients(t, kind, takeovers) })
	}
}

func pairClients(t *testing.T, kind string, takeovers int) {
	b := smallTree.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	p := newPair(t, &b, sock, "--sm-lid", kind)
	p.start(0)
	p.start(1)
	p.paired()
	attached := func(node string, argv ...string) (string, error) {
		return run(t, upTime, b.dir, nil, heddle, append([]string{"attach", node + "@" + sock, "--"}, argv...)...)
	}
	osmtest := func(node string, args ...string) error {
		out, err := attached(node, append([]string{"osmtest", "-g", b.portGUID(node).String(), "-i", filepath.Join(b.dir, "osmtest.dat"), "-l", filepath.Join(b.dir, "osmtest.log")}, args...)...)
		if strings.Contains(out, "FAIL") || !strings.Contains(out, "PASS") {
			return fmt.Errorf("osmtest: %w: %s", err, tail(out))
		}
		return nil
	}
	list := []*client{
		{name: "a host that joins and leaves", once: joins(t, sock, b.cas[8], b.portGUID(b.cas[8]))},
		{name: "saquery", once: func() error {
			out, err := attached(b.cas[9], "saquery", "-N")
			if err != nil {
				return fmt.Errorf("saquery: %w: %s", err, tail(out))
			}
			return nil
		}},
		{name: "osmtest -f c", once: func() error { return osmtest(b.cas[10], "-f", "c") }},
	}
	clients(t, list...)
	for _, c := range list {
		c.next(t)
	}
	for i := range takeovers {
		active := p.paired()
		if i%2 == 0 {
			p.prog[active].stop(syscall.SIGKILL)
			p.serves(1 - active)
			for _, c := range list {
				c.next(t)
			}
			p.start(active)
			continue
		}
		if out, err := p.ctl(active, "handover"); err != nil {
			t.Fatal(out, err)
		}
		p.serves(1 - active)
		for _, c := range list {
			c.next(t)
		}
	}
	for _, c := range list {
		c.mu.Lock()
		t.Logf("%s: %d times, %d attempts failed, %v at least, %v at most", c.name, c.runs, c.failed, c.usual, c.longest)
		if takeovers >= 50 && c.longest > clientBound {
			t.Errorf("%s took %v, more than %v", c.name, c.longest, clientBound)
		}
		c.mu.Unlock()
	}
}

// joinerPatience is how long the joiner waits for an answer until it repeats a request.
const joinerPatience = 200 * time.Millisecond

// joins returns what has a host join a group and leave it. It asks the SA that its port names.
func joins(t *testing.T, sock, node string, port ib.GUID) func() error {
	t.Helper()
	c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	x := &registrar{c: c, patience: joinerPatience, answers: make(chan *ib.MAD, 1000)}
	go x.receive()
	r := sa.MCMemberRecord{
		MGID: ib.MakeGID(0xFF12_A01C_0000_0000, 7), PortGID: ib.MakeGID(ib.DefaultSubnetPrefix, port),
		QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: sa.JoinFull,
	}
	member := sa.MCMemberCompMGID | sa.MCMemberCompPortGID | sa.MCMemberCompJoinState
	do := func(method ib.Method, mask sa.CompMask) error {
		pi, err := c.PortInfo(1)
		if err != nil {
			return err
		}
		var m ib.MAD
		sa.New(&m, method, sa.AttrMCMemberRecord, 0, mask)
		r.Put(sa.Data(&m))
		a := x.exchange(mad.Addr{LID: pi.MasterSMLID, QP: 1}, 1, &m)
		switch {
		case a == nil:
			return fmt.Errorf("%v gets no answer", method)
		case a.Status() != 0:
			return fmt.Errorf("%v: status %v", method, a.Status())
		}
		return nil
	}
	joined := false
	return func() error {
		if !joined {
			if err := do(ib.MethodSet, member|sa.MCMemberCompQKey|sa.MCMemberCompTClass|sa.MCMemberCompPKey|sa.MCMemberCompSL|sa.MCMemberCompFlowLabel); err != nil {
				return err
			}
			joined = true
		}
		if err := do(ib.MethodDelete, member); err != nil {
			// The answer to the first one may have been lost.
			joined = !strings.Contains(err.Error(), "status")
			return err
		}
		joined = false
		return nil
	}
}
