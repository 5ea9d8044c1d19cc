package interop

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// watch asks for a path again and again, of the SA that its port names, and notes the longest time
// without an answer.
type watch struct {
	c    *ibsim.Conn
	last atomic.Int64 // nanoseconds since start: the last answer
	gap  atomic.Int64 // the longest time between two
	at   time.Time
	new  chan struct{} // holds something after an answer
}

// askEvery is the time between two questions, which is the resolution.
const askEvery = 5 * time.Millisecond

func watchSA(t *testing.T, sock, node string, to ib.GUID) *watch {
	t.Helper()
	c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{c: c, at: time.Now(), new: make(chan struct{}, 1)}
	go func() {
		for {
			var p mad.Packet
			if c.Recv(&p) != nil {
				return
			}
			m := (*ib.MAD)(p.Data[:ib.MADLen])
			if p.Status != mad.Received || !m.Method().IsResponse() || m.Status() != 0 {
				continue
			}
			now := time.Since(w.at)
			w.gap.Store(max(w.gap.Load(), int64(now)-w.last.Swap(int64(now))))
			select {
			case w.new <- struct{}{}:
			default:
			}
		}
	}()
	own := ib.MakeGID(ib.DefaultSubnetPrefix, c.PortGUID())
	end := make(chan struct{})
	go func() {
		again := time.NewTicker(askEvery)
		defer again.Stop()
		for tid := uint64(1); ; tid++ {
			if pi, err := c.PortInfo(1); err == nil && pi.MasterSMLID.IsUnicast() {
				var m ib.MAD
				sa.New(&m, ib.MethodGet, sa.AttrPathRecord, 0, sa.PathCompSGID|sa.PathCompDGID|sa.PathCompNumbPath)
				r := sa.PathRecord{SGID: own, DGID: ib.MakeGID(ib.DefaultSubnetPrefix, to), NumbPath: 1}
				r.Put(sa.Data(&m))
				m.SetTID(tid)
				_ = c.Send(&mad.Packet{Addr: mad.Addr{LID: pi.MasterSMLID, QP: 1}, LocalQP: 1, Data: m[:]}) // the next one follows
			}
			select {
			case <-again.C:
			case <-end:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		c.Close()
	})
	return w
}

// answered waits for the next answer.
func (w *watch) answered(t *testing.T) {
	t.Helper()
	select {
	case <-w.new:
	default:
	}
	select {
	case <-w.new:
	case <-time.After(need.Patience):
		t.Fatal("the SA does not answer")
	}
}

// longest is the longest time without an answer since the last call.
func (w *watch) longest() time.Duration { return time.Duration(w.gap.Swap(0)) }

// TestPairGap measures how long a host gets no answer of the SA when the active manager is killed, or
// hands over. docs/ha.md has the numbers.
func TestPairGap(t *testing.T) {
	need.Long(t)
	b := testNet{name: "tree", gen: []string{"fattree", "648"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	p := newPair(t, &b, sock)
	p.start(0)
	p.start(1)
	p.paired()
	w := watchSA(t, sock, b.cas[100], b.portGUID(b.cas[200]))
	gaps := map[string][]time.Duration{}
	for range 5 {
		for _, how := range []string{"kill -9", "handover"} {
			active := p.paired()
			for w.answered(t); w.longest() > 50*time.Millisecond; w.answered(t) { // until a quiet moment
			}
			if how == "kill -9" {
				p.prog[active].stop(syscall.SIGKILL)
			} else if out, err := p.ctl(active, "handover"); err != nil {
				t.Fatal(out, err)
			}
			p.serves(1 - active)
			w.answered(t)
			gaps[how] = append(gaps[how], w.longest())
			if how == "kill -9" {
				p.start(active)
			}
		}
	}
	for how, list := range gaps {
		slices.Sort(list)
		t.Logf("%s: without an answer for %v in the median, %v at least, %v at most, of %d times", how, list[len(list)/2], list[0], list[len(list)-1], len(list))
	}
}
