package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/partition"
	"heddle/qos"
	"heddle/transport/ibsim"
)

// asker asks an SA for paths, one at a time.
type asker struct {
	t   *testing.T
	c   *ibsim.Conn
	tid uint64
}

func ask(t *testing.T, sock, node string) *asker {
	t.Helper()
	c, err := ibsim.Dial(context.Background(), ibsim.Options{SockName: sock, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &asker{t: t, c: c}
}

// path asks for a path; ok is false if there is none.
func (a *asker) path(sm ib.LID, mask sa.CompMask, r *sa.PathRecord) (got sa.PathRecord, ok bool) {
	a.t.Helper()
	var m ib.MAD
	sa.New(&m, ib.MethodGet, sa.AttrPathRecord, 0, mask)
	r.Put(sa.Data(&m))
	answer := a.exchange(mad.Addr{LID: sm, QP: 1}, 1, &m)
	if answer.Status() != 0 {
		return got, false
	}
	if err := got.Decode(sa.Data(answer)); err != nil {
		a.t.Fatal(err)
	}
	return got, true
}

// exchange sends a request and waits for its answer.
func (a *asker) exchange(to mad.Addr, qp uint32, m *ib.MAD) *ib.MAD {
	a.t.Helper()
	a.tid++
	m.SetTID(a.tid)
	if err := a.c.Send(&mad.Packet{Addr: to, LocalQP: qp, Data: m[:]}); err != nil {
		a.t.Fatal(err)
	}
	late := time.AfterFunc(upTime, func() { a.c.Close() })
	defer late.Stop()
	for {
		var p mad.Packet
		if err := a.c.Recv(&p); err != nil {
			a.t.Fatalf("no answer to request %d: %v", a.tid, err)
		}
		w := (*ib.MAD)(p.Data[:ib.MADLen])
		if p.Status == mad.Received && w.Method().IsResponse() && uint32(w.TID()) == uint32(a.tid) {
			return w
		}
	}
}

// smLID is where the asker's port believes the manager to be.
func (a *asker) smLID() ib.LID { return a.portInfo().MasterSMLID }

// ownLID is the LID of the asker's port.
func (a *asker) ownLID() ib.LID { return a.portInfo().LID }

func (a *asker) portInfo() (pi smp.PortInfo) {
	a.t.Helper()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrPortInfo, 1, 0, nil)
	if err := pi.Decode(smp.Data(a.exchange(mad.Addr{LID: ib.LIDPermissive}, 0, &m))); err != nil {
		a.t.Fatal(err)
	}
	return pi
}

func gid(g ib.GUID) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, g) }

