package vm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// TestTranscripts runs the scenarios of testdata, one per file: the events of an address
// manager, and all of its output in its order. Hypervisors A, B (4 virtual functions each) and
// C (2) are vSwitches; S has a shared port, V has VPorts. A/2 is function 2 of A, A any
// function. Commands:
//
//	start                 the manager starts with what its store holds; what was before is lost
//	subnet [without X…]   the subnet manager publishes the subnet, without some hypervisors
//	subnet down           … which is not up
//	do                    operations, one a line, that come together:
//	                      create NAME [own|shared|floating] [guid=HEX|guid=function] [lid=N] [at=PLACE] [keys=HEX,…],
//	                      attach NAME PLACE, migrate NAME PLACE, move NAME PLACE, finish NAME, rollback NAME,
//	                      detach NAME, delete NAME [force], keys NAME HEX…, member HEX GUID…
//	sm                    what the subnet manager reports of placements, one a line:
//	                      placed|moving|waiting|refused|refused-no-lid NAME PLACE|nowhere [held=PLACE] [LID] [REASON]
//	store fail=N          the next N writes of the store fail
//	crash before|after    the manager dies before or after its next write, at once
//	run D                 time passes
//	stop                  the manager ends in order
//	show                  interfaces as they are published
//
// A line of output begins with its recipient: store, sm (placements and memberships for the
// subnet manager), reply, event.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		b := &desk{t: t, store: store.NewMemory(), asked: map[uint64]string{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.t = t
			b.out.Reset()
			b.do(d)
			if b.out.Len() == 0 {
				return "nothing\n"
			}
			return b.out.String()
		})
	})
}

// desk is a core and a shell that writes down its output.
type desk struct {
	t      *testing.T
	c      *Core
	store  *store.Memory
	now    mad.Time
	wanted Output // of the last step
	view   *View
	tag    uint64
	asked  map[uint64]string // operations without an answer, by tag
	crash  string            // before or after: where the manager dies
	out    strings.Builder
}

var deskPorts = map[string]ib.GUID{"A": hyperA, "B": hyperB, "C": hyperC, "S": sharedA, "V": vportA, "X": absent}

// place reads A or A/2.
func (b *desk) place(s string) subnet.Place {
	if s == "nowhere" {
		return subnet.Place{}
	}
	host, fn, _ := strings.Cut(s, "/")
	g, ok := deskPorts[host]
	n, err := strconv.Atoi("0" + fn)
	if !ok || err != nil {
		b.t.Fatalf("no place %q", s)
	}
	return subnet.Place{Port: g, Function: uint16(n)}
}

// at writes a place as place reads it.
func (b *desk) at(p subnet.Place) string {
	if p == (subnet.Place{}) {
		return "nowhere"
	}
	for host, g := range deskPorts {
		if g == p.Port {
			return strings.TrimSuffix(fmt.Sprintf("%s/%d", host, p.Function), "/0")
		}
	}
	return p.String()
}

// plain writes the text of an event or error with the places of this file.
func (b *desk) plain(s string) string {
	for _, host := range slices.Sorted(maps.Keys(deskPorts)) {
		g := deskPorts[host].String()
		s = strings.ReplaceAll(s, g+"/", host+"/")
		s = strings.ReplaceAll(s, g, host)
	}
	return s
}

func (b *desk) say(format string, args ...any) { fmt.Fprintf(&b.out, format+"\n", args...) }

