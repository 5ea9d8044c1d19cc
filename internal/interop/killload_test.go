package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/jointest"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/ibsim"
	"heddle/transport/rmpp"
)

// The hosts of a subnet whose managers are killed, by their number: managers are on the first three.
const (
	killRegistrar = 3
	killWatch     = 5
	killReader    = 6
	killTenant    = 7 // it and all after it have a P_Key of their own
	killFirst     = 8 // it and all after it join and leave
)

// killSize is how large a load is.
type killSize struct {
	net    testNet
	groups int
	every  time.Duration // the time from one operation of a host to the next one
	joins  int           // acknowledged before each kill
}

// quickKills is a load for a machine that does other things too.
var quickKills = killSize{smallTree, 8, 5 * time.Millisecond, 200}

// killSizes returns the number of kills and the size of the load. With HEDDLE_LONG 500 hosts begin 10,000 operations a
// second, half of which are joins.
func killSizes(quick int) (kills int, s killSize) {
	if os.Getenv("HEDDLE_LONG") != "" {
		return rounds(quick, 100), killSize{testNet{name: "tree", gen: []string{"fattree", "648"}}, 50, 50 * time.Millisecond, 10_000}
	}
	return rounds(quick, 100), quickKills
}

// killLong is a takeover after which the managers' logs are shown.
const killLong = 2 * time.Second

// killLoad is a load of hosts that join and leave while managers are killed, and what is measured.
type killLoad struct {
	*jointest.Churn
	t       *testing.T
	size    killSize
	sock    string
	queries *watch
	reader  *tableReader
	ports   map[string]string // LIDs and P_Keys of the hosts
	lids    map[ib.GUID]ib.LID

	// managers are shown when a takeover takes long.
	managers func() []program
	// whole: nothing has failed yet; nil: that is known.
	whole func() bool

	silent, waited, rates map[string][]float64 // by what was killed: s, s, joins/s
	members, doubt        int
}

