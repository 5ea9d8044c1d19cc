package transition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/transition"
)

// traffic is a small network with switches that take Sets, and packets that they forward: a
// model of what happens while a plan is carried out, with nothing of the planner in it.
//
// Time goes on between any two events. Every buffer (a lane of a channel, at its far end)
// holds a packet at a time. A packet stays at most as long as a switch's lifetime and
// head-of-queue limit allow. At any time in its stay it may be decided where it goes on; as long
// as it is there it may leave for that, or wait for it. The model keeps each kind of packet
// that can be in each buffer, with the latest time at which such a one may have come. A
// finding is a cycle of buffers, each full with a packet that waits for the next, or entries by
// which packets go round at one moment.
type traffic struct {
	g    *fabric.Graph // with all links
	stay time.Duration
	now  time.Duration
	rng  *rand.Rand
	row  [][]byte
	lane map[[3]int]*route.Tables // by switch, input and output port: whose SL-to-VL table is in force
	up   []bool                   // by channel
	told []toldLevels
	top  ib.LID

	here map[inBuffer]time.Duration // when the last of them may have come
	goes map[goesOn]time.Duration
	late []lateSet // copies of Sets that are under way
	bad  string
}

// lateSet is a copy of a Set of a table: of a block, or of SL-to-VL.
type lateSet struct {
	table [4]int
	apply func()
}

// toldLevels are the service levels that hosts use.
type toldLevels struct {
	t     *route.Tables
	until time.Duration
}

// inBuffer is a kind of packet in a lane of a channel, at the far end.
type inBuffer struct {
	lid     ib.LID
	sl      ib.SL
	c, lane int32
}

// goesOn is one that is decided for another.
type goesOn struct {
	inBuffer
	next, nextLane int32
}

const forEver = time.Duration(1) << 60

func newTraffic(g *fabric.Graph, t *route.Tables, rng *rand.Rand) *traffic {
	w := &traffic{
		g: g, stay: limited.SwitchLifetime + limited.HOQLife, rng: rng, top: t.TopLID, lane: map[[3]int]*route.Tables{},
		up: make([]bool, len(g.Channels)), told: []toldLevels{{t, forEver}}, here: map[inBuffer]time.Duration{}, goes: map[goesOn]time.Duration{},
	}
	for s := range t.LFT {
		w.row = append(w.row, slices.Clone(t.LFT[s]))
	}
	for c := range w.up {
		w.up[c] = true
	}
	w.lane[[3]int{-1}] = t
	w.flow()
	return w
}

// pass lets time go by; packets that stayed too long are discarded.
func (w *traffic) pass(d time.Duration) {
	w.now += d
	for k, at := range w.here {
		if at+w.stay < w.now {
			delete(w.here, k)
		}
	}
	for k, at := range w.goes {
		if at+w.stay < w.now {
			delete(w.goes, k)
		}
	}
	w.told = slices.DeleteFunc(w.told, func(t toldLevels) bool { return t.until < w.now })
}

func (w *traffic) vl(s int32, in, out uint8, c int32, sl ib.SL) int32 {
	t := w.lane[[3]int{int(s), int(in), int(out)}]
	if t == nil {
		t = w.lane[[3]int{-1}]
	}
	return int32(t.VL(s, in, out, sl, w.g.Channels[c].VLs))
}

// lanes are the SL-to-VL tables in force, as read back.
func (w *traffic) lanes() *route.Lanes {
	l := &route.Lanes{}
	at := map[[16]ib.VL]uint8{}
	for s := range w.g.Switches {
		n := int(w.g.Switches[s].NumPorts) + 1
		index := make([]uint8, n*n)
		for i := range index {
			var row [16]ib.VL
			if c := w.g.PortChannel[s][i%n]; c >= 0 {
				for sl := range row {
					row[sl] = ib.VL(w.vl(int32(s), uint8(i/n), uint8(i%n), c, ib.SL(sl)))
				}
			}
			k, ok := at[row]
			if !ok {
				k = uint8(len(l.Rows))
				at[row] = k
				l.Rows = append(l.Rows, row)
			}
			index[i] = k
		}
		l.Index, l.Stride = append(l.Index, index), append(l.Stride, uint16(n))
	}
	return l
}