func (b *desk) do(d *datadriven.TestData) {
	switch d.Cmd {
	case "start":
		b.c, b.asked = New(Config{}), map[uint64]string{}
		st, err := b.store.Load()
		if err != nil {
			b.t.Fatal(err)
		}
		b.step(Start{Records: st.Records})
	case "subnet":
		s := snapshot(nil)
		switch {
		case d.HasArg("down"):
			s.Up = false
		case d.HasArg("without"):
			var gone []ib.GUID
			for _, a := range d.CmdArgs[1:] {
				gone = append(gone, deskPorts[a.Key])
			}
			s = snapshot(gone)
		}
		b.step(Published{s})
	case "do":
		var ev Requests
		for l := range strings.SplitSeq(d.Input, "\n") {
			b.tag++
			b.asked[b.tag] = l
			ev.List = append(ev.List, Request{b.tag, b.op(strings.Fields(l))})
		}
		b.step(ev)
	case "sm":
		var ev Reports
		for l := range strings.SplitSeq(d.Input, "\n") {
			ev.List = append(ev.List, b.report(strings.Fields(l)))
		}
		b.step(ev)
	case "store":
		d.ScanArgs(b.t, "fail", &b.store.FailNext)
	case "crash":
		b.crash = d.CmdArgs[0].Key
	case "stop":
		b.step(Stop{})
	case "run":
		b.run(d.CmdArgs[0].Key)
	case "show":
		b.show()
	default:
		b.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

func (b *desk) run(s string) {
	dur, err := time.ParseDuration(s)
	if err != nil {
		b.t.Fatal(err)
	}
	for end := b.now.Add(dur); b.now < end; {
		if b.wanted.Timer > end {
			b.now = end
			break
		}
		b.now = max(b.now, b.wanted.Timer)
		b.say("at %v:", time.Duration(b.now))
		b.step(Timer{})
	}
}

// op reads a line of do.
func (b *desk) op(w []string) Op {
	name, rest := w[1], w[2:]
	switch w[0] {
	case "create":
		return Create{b.interfaceOf(name, rest)}
	case "attach":
		return Attach{name, b.place(rest[0])}
	case "migrate":
		return Migrate{name, b.place(rest[0])}
	case "move":
		return Move{name, b.place(rest[0])}
	case "finish":
		return Finish{name}
	case "rollback":
		return RollBack{name}
	case "detach":
		return Detach{name}
	case "delete":
		return Delete{name, slices.Contains(rest, "force")}
	case "keys":
		return SetKeys{name, b.keys(rest)}
	case "member":
		op := AddMembers{PKey: b.keys(w[1:2])[0].PKey, Full: true}
		for _, s := range rest {
			g, err := ib.ParseGUID(s)
			if err != nil {
				b.t.Fatal(err)
			}
			op.GUIDs = append(op.GUIDs, g)
		}
		return op
	}
	b.t.Fatalf("no operation %q", w)
	return nil
}

func (b *desk) interfaceOf(name string, words []string) Interface {
	i := Interface{Name: name}
	for _, s := range words {
		k, v, _ := strings.Cut(s, "=")
		var err error
		switch k {
		case "shared":
		case "own":
			i.LIDKind = subnet.OwnLID
		case "floating":
			i.LIDKind = subnet.FloatingLID
		case "guid":
			if v == "function" {
				i.GUIDKind = FunctionGUID
			} else {
				i.GUID, err = ib.ParseGUID(v)
			}
		case "lid":
			var n int
			n, err = strconv.Atoi(v)
			i.LID = ib.LID(n)
		case "at":
			i.Place = b.place(v)
		case "keys":
			i.Keys = b.keys(strings.Split(v, ","))
		default:
			b.t.Fatalf("create: what is %q?", s)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return i
}

// keys reads P_Keys; bit 15 is set for a full member.
func (b *desk) keys(words []string) (list []Membership) {
	for _, s := range words {
		k, err := ib.ParsePKey(s)
		if err != nil {
			b.t.Fatal(err)
		}
		list = append(list, Membership{PKey: k.Base(), Full: k.IsFull()})
	}
	return list
}

// report reads a line of sm.
func (b *desk) report(w []string) subnet.PlacementReport {
	r := subnet.PlacementReport{Place: b.place(w[2])}
	if i := b.view.Interface(w[1]); i != nil {
		r.GUID = i.GUID
	}
	rest := w[3:]
	if len(rest) > 0 && strings.HasPrefix(rest[0], "held=") {
		r.Held, rest = b.place(rest[0][len("held="):]), rest[1:]
	}
	if len(rest) > 0 {
		if n, err := strconv.Atoi(rest[0]); err == nil {
			r.LID, rest = ib.LID(n), rest[1:]
		}
	}
	r.Reason = strings.Join(rest, " ")
	switch w[0] {
	case "placed":
		r.State = subnet.PlacementPlaced
	case "moving":
		r.State = subnet.PlacementMoving
	case "waiting":
		r.State = subnet.PlacementWaiting
	case "refused":
		r.State, r.Cause = subnet.PlacementRefused, subnet.CauseNotTaken
	case "refused-no-lid":
		r.State, r.Cause = subnet.PlacementRefused, subnet.CauseNoLID
	default:
		b.t.Fatalf("sm: what is %q?", w[0])
	}
	return r
}

// step passes an event to the core and writes down its output in order.
func (b *desk) step(ev Event) {
	for ev != nil {
		out := &b.wanted
		out.Reset()
		b.c.Step(b.now, ev, out)
		ev = nil
		if out.PersistGen != 0 {
			if b.died("before") {
				return
			}
			err := b.store.Apply(out.Persist)
			for i := range out.Persist {
				b.say("store: %s", b.record(&out.Persist[i]))
			}
			if err != nil {
				b.say("store: it fails: %v", err)
			}
			if b.died("after") {
				return
			}
			ev = Persisted{out.PersistGen, err}
		}
		if out.Publish != nil {
			b.view = out.Publish
		}
		b.wants(out)
		for i := range out.Replies {
			r := &out.Replies[i]
			answer := "done"
			switch {
			case r.Err != nil:
				answer = b.plain(r.Err.Error())
			case r.Waiting:
				answer = "waiting"
				if why := r.Interface.Reason; why != "" {
					answer += ": " + b.plain(why)
				}
			}
			b.say("reply: %s: %s", b.asked[r.Tag], answer)
			delete(b.asked, r.Tag)
		}
		for _, n := range out.Notices {
			b.say("event: %s: %s", n.Kind, b.plain(n.Text))
		}
	}
}

// died reports whether the manager dies at this point.
func (b *desk) died(when string) bool {
	if b.crash != when {
		return false
	}
	b.crash = ""
	b.say("the manager dies")
	return true
}

// wants writes down the output for the subnet manager.
func (b *desk) wants(out *Output) {
	if out.PartitionsChanged {
		b.say("sm: memberships:%s", b.memberships(out))
	}
	if !out.PlacementsChanged {
		return
	}
	if out.All {
		b.say("sm: these are all placements:")
	}
	for _, l := range out.Put {
		lid := l.LIDKind.String()
		if l.LID != 0 {
			lid = fmt.Sprintf("%s %d", lid, l.LID)
		}
		b.say("sm: %v is to be at %s, LID %s", l.GUID, b.at(l.Place), lid)
	}
	for _, g := range out.Drop {
		b.say("sm: %v ends", g)
	}
}

func (b *desk) memberships(out *Output) string {
	if len(out.Partitions) == 0 {
		return " none"
	}
	var s strings.Builder
	for i := range out.Partitions {
		p := &out.Partitions[i]
		fmt.Fprintf(&s, " %v", p.PKey)
		for _, m := range p.Members {
			fmt.Fprintf(&s, " %v as %v", m.GUID, m.As)
		}
	}
	return s.String()
}

// record is a change of the store, as words.
func (b *desk) record(op *store.Op) string {
	r := &op.Record
	verb := "put"
	if op.Kind == store.DeleteRecord {
		verb = "delete"
	}
	switch {
	case r.Table == store.TableInterfaces && op.Kind == store.PutRecord:
		e, err := decodeInterface(r.Key, r.Value)
		if err != nil {
			b.t.Fatal(err)
		}
		return fmt.Sprintf("put interface %s: %s", e.Name, b.state(&e.Interface))
	case r.Table == store.TableInterfaces:
		return fmt.Sprintf("delete interface %s", r.Key)
	case r.Table == store.TableFunctionGUIDs:
		a, err := decodeFunction(r.Key, r.Value)
		if err != nil {
			b.t.Fatal(err)
		}
		return fmt.Sprintf("%s function %s: GUID %v", verb, b.at(a.Place), a.GUID)
	}
	return fmt.Sprintf("%s membership % x", verb, r.Key)
}

// state is the state of an interface, its places and its operation in progress.
func (b *desk) state(i *Interface) string {
	s := i.State.String()
	if i.Place != (subnet.Place{}) {
		s += " at " + b.at(i.Place)
	}
	if i.Dest != (subnet.Place{}) {
		s += ", place kept at " + b.at(i.Dest)
	}
	if i.LID != 0 {
		s += fmt.Sprintf(", LID %d", i.LID)
	}
	if i.Doing != "" {
		s += ", in progress: " + i.Doing
	}
	if i.Reason != "" {
		s += " (" + b.plain(i.Reason) + ")"
	}
	return s
}

func (b *desk) show() {
	for i := range b.view.All() {
		b.say("%s: GUID %v, %s", i.Name, i.GUID, b.state(i))
	}
	if n := b.view.Journal; n > 0 {
		b.say("%d in progress", n)
	}
}
