package sa_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// TestTranscripts runs the scenarios of testdata, one a file: what a subnet
// administrator is told, and everything that it wants done, in its order. Hosts H1,
// H2, … on one switch have LIDs 2, 3, …; MGIDs are written as their last number
// (ff12:a01c::NUMBER), bcast is the broadcast group. Commands:
//
//	start [hosts=N] [must-save]  the SA starts with what its store holds, on a subnet of N hosts (4);
//	                        nothing is acknowledged that is not stored
//	subnet [without H…]     the subnet manager publishes the subnet, without some hosts
//	programmed              … and has written the alias GUIDs
//	ask                     requests that come together, one a line:
//	                        join HOST MGID [full|non|sendonly], leave HOST MGID [full|non|sendonly], members HOST MGID,
//	                        register HOST ID NAME [SECONDS], deregister HOST ID, service HOST ID,
//	                        subscribe HOST [TRAP], unsubscribe HOST [TRAP],
//	                        alias HOST INDEX GUID, unalias HOST INDEX, path HOST HOST
//	trap HOST NUMBER        the subnet manager accepted a trap of that host
//	ack HOST                the host acknowledges the Reports that were sent to it
//	store fail=N            the next N writes of the store fail
//	run D                   time passes
//	show                    what the SA keeps, as queries see it
//
// A line of what happens begins with who has to do it: store, reply (which needed the
// core), answer (which needed only what is published), report, sm, event.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		b := &desk{t: t, store: store.NewMemory(), wall: 1_700_000_000_000_000_000}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.t = t
			b.text.Reset()
			b.do(d)
			if b.text.Len() == 0 {
				return "nothing\n"
			}
			return b.text.String()
		})
	})
}

// desk is a core whose shell writes down what it does.
type desk struct {
	t        *testing.T
	core     *sa.Core
	store    *store.Memory
	snap     *subnet.Snapshot
	view     *sa.View
	hosts    int
	now      mad.Time
	wall     int64 // Unix nanoseconds at now
	wanted   sa.Output
	aliases  []subnet.Alias
	reports  []mad.Packet // that nobody has acknowledged
	asked    []string     // requests whose reply has not come, by transaction ID
	unsure   bool         // of requests
	promised []store.Record
	text     strings.Builder
}

func (b *desk) say(format string, args ...any) { fmt.Fprintf(&b.text, format+"\n", args...) }

// lid is that of a host.
func (b *desk) lid(host string) ib.LID {
	n, err := strconv.Atoi(strings.TrimPrefix(host, "H"))
	if err != nil || n < 1 {
		b.t.Fatalf("no host %q", host)
	}
	return ib.LID(n + 1)
}

func hostOf(lid ib.LID) string { return fmt.Sprintf("H%d", lid-1) }

// hostWith is the host with a port GUID of snapshot.
func hostWith(g ib.GUID) string { return fmt.Sprintf("H%d", (g-0x1001)/16) }

func mgidOf(s string) ib.GID {
	if s == "bcast" {
		return bcast
	}
	return gid("ff12:a01c::" + s)
}

func mgidName(g ib.GID) string {
	if g == bcast {
		return "bcast"
	}
	return strings.TrimPrefix(g.String(), "ff12:a01c::")
}

// gidName is a host, or a group.
func gidName(g ib.GID) string {
	if g.IsMulticast() {
		return "group " + mgidName(g)
	}
	return hostWith(g.GUID())
}

