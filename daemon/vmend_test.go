package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/api/ufm"
	"heddle/daemon"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// hypervisors turns some hosts of a rig's subnet into hypervisors.
func (r *rig) hypervisors(model sim.Model, functions int, hosts ...string) {
	r.t.Helper()
	r.sim.Do(func(s *sim.Subnet) {
		for _, h := range hosts {
			if err := s.AddHypervisor(h, 1, sim.Hypervisor{Model: model, VFs: functions}); err != nil {
				r.t.Error(err)
			}
		}
	})
}

// host executes a command on the simulator's console.
func (r *rig) host(line string) {
	r.t.Helper()
	r.sim.Do(func(s *sim.Subnet) {
		if _, err := s.Exec(line); err != nil {
			r.t.Errorf("%s: %v", line, err)
		}
	})
}

// ufmCall sends a request of UFM's API, as the ufm plugin of ib-kubernetes does.
func ufmCall(t *testing.T, url, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", "123456")
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, &b, err)
	}
	return b.Bytes()
}

// eventually repeats a check after each change until it succeeds.
func eventually(t *testing.T, what string, news <-chan struct{}, ok func() bool) {
	t.Helper()
	limit := time.After(need.Patience)
	for !ok() {
		select {
		case <-news:
		case <-limit:
			t.Fatalf("%s: not so after %v", what, need.Patience)
		}
	}
}