// flow moves packets on by what is in force at this moment, in every way that they can go.
func (w *traffic) flow() {
	g := w.g
	var queue []inBuffer
	come := func(k inBuffer, at time.Duration) {
		if was, ok := w.here[k]; !ok || was < at {
			w.here[k] = at
			queue = append(queue, k)
		}
	}
	out := func(s int32, l ib.LID) int32 {
		if int(l) >= len(w.row[s]) {
			return -1
		}
		if e := int(w.row[s][l]); e < len(g.PortChannel[s]) {
			if c := g.PortChannel[s][e]; c >= 0 && w.up[c] {
				return c
			}
		}
		return -1
	}
	// What hosts send now. A switch's own packets go to hosts only, as far as these deadlock.
	hosts := make([][]uint8, len(g.Switches))
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch {
			hosts[e.Switch] = append(hosts[e.Switch], e.Port)
		}
	}
	for l := ib.LID(1); l <= w.top; l++ {
		toHost := g.LIDOwner[l] != fabric.NoLID && g.EndPorts[g.LIDOwner[l]].Type != ib.NodeSwitch
		for s := range int32(len(g.Switches)) {
			c := out(s, l)
			if c < 0 {
				continue
			}
			ports := hosts[s]
			if toHost {
				ports = append(slices.Clip(ports), 0)
			}
			for _, t := range w.told {
				sl := t.t.PathSL(s, l)
				for _, in := range ports {
					if v := w.vl(s, in, g.Channels[c].OutPort, c, sl); v < 15 {
						come(inBuffer{l, sl, c, v}, w.now)
					}
				}
			}
		}
	}
	for k := range w.here {
		queue = append(queue, k)
	}
	go_ := func(k goesOn) {
		if w.up[k.next] {
			come(inBuffer{k.lid, k.sl, k.next, k.nextLane}, w.now)
		}
	}
	for k := range w.goes {
		go_(k)
	}
	for len(queue) > 0 {
		k := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		h := &g.Channels[k.c]
		c := out(h.To, k.lid)
		if c < 0 {
			continue
		}
		if v := w.vl(h.To, h.InPort, g.Channels[c].OutPort, c, k.sl); v < 15 {
			on := goesOn{k, c, v}
			if at, ok := w.goes[on]; !ok || at < w.here[k] {
				w.goes[on] = w.here[k]
				go_(on)
			}
		}
	}
	w.verify()
}

// verify looks for packets that wait for each other, and for entries that go round.
func (w *traffic) verify() {
	if w.bad != "" {
		return
	}
	type buffer struct{ c, lane int32 }
	waits := map[buffer][]goesOn{}
	into := map[buffer]int{}
	for k := range w.goes {
		if w.up[k.c] && w.up[k.next] { // nobody waits for a link that is down
			waits[buffer{k.c, k.lane}] = append(waits[buffer{k.c, k.lane}], k)
			into[buffer{k.next, k.nextLane}]++
		}
	}
	// Buffers that nobody waits for are on no cycle.
	var free []buffer
	for b := range waits {
		if into[b] == 0 {
			free = append(free, b)
		}
	}
	for len(free) > 0 {
		b := free[len(free)-1]
		free = free[:len(free)-1]
		for _, k := range waits[b] {
			n := buffer{k.next, k.nextLane}
			if into[n]--; into[n] == 0 {
				free = append(free, n)
			}
		}
		delete(waits, b)
	}
	for b := range waits {
		w.bad = fmt.Sprintf("at %v %d buffers are full of packets that wait for each other, among them lane %d behind switch %d port %d",
			w.now, len(waits), b.lane, w.g.Channels[b.c].From, w.g.Channels[b.c].OutPort)
		return
	}
	for l := ib.LID(1); l <= w.top; l++ {
		for s := range int32(len(w.row)) {
			u := s
			for hops := 0; int(l) < len(w.row[u]); hops++ {
				e := int(w.row[u][l])
				if e >= len(w.g.PortChannel[u]) || w.g.PortChannel[u][e] < 0 {
					break
				}
				if hops > len(w.row) {
					w.bad = fmt.Sprintf("at %v packets to LID %d go round at switch %d", w.now, l, u)
					return
				}
				c := w.g.PortChannel[u][e]
				if !w.up[c] {
					break // what is sent there is lost
				}
				u = w.g.Channels[c].To
			}
		}
	}
}

