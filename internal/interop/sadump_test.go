package interop

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sa"
	"heddle/sa/osmsa"
	"heddle/transport/ibsim"
)

// saClient is a program on a host that asks the SA.
type saClient struct {
	t    *testing.T
	conn *ibsim.Conn
	lid  ib.LID // of the SA
	tid  uint64
	in   chan []byte
}

func newSAClient(t *testing.T, node, sock string, lid ib.LID) *saClient {
	t.Helper()
	conn, err := ibsim.Dial(t.Context(), ibsim.Options{Node: node, SockName: sock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	k := &saClient{t: t, conn: conn, lid: lid, in: make(chan []byte, 16)}
	go func() {
		defer close(k.in)
		var p mad.Packet
		for conn.Recv(&p) == nil {
			k.in <- slices.Clone(p.Data)
		}
	}()
	return k
}

// ask sends a request and returns the data of the answer, which must have
// status 0.
func (k *saClient) ask(method ib.Method, attr ib.AttrID, mask wire.CompMask, key uint64, r interface{ Put([]byte) }) []byte {
	k.t.Helper()
	b := k.answer(method, attr, mask, key, r)
	if st := (*ib.MAD)(b).Status(); st != 0 {
		k.t.Fatalf("attribute %#x: %v", attr, st)
	}
	return b[wire.DataOffset:]
}

// answer sends a request and returns its answer.
func (k *saClient) answer(method ib.Method, attr ib.AttrID, mask wire.CompMask, key uint64, r interface{ Put([]byte) }) []byte {
	k.t.Helper()
	var m ib.MAD
	wire.New(&m, method, attr, 0, mask)
	k.tid++
	m.SetTID(k.tid)
	binary.BigEndian.PutUint64(m[36:], key)
	r.Put(wire.Data(&m))
	if err := k.conn.Send(&mad.Packet{Addr: mad.Addr{LID: k.lid, QP: 1}, LocalQP: 1, Data: m[:]}); err != nil {
		k.t.Fatal(err)
	}
	limit := time.NewTimer(upTime)
	defer limit.Stop()
	for {
		select {
		case b, ok := <-k.in:
			if !ok {
				k.t.Fatal("the port is gone")
			}
			if uint32((*ib.MAD)(b).TID()) != uint32(k.tid) {
				continue
			}
			return b
		case <-limit.C:
			k.t.Fatalf("no answer to attribute %#x", attr)
		}
	}
}

// dumpingOpenSM starts OpenSM on the first CA, with the file in which it keeps
// its SA, and waits until the subnet is up.
func (b *built) dumpingOpenSM(t *testing.T, sock string) (osm program, dump string) {
	t.Helper()
	conf, log := filepath.Join(b.dir, "opensm.conf"), filepath.Join(b.dir, "osm.log")
	if err := os.WriteFile(conf, []byte("force_log_flush TRUE\nsa_db_dump TRUE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	osm = start(t, b.dir, []string{"OSM_TMP_DIR=" + b.dir, "OSM_CACHE_DIR=" + b.dir}, heddle,
		"attach", b.cas[0]+"@"+sock, "--", "opensm", "-F", conf, "-d", "1", "-e", "-f", log, "-D", "0x03")
	waitFile(t, log, "SUBNET UP")
	return osm, filepath.Join(b.dir, "opensm-sa.dump")
}

// TestOpenSMDump: OpenSM's SA dump is read completely: the same groups under the same
// MLIDs, members, subscriptions, services and alias GUIDs.
func TestOpenSMDump(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "opensm")
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	osm, dump := b.dumpingOpenSM(t, sock)

	guid := func(i int) ib.GUID { return b.fab.Nodes[b.fab.Find(b.cas[i])].Ports[1].GUID }
	gid := func(i int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, guid(i)) }
	first := newSAClient(t, b.cas[1], sock, 1)
	first.lid = ib.LID(b.lidOf(t, sock, b.cas[0]))
	second := newSAClient(t, b.cas[2], sock, first.lid)

	// Groups: the broadcast group, and one of our own with two members.
	const join = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	const create = join | wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	broadcast := ib.GID{0: 0xFF, 1: 0x12, 2: 0x40, 3: 0x1B, 4: 0xFF, 5: 0xFF, 12: 0xFF, 13: 0xFF, 14: 0xFF, 15: 0xFF}
	own := ib.GID{0: 0xFF, 1: 0x15, 2: 0xA0, 15: 7}
	first.ask(ib.MethodSet, wire.AttrMCMemberRecord, join, 0, &wire.MCMemberRecord{MGID: broadcast, PortGID: gid(1), JoinState: wire.JoinFull})
	var made wire.MCMemberRecord
	if err := made.Decode(first.ask(ib.MethodSet, wire.AttrMCMemberRecord, create, 0, &wire.MCMemberRecord{
		MGID: own, PortGID: gid(1), JoinState: wire.JoinFull, QKey: 0x1234, PKey: 0xFFFF, TClass: 5, FlowLabel: 0x12345,
	})); err != nil {
		t.Fatal(err)
	}
	second.ask(ib.MethodSet, wire.AttrMCMemberRecord, join, 0, &wire.MCMemberRecord{MGID: own, PortGID: gid(2), JoinState: wire.JoinNon | wire.JoinSendOnly})

	everything := wire.InformInfo{LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: 64, Producer: wire.InformAllProducers, RespTimeValue: 18}
	first.ask(ib.MethodSet, wire.AttrInformInfo, 0, 0, &everything)
	one := wire.InformInfo{GID: gid(1), IsGeneric: 1, Subscribe: 1, Type: 4, TrapNumber: 144, Producer: 1}
	second.ask(ib.MethodSet, wire.AttrInformInfo, 0, 0, &one)

	svc := wire.ServiceRecord{ServiceID: 0x1000, ServiceGID: gid(1), ServicePKey: 0xFFFF, ServiceLease: 600, ServiceKey: [16]byte{1, 15: 2}}
	copy(svc.ServiceName[:], "it's a 'name' = x")
	for i := range svc.Data8 {
		svc.Data8[i] = uint8(0x80 + i)
	}
	for i := range svc.Data16 {
		svc.Data16[i] = uint16(0x1600 + i)
	}
	for i := range svc.Data32 {
		svc.Data32[i] = uint32(0x32000000 + i)
	}
	svc.Data64 = [2]uint64{0x6400000000000001, 0x6400000000000002}
	first.ask(ib.MethodSet, wire.AttrServiceRecord, 1<<37-1, 0, &svc)
	ever := wire.ServiceRecord{ServiceID: 0x1001, ServiceGID: gid(2), ServicePKey: 0xFFFF, ServiceLease: wire.ServiceLeaseForever}
	copy(ever.ServiceName[:], "forever")
	second.ask(ib.MethodSet, wire.AttrServiceRecord, 0x57, 0, &ever)

	var aliases wire.GUIDInfoRecord
	if err := aliases.Decode(first.ask(ib.MethodSet, wire.AttrGUIDInfoRecord, wire.GUIDInfoCompLID|wire.GUIDInfoCompBlock|wire.GUIDInfoCompGUID0<<1|wire.GUIDInfoCompGUID0<<2, 0,
		guidBlock(ib.LID(b.lidOf(t, sock, b.cas[1])), map[int]ib.GUID{1: 0, 2: 0xA1A1}))); err != nil {
		t.Fatal(err)
	}
	t.Logf("OpenSM's alias GUIDs: %v", aliases.GUIDInfo)

	if err := osm.stop(syscall.SIGTERM); err != nil {
		t.Logf("opensm ended: %v", err)
	}
	text, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the dump:\n%s", text)
	now := time.Now().UnixNano()
	recs, warns, err := osmsa.Read(strings.NewReader(string(text)), dump, now)
	if err != nil || len(warns) > 0 {
		t.Fatalf("%v %v", err, warns)
	}
	core := sa.NewCore(sa.Config{})
	var out sa.Output
	out.Reset()
	core.Step(0, sa.Start{Records: recs, Wall: now}, &out)
	v := out.Publish
	for _, n := range out.Notices {
		t.Errorf("notice: %s", n.Text)
	}
	if v == nil || len(v.Groups) != 2 || len(v.Subs) != 2 || len(v.Services) != 2 {
		t.Fatalf("read: %+v", v)
	}
	member := func(i int, state uint8) sa.Member {
		return sa.Member{PortGID: gid(i), PortGUID: guid(i), JoinState: state}
	}
	for i, want := range []sa.Group{
		{MGID: broadcast, MLID: 0xC000, QKey: 0x0B1B, PKey: 0xFFFF, WellKnown: true, Members: []sa.Member{member(1, 1)}},
		{MGID: own, MLID: made.MLID, QKey: 0x1234, PKey: 0xFFFF, Members: []sa.Member{member(1, 1), member(2, 6)}},
	} {
		g := v.Groups[i]
		if g.MGID != want.MGID || g.MLID != want.MLID || g.QKey != want.QKey || g.PKey != want.PKey || g.WellKnown != want.WellKnown || !slices.Equal(g.Members, want.Members) {
			t.Errorf("group %+v, want %+v", *g, want)
		}
	}
	if g := v.Groups[1]; g.MTU != made.MTU || g.Rate != made.Rate || g.TClass != 5 || g.FlowLabel != 0x12345 || g.Scope != 5 || g.SL != made.SL {
		t.Errorf("group %+v, OpenSM said %+v", *g, made)
	}
	everything.QPN, one.QPN = 1, 1
	for i, want := range []wire.InformInfo{everything, one} {
		s := v.Subs[i]
		if s.GID != gid(i+1) || s.Info != want || s.Addr.QP != 1 || s.Enum != 0 {
			t.Errorf("subscription %+v, want %+v", *s, want)
		}
	}
	if v.Services[0].Record != svc || v.Services[1].Record != ever || v.Services[0].Until == mad.Never || v.Services[1].Until != mad.Never {
		t.Errorf("services %+v, want %+v and %+v", *v.Services[0], svc, ever)
	}
	if left := time.Duration(v.Services[0].Until); left < 500*time.Second || left > 600*time.Second {
		t.Errorf("%v of the lease of 600 s are left", left)
	}
}

// TestImportOpenSMDump: heddle takes over a subnet with OpenSM's SA dump: the same
// LIDs, the same groups under the same MLIDs with the same members, events for the
// subscribers, and no host has to register again.
func TestImportOpenSMDump(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "opensm")
	b := smallTree.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	osm, dump := b.dumpingOpenSM(t, sock)
	guid := func(i int) ib.GUID { return b.fab.Nodes[b.fab.Find(b.cas[i])].Ports[1].GUID }
	gid := func(i int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, guid(i)) }
	lid := ib.LID(b.lidOf(t, sock, b.cas[0]))
	first, second := newSAClient(t, b.cas[1], sock, lid), newSAClient(t, b.cas[2], sock, lid)

	const join = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	const create = join | wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	var groups []ib.GID
	for i := range 8 {
		groups = append(groups, ib.GID{0: 0xFF, 1: 0x15, 2: 0xA0, 15: byte(i)})
		first.ask(ib.MethodSet, wire.AttrMCMemberRecord, create, 0, &wire.MCMemberRecord{MGID: groups[i], PortGID: gid(1), JoinState: wire.JoinFull, QKey: 1, PKey: 0xFFFF})
	}
	// A hole in the MLIDs, which a manager that counts anew would fill.
	first.ask(ib.MethodDelete, wire.AttrMCMemberRecord, join, 0, &wire.MCMemberRecord{MGID: groups[2], PortGID: gid(1), JoinState: wire.JoinFull})
	groups = slices.Delete(groups, 2, 3)
	second.ask(ib.MethodSet, wire.AttrMCMemberRecord, join, 0, &wire.MCMemberRecord{MGID: groups[5], PortGID: gid(2), JoinState: wire.JoinNon})
	first.ask(ib.MethodSet, wire.AttrInformInfo, 0, 0, &wire.InformInfo{
		LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: 65, Producer: wire.InformAllProducers,
	})
	const key = 1
	see := func() (list []wire.MCMemberRecord) {
		for i, g := range groups {
			for m := 1; m <= 2; m++ {
				if m == 2 && i != 5 {
					continue
				}
				var r wire.MCMemberRecord
				if err := r.Decode(first.ask(ib.MethodGet, wire.AttrMCMemberRecord, wire.MCMemberCompMGID|wire.MCMemberCompPortGID, key, &wire.MCMemberRecord{MGID: g, PortGID: gid(m)})); err != nil {
					t.Fatal(err)
				}
				r.Scope = 0 // OpenSM tells what the creator said
				list = append(list, r)
			}
		}
		return list
	}
	before := see()
	lids := must(t, upTime, b.dir, nil, heddle, "attach", b.cas[3]+"@"+sock, "--", "ibnetdiscover", "-p")
	if err := osm.stop(syscall.SIGTERM); err != nil {
		t.Logf("opensm ended: %v", err)
	}

	sm := start(t, b.dir, nil, heddle, "attach", b.cas[0]+"@"+sock, "--", heddle, "sm", "--port", "umad:heddle0/1", "--api", "", "--sa-key", "1",
		"--state", filepath.Join(b.dir, "state"), "--sa-db", dump)
	sm.await("SUBNET UP\n", 0, upTime)
	if after := see(); !slices.Equal(after, before) {
		t.Errorf("groups under heddle\n%+v\nunder OpenSM\n%+v", after, before)
	}
	if now := must(t, upTime, b.dir, nil, heddle, "attach", b.cas[3]+"@"+sock, "--", "ibnetdiscover", "-p"); now != lids {
		t.Errorf("LIDs or links changed:\n%s\nbefore\n%s", tail(now), tail(lids))
	}
	var sub wire.InformInfoRecord
	if err := sub.Decode(first.ask(ib.MethodGet, wire.AttrInformInfoRecord, wire.InformCompSubscriberGID, 0, &wire.InformInfoRecord{SubscriberGID: gid(1)})); err != nil || sub.InformInfo.TrapNumber != 65 {
		t.Errorf("subscription %+v, %v", sub, err)
	}
	// Started again, the dump does not come before what heddle itself kept.
	first.ask(ib.MethodDelete, wire.AttrMCMemberRecord, join, 0, &wire.MCMemberRecord{MGID: groups[0], PortGID: gid(1), JoinState: wire.JoinFull})
	groups = groups[1:]
	if err := sm.stop(syscall.SIGTERM); err != nil {
		t.Errorf("heddle sm ended with %v", err)
	}
	sm = start(t, b.dir, nil, heddle, "attach", b.cas[0]+"@"+sock, "--", heddle, "sm", "--port", "umad:heddle0/1", "--api", "", "--sa-key", "1",
		"--state", filepath.Join(b.dir, "state"), "--sa-db", dump)
	sm.await("SUBNET UP\n", 0, upTime)
	left := first.answer(ib.MethodGet, wire.AttrMCMemberRecord, wire.MCMemberCompMGID, 0, &wire.MCMemberRecord{MGID: ib.GID{0: 0xFF, 1: 0x15, 2: 0xA0}})
	if st := (*ib.MAD)(left).Status(); st != ib.StatusSANoRecords {
		t.Errorf("a group that was left is back: %v", st)
	}
}

func guidBlock(lid ib.LID, at map[int]ib.GUID) *wire.GUIDInfoRecord {
	r := &wire.GUIDInfoRecord{LID: lid}
	for i, g := range at {
		r.GUIDInfo[i] = g
	}
	return r
}

// lidOf asks a node's port for its LID.
func (b *built) lidOf(t *testing.T, sock, node string) int {
	t.Helper()
	out := must(t, upTime, b.dir, nil, heddle, "attach", node+"@"+sock, "--", "cat", "/sys/class/infiniband/heddle0/ports/1/lid")
	var lid int
	for _, c := range strings.TrimPrefix(strings.TrimSpace(out), "0x") {
		lid = lid*16 + strings.IndexRune("0123456789abcdef", c)
	}
	return lid
}

// waitFile waits until a file has a text in it.
func waitFile(t *testing.T, path, text string) {
	t.Helper()
	limit := time.NewTimer(upTime)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, _ := os.ReadFile(path); strings.Contains(string(b), text) {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s does not show %q", path, text)
		}
	}
}