// TestUFMMembersOnTheFabric: members that are not on the fabric are kept and listed, they have
// the P_Key as soon as they appear, before they can send, and readiness says so; a restarted
// manager has them all.
func TestUFMMembersOnTheFabric(t *testing.T) {
	kept := store.NewMemory()
	const here, later = "020000000000aa01", "020000000000aa02"
	var want map[string]any
	for run := range 2 {
		t.Run(fmt.Sprint("run ", run), func(t *testing.T) {
			r := newRigWith(t, func(c *daemon.Config) { c.Store = kept }, "xgft", "2", "4,4", "1,1")
			calls := httptest.NewServer(api.NewBasic(ufm.New(r.d), api.BasicOptions{User: "admin", Password: "123456", Kind: "ufm", Body: ufm.MaxBody}))
			defer calls.Close()
			srv := httptest.NewServer(api.New(r.d, api.Options{}))
			defer srv.Close()
			r.hypervisors(sim.VPorts, 4, "host-3", "host-9")
			r.awaitUp()
			if err := r.d.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the hypervisors are seen", r.news, func() bool { return len(withModel(r.d, "vport")) == 2 })
			list := func() (m map[string]any) {
				if err := json.Unmarshal(ufmCall(t, calls.URL, "GET", "/ufmRest/resources/pkeys/?guids_data=true", ""), &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
			if run == 0 {
				ufmCall(t, calls.URL, "POST", "/ufmRest/resources/pkeys", `{"pkey": "0x0015", "index0": true, "ip_over_ib": true, "membership": "full", "guids": ["`+here+`","`+later+`"]}`)
				want = list()
			}
			if got := list(); fmt.Sprint(got) != fmt.Sprint(want) || !strings.Contains(fmt.Sprint(got), later) {
				t.Errorf("listed: %v, want %v", got, want)
			}
			ready := func() api.PartitionReady {
				return get[api.PartitionReady](t, srv.URL+"/v1/partitions/0x15/ready")
			}
			if p := ready(); !p.Ready || p.Members != 2 || p.Present != 0 || len(p.Absent) != 2 {
				t.Errorf("before anybody is there: %+v", p)
			}
			r.host(`vm place pod "host-9" 2 0x` + here)
			eventually(t, "the pod has its P_Key", r.news, func() bool { p := ready(); return p.Ready && p.Present == 1 && len(p.Absent) == 1 })
			s := r.d.Snapshot()
			p := s.Ports[s.PortByGUID(0x020000000000aa01)]
			if p.Virtual == nil || p.State() != ib.StateActive || len(p.PKeys) == 0 || p.PKeys[0] != 0x8015 {
				t.Errorf("the pod's VPort: state %v, P_Keys %v; want 0x8015 at index 0", p.State(), p.PKeys)
			}
			vports := ufmCall(t, calls.URL, "GET", "/ufmRest/resources/vports", "")
			if !bytes.Contains(vports, []byte(`"virtual_port_guid":"`+here+`"`)) {
				t.Errorf("vports: %s", vports)
			}
		})
	}
}

func withModel(d *daemon.Daemon, model string) (list []api.Hypervisor) {
	for _, h := range d.Hypervisors() {
		if h.Model == model {
			list = append(list, h)
		}
	}
	return list
}

// TestVMOverTheAPI: an interface is created, attached and moved between hypervisors of each
// model, over HTTP, and other hosts reach it at its address throughout.
func TestVMOverTheAPI(t *testing.T) {
	for _, c := range []struct {
		model sim.Model
		kind  string
	}{
		{sim.VSwitch, "own"},
		{sim.VPorts, "shared"},
		{sim.SharedPort, "shared"},
		{sim.SharedPort, "floating"},
	} {
		t.Run(fmt.Sprint(c.model, " ", c.kind), func(t *testing.T) {
			r := newRigWith(t, func(*daemon.Config) {}, "xgft", "2", "4,4", "1,1")
			srv := httptest.NewServer(api.New(r.d, api.Options{AllowWrite: true}))
			defer srv.Close()
			r.hypervisors(c.model, 4, "host-3", "host-9")
			r.awaitUp()
			if err := r.d.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			model := map[sim.Model]string{sim.VSwitch: "vswitch", sim.VPorts: "vport", sim.SharedPort: "shared"}[c.model]
			eventually(t, "the hypervisors are seen", r.news, func() bool { return len(withModel(r.d, model)) >= 2 })
			do := func(method, path, body string, code int) (v api.VM) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var b bytes.Buffer
				b.ReadFrom(resp.Body)
				if resp.StatusCode != code {
					t.Fatalf("%s %s: %d %s, want %d", method, path, resp.StatusCode, &b, code)
				}
				_ = json.Unmarshal(b.Bytes(), &v) // errors have another form
				return v
			}
			const guid = "0x020000000000bb01"
			r.host(`vm place web "host-3" 2 ` + guid)
			v := do("POST", "/v1/vms", `{"name":"web","guid":"`+guid+`","lid_kind":"`+c.kind+`","keys":[{"pkey":"0x5"}],"hypervisor":"host-3","function":2}`, 201)
			if v.State != "attached" || v.Waiting || v.Placement != "placed" || v.Hypervisor == nil || v.Hypervisor.Description != "host-3" || v.Hypervisor.Function != 2 {
				t.Fatalf("created: %+v", v)
			}
			at := func(host string) {
				t.Helper()
				s := r.d.Snapshot()
				i := s.PortByGUID(0x020000000000bb01)
				if i < 0 {
					t.Fatalf("nobody has the GUID")
				}
				p := s.Ports[i]
				if d := s.Nodes[p.Node].Desc; d != host || p.State() != ib.StateActive || c.kind != "shared" && int(p.LID) != v.LID {
					t.Errorf("at %s, %v, LID %v; want %s, LID %d", d, p.State(), p.LID, host, v.LID)
				}
			}
			ready := func() {
				t.Helper()
				eventually(t, "the P_Key is in the hardware", r.news, func() bool {
					p := get[api.PartitionReady](t, srv.URL+"/v1/partitions/0x5/ready")
					return p.Ready && p.Present == 1
				})
			}
			at("host-3")
			ready()
			if again := do("POST", "/v1/vms/web/attach", `{"hypervisor":"host-3","function":2}`, 200); again.Placement != "placed" {
				t.Errorf("attached again: %+v", again)
			}
			do("POST", "/v1/vms/web/attach", `{"hypervisor":"host-9"}`, 409)
			m := do("POST", "/v1/vms/web/migrate", `{"hypervisor":"host-9","function":1}`, 200)
			if m.State != "migrating" || m.Dest == nil || m.Dest.Description != "host-9" {
				t.Errorf("migrating: %+v", m)
			}
			at("host-3")
			r.host(`vm move web "host-9" 1`)
			f := do("POST", "/v1/vms/web/finish", "", 200)
			if f.State != "attached" || f.Hypervisor.Description != "host-9" || f.GUID != v.GUID || c.kind != "shared" && f.LID != v.LID {
				t.Errorf("finished: %+v", f)
			}
			at("host-9")
			ready()
			do("DELETE", "/v1/vms/web", "", 409)
			if c.model == sim.VPorts {
				r.host("vm detach web") // the GUID is the hypervisor's to take away
			}
			if d := do("POST", "/v1/vms/web/detach", "", 200); d.State != "detached" {
				t.Errorf("detached: %+v", d)
			}
			do("DELETE", "/v1/vms/web", "", 204)
			do("GET", "/v1/vms/web", "", 404)
			if p := get[api.VMPools](t, srv.URL+"/v1/vms/pools"); p.Journal != 0 || p.LIDs != 49151 {
				t.Errorf("pools %+v", p)
			}
			var moved bool
			r.d.FlushEvents()
			ev, _ := r.d.Events(0)
			for _, e := range ev {
				moved = moved || e.Kind == "vm_migrated"
			}
			if !moved {
				t.Error("no event tells of the migration")
			}
		})
	}
}

// TestFunctionGUIDOverTheAPI: an interface with the GUID of its function shows no GUID before
// it has a place, and the next GUID during a migration; hypervisors show the GUIDs of all
// functions.
func TestFunctionGUIDOverTheAPI(t *testing.T) {
	r := newRigWith(t, func(*daemon.Config) {}, "xgft", "2", "4,4", "1,1")
	srv := httptest.NewServer(api.New(r.d, api.Options{AllowWrite: true}))
	defer srv.Close()
	r.hypervisors(sim.SharedPort, 4, "host-3", "host-9")
	r.awaitUp()
	if err := r.d.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hypervisors are seen", r.news, func() bool { return len(withModel(r.d, "shared")) >= 2 })
	do := func(op api.VMOperation) api.VM {
		t.Helper()
		out, err := r.d.Operate(t.Context(), []api.VMOperation{op})
		if err != nil || out[0].Err != nil || out[0].VM.Waiting {
			t.Fatalf("%+v: %+v %v", op, out, err)
		}
		return out[0].VM
	}
	const one, two = "0x0200000000000001", "0x0200000000000003"
	keys := []api.VMKey{{PKey: "0x0005"}}
	v := do(api.VMOperation{Op: "create", Name: "web", VMAddress: api.VMAddress{GUIDKind: "function", Keys: keys}})
	if v.GUID != "" || v.GID != "" || v.GUIDKind != "function" || v.Dynamic {
		t.Errorf("created: %+v", v)
	}
	if p := get[api.PartitionReady](t, srv.URL+"/v1/partitions/0x5/ready"); p.Members != 0 || !p.Ready {
		t.Errorf("nobody is a member: %+v", p)
	}
	r.host(`vm place web "host-3" 2`)
	if v = do(api.VMOperation{Op: "attach", Name: "web", VMTarget: api.VMTarget{Hypervisor: "host-3", Function: 2}}); v.GUID != one || !strings.HasSuffix(v.GID, "200:0:0:1") {
		t.Errorf("attached: %+v", v)
	}
	if v = do(api.VMOperation{Op: "migrate", Name: "web", VMTarget: api.VMTarget{Hypervisor: "host-9"}}); v.GUID != one || v.DestGUID != two {
		t.Errorf("migrating: %+v", v)
	}
	r.host(`vm move web "host-9" 1`)
	if v = do(api.VMOperation{Op: "finish", Name: "web"}); v.GUID != two || v.DestGUID != "" {
		t.Errorf("finished: %+v", v)
	}
	guids := map[string][]api.FunctionGUID{}
	for _, h := range get[[]api.Hypervisor](t, srv.URL+"/v1/hypervisors") {
		if len(h.GUIDs) > 0 {
			guids[h.Description] = h.GUIDs
		}
	}
	if got, want := fmt.Sprint(guids), fmt.Sprintf("map[host-3:[{2 %s}] host-9:[{1 %s}]]", one, two); got != want {
		t.Errorf("functions have GUIDs %s, want %s", got, want)
	}
	for _, bad := range []api.VMAddress{{GUIDKind: "static"}, {GUIDKind: "function", GUID: two}, {GUIDKind: "function", LIDKind: "own"}} {
		if out, err := r.d.Operate(t.Context(), []api.VMOperation{{Op: "create", Name: "bad", VMAddress: bad}}); err != nil || !errors.Is(out[0].Err, vm.ErrInvalid) {
			t.Errorf("%+v: %+v %v", bad, out, err)
		}
	}
}

// TestVMOnAStandby: a manager that is not the master refuses, and names the master.
func TestVMOnAStandby(t *testing.T) {
	r := newRigWith(t, func(c *daemon.Config) { c.Core.Priority = 5 }, "xgft", "1", "4", "1")
	snap := r.awaitUp()
	port, err := r.sim.Port("host-2")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	cfg := daemon.Config{Port: port, PortName: "standby", Core: sm.Defaults(), Store: store.NewMemory()}
	cfg.Core.MaxWindow = port.MaxInFlight()
	news := make(chan struct{}, 1)
	cfg.Progress = func(sm.Status) {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	d := daemon.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	eventually(t, "it stands by", news, func() bool { return d.Status().State == subnet.Standby.String() })
	srv := httptest.NewServer(api.New(d, api.Options{AllowWrite: true}))
	defer srv.Close()
	resp, err := http.Post(srv.URL+"/v1/vms", "application/json", strings.NewReader(`{"name":"web"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	b.ReadFrom(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(b.String(), snap.PortGUID.String()) {
		t.Errorf("%d %s", resp.StatusCode, &b)
	}
}