// moment is the time between two events.
func (w *traffic) moment() {
	w.pass(time.Duration(w.rng.Int64N(int64(w.stay) / 20)))
	w.flow()
}

// set is a Set of one table that is repeated until it is answered: requests and answers may be
// lost, and copies come late, during later stages and plans too. But no copy comes after the
// answer to a later Set or Get of the same table: no plan can hold against that, and where it
// is possible a manager reads the table again, after the time that a copy can be under way.
func (w *traffic) set(table [4]int, apply func()) (answered bool) {
	w.late = slices.DeleteFunc(w.late, func(l lateSet) bool { return l.table == table })
	for range 4 {
		w.moment()
		if len(w.late) > 0 && w.rng.IntN(3) == 0 {
			w.arrive(w.rng.IntN(len(w.late)))
		}
		switch w.rng.IntN(8) {
		case 0: // lost on the way there
		case 1: // the answer is lost
			apply()
		case 2: // it is held up, and repeated
			w.late = append(w.late, lateSet{table, apply})
		default:
			apply()
			if w.rng.IntN(4) == 0 { // doubled
				w.late = append(w.late, lateSet{table, apply})
			}
			answered = true
		}
		if w.flow(); answered {
			return true
		}
	}
	return false
}

// arrive lets a late copy come.
func (w *traffic) arrive(i int) {
	l := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	l.apply()
	w.flow()
	w.moment()
}

// carry carries out a plan in an order of its stages, until in the middle of one at most, and
// calls each when all of a stage was answered. It reports whether the whole plan was.
func (w *traffic) carryOut(p *transition.Plan, order []int, wanted *route.Tables, stop int, wait bool, each func()) (whole bool) {
	for i, k := range order {
		st := &p.Stages[k]
		if i == len(order)-1 && p.NeedsRepath {
			w.tell(wanted)
		}
		type write struct {
			table [4]int
			apply func()
		}
		var sets []write
		for _, b := range st.LFT {
			var data [route.BlockLen]byte
			p.Block(k, b, &data)
			sets = append(sets, write{[4]int{0, int(b.Switch), int(b.Block)}, func() {
				row := &w.row[b.Switch]
				for len(*row) < (int(b.Block)+1)*route.BlockLen {
					*row = append(*row, route.Drop)
				}
				copy((*row)[int(b.Block)*route.BlockLen:], data[:])
			}})
		}
		for _, t := range st.SL2VL {
			sets = append(sets, write{[4]int{1, int(t.Switch), int(t.In), int(t.Out)}, func() {
				w.lane[[3]int{int(t.Switch), int(t.In), int(t.Out)}] = wanted
			}})
		}
		answered := true
		for j, n := range w.rng.Perm(len(sets)) {
			if i == stop && j*2 >= len(sets) {
				return false
			}
			answered = w.set(sets[n].table, sets[n].apply) && answered
		}
		w.moment()
		if !answered {
			return false // what is in doubt is read back
		}
		each()
		if st.Repath > 0 && p.NeedsRepath {
			w.tell(wanted)
		}
		if d := st.Drain + st.Repath; d > 0 && wait {
			w.pass(d)
			w.flow()
		}
	}
	return true
}

// tell tells hosts new levels.
func (w *traffic) tell(t *route.Tables) {
	last := &w.told[len(w.told)-1]
	if last.t == t {
		return
	}
	if last.t.SL == nil && t.SL == nil {
		last.t = t
		return
	}
	last.until = w.now + repathTime
	w.told = append(w.told, toldLevels{t, forEver})
	w.flow()
}

const repathTime = 30 * time.Second
