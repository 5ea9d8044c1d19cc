package ufm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/api"
	"heddle/api/listen"
	"heddle/ib"
	"heddle/internal/vmtest"
	"heddle/vm"
)

// fake keeps memberships as vm.Core does.
type fake struct {
	view    *vm.View
	reply   func(vm.Op) error
	standby error
}

func (f *fake) Interfaces() *vm.View { return f.view }
func (f *fake) Master() error        { return f.standby }
func (f *fake) VPorts() []api.VPort {
	return []api.VPort{{GUID: "0x00aa000000000001", PortGUID: "0x0002c90300000001", NodeGUID: "0x0002c90300000000", Node: "H1", Port: 1, State: "ACTIVE", LID: 9}}
}

func (f *fake) Perform(_ context.Context, ops []vm.Op) ([]vm.Reply, error) {
	out := make([]vm.Reply, len(ops))
	for i, op := range ops {
		out[i].Err = f.reply(op)
	}
	return out, nil
}

// serve is the handler as a manager serves it.
func serve(f *fake) http.Handler {
	f.keeper()
	return api.NewBasic(New(f), api.BasicOptions{User: "admin", Password: "123456", Kind: "ufm", Body: MaxBody})
}

func ask(h http.Handler, method, target string, body io.Reader, head ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, body)
	for _, line := range head {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (f *fake) keeper() {
	f.view = &vm.View{}
	f.reply = func(op vm.Op) error {
		v := *f.view
		v.Partitions = slices.Clone(v.Partitions)
		f.view = &v
		find := func(k ib.PKey) (int, bool) {
			return slices.BinarySearchFunc(v.Partitions, k, func(m vm.Members, k ib.PKey) int { return cmp.Compare(m.PKey, k) })
		}
		without := func(list, gone []ib.GUID) []ib.GUID {
			return slices.DeleteFunc(slices.Clone(list), func(g ib.GUID) bool { return slices.Contains(gone, g) })
		}
		switch op := op.(type) {
		case vm.AddMembers:
			i, ok := find(op.PKey)
			if !ok {
				v.Partitions = slices.Insert(v.Partitions, i, vm.Members{PKey: op.PKey})
			}
			m := &v.Partitions[i]
			m.Index0, m.IPoIB = op.Index0, op.IPoIB
			if op.Replace {
				m.Full, m.Limited = nil, nil
			}
			m.Full, m.Limited = without(m.Full, op.GUIDs), without(m.Limited, op.GUIDs)
			to := &m.Limited
			if op.Full {
				to = &m.Full
			}
			*to = append(*to, op.GUIDs...)
			slices.Sort(*to)
		case vm.RemoveMembers:
			i, ok := find(op.PKey)
			switch {
			case !ok:
				return fmt.Errorf("P_Key %v: %w", op.PKey, vm.ErrNotFound)
			case op.All:
				v.Partitions = slices.Delete(v.Partitions, i, i+1)
			default:
				m := &v.Partitions[i]
				m.Full, m.Limited = without(m.Full, op.GUIDs), without(m.Limited, op.GUIDs)
			}
		}
		return nil
	}
}

// plugin asks as the ufm plugin of ib-kubernetes does: HTTP Basic, a Content-Type
// with a charset on every request, and 200 is success.
type plugin struct {
	t   *testing.T
	url string
}

func (p *plugin) do(method, path, body string) []byte {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+path, bytes.NewBuffer([]byte(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.SetBasicAuth("admin", "123456")
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.Request.URL.Path != req.URL.Path {
		p.t.Fatalf("%s %s: %d at %v: %s, %v", method, path, resp.StatusCode, resp.Request.URL, b, err)
	}
	return b
}

func (p *plugin) add(key int, guids ...string) {
	p.t.Helper()
	p.do("POST", "/ufmRest/resources/pkeys", fmt.Sprintf(`{"pkey": "0x%04X", "index0": true, "ip_over_ib": true, "membership": "full", "guids": ["%s"]}`, key, strings.Join(guids, `","`)))
}

func (p *plugin) remove(key int, guids ...string) {
	p.t.Helper()
	p.do("POST", "/ufmRest/actions/remove_guids_from_pkey", fmt.Sprintf(`{"pkey": "0x%04X", "guids": ["%s"]}`, key, strings.Join(guids, `","`)))
}

// inUse is the plugin's reading of the list: GUID to P_Key.
func (p *plugin) inUse() map[string]string {
	p.t.Helper()
	var keys map[string]struct {
		GUIDs []struct {
			GUID string `json:"guid"`
		} `json:"guids"`
	}
	if err := json.Unmarshal(p.do("GET", "/ufmRest/resources/pkeys/?guids_data=true", ""), &keys); err != nil {
		p.t.Fatal(err)
	}
	out := map[string]string{}
	for k, v := range keys {
		for _, g := range v.GUIDs {
			out[g.GUID] = k
		}
	}
	return out
}

// TestUFMPlugin performs the calls of ib-kubernetes' stock ufm plugin.
func TestUFMPlugin(t *testing.T) {
	f := &fake{}
	srv := httptest.NewServer(serve(f))
	defer srv.Close()
	p := &plugin{t, srv.URL}
	p.do("GET", "/ufmRest/app/ufm_version", "")
	if got := p.inUse(); len(got) != 0 {
		t.Errorf("in use at the start: %v", got)
	}
	want := func(m map[string]string) {
		t.Helper()
		if got := p.inUse(); !reflect.DeepEqual(got, m) {
			t.Errorf("in use: %v, want %v", got, m)
		}
	}
	a, b, c := "02000000000000aa", "02000000000000ab", "0200ffffffffffff"
	for range 2 { // batches are repeated
		p.add(5, a, b)
		p.add(0x7ffe, c)
	}
	want(map[string]string{a: "0x0005", b: "0x0005", c: "0x7ffe"})
	if m := f.view.Partitions[0]; !m.Index0 || !m.IPoIB || !slices.Equal(m.Full, []ib.GUID{0x02000000000000aa, 0x02000000000000ab}) || len(m.Limited) != 0 {
		t.Errorf("kept: %+v", m)
	}
	for range 2 {
		p.remove(5, a)
	}
	p.remove(0x123, a) // nobody has heard of it
	want(map[string]string{b: "0x0005", c: "0x7ffe"})
	// Interfaces of virtual machines hold GUIDs too.
	web := vmtest.View(t,
		vm.Create{I: vm.Interface{Name: "later", GUIDKind: vm.FunctionGUID, Keys: []vm.Membership{{PKey: 5}}}},
		vm.Create{I: vm.Interface{Name: "web", GUID: 0xAA, Keys: []vm.Membership{{PKey: 5}}}})
	web.Partitions = f.view.Partitions
	f.view = web
	want(map[string]string{b: "0x0005", c: "0x7ffe", "00000000000000aa": "0x0005"})
}

// TestUFMCalls: the other calls, and both spellings of each path.
func TestUFMCalls(t *testing.T) {
	f := &fake{}
	srv := httptest.NewServer(serve(f))
	defer srv.Close()
	p := &plugin{t, srv.URL}
	kept := func(want string) {
		t.Helper()
		if got := fmt.Sprintf("%+v", f.view.Partitions); got != want {
			t.Errorf("kept %s, want %s", got, want)
		}
	}
	p.do("POST", "/ufmRest/resources/pkeys/add", `{"pkey":"0x12","index0":false,"ip_over_ib":true,"mtu_limit":2,"service_level":0,"rate_limit":2.5,"partition_name":"x"}`)
	kept("[{PKey:0x0012 Index0:false IPoIB:true Full:[] Limited:[]}]")
	p.do("POST", "/ufmRest/resources/pkeys/", `{"pkey":"0x12","index0":true,"guids":["0x00000000000000AB","00:00:00:00:00:00:00:ac"],"memberships":["full","limited"]}`)
	kept("[{PKey:0x0012 Index0:true IPoIB:true Full:[0x00000000000000ab] Limited:[0x00000000000000ac]}]")
	// What is not said stays.
	p.do("PUT", "/ufmRest/resources/pkeys", `{"pkey":"0x12","guids":["00000000000000ad"],"membership":"limited"}`)
	kept("[{PKey:0x0012 Index0:true IPoIB:true Full:[] Limited:[0x00000000000000ad]}]")
	p.do("PUT", "/ufmRest/resources/pkeys/", `{"pkey":"0x12","guids":["00000000000000ad","00000000000000ae"],"memberships":["full","limited"]}`)
	kept("[{PKey:0x0012 Index0:true IPoIB:true Full:[0x00000000000000ad] Limited:[0x00000000000000ae]}]")
	for path, want := range map[string]string{
		"/ufmRest/resources/pkeys/0x12":                    `{"partition":"api_pkey_0x12","ip_over_ib":true}`,
		"/ufmRest/resources/pkeys/0x0012/?guids_data=true": `{"partition":"api_pkey_0x12","ip_over_ib":true,"guids":[{"guid":"00000000000000ad","membership":"full","index0":true},{"guid":"00000000000000ae","membership":"limited","index0":true}]}`,
		"/ufmRest/resources/pkeys":                         `{"0x0012":{"partition":"api_pkey_0x12","ip_over_ib":true}}`,
		"/ufmRest/resources/vports": `[{"virtual_port_state":"ACTIVE","virtual_port_lid":9,"virtual_port_guid":"00aa000000000001","system_name":"H1","system_ip":"","system_guid":"0002c90300000000",` +
			`"port_guid":"0002c90300000001","port_name":"0002c90300000001_1","port_number":1,"node_description":""}]`,
		"/ufmRest/resources/vports?system=00": `[]`,
	} {
		if got := strings.TrimSpace(string(p.do("GET", path, ""))); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	p.do("DELETE", "/ufmRest/resources/pkeys/0x12/guids/00000000000000ad,00000000000000ff", "")
	kept("[{PKey:0x0012 Index0:true IPoIB:true Full:[] Limited:[0x00000000000000ae]}]")
	p.do("DELETE", "/ufmRest/resources/pkeys/0x12", "")
	kept("[]")
}

// TestUFMRefusals: unauthorized and invalid requests change nothing.
func TestUFMRefusals(t *testing.T) {
	f := &fake{}
	h := serve(f)
	const path, good = "/ufmRest/resources/pkeys", `{"pkey":"0x5","guids":["00000000000000ab"]}`
	const auth = "Authorization: Basic YWRtaW46MTIzNDU2" // admin:123456
	for _, c := range []struct {
		method, path, body, head, says string
		code                           int
	}{
		{"POST", path, good, "", "user or password", 401},
		{"POST", path, good, "Authorization: Basic YWRtaW46MTIzNDU3", "user or password", 401},
		{"POST", path, good, "Authorization: Basic cm9vdDoxMjM0NTY=", "user or password", 401},
		{"POST", path, good, "Authorization: Bearer 123456", "user or password", 401},
		{"POST", path, good, "Authorization: Basic !", "user or password", 401},
		{"GET", "/ufmRest/app/ufm_version", "", "", "user or password", 401},
		{"POST", path, ``, auth, "JSON", 400},
		{"POST", path, `[]`, auth, "JSON", 400},
		{"POST", path, good + "x", auth, "unexpected data after", 400},
		{"POST", path, `{"pkey":"5","guids":["00000000000000ab"]}`, auth, "0x1 to 0x7ffe", 400},
		{"POST", path, `{"pkey":"0x0","guids":["00000000000000ab"]}`, auth, "0x1 to 0x7ffe", 400},
		{"POST", path, `{"pkey":"0x7fff","guids":["00000000000000ab"]}`, auth, "0x1 to 0x7ffe", 400},
		{"POST", path, `{"pkey":"0x8005","guids":["00000000000000ab"]}`, auth, "0x1 to 0x7ffe", 400},
		{"POST", path, `{"pkey":"0x5"}`, auth, "guids is empty", 400},
		{"POST", path, `{"pkey":"0x5","guids":["ab"]}`, auth, "16 hex digits", 400},
		{"POST", path, `{"pkey":"0x5","guids":["0000000000000000"]}`, auth, "not all zero", 400},
		{"POST", path, `{"pkey":"0x5","guids":["00000000000000ab"],"membership":"both"}`, auth, "full or limited", 400},
		{"POST", path, `{"pkey":"0x5","guids":["00000000000000ab"],"memberships":["full","full"]}`, auth, "2 entries for 1", 400},
		{"POST", path + "/add", `{"pkey":"0x5","mtu_limit":4}`, auth, "--partitions", 400},
		{"POST", "/ufmRest/actions/remove_guids_from_pkey", `{"pkey":"0x5","guids":[]}`, auth, "guids is empty", 400},
		{"POST", path, `{"pkey":"0x5","guids":["` + strings.Repeat("0", MaxBody) + `"]}`, auth, "large", 413},
		{"DELETE", path + "/0x7fff", "", auth, "0x1 to 0x7ffe", 400},
		{"DELETE", path + "/0x5", "", auth, "no such", 404},
		{"GET", path + "/0x5", "", auth, "no partition", 404},
		{"GET", "/ufmRest/nothing", "", auth, "", 404},
	} {
		w := ask(h, c.method, c.path, strings.NewReader(c.body), c.head)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %.80s: %d %s, want %d and %q", c.method, c.path, c.body, w.Code, w.Body, c.code, c.says)
		}
	}
	if len(f.view.Partitions) != 0 {
		t.Errorf("kept: %+v", f.view.Partitions)
	}
	// A page of a stranger's cannot use what a browser remembers.
	if w := ask(h, "POST", path, strings.NewReader(good), auth, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"); w.Code != 403 {
		t.Errorf("from a stranger's page: %d", w.Code)
	}
	// A standby does not even list: what it has is not what the master has.
	f.standby = fmt.Errorf("%w: ask the master, port GUID 0x1", api.ErrNotMaster)
	for _, c := range [][3]string{{"GET", path, ""}, {"GET", "/ufmRest/app/ufm_version", ""}, {"POST", path, good}} {
		if w := ask(h, c[0], c[1], strings.NewReader(c[2]), auth); w.Code != 503 || !strings.Contains(w.Body.String(), "ask the master, port GUID 0x1") {
			t.Errorf("%v of a standby: %d %s", c, w.Code, w.Body)
		}
	}
}

func TestListensOnLoopbackOrTLS(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false, "sm.example.org:0": false, "127.0.0.1": false} {
		l, err := listen.UFM(addr, nil)
		if err == nil {
			l.Close()
		}
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), addr) {
			t.Errorf("%q without TLS: %v", addr, err)
		}
	}
}

func FuzzUFMBody(f *testing.F) {
	f.Add(`{"pkey":"0x5","guids":["00000000000000ab"],"memberships":["full"],"index0":true}`)
	f.Add(`{"pkey":"0x7ffe","guids":["00:00:00:00:00:00:00:ac"],"membership":"limited","mtu_limit":2}`)
	f.Add(`{"pkey":"0x5","guids":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		b, err := read(strings.NewReader(body))
		if err != nil {
			if api.VMStatus(err) != 400 {
				t.Errorf("%q: %v is not the request's fault", body, err)
			}
			return
		}
		if b.key == 0 || b.key > 0x7FFE || len(b.full)+len(b.limited) != len(b.GUIDs) {
			t.Errorf("%q: %+v", body, b)
		}
		for _, g := range append(b.full, b.limited...) {
			if s := ufmText(g); g == 0 || len(s) != 16 || s != strings.ToLower(s) {
				t.Errorf("%q: GUID %q", body, s)
			}
		}
	})
}
