package daemon_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heddle/api"
	"heddle/daemon"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/store"
)

// put replaces the partitions and returns the status and the body of the answer.
func put(t *testing.T, url, body string) (int, string) {
	t.Helper()
	return change(t, http.MethodPut, url+"/v1/partitions", body)
}

// change makes a request that is to change something, and returns the status and the body of the answer.
func change(t *testing.T, method, url, body string, head ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer secret")
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestPartitionsOverTheAPI: a replacement of the partitions is answered when it is stored. If
// it fails, the answer says why, and the old partitions stay. The API shows the progress of
// writing P_Key tables until it is complete.
func TestPartitionsOverTheAPI(t *testing.T) {
	full := make(chan struct{})
	st := &fullStore{Store: store.NewMemory(), full: full}
	r := newRigWith(t, func(c *daemon.Config) { c.Store = st }, "xgft", "2", "4,4", "1,2")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret"}))
	defer srv.Close()
	snap := r.awaitUp()
	settled := func(pkeys ...string) {
		t.Helper()
		var p api.Partitions
		for end := time.Now().Add(need.Patience); time.Now().Before(end); {
			if p = get[api.Partitions](t, srv.URL+"/v1/partitions"); p.Settled && len(p.Partitions) == len(pkeys) {
				break
			}
		}
		var got []string
		for i := range p.Partitions {
			got = append(got, p.Partitions[i].PKey)
		}
		if s := get[api.Status](t, srv.URL+"/v1/status").Partitions; !p.Settled || p.Pending != 0 || !slices.Equal(got, pkeys) || !s.Settled || s.Count != len(pkeys) {
			t.Fatalf("%v, pending %d, want %v; status %+v", got, p.Pending, pkeys, s)
		}
	}
	settled("0x7fff")
	guid := snap.Ports[snap.EndPortPort[0]].GUID.String()
	if code, body := put(t, srv.URL, `{"name":"my.conf","config":"Default=0x7fff: ALL=full;\na=0x99999: ALL;"}`); code != http.StatusUnprocessableEntity || !strings.Contains(body, "nothing was changed: my.conf:2:3: ") {
		t.Errorf("a bad file: %d %s", code, body)
	}
	if code, body := put(t, srv.URL, `{"config":"Default=0x7fff: ALL=full;\na=5: `+guid+`=full;"}`); code != http.StatusAccepted {
		t.Errorf("a good file: %d %s", code, body)
	}
	settled("0x0005", "0x7fff")
	if p := get[api.Partitions](t, srv.URL+"/v1/partitions").Partitions[0]; p.Full != 1 || p.Limited != 0 {
		t.Errorf("%+v", p)
	}
	close(full)
	if code, body := put(t, srv.URL, `{"config":"Default=0x7fff: ALL=full;"}`); code != http.StatusUnprocessableEntity || !strings.Contains(body, "no space left") {
		t.Errorf("a full disk: %d %s", code, body)
	}
	settled("0x0005", "0x7fff")
	if s := get[api.Status](t, srv.URL+"/v1/status").SA; s.Groups != 0 && s.Groups != 1 || s.Members != 0 {
		t.Errorf("SA %+v", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.d.ApplyPartitions(ctx, r.d.Snapshot().Partitions); err == nil {
		t.Error("no error, though nobody waits")
	}
	if _, k := snap, ib.PKey(5); r.d.Snapshot().Partitions.Find(k) == nil {
		t.Error("the partition is gone")
	}
}

// fullStore fails every write once full is closed.
type fullStore struct {
	store.Store
	full chan struct{}
}

func (s *fullStore) Apply(ops []store.Op) error {
	select {
	case <-s.full:
		return errors.New("no space left on device")
	default:
		return s.Store.Apply(ops)
	}
}

// TestSingleMembers: members are added, changed and removed one by one, by the name of their node or by
// GUID. A dry run changes nothing. A change for another revision is refused, as is what names nothing or
// too much. Changes at the same time do not undo each other.
func TestSingleMembers(t *testing.T) {
	r := newRigWith(t, func(c *daemon.Config) { c.PartitionsFile = "/etc/parts.conf" }, "xgft", "2", "4,4", "1,2")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret"}))
	defer srv.Close()
	snap := r.awaitUp()
	guid := func(host string) ib.GUID {
		for i := range snap.Nodes {
			if snap.Nodes[i].Desc == host {
				return snap.Ports[snap.Nodes[i].First+1].GUID
			}
		}
		t.Fatalf("no %s", host)
		return 0
	}
	list := func() (out string) {
		rows := get[api.Table[api.PartitionMember]](t, srv.URL+"/v1/partitions/tenant/members").Rows
		for i := range rows {
			m := &rows[i]
			out += fmt.Sprintf("%s=%s ", cmp.Or(m.Node, m.Member), m.Membership)
			if m.Pending {
				out += "(pending) "
			}
		}
		return out
	}
	at := srv.URL + "/v1/partitions"
	do := func(method, path, body string, code int, has string, head ...string) (p api.PartitionPlan) {
		t.Helper()
		got, text := change(t, method, at+path, body, head...)
		if got != code || !strings.Contains(text, has) {
			t.Fatalf("%s %s %s: %d %s, want %d %s", method, path, body, got, text, code, has)
		}
		if code < 300 {
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	full := `{"membership":"full"}`
	do("POST", "", `{"name":"tenant","ipoib":true,"members":[{"member":"host-2","membership":"full"}]}`, 202, `"+ tenant=0x0001: `+guid("host-2").String()+`=full"`)
	if got := list(); got != "host-2=full " {
		t.Fatal(got)
	}
	for limit := time.Now().Add(need.Patience); !r.d.Partitions().Settled; {
		if time.Now().After(limit) {
			t.Fatal("the partitions are not settled")
		}
	}
	// A plan has what it would do, and the revision that it is for.
	plan := do("PUT", "/tenant/members/host-3?dry_run=true", full, 200, "/etc/parts.conf is not changed")
	x := api.PlannedMembership{Partition: "tenant", PKey: "0x0001", From: "none", To: "full", PlannedPorts: api.PlannedPorts{Count: 1, Names: []string{"host-3"}}}
	if plan.Applied || plan.Ports != 1 || len(plan.Memberships) != 1 || !reflect.DeepEqual(plan.Memberships[0], x) || plan.Hosts.Writes != 1 || plan.SwitchPorts.Writes != 1 || plan.Switches < 1 {
		t.Errorf("%+v", plan)
	}
	if got := list(); got != "host-2=full " {
		t.Errorf("a dry run changed it: %s", got)
	}
	do("PUT", "/tenant/members/"+guid("host-3").String(), full, 202, `"applied":true`, "If-Match", `"`+plan.Revision+`"`)
	do("PUT", "/tenant/members/host-4", full, 412, "have changed meanwhile", "If-Match", `"`+plan.Revision+`"`)
	do("PUT", "/0x1/members/host-2:1", `{"membership":"limited"}`, 202, `"from":"full","to":"limited"`)
	do("PUT", "/1/members/0x77777", full, 202, `"pending_guids":["0x0000000000077777"]`)
	do("PUT", "/1/members/0x77777", full, 202, `"change":[]`)
	if got := list(); got != "host-3=full host-2=limited 0x0000000000077777=full (pending) " {
		t.Errorf("%s", got)
	}
	do("DELETE", "/tenant/members/0x77777", "", 202, `"pending_end":1`)
	for _, c := range []struct {
		method, path, body string
		code               int
		has                string
	}{
		{"PUT", "/tenant/members/host-99", full, 422, "NODE:PORT"},
		{"PUT", "/tenant/members/host-3:7", full, 422, "no such port"},
		{"PUT", "/tenant/members/0xzz", full, 422, "not a port GUID"},
		{"PUT", "/tenant/members/" + snap.Nodes[snap.Ports[snap.PortByGUID(guid("host-3"))].Node].Info.NodeGUID.String(), full, 422, "of node"},
		{"PUT", "/tenant/members/host-3", `{"membership":"some"}`, 422, "full, limited or both"},
		{"PUT", "/nobody/members/host-3", full, 404, "neither the name"},
		{"PUT", "/0x77/members/host-3", full, 404, "no partition has"},
		{"DELETE", "/tenant/members/host-9", "", 404, "has no line for"},
		{"DELETE", "/0x77", "", 404, "no partition has"},
		{"DELETE", "/Default", "", 422, "cannot be deleted"},
		{"DELETE", "/Default/members/ALL", "", 422, "the last member"},
		{"PUT", "/tenant/members/0x7fff", full, 422, "--pkey 0x7fff"},
		{"POST", "", `{"name":"other","members":[{"member":"0xffff"},{"member":"host-2"}]}`, 422, "--pkey 0xffff"},
		{"POST", "", `{"name":"tenant","members":[{"member":"host-2"}]}`, 409, "another name"},
		{"POST", "", `{"name":"other","pkey":"0x8001","members":[{"member":"host-2"}]}`, 409, "another one"},
		{"POST", "", `{"name":"other","pkey":"0x7fff","members":[{"member":"host-2"}]}`, 409, "another one"},
		{"POST", "", `{"name":"a,b","members":[{"member":"host-2"}]}`, 422, "printable"},
		{"GET", "/nobody/members", "", 404, "neither the name"},
	} {
		do(c.method, c.path, c.body, c.code, c.has)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if code, text := change(t, "PUT", fmt.Sprintf("%s/tenant/members/host-%d", at, 4+i), full); code != 202 || !strings.Contains(text, `"applied":true`) {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	all.Wait()
	for i := range 10 {
		if !strings.Contains(list(), fmt.Sprintf("host-%d=", 2+i)) {
			t.Errorf("host-%d is not in %s", 2+i, list())
		}
	}
	do("DELETE", "/tenant?dry_run=true", "", 200, `"what":"gone"`)
	do("DELETE", "/tenant", "", 202, `"what":"gone"`)
	do("GET", "/0x1/members", "", 404, "no partition has")
}

// TestPlannedGroups: a plan says which groups end and how many memberships, also of virtual machines, and
// that is what happens.
func TestPlannedGroups(t *testing.T) {
	r := newRig(t, false, "xgft", "2", "4,4", "1,2")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret"}))
	defer srv.Close()
	snap := r.awaitUp()
	const first, next = "Default=0x7fff,ipoib: ALL=full;\na=5,ipoib: 0xH2=full, 0xH9=full, 0xH5=full;", "Default=0x7fff,ipoib: ALL=full;\na=5: 0xH5=full;\nb=6,ipoib: 0xH2=full;"
	var pairs []string
	for _, h := range []int{2, 5, 9} {
		pairs = append(pairs, fmt.Sprintf("0xH%d", h), r.asker(fmt.Sprintf("host-%d", h), snap.LID).port.PortGUID().String())
	}
	named := strings.NewReplacer(pairs...)
	apply := func(query, config string) (p api.Partitions) {
		t.Helper()
		b, err := json.Marshal(map[string]string{"config": named.Replace(config)})
		if err != nil {
			t.Fatal(err)
		}
		code, text := change(t, http.MethodPut, srv.URL+"/v1/partitions"+query, string(b))
		if err := json.Unmarshal([]byte(text), &p); err != nil || code/100 != 2 {
			t.Fatal(code, text, err)
		}
		return p
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for limit := time.After(need.Patience); !is(); {
			select {
			case <-r.news:
			case <-time.After(time.Millisecond):
			case <-limit:
				t.Fatal(what)
			}
		}
	}
	apply("", first)
	await("the partitions are not settled", func() bool { return r.d.Partitions().Settled })
	for i, h := range []string{"host-2", "host-9", "host-5"} { // of groups 1, 1 and 2
		a := r.asker(h, snap.LID)
		var m ib.MAD
		wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|
			wire.MCMemberCompQKey|wire.MCMemberCompTClass|wire.MCMemberCompPKey|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
		rec := wire.MCMemberRecord{
			MGID: ib.MakeGID(0xFF12_A01C_0000_0000, ib.GUID(1+i/2)), PortGID: ib.MakeGID(snap.Prefix, a.port.PortGUID()), QKey: 0x0B1B, PKey: 0x8005, JoinState: 1,
		}
		rec.Put(wire.Data(&m))
		if st := a.ask(&m); st != 0 {
			t.Fatalf("join %d: status %v", i, st)
		}
	}
	if out, err := r.d.Operate(t.Context(), []api.VMOperation{{Op: "create", Name: "web", VMAddress: api.VMAddress{Keys: []api.VMKey{{PKey: "0x5"}}}}}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	await("the P_Key of the interface is not in force", func() bool {
		p := apply("?dry_run=true", first).Plan
		return p != nil && p.Interfaces == 0
	})
	plan := apply("?dry_run=true", next).Plan
	var got []string
	for _, g := range plan.Groups {
		got = append(got, fmt.Sprintf("%s %s %s %d", g.MGID, g.PKey, g.What, g.Ends))
	}
	want := []string{
		"ff12:401b:8005::ffff:ffff 0x0005 gone 0", "ff12:401b:8006::ffff:ffff 0x0006 new 0", "ff12:a01c::1 0x0005 gone 2",
	}
	if !slices.Equal(got, want) || plan.Ports != 2 || plan.Interfaces != 0 {
		t.Errorf("%q\n%+v", got, plan)
	}
	if p := apply("?dry_run=true", strings.ReplaceAll(next, "a=5", "other=5")).Plan; p.Interfaces != 1 || !slices.Equal(p.InterfaceNames, []string{"web"}) || !slices.Equal(p.Waiting, []string{"0x0005"}) {
		t.Errorf("%+v", p)
	}
	apply("", next)
	await("the groups are not as planned", func() bool {
		var have []string
		for _, g := range r.d.Groups() {
			have = append(have, g.MGID)
		}
		return slices.Equal(have, []string{"ff12:401b:8006::ffff:ffff", "ff12:401b:ffff::ffff:ffff", "ff12:a01c::2"})
	})
}

// TestMembersWithoutStore: while the state cannot be stored, a change is answered 503 and changes nothing; a
// plan is answered as always.
func TestMembersWithoutStore(t *testing.T) {
	away := &awayStore{Store: store.NewMemory()}
	r := newRigWith(t, func(c *daemon.Config) { c.Store = away }, "xgft", "2", "4,4", "1,2")
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret"}))
	defer srv.Close()
	r.awaitUp()
	away.away.Store(true)
	const body = `{"name":"tenant","members":[{"member":"host-2"}]}`
	if code, text := change(t, "POST", srv.URL+"/v1/partitions", body); code != 503 || !strings.Contains(text, "nothing was changed") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := change(t, "POST", srv.URL+"/v1/partitions?dry_run=true", body); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if n := len(r.d.Partitions().Partitions); n != 1 {
		t.Errorf("%d partitions", n)
	}
	away.away.Store(false)
	if code, text := change(t, "POST", srv.URL+"/v1/partitions", body); code != 202 {
		t.Errorf("%d %s", code, text)
	}
}

// awayStore cannot be reached while away.
type awayStore struct {
	store.Store
	away atomic.Bool
}

func (s *awayStore) Apply(ops []store.Op) error {
	if s.away.Load() {
		return fmt.Errorf("no quorum: %w", store.ErrUnavailable)
	}
	return s.Store.Apply(ops)
}