// killPolicy writes partitions with one that some hosts have, for ctl partitions apply.
func (b *built) killPolicy(t *testing.T) string {
	t.Helper()
	var list []string
	for _, id := range b.cas[killTenant:min(len(b.cas), killTenant+50)] {
		list = append(list, fmt.Sprintf("%v=full", b.portGUID(id)))
	}
	name := filepath.Join(b.dir, "kill.conf")
	text := "Default=0x7fff, ipoib : ALL=full ;\nTenant=0x0042 : " + strings.Join(list, ", ") + " ;\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// newKillLoad starts the load when the subnet is up. api is a manager that takes changes.
func newKillLoad(t *testing.T, b *built, sock string, size killSize, api string) *killLoad {
	t.Helper()
	must(t, upTime, b.dir, nil, heddle, "ctl", "partitions", "apply", b.killPolicy(t), "--api", api)
	hosts, err := jointest.Attach(sock, b.cas[killFirst:min(len(b.cas), killFirst+500)])
	t.Cleanup(func() { jointest.Close(hosts) })
	if err != nil {
		t.Fatal(err)
	}
	k := &killLoad{
		t: t, size: size, sock: sock, silent: map[string][]float64{}, waited: map[string][]float64{}, rates: map[string][]float64{},
		queries: watchLID(t, sock, b.cas[killWatch], b.portGUID(b.cas[killReader]), 0),
		reader:  newTableReader(t, sock, b.cas[killReader]),
	}
	k.Churn = jointest.NewChurn(hosts, size.groups, size.every)
	t.Cleanup(k.End)
	await(t, "the hosts of the partition have its P_Key", func() bool {
		k.ports = k.look()
		return strings.Contains(k.ports[b.cas[killFirst]], ib.PKey(0x8042).String())
	})
	k.lids = k.reader.lids()
	return k
}

// look reads the LIDs and P_Keys of the hosts.
func (k *killLoad) look() map[string]string {
	k.t.Helper()
	list, err := k.Ports(need.Patience)
	if err != nil {
		k.t.Fatal(err)
	}
	return list
}

// until waits for the load.
func (k *killLoad) until(what string, ok func() bool) {
	k.t.Helper()
	for end := time.Now().Add(need.Patience); !ok(); <-time.After(2 * time.Millisecond) {
		if err := k.Err(); err != nil {
			k.t.Fatal(err)
		}
		if time.Now().After(end) {
			joins, leaves, busy, again := k.Acknowledged()
			k.t.Fatalf("not seen: %s; %d operations have no answer; %d joins and %d leaves were acknowledged, %d requests were BUSY, %d were sent again",
				what, k.Open(), joins, leaves, busy, again)
		}
	}
}

// round has kill end something under load, and waits until all hosts are answered again. In one half of the groups
// nothing is asked after the kill, so what was acknowledged before it must be there. In the other half the load goes on.
// When settled returns, the SA is asked for all members.
func (k *killLoad) round(n int, what string, kill func(), settled func()) {
	k.t.Helper()
	began := time.Now()
	before, _, _, _ := k.Acknowledged()
	k.Go()
	k.until("joins before the kill", func() bool {
		joins, _, _, _ := k.Acknowledged()
		return joins >= before+k.size.joins && (k.whole == nil || k.whole())
	})
	joins, _, _, _ := k.Acknowledged()
	k.rates[what] = append(k.rates[what], float64(joins-before)/time.Since(began).Seconds())
	k.queries.answered(k.t)
	k.queries.longest()
	k.Hold(n % 2)
	at := time.Now()
	kill()
	k.Mark()
	var last time.Time
	k.until("all hosts are answered after the kill", func() (ok bool) { last, ok = k.Answered(); return ok })
	k.queries.answered(k.t)
	silent, waited := k.queries.longest().Seconds(), last.Sub(at).Seconds()
	k.silent[what], k.waited[what] = append(k.silent[what], silent), append(k.waited[what], waited)
	if os.Getenv("HEDDLE_LONG") != "" {
		k.t.Logf("%d, %s: %.0f joins/s; without an answer for %.3f s, the last host is answered after %.3f s", n, what, k.rates[what][len(k.rates[what])-1], silent, waited)
		if max(silent, waited) > killLong.Seconds() {
			k.show()
		}
	}
	settled()
	k.Rest()
	k.until("nothing is open", func() bool { return k.Open() == 0 })
	k.compare(what)
}

// show logs what the managers said.
func (k *killLoad) show() {
	k.t.Helper()
	for i, p := range k.managers() {
		said := p.Output()
		k.t.Logf("manager %d:\n%s", i, said[max(0, len(said)-20_000):])
	}
}

// compare asks the SA for all members, and the ports for LIDs and P_Keys.
func (k *killLoad) compare(what string) {
	k.t.Helper()
	var d jointest.Compared
	for range 100 { // an answer may come before what it acknowledges is published
		if d = k.diff(); len(d.Lost)+len(d.Extra) == 0 {
			break
		}
		<-time.After(askAgain)
	}
	k.members, k.doubt = k.members+d.Members, k.doubt+d.Doubt
	if len(d.Lost) > 0 || len(d.Extra) > 0 {
		k.show()
		k.t.Fatalf("after %s: %d memberships were acknowledged and are lost, %d are there that nobody has:\n%s\n%s", what, len(d.Lost), len(d.Extra),
			strings.Join(d.Lost[:min(len(d.Lost), 20)], "\n"), strings.Join(d.Extra[:min(len(d.Extra), 20)], "\n"))
	}
	if d.Members == 0 {
		k.t.Errorf("after %s there is no member", what)
	}
	for host, has := range k.look() {
		if has != k.ports[host] {
			k.t.Errorf("after %s %s has %s; it had %s", what, host, has, k.ports[host])
		}
	}
	if now := k.reader.lids(); !maps.Equal(now, k.lids) {
		k.t.Errorf("after %s LIDs moved: %v; before %v", what, now, k.lids)
	}
}

// diff asks the SA for all members.
func (k *killLoad) diff() jointest.Compared {
	k.t.Helper()
	have := k.reader.members(k.size.groups)
	return k.Compare(func(group int, port ib.GUID) bool { return have[group][port] })
}

// report logs what was measured.
func (k *killLoad) report() {
	k.t.Helper()
	joins, leaves, busy, again := k.Acknowledged()
	k.t.Logf("%d joins and %d leaves were acknowledged, %d requests were BUSY, %d were sent again; %d memberships were compared and are there, %d operations in doubt",
		joins, leaves, busy, again, k.members, k.doubt)
	for _, what := range slices.Sorted(maps.Keys(k.silent)) {
		for _, l := range []struct {
			what string
			list []float64
		}{
			{"joins/s before", k.rates[what]},
			{"no query is answered for, s", k.silent[what]},
			{"the last host is answered after, s", k.waited[what]},
		} {
			slices.Sort(l.list)
			n := len(l.list)
			k.t.Logf("%s, %d times, %s: least %.3f, median %.3f, p90 %.3f, p99 %.3f, most %.3f", what, n, l.what,
				l.list[0], l.list[n/2], l.list[n*9/10], l.list[n*99/100], l.list[n-1])
		}
	}
}

// TestKillLoad: the comparison names a membership that the SA has lost, and one that nobody asked for.
func TestKillLoad(t *testing.T) {
	size := quickKills
	b := size.net.build(t)
	_, env := b.simulate(t)
	sock, addr := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="), need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+sock, "--api", addr, "--sa-key", "1")
	sm.await("SUBNET UP\n", 0, upTime)
	k := newKillLoad(t, &b, sock, size, addr)
	k.round(0, "nothing", func() {}, func() {})
	have := k.reader.members(size.groups)
	group := slices.IndexFunc(have, func(m map[ib.GUID]bool) bool { return len(m) > 0 })
	port := slices.Min(slices.Collect(maps.Keys(have[group])))
	change := func(how ib.Method, group int, port ib.GUID) {
		t.Helper()
		m := jointest.Request(how, group, port)
		if st := ib.Status(binary.BigEndian.Uint16(k.reader.ask(&m)[4:])); st != 0 {
			t.Fatalf("%v: %s", how, st.Text(ib.ClassSA))
		}
	}
	change(ib.MethodDelete, group, port)
	await(t, "a membership is lost", func() bool { return len(k.diff().Lost) == 1 && len(k.diff().Extra) == 0 })
	change(ib.MethodSet, group, port)
	await(t, "it is back", func() bool { return len(k.diff().Lost) == 0 })
	for _, id := range b.cas[killFirst:] {
		for g := range have {
			if p := b.portGUID(id); !have[g][p] {
				change(ib.MethodSet, g, p)
				await(t, "there is one that nobody asked for", func() bool { return len(k.diff().Extra) == 1 && len(k.diff().Lost) == 0 })
				return
			}
		}
	}
	t.Fatal("all hosts are members of all groups")
}

// tableReader asks the SA for tables, which come in many segments.
type tableReader struct {
	t    *testing.T
	c    *ibsim.Conn
	port *rmpp.Port
	in   chan []byte
	tid  uint64
}

func newTableReader(t *testing.T, sock, node string) *tableReader {
	t.Helper()
	c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: node, Reassembles: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &tableReader{t: t, c: c, port: rmpp.Over(c), in: make(chan []byte, 16)}
	t.Cleanup(func() { r.port.Close() })
	go func() {
		for {
			var p mad.Packet
			if r.port.Recv(&p) != nil {
				return
			}
			if p.Status == mad.Received && len(p.Data) >= sa.HeaderLen && ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]).IsResponse() {
				r.in <- slices.Clone(p.Data)
			}
		}
	}()
	return r
}