// TestPolicyAsOpenSM: OpenSM and Heddle read the same QoS policy and give every path
// the same service level and limits.
func TestPolicyAsOpenSM(t *testing.T) {
	need.Tool(t, "opensm")
	b := testNet{gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	sim, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	var cas []*fabric.Node
	var sw *fabric.Node
	for i := range b.fab.Nodes {
		if n := &b.fab.Nodes[i]; n.Type == ib.NodeCA {
			cas = append(cas, n)
		} else {
			sw = n
		}
	}
	guid := func(n *fabric.Node) ib.GUID {
		if n.Type == ib.NodeSwitch {
			return n.GUID
		}
		return n.Ports[1].GUID
	}
	policy := fmt.Sprintf(`
port-groups
	port-group
		name: Some Targets
		port-guid: %v-%v, %v
	end-port-group
	port-group
		name: named
		port-name: "%s/P1", "%s/P3"
	end-port-group
	port-group
		name: Switches
		node-type: switch
	end-port-group
	port-group
		name: me
		node-type: Self
	end-port-group
	port-group
		name: tenant
		partition: tenant
	end-port-group
	port-group
		name: tenant by key
		pkey: 0x8020
	end-port-group
end-port-groups
qos-levels
	qos-level sl: 1
	name: default end-qos-level
	qos-level sl: 2 mtu-limit: 2 rate-limit: 2 packet-life: 12
		name: Limits
	end-qos-level
	qos-level
		name: keys
		sl: 3
		pkey: 0x10-0x1f, 0x7fff
	end-qos-level
	qos-level
		name: four
		sl: 4
	end-qos-level
	qos-level
		name: five
		sl: 5
	end-qos-level
end-qos-levels
qos-match-rules
	qos-match-rule
		qos-class: 7-9, 11
		qos-level-name: LIMITS
	end-qos-match-rule
	qos-match-rule
		use: both ends and a service
		source: named
		destination: some targets, switches
		service-id: 0x5000-0x5fff
		qos-level-name: keys
	end-qos-match-rule
	qos-match-rule
		source: me
		qos-class: 100
		qos-level-name: four
	end-qos-match-rule
	qos-match-rule
		source: tenant
		qos-class: 101
		qos-level-name: four
	end-qos-match-rule
	qos-match-rule
		destination: tenantbykey
		qos-class: 102
		qos-level-name: five
	end-qos-match-rule
end-qos-match-rules
qos-ulps
	default: 15
	SDP, port-num 0x5000-20736 : 6
	sdp: 7
	rds, port-num 25000: 8
	rds: 9
	iser,port-num 900: 10
	iser : 11
	any, service-id 0x6234: 12
	any, pkey 0x8010: 13
	any, source-target-port-guid %v-%v: 14
	any, source-port-guid %v: 0
	srp, target-port-guid %v: 5
	ipoib: 2
end-qos-ulps
`, guid(cas[1]), guid(cas[2]), guid(cas[3]), cas[0].Desc, sw.Desc, guid(cas[4]), guid(cas[5]), guid(cas[4]), guid(cas[5]))
	partitions := fmt.Sprintf("Default=0x7fff,ipoib: ALL=full;\ntenant=0x10: %v=full, %v=full, %v=full;\nother=0x20: %v=full, %v=full;\n",
		guid(cas[0]), guid(cas[1]), guid(cas[2]), guid(cas[0]), guid(cas[6]))
	dir, args := opensmFiles(t, 0)
	for name, text := range map[string]string{"policy": policy, "partitions": partitions} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self := cas[7]
	args = append(args, "-Q", "-Y", filepath.Join(dir, "policy"), "-P", filepath.Join(dir, "partitions"))
	osm := start(t, dir, append(env, "SIM_HOST="+self.ID, "OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir), "ibsim-run", append([]string{"opensm"}, args...)...)
	osm.await("SUBNET UP", 0, upTime)
	if strings.Contains(osm.Output(), "ERR AC0") {
		t.Fatalf("OpenSM does not take the policy:\n%s", tail(osm.Output()))
	}

	parts := &partition.Policy{Partitions: []partition.Partition{{Name: "tenant", PKey: 0x10}, {Name: "other", PKey: 0x20}, {Name: "Default", PKey: 0x7FFF}}}
	ours, warnings, err := qos.Parse(strings.NewReader(policy), "policy", parts)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	ends := map[*fabric.Node]*qos.End{}
	for _, n := range append(cas, sw) {
		e := &qos.End{GUID: guid(n), Node: n.Desc, Type: n.Type, Self: n == self, PKeys: []ib.PKey{0xFFFF}}
		if n.Type == ib.NodeCA {
			e.Port = 1
		}
		ends[n] = e
	}
	for _, n := range cas[:3] {
		ends[n].PKeys = append(ends[n].PKeys, 0x8010)
	}
	for _, n := range []*fabric.Node{cas[0], cas[6]} {
		ends[n].PKeys = append(ends[n].PKeys, 0x8020)
	}

	client := ask(t, sock, cas[8].ID)
	lid := client.smLID()
	var queries []with
	for _, id := range []uint64{0, 0x5000, 0x5FFF, 0x6000, 0x10000, 0x15000, 0x15100, 0x15101, 0x1FFFF, 0x20000, 0x1060000 + 25000, 0x10648CA, 0x1060000 + 900, 0x1060CBC, 0x6234} {
		queries = append(queries, with{service: id, class: -1})
	}
	for _, c := range []int{6, 7, 9, 10, 11, 12, 100, 101, 102, 0xFFF} {
		queries = append(queries, with{class: c})
	}
	for _, k := range []ib.PKey{0xFFFF, 0x7FFF, 0x8010, 0x0010, 0x8020} {
		queries = append(queries, with{class: -1, pkey: k}, with{class: 11, pkey: k}, with{class: -1, pkey: k, service: 0x5000})
	}
	type asked struct {
		src, dst *fabric.Node
		with
		answer sa.PathRecord
		ok     bool
	}
	var theirs []asked
	some := append(cas[:9:9], sw)
	n, levels := 0, map[string]int{}
	for _, src := range some {
		for _, dst := range some {
			for _, w := range queries {
				mask, r := w.query(gid(guid(src)), gid(guid(dst)))
				q := qos.Query{
					Src: ends[src], Dst: ends[dst], ServiceID: r.ServiceID, HasServiceID: w.service != 0,
					QoSClass: r.QoSClass, HasQoSClass: w.class >= 0, PKey: r.PKey, HasPKey: w.pkey != 0,
				}
				got, ok := client.path(lid, mask, &r)
				theirs = append(theirs, asked{src, dst, w, got, ok})
				n++
				l := ours.Level(&q)
				levels[l.Name]++
				if w.pkey != 0 && !(shares(ends[src], ends[dst], w.pkey) && l.Allows(w.pkey)) {
					if ok {
						t.Errorf("%s to %s, %+v: a path with P_Key %v that the ends do not share or level %s forbids", src.ID, dst.ID, w, got.PKey, l.Name)
					}
					continue
				}
				if !ok {
					t.Errorf("%s to %s, %+v: OpenSM has no path, we say level %s", src.ID, dst.ID, w, l.Name)
					continue
				}
				bad := got.SL != l.SL || l.MTULimit != 0 && got.MTU > l.MTULimit || l.RateLimit != 0 && got.Rate.Cmp(l.RateLimit) > 0 ||
					l.HasLife && src != dst && got.PacketLifeTime != l.PacketLife || !l.Allows(got.PKey)
				if bad {
					t.Errorf("%s to %s, %+v: OpenSM says %+v, we %+v", src.ID, dst.ID, w, got, *l)
				}
				if t.Failed() && n > 400 {
					t.FailNow()
				}
			}
		}
	}
	t.Logf("%d queries, levels %v", n, levels)
	osm.stop(syscall.SIGINT)

	// Our own manager with the same files gives the same answers.
	sm := start(t, dir, nil, heddle, "sm", "--api", "", "--port", "ibsim:"+self.ID+"@"+sock,
		"--partitions", filepath.Join(dir, "partitions"), "--qos-policy", filepath.Join(dir, "policy"))
	sm.await("SUBNET UP\n", 0, upTime)
	lid = client.smLID()
	for _, a := range theirs {
		mask, r := a.query(gid(guid(a.src)), gid(guid(a.dst)))
		got, ok := client.path(lid, mask, &r)
		want := a.answer
		if ok != a.ok || ok && (got.SL != want.SL || got.MTU != want.MTU || got.Rate != want.Rate || got.PacketLifeTime != want.PacketLifeTime || got.PKey.Base() != want.PKey.Base()) {
			t.Errorf("%s to %s, %+v: OpenSM %v %+v,\nours %v %+v", a.src.ID, a.dst.ID, a.with, a.ok, want, ok, got)
		}
	}
	sm.stop(syscall.SIGTERM)
	sim.stop(syscall.SIGTERM)
}

// with is what a query says of itself; a class below 0 is none.
type with struct {
	service uint64
	class   int
	pkey    ib.PKey
}

func (w with) query(src, dst ib.GID) (mask sa.CompMask, r sa.PathRecord) {
	mask = sa.PathCompSGID | sa.PathCompDGID | sa.PathCompNumbPath
	r = sa.PathRecord{SGID: src, DGID: dst, NumbPath: 1}
	if w.service != 0 {
		mask |= sa.PathCompServiceID8 | sa.PathCompServiceID56
		r.ServiceID = w.service
	}
	if w.class >= 0 {
		mask |= sa.PathCompQoSClass
		r.QoSClass = uint16(w.class)
	}
	if w.pkey != 0 {
		mask |= sa.PathCompPKey
		r.PKey = w.pkey
	}
	return mask, r
}

func shares(a, b *qos.End, k ib.PKey) bool {
	has := func(e *qos.End) bool {
		for _, x := range e.PKeys {
			if x.Base() == k.Base() {
				return true
			}
		}
		return false
	}
	return has(a) && has(b)
}

// TestPoliciesRefused compares the policy files that OpenSM refuses with those that
// Heddle refuses. Where they differ, Heddle refuses more.
func TestPoliciesRefused(t *testing.T) {
	need.Tool(t, "opensm")
	b := testNet{gen: []string{"irregular", "8"}}.build(t)
	const ok = "qos-ulps\n default: 0\nend-qos-ulps\n"
	level := func(s string) string { return "qos-levels\n qos-level\n" + s + "\n end-qos-level\nend-qos-levels\n" }
	rule := func(s string) string {
		return ok + "qos-match-rules\n qos-match-rule\n" + s + "\n end-qos-match-rule\nend-qos-match-rules\n"
	}
	group := func(s string) string {
		return ok + "port-groups\n port-group\n" + s + "\n end-port-group\nend-port-groups\n"
	}
	for name, c := range map[string]struct {
		text         string
		theirs, ours bool // taken
	}{
		"simple":                {ok, true, true},
		"no default":            {level("name: other\n sl: 1"), false, false},
		"default twice":         {ok + ok, true, true},
		"no sl":                 {level("name: default"), false, false},
		"sl out of range":       {level("name: default\n sl: 16"), true, false},
		"mtu out of range":      {level("name: default\n sl: 0\n mtu-limit: 6"), false, false},
		"rate out of range":     {level("name: default\n sl: 0\n rate-limit: 1"), false, false},
		"life out of range":     {level("name: default\n sl: 0\n packet-life: 64"), true, false},
		"level twice":           {level("name: default\n sl: 0") + level("name: default\n sl: 1"), true, true},
		"number continued":      {level("name: default\n sl:\n\n 0 # x"), true, true},
		"no level":              {rule("qos-class: 1"), false, false},
		"unknown level":         {rule("qos-level-name: x"), false, false},
		"unknown group":         {rule("source: x\nqos-level-name: SimpleQoSLevel_SL1"), false, false},
		"upper case":            {"QOS-ULPS\n default: 0\nend-qos-ulps\n", false, false},
		"upper case protocol":   {"qos-ulps\n DEFAULT: 0\n Sdp: 1\nend-qos-ulps\n", true, true},
		"ulp out of range":      {"qos-ulps\n default: 16\nend-qos-ulps\n", false, false},
		"port out of range":     {"qos-ulps\n default: 0\n sdp, port-num 65536: 1\nend-qos-ulps\n", false, false},
		"partition of nobody":   {"qos-ulps\n default: 0\n ipoib, pkey 0x55: 1\nend-qos-ulps\n", false, false},
		"other P_Key of nobody": {"qos-ulps\n default: 0\n any, pkey 0x55: 1\nend-qos-ulps\n", true, true},
		"nameless group":        {group("port-guid: 1"), false, false},
		"port 0":                {group("name: g\n port-name: x/P0"), false, false},
		"no port":               {group("name: g\n port-name: x"), false, false},
		"node type":             {group("name: g\n node-type: HCA"), false, false},
		"reversed range":        {group("name: g\n port-guid: 9-1"), true, true},
		"not closed":            {"qos-ulps\n default: 0\n", false, false},
		"empty":                 {"", false, false},
		"octal":                 {level("name: default\n sl: 010"), true, true},
		"no octal":              {level("name: default\n sl: 08"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, args := opensmFiles(t, 0)
			if err := os.WriteFile(filepath.Join(dir, "policy"), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, env := b.simulate(t)
			args = append(args, "-Q", "-Y", filepath.Join(dir, "policy"))
			osm := start(t, dir, append(env, "SIM_HOST="+b.cas[0], "OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir), "ibsim-run", append([]string{"opensm"}, args...)...)
			osm.await("SUBNET UP", 0, upTime)
			out := osm.Output()
			if taken := !strings.Contains(out, "ERR AC03") && !strings.Contains(out, "ERR AC04"); taken != c.theirs {
				t.Errorf("taken by OpenSM: %v\n%s", taken, tail(out))
			}
			if _, _, err := qos.Parse(strings.NewReader(c.text), "policy", partition.Default()); (err == nil) != c.ours {
				t.Errorf("ours: %v", err)
			}
			osm.stop(syscall.SIGKILL)
		})
	}
}
