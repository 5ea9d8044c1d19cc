package interop

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/ibsim"
)

// watch asks for a path again and again, of the SA that its port names or at a LID that it was given,
// and notes the longest time without an answer.
type watch struct {
	c    *ibsim.Conn
	last atomic.Int64 // nanoseconds since start: the last answer
	gap  atomic.Int64 // the longest time between two
	at   time.Time
	new  chan struct{} // holds something after an answer
}

// askEvery is the time between two questions, which is the resolution.
const askEvery = 5 * time.Millisecond

// watchLID asks at a LID whatever the port names; 0: at the one that it names.
func watchLID(t *testing.T, sock, node string, to ib.GUID, lid ib.LID) *watch {
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
			at := lid
			if pi, err := c.PortInfo(1); err == nil && lid == 0 {
				at = pi.MasterSMLID
			}
			if at.IsUnicast() {
				var m ib.MAD
				sa.New(&m, ib.MethodGet, sa.AttrPathRecord, 0, sa.PathCompSGID|sa.PathCompDGID|sa.PathCompNumbPath)
				r := sa.PathRecord{SGID: own, DGID: ib.MakeGID(ib.DefaultSubnetPrefix, to), NumbPath: 1}
				r.Put(sa.Data(&m))
				m.SetTID(tid)
				_ = c.Send(&mad.Packet{Addr: mad.Addr{LID: at, QP: 1}, LocalQP: 1, Data: m[:]}) // the next one follows
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
// hands over: one that asks where its port says, and with a LID that floats one that hears nothing.
// docs/ha-measured.md has the numbers; three times the goal is too long. With HEDDLE_LONG=11664 the subnet has as
// many hosts, and each is done once.
func TestPairGap(t *testing.T) {
	need.Long(t)
	size, rounds := "648", 5
	if os.Getenv("HEDDLE_LONG") == "11664" {
		size, rounds = "11664", 1
	}
	for _, kind := range []string{"own", "floating"} {
		t.Run(kind, func(t *testing.T) {
			b := testNet{name: "tree", gen: []string{"fattree", size}}.build(t)
			_, env := b.simulate(t)
			sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
			p := newPair(t, &b, sock, "--sm-lid", kind)
			p.start(0)
			p.start(1)
			active := p.paired()
			lid := ib.LID(0)
			if kind == "floating" {
				lid = ib.LID(status(t, p.addr[active]).LID)
			}
			w := watchLID(t, sock, b.cas[100], b.portGUID(b.cas[200]), lid)
			gaps := map[string][]time.Duration{}
			for range rounds {
				for _, how := range []string{"kill -9", "handover"} {
					active := p.paired()
					if rounds == 1 {
						<-time.After(30 * time.Second) // until the standby follows: 30 MB, and what is prepared
					}
					for w.answered(t); w.longest() > 50*time.Millisecond; w.answered(t) { // until a quiet moment
					}
					at := time.Now()
					if how == "kill -9" {
						p.prog[active].stop(syscall.SIGKILL)
					} else if out, err := p.ctl(active, "handover"); err != nil {
						t.Fatal(out, err)
					}
					p.serves(1 - active)
					w.answered(t)
					gaps[how] = append(gaps[how], w.longest())
					t.Log(how, p.course(1-active, at))
					if how == "kill -9" {
						p.start(active)
					}
				}
			}
			for how, list := range gaps {
				gapWithin(t, how, list, map[string]time.Duration{"kill -9": 500 * time.Millisecond, "handover": 200 * time.Millisecond}[how])
			}
		})
	}
}

// gapWithin shows times without an answer, and fails if their median is above three times the goal: real time is what is
// tested here, on a machine that may do other things too.
func gapWithin(t *testing.T, how string, list []time.Duration, goal time.Duration) {
	t.Helper()
	slices.Sort(list)
	median := list[len(list)/2]
	t.Logf("%s: without an answer for %v in the median, %v at least, %v at most, of %d times", how, median, list[0], list[len(list)-1], len(list))
	if median > 3*goal {
		t.Errorf("%s: without an answer for %v in the median; the goal is %v", how, median, goal)
	}
}

// course is what manager i did since at to become the master, and when: the events of the pair, the
// states, the end of the takeover, by which all hosts are told that are to be, and the subnet.
func (p *pair) course(i int, at time.Time) (list []string) {
	p.t.Helper()
	var events []api.Event
	getJSON(p.t, "http://"+p.addr[i]+"/v1/events", &events)
	for _, e := range events {
		switch e.Kind {
		case "ha_active", "state", "takeover", "sweep_end", "subnet_up":
			if d := e.Time.Sub(at); d > 0 {
				list = append(list, fmt.Sprintf("%v %s: %s", d.Round(100*time.Microsecond), e.Kind, e.Message))
			}
		}
	}
	return list
}

// TestPairFloating: with a LID that floats a host that hears nothing finds the SA at the LID that it has
// always known, whichever manager is active and however it became that. The port of the other manager
// has its own LID, and all other LIDs stay.
func TestPairFloating(t *testing.T) {
	need.Tool(t, "saquery")
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	p := newPair(t, &b, sock, "--sm-lid", "floating")
	p.start(0)
	p.start(1)
	active := p.paired()
	lid := status(t, p.addr[active]).LID
	w := watchLID(t, sock, b.cas[5], b.portGUID(b.cas[6]), ib.LID(lid))
	w.answered(t)
	var guids [2]string // of the managers' ports, as keys of what is seen
	for i := range guids {
		n := slices.IndexFunc(b.fab.Nodes, func(n fabric.Node) bool { return n.ID == b.cas[i] })
		guids[i] = fmt.Sprintf("%v[1]", b.fab.Nodes[n].GUID)
	}
	before := b.seenLIDs(t, env, b.cas[4])
	own := map[int]int{} // the LIDs that the ports were seen with on standby
	same := func(when string) {
		t.Helper()
		active := p.paired()
		w.answered(t)
		now := b.seenLIDs(t, env, b.cas[4])
		at, standby := now[guids[active]], now[guids[1-active]]
		if was := own[1-active]; at != lid || standby == lid || was != 0 && standby != was {
			t.Errorf("%s: the ports of the managers have LIDs %d and %d, the one that floats is %d, and on standby the latter had %d", when, at, standby, lid, was)
		}
		own[1-active] = standby
		now[guids[0]], now[guids[1]] = before[guids[0]], before[guids[1]]
		if !maps.Equal(now, before) {
			t.Errorf("%s: LIDs changed:\n%s", when, lidDiff(before, now))
		}
		if out, err := p.ctl(1-active, "status"); err != nil || !strings.Contains(out, fmt.Sprintf("%d, floating", lid)) {
			t.Errorf("%s: %v\n%s", when, err, out)
		}
		senv := append(env, "SIM_HOST="+b.cas[7])
		must(t, upTime, b.dir, senv, "ibsim-run", "saquery", "-g")
	}
	same("at first")
	p.prog[active].stop(syscall.SIGKILL)
	p.serves(1 - active)
	w.answered(t)
	p.start(active)
	same("after the active one was killed")
	for range 2 {
		active = p.paired()
		if out, err := p.ctl(active, "handover"); err != nil {
			t.Fatal(out, err)
		}
		p.serves(1 - active)
		same("after a handover")
	}
	// The standby comes back with an empty disk.
	active = p.paired()
	p.prog[1-active].stop(syscall.SIGKILL)
	if err := os.RemoveAll(filepath.Join(b.dir, fmt.Sprint("state", 1-active))); err != nil {
		t.Fatal(err)
	}
	p.start(1 - active)
	same("with a new disk")
	p.prog[active].stop(syscall.SIGKILL)
	p.serves(1 - active)
	w.answered(t)
	p.start(active)
	same("after the manager with the new disk took over")
	if out, err := p.ctl(active, "forks"); err != nil || out != "no changes were put aside\n" {
		t.Errorf("forks: %v\n%s", err, out)
	}
}