func (b *desk) do(d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "start":
		if b.hosts = 4; d.HasArg("hosts") {
			d.ScanArgs(b.t, "hosts", &b.hosts)
		}
		st, err := b.store.Load()
		if err != nil {
			b.t.Fatal(err)
		}
		b.core, b.view, b.now, b.reports = sa.NewCore(usual(sa.Config{SAKey: saKey, AssignedGUIDByte: 9, MustSave: d.HasArg("must-save")})), nil, 0, nil
		b.step(sa.Start{Records: st.Records, Wall: b.wall})
		b.publish(b.subnet())
	case "subnet":
		s := b.subnet()
		if d.HasArg("without") {
			var gone []ib.LID
			for _, a := range d.CmdArgs[1:] {
				gone = append(gone, b.lid(a.Key))
			}
			s = without(s, gone...)
		}
		b.publish(s)
	case "programmed":
		s := b.subnet()
		for _, a := range b.aliases {
			p := s.Ports[s.PortByPortGUID(a.Port)]
			for len(p.Aliases) <= int(a.Index) {
				p.Aliases = append(p.Aliases, 0)
			}
			p.Aliases[a.Index] = a.GUID
		}
		s.Finish()
		b.publish(s)
	case "ask":
		b.unsure = d.HasArg("unsure")
		b.ask(strings.Split(d.Input, "\n"))
	case "redeem":
		b.redeem()
	case "trap":
		n, err := strconv.Atoi(arg(1))
		if err != nil {
			b.t.Fatal(err)
		}
		from := b.lid(arg(0))
		b.step(sa.Trap{Notice: smp.NewTrap(uint16(n), smp.ProducerCA, from, nil), From: mad.Addr{LID: from}})
	case "ack":
		list := b.reports
		b.reports = nil
		for _, p := range list {
			if p.Addr.LID != b.lid(arg(0)) {
				b.reports = append(b.reports, p)
				continue
			}
			p.Data[3] |= byte(ib.MethodResponseBit)
			b.step(sa.Received{P: &mad.Packet{Addr: p.Addr, Data: p.Data}}) // it may send the next
		}
	case "store":
		d.ScanArgs(b.t, "fail", &b.store.FailNext)
	case "run":
		b.run(arg(0))
	case "show":
		b.show()
	default:
		b.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

func (b *desk) subnet() *subnet.Snapshot {
	s := up(b.hosts)
	for i := range s.Ports {
		s.Ports[i].Info.GUIDCap = 12
	}
	return s
}

func (b *desk) publish(s *subnet.Snapshot) {
	b.snap = s
	b.step(sa.Published{Snap: s})
}

func (b *desk) run(s string) {
	dur, err := time.ParseDuration(s)
	if err != nil {
		b.t.Fatal(err)
	}
	for end := b.now.Add(dur); b.now < end; {
		next := min(end, max(b.now, b.wanted.Timer))
		b.wall += int64(next - b.now)
		if b.now = next; b.wanted.Timer > end {
			return
		}
		before := b.text.Len()
		b.step(sa.Timer{})
		if b.text.Len() > before {
			all := b.text.String()
			b.text.Reset()
			b.text.WriteString(all[:before])
			b.say("at %v:", time.Duration(b.now))
			b.text.WriteString(all[before:])
		}
	}
}

// ask answers requests as workers do, and hands the others to the core together.
func (b *desk) ask(lines []string) {
	var list []sa.Request
	for _, l := range lines {
		w := strings.Fields(l)
		q := b.request(w)
		(*ib.MAD)(q).SetTID(uint64(len(b.asked)))
		b.asked = append(b.asked, l)
		req := sa.Request{From: mad.Addr{LID: b.lid(w[1]), QP: 1}, Data: q}
		data, v := sa.Answer(&sa.Source{Snap: b.snap, View: b.view, Opt: &sa.Options{SAKey: saKey}}, &req, nil)
		switch v {
		case sa.Answered:
			b.answer("answer", data)
		case sa.ForCore:
			list = append(list, req)
		case sa.Drop:
			b.say("answer: %s: none", l)
		}
	}
	if len(list) > 0 {
		b.step(sa.Requests{List: list, Unsure: b.unsure})
	}
}

// redeem writes what was promised, as far as the store does not have it.
func (b *desk) redeem() {
	st, err := b.store.Load()
	if err != nil {
		b.t.Fatal(err)
	}
	ops, dropped := sa.Redeem(st, b.promised)
	for i := range ops {
		b.say("store: put %s", tableNames[ops[i].Record.Table])
	}
	for _, g := range dropped {
		b.say("dropped: group %s", mgidName(g))
	}
	if err := b.store.Apply(ops); err != nil {
		b.t.Fatal(err)
	}
}

// request makes a request of a line of ask.
func (b *desk) request(w []string) []byte {
	lid := b.lid(w[1])
	method := ib.MethodSet
	switch w[0] {
	case "leave", "deregister", "unalias":
		method = ib.MethodDelete
	case "service", "path":
		method = ib.MethodGet
	case "members":
		method = ib.MethodGetTable
	}
	switch w[0] {
	case "join":
		r := joining(mgidOf(w[2]), lid, joinState(w[3:]))
		return ask(method, wire.AttrMCMemberRecord, maskCreate, &r)
	case "leave":
		r := joining(mgidOf(w[2]), lid, joinState(w[3:]))
		return ask(method, wire.AttrMCMemberRecord, maskJoin, &r)
	case "members":
		return trusted(ask(method, wire.AttrMCMemberRecord, wire.MCMemberCompMGID, &wire.MCMemberRecord{MGID: mgidOf(w[2])}), saKey)
	case "register", "deregister", "service":
		id, err := strconv.ParseUint(w[2], 0, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		r, mask := serviceOf(id, int(lid)-1, ""), compRID
		if w[0] == "service" {
			mask = wire.ServiceCompServiceID
		}
		if len(w) > 3 {
			copy(r.ServiceName[:], w[3])
		}
		if len(w) > 4 {
			n, err := strconv.ParseUint(w[4], 10, 32)
			if err != nil {
				b.t.Fatal(err)
			}
			r.ServiceLease, mask = uint32(n), mask|wire.ServiceCompServiceLease
		}
		return ask(method, wire.AttrServiceRecord, mask, r)
	case "subscribe", "unsubscribe":
		change := func(r *wire.InformInfo) {
			if len(w) > 2 {
				n, err := strconv.ParseUint(w[2], 10, 16)
				if err != nil {
					b.t.Fatal(err)
				}
				r.TrapNumber = uint16(n)
			}
		}
		if w[0] == "unsubscribe" {
			return leave(change)
		}
		return inform(change)
	case "alias", "unalias":
		i, err := strconv.Atoi(w[2])
		if err != nil {
			b.t.Fatal(err)
		}
		var g ib.GUID
		if len(w) > 3 {
			if g, err = ib.ParseGUID(w[3]); err != nil {
				b.t.Fatal(err)
			}
		}
		x, mask := guidInfo(lid, 0, map[int]ib.GUID{i: g})
		return ask(method, wire.AttrGUIDInfoRecord, mask|compBlock, x)
	case "path":
		r := wire.PathRecord{SGID: hostGID(lid), DGID: hostGID(b.lid(w[2]))}
		return ask(method, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &r)
	}
	b.t.Fatalf("no request %q", w)
	return nil
}

func joinState(w []string) uint8 {
	switch {
	case len(w) == 0 || w[0] == "full":
		return wire.JoinFull
	case w[0] == "non":
		return wire.JoinNon
	}
	return wire.JoinSendOnly
}

// answer writes down an answer and what it says.
func (b *desk) answer(who string, data []byte) {
	line := b.asked[binary.BigEndian.Uint64(data[8:])&0xFFFF]
	if st := status(data); st != 0 {
		b.say("%s: %s: %v", who, line, st)
		return
	}
	b.say("%s: %s: done%s", who, line, b.details(ib.AttrID(binary.BigEndian.Uint16(data[16:])), ib.Method(data[3]), data))
}

func (b *desk) details(attr ib.AttrID, method ib.Method, data []byte) string {
	body := data[wire.HeaderLen:]
	must := func(err error) {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	switch {
	case attr == wire.AttrMCMemberRecord && method == ib.MethodGetTableResp:
		var out strings.Builder
		for _, r := range records(b.t, data) {
			var x wire.MCMemberRecord
			must(x.Decode(r))
			out.WriteString(fmt.Sprintf(", %s (%s)", hostWith(x.PortGID.GUID()), states(x.JoinState)))
		}
		return out.String()
	case attr == wire.AttrMCMemberRecord:
		var x wire.MCMemberRecord
		must(x.Decode(body))
		if x.JoinState == 0 {
			return ", not a member any more"
		}
		return fmt.Sprintf(", MLID %v, Q_Key %#x, joined as %s", x.MLID, uint32(x.QKey), states(x.JoinState))
	case attr == wire.AttrPathRecord:
		var x wire.PathRecord
		must(x.Decode(body))
		return fmt.Sprintf(", LID %v to LID %v, %d bytes, %v", x.SLID, x.DLID, x.MTU.Bytes(), x.Rate)
	case attr == wire.AttrServiceRecord:
		var x wire.ServiceRecord
		must(x.Decode(body))
		return fmt.Sprintf(", %q at %s, %s", x.Name(), hostWith(x.ServiceGID.GUID()), seconds(x.ServiceLease))
	case attr == wire.AttrGUIDInfoRecord:
		var x wire.GUIDInfoRecord
		must(x.Decode(body))
		var out strings.Builder
		for i, g := range x.GUIDInfo {
			if g != 0 {
				out.WriteString(fmt.Sprintf(", %d: %v", i, g))
			}
		}
		return out.String()
	}
	return ""
}

func seconds(n uint32) string {
	if n == wire.ServiceLeaseForever {
		return "forever"
	}
	return fmt.Sprintf("for %d s", n)
}

func states(b uint8) string {
	var out []string
	for i, n := range [...]string{"full", "non", "sendonly"} {
		if b&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, "+")
}

var tableNames = map[store.Table]string{
	store.TableGroups: "group", store.TableMembers: "member", store.TableServices: "service",
	store.TableSubscriptions: "subscription", store.TableAliases: "alias", store.TablePathHistory: "path history",
}

// step gives the core an event and writes down what it wants, in that order.
func (b *desk) step(ev sa.Event) {
	for ev != nil {
		out := &b.wanted
		out.Reset()
		b.core.Step(b.now, ev, out)
		ev = nil
		if len(out.Persist) > 0 {
			for i := range out.Persist {
				verb := "put"
				if out.Persist[i].Kind == store.DeleteRecord {
					verb = "delete"
				}
				b.say("store: %s %s", verb, tableNames[out.Persist[i].Record.Table])
			}
			err := b.store.Apply(out.Persist)
			if err != nil {
				b.say("store: it fails: %v", err)
			}
			ev = sa.Persisted{Gen: out.PersistGen, Err: err}
		}
		if out.Publish != nil {
			b.view = out.Publish
		}
		for i := range out.Promised {
			b.say("promised: %s", tableNames[out.Promised[i].Table])
		}
		b.promised = append(b.promised, out.Promised...)
		for i := range out.Replies {
			b.answer("reply", out.Replies[i].Data)
		}
		b.effects(out)
	}
}

func (b *desk) effects(out *sa.Output) {
	for i := range out.Sends {
		p := out.Sends[i]
		p.Data = bytes.Clone(p.Data)
		b.reports = append(b.reports, p)
		r := decodeReport(b.t, p)
		about := ""
		if x, ok := r.n.Detail().(smp.DetailGID); ok {
			about = " about " + gidName(x.GID)
		}
		b.say("report: to %s: trap %d%s", hostOf(r.to), r.n.TrapNumber, about)
	}
	if out.GroupsChanged {
		for i := range out.Groups {
			g := &out.Groups[i]
			var line strings.Builder
			for _, m := range g.Members {
				line.WriteString(" " + hostWith(m))
			}
			b.say("sm: group %s, MLID %v:%s", mgidName(g.MGID), g.MLID, line.String())
		}
		if len(out.Groups) == 0 {
			b.say("sm: no groups")
		}
	}
	if out.AliasesChanged {
		b.aliases = out.Aliases
		for _, a := range out.Aliases {
			b.say("sm: alias GUID %v at index %d of %s", a.GUID, a.Index, hostWith(a.Port))
		}
		if len(out.Aliases) == 0 {
			b.say("sm: no alias GUIDs")
		}
	}
	for _, n := range out.Notices {
		b.say("event: %s: %s", n.Kind, n.Text)
	}
}

func (b *desk) show() {
	for _, g := range b.view.Groups {
		var line strings.Builder
		for _, m := range g.Members {
			line.WriteString(fmt.Sprintf(" %s (%s)", hostWith(m.PortGID.GUID()), states(m.JoinState)))
		}
		b.say("group %s, MLID %v:%s", mgidName(g.MGID), g.MLID, line.String())
	}
	for _, s := range b.view.Services {
		b.say("service %#x: %q at %s, %s", s.Record.ServiceID, s.Record.Name(), hostWith(s.Record.ServiceGID.GUID()), seconds(s.Record.ServiceLease))
	}
	for _, s := range b.view.Subs {
		trap := "all traps"
		if n := s.Info.TrapNumber; n != wire.InformAllTraps {
			trap = fmt.Sprintf("trap %d", n)
		}
		b.say("subscription of %s: %s", hostOf(s.Addr.LID), trap)
	}
}
