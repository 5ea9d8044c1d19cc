package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// TestFunctionGUIDs: an interface has the GUID of the function where it is. After a migration
// the GUID tables of both hypervisors are right, peers reach it at its new GID, in its
// partition, and get Reports that the old GID is gone and the new one is there, but none about
// a changed path. The next interface at a function has its GUID, also under a restarted
// manager.
func TestFunctionGUIDs(t *testing.T) {
	for _, x := range []struct {
		name string
		h    sim.Hypervisor
		cfg  func(*sm.Config)
	}{
		{"shared port", sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, nil},
		{"vSwitch", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, nil},
		{"vSwitch, prepopulated", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, func(c *sm.Config) { c.VSwitchPrepopulate = true }},
	} {
		t.Run(x.name, func(t *testing.T) {
			k := layCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, x.cfg)
			st := store.NewMemory()
			start := func() {
				t.Helper()
				m, err := k.Attach(k.hosts[0], k.cfg, st)
				if err != nil {
					t.Fatal(err)
				}
				m.ServeSA(SAConfig(0), sa.Options{})
				m.ServeVMs(vm.Config{})
				if k.m = m; m.Start() != nil {
					t.Fatal("the manager does not start")
				}
				k.up()
			}
			start()
			do := func(op vm.Op) vm.Interface {
				t.Helper()
				r := k.m.VM(op)
				if r.Err != nil || r.Waiting {
					t.Fatalf("%T %+v: %v, %+v\n%s", op, op, r.Err, r.Interface, tail(k.m))
				}
				if err := k.RunUntil(time.Minute, k.m.Idle); err != nil {
					t.Fatal(err)
				}
				return r.Interface
			}
			guidAt := func(host, function int) ib.GUID {
				t.Helper()
				s, err := k.Sim.VPort(vf(t, k.Cluster, k.hosts[host], function))
				if err != nil {
					t.Fatal(err)
				}
				return s.GUID
			}
			keys := []vm.Membership{{PKey: 5, Full: true}}
			for i, n := range []string{"web", "db"} {
				host := 1 + 3*i
				if err := k.Sim.PlaceVM(n, vf(t, k.Cluster, k.hosts[host], 1), sim.VMOptions{}); err != nil {
					t.Fatal(err)
				}
				if v := do(vm.Create{I: vm.Interface{Name: n, GUIDKind: vm.FunctionGUID, Keys: keys}}); v.GUID != 0 {
					t.Fatalf("%+v", v)
				}
				if v := do(vm.Attach{Name: n, At: k.place(host, 1)}); v.GUID == 0 || guidAt(host, 1) != v.GUID {
					t.Fatalf("%+v, and the function has GUID %v", v, guidAt(host, 1))
				}
			}
			old := k.m.VMs().Interface("web").GUID
			reach := func() {
				t.Helper()
				web, _ := k.Sim.VM("web")
				db, _ := k.Sim.VM("db")
				if g := k.m.VMs().Interface("web").GUID; web.GID.GUID() != g {
					t.Fatalf("web has GID %v, its interface GUID %v", web.GID, g)
				}
				p, err := k.Sim.Probe(db.At, mad.Addr{LID: web.LID, HasGRH: true, GRH: mad.GRH{GID: web.GID}}, 0x8005)
				if err != nil {
					t.Fatal(err)
				}
				if err := k.RunUntil(time.Second, func() bool { return p.Done }); err != nil || !p.Answered || p.At != web.At {
					t.Fatalf("db to web: %v %v", p, err)
				}
			}
			reach()

			host, err := k.Client(k.hosts[6])
			if err != nil {
				t.Fatal(err)
			}
			told := map[uint16][]ib.GUID{}
			host.OnReport = func(p *mad.Packet) {
				var n wire.Notice
				if n.Decode(p.Data[wire.HeaderLen:][:wire.NoticeLen]) != nil {
					t.Error("a Report that is none")
				}
				d, _ := n.Detail().(smp.DetailGID)
				told[n.TrapNumber] = append(told[n.TrapNumber], d.GID.GUID())
			}
			for _, n := range []uint16{smp.TrapGIDInService, smp.TrapGIDOutOfService, smp.TrapRePath} {
				if _, st := host.request(t, ib.MethodSet, wire.AttrInformInfo, 0, &wire.InformInfo{
					LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: 3, TrapNumber: n, Producer: smp.ProducerClassManager,
				}); st != 0 {
					t.Fatalf("subscription: %v", st)
				}
			}
			k.Run(100 * time.Millisecond)
			delete(told, smp.TrapRePath) // what may have changed before the subscription
			v := do(vm.Migrate{Name: "web", To: k.place(5, 3)})
			next := v.DestGUID
			if v.GUID != old || next == 0 || next == old || guidAt(1, 1) != old {
				t.Fatalf("%+v", v)
			}
			if err := k.Sim.MoveVM("web", vf(t, k.Cluster, k.hosts[5], 3)); err != nil {
				t.Fatal(err)
			}
			if v = do(vm.Finish{Name: "web"}); v.GUID != next || guidAt(5, 3) != next || guidAt(1, 1) == old {
				t.Fatalf("%+v; the functions have GUIDs %v and %v", v, guidAt(1, 1), guidAt(5, 3))
			}
			reach()
			k.checkTables()
			k.Run(100 * time.Millisecond)
			if !slices.Equal(told[smp.TrapGIDOutOfService], []ib.GUID{old}) || !slices.Equal(told[smp.TrapGIDInService], []ib.GUID{next}) || len(told[smp.TrapRePath]) != 0 {
				t.Errorf("told of %v; %v went and %v came", told, old, next)
			}
			me := k.place(6, 0).Port
			if r := host.path(t, k.m, me, next); r.DLID != k.m.Snap.Ports[k.m.Snap.PortByGUID(next)].LID {
				t.Errorf("path to the new GID: %+v", r)
			}
			gid := func(g ib.GUID) ib.GID { return ib.MakeGID(k.m.Snap.Prefix, g) }
			if _, st := host.request(t, ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &wire.PathRecord{SGID: gid(me), DGID: gid(old)}); st == 0 {
				t.Error("there is a path to the old GID")
			}

			k.m.Kill()
			start()
			if err := k.RunUntil(time.Minute, func() bool {
				i := k.m.VMs().Interface("web")
				return i.Placement == subnet.PlacementPlaced && i.GUID == next && k.m.Idle()
			}); err != nil {
				t.Fatalf("%v: %+v\n%s", err, k.m.VMs().Interface("web"), tail(k.m))
			}
			reach()
			if v := do(vm.Detach{Name: "web"}); v.GUID != 0 || guidAt(5, 3) == next {
				t.Fatalf("%+v; the function has GUID %v", v, guidAt(5, 3))
			}
			do(vm.Create{I: vm.Interface{Name: "mail", GUIDKind: vm.FunctionGUID}})
			if v := do(vm.Attach{Name: "mail", At: k.place(5, 3)}); v.GUID != next || guidAt(5, 3) != next {
				t.Fatalf("%+v; the function has GUID %v", v, guidAt(5, 3))
			}
		})
	}
}