// ask sends a request with the SM_Key 1, again after a while without an answer, and returns the answer.
func (r *tableReader) ask(m *ib.MAD) []byte {
	r.t.Helper()
	binary.BigEndian.PutUint64(m[36:], 1)
	for end := time.Now().Add(need.Patience); time.Now().Before(end); {
		pi, err := r.c.PortInfo(1)
		if err != nil {
			continue // the simulator was late
		}
		r.tid++
		m.SetTID(r.tid)
		if err := r.port.Send(&mad.Packet{Addr: mad.Addr{LID: pi.MasterSMLID, QP: 1}, LocalQP: 1, Data: m[:]}); err != nil {
			r.t.Fatal(err)
		}
		late := time.After(time.Second)
		for waits := true; waits; {
			select {
			case b := <-r.in:
				if uint32(binary.BigEndian.Uint64(b[8:])) != uint32(r.tid) {
					continue
				}
				if ib.Status(binary.BigEndian.Uint16(b[4:])) != ib.StatusBusy {
					return b
				}
				<-late
				waits = false
			case <-late:
				waits = false
			}
		}
	}
	r.t.Fatalf("%v of attribute %#x gets no answer", m.Method(), uint16(m.AttrID()))
	return nil
}

// table asks for records of an attribute.
func (r *tableReader) table(attr ib.AttrID, mask sa.CompMask, put func(*ib.MAD), record func([]byte)) {
	r.t.Helper()
	var m ib.MAD
	sa.New(&m, ib.MethodGetTable, attr, 0, mask)
	put(&m)
	b := r.ask(&m)
	switch st := ib.Status(binary.BigEndian.Uint16(b[4:])); st {
	case ib.StatusSANoRecords:
	case 0:
		records(b, record)
	default:
		r.t.Fatalf("GetTable %#x: %s", uint16(attr), st.Text(ib.ClassSA))
	}
}

// records cuts an answer into records.
func records(b []byte, record func([]byte)) {
	var h sa.Header
	if h.Decode(b) != nil || h.AttrOffset == 0 {
		return
	}
	for rest, n := b[sa.HeaderLen:], 8*int(h.AttrOffset); len(rest) >= n; rest = rest[n:] {
		record(rest[:n])
	}
}

// members are the members of groups, by the GUIDs of their ports.
func (r *tableReader) members(groups int) []map[ib.GUID]bool {
	r.t.Helper()
	list := make([]map[ib.GUID]bool, groups)
	for g := range list {
		list[g] = map[ib.GUID]bool{}
		r.table(sa.AttrMCMemberRecord, sa.MCMemberCompMGID, func(m *ib.MAD) {
			want := sa.MCMemberRecord{MGID: jointest.MGID(g)}
			want.Put(sa.Data(m))
		}, func(b []byte) {
			var is sa.MCMemberRecord
			if err := is.Decode(b); err != nil {
				r.t.Fatal(err)
			}
			if is.PortGID != (ib.GID{}) {
				list[g][is.PortGID.GUID()] = true
			}
		})
	}
	return list
}

// lids are the LIDs of all ports that have one.
func (r *tableReader) lids() map[ib.GUID]ib.LID {
	r.t.Helper()
	list := map[ib.GUID]ib.LID{}
	r.table(sa.AttrNodeRecord, 0, func(*ib.MAD) {}, func(b []byte) {
		var is sa.NodeRecord
		if err := is.Decode(b); err != nil {
			r.t.Fatal(err)
		}
		list[is.NodeInfo.PortGUID] = is.LID
	})
	return list
}
