package live

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"heddle/api"
	"heddle/ib"
	"heddle/vmdriver"
)

// fakeManager answers as it is told, and notes requests.
type fakeManager struct {
	mu     sync.Mutex
	asked  []string // guarded by mu
	answer func(r *http.Request) (code int, body string)
}

func (f *fakeManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
	f.mu.Unlock()
	code, body := f.answer(r)
	w.WriteHeader(code)
	fmt.Fprint(w, body)
}

func (f *fakeManager) serve(t *testing.T) *client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	n := 0
	return &client{name: "test", find: func() (Manager, error) {
		n++
		return Manager{URL: s.URL, Token: fmt.Sprint("token", n), Client: s.Client()}, nil
	}}
}

const attached = `{"name":"a/b","state":"attached","guid":"0x10","lid_kind":"own","hypervisor":{"port_guid":"0x2","function":3}}`

// TestRequests: every call is the request of the API that docs/vm.md describes.
func TestRequests(t *testing.T) {
	f := &fakeManager{answer: func(*http.Request) (int, string) { return 200, attached }}
	c := f.serve(t)
	at := vmdriver.Place{Port: 2, Function: 3}
	for _, x := range []struct {
		verb vmdriver.Verb
		want string
	}{
		{vmdriver.Get, "GET /v1/vms/a%2Fb Bearer token1"},
		{vmdriver.Finish, "POST /v1/vms/a%2Fb/finish?wait=5 Bearer token1"},
		{vmdriver.RollBack, "POST /v1/vms/a%2Fb/rollback?wait=5 Bearer token1"},
		{vmdriver.Move, "POST /v1/vms/a%2Fb/move?wait=5 Bearer token1"},
		{vmdriver.Report, "PUT /v1/vms/a%2Fb/migration Bearer token1"},
	} {
		f.asked = nil
		a := c.perform(t.Context(), vmdriver.Call{Verb: x.verb, Name: "a/b", Place: at})
		if a.Result != vmdriver.Done || !slices.Equal(f.asked, []string{x.want}) {
			t.Errorf("%v: %+v, %q", x.verb, a, f.asked)
		}
		if want := (vmdriver.Interface{Name: "a/b", State: vmdriver.Attached, At: at, GUID: 16, OwnLID: true}); x.verb != vmdriver.Report && a.View != want {
			t.Errorf("%v: %+v", x.verb, a.View)
		}
	}
}

// TestAnswers: what a manager may answer, and what is no answer of one.
func TestAnswers(t *testing.T) {
	for _, x := range []struct {
		code   int
		body   string
		result vmdriver.Result
		asks   bool // where the manager is
	}{
		{202, attached, vmdriver.Done, false},
		{404, `{"detail":"no such interface"}`, vmdriver.Absent, false},
		{409, `{"detail":"conflict"}`, vmdriver.Refused, false},
		{422, `{"detail":"invalid"}`, vmdriver.Refused, false},
		{507, `{"detail":"none left"}`, vmdriver.Refused, true},
		{503, `not the master`, vmdriver.Unknown, true},
		{500, ``, vmdriver.Unknown, true},
		{401, `token`, vmdriver.Unknown, true},
		{403, `name`, vmdriver.Unknown, false},
		{429, ``, vmdriver.Unknown, false},
		{200, `{"name":`, vmdriver.Unknown, false},
		{200, `[]`, vmdriver.Unknown, false},
		{200, ``, vmdriver.Unknown, false},
		{200, `{"name":"a/b","state":"flying"}`, vmdriver.Unknown, false},
		{200, `{"name":"a/b","state":"attached","doing":"nothing much"}`, vmdriver.Unknown, false},
		{200, `{"name":"a/b","state":"attached","hypervisor":{"port_guid":"x","function":3}}`, vmdriver.Unknown, false},
		{200, `{"name":"a/b","state":"attached","hypervisor":{"port_guid":"0x2","function":70000}}`, vmdriver.Unknown, false},
		{200, `{"name":"a/b","state":"attached","hypervisor":{"port_guid":"0x2","function":-1}}`, vmdriver.Unknown, false},
		{200, `{"name":"a/b","state":"attached","guid":"0x10000000000000000"}`, vmdriver.Unknown, false},
	} {
		f := &fakeManager{answer: func(*http.Request) (int, string) { return x.code, x.body }}
		c := f.serve(t)
		for _, verb := range []vmdriver.Verb{vmdriver.Get, vmdriver.Finish} {
			a := c.perform(t.Context(), vmdriver.Call{Verb: verb, Name: "a/b"})
			if a.Result != x.result || (a.Reason == "") != (x.result == vmdriver.Done) {
				t.Errorf("%d %s: %+v, want %v", x.code, x.body, a, x.result)
			}
		}
		if token := f.asked[1][strings.LastIndex(f.asked[1], " ")+1:]; (token == "token2") != x.asks {
			t.Errorf("%d: the second request has %s", x.code, token)
		}
	}
}

// TestListPages: all pages are read.
func TestListPages(t *testing.T) {
	f := &fakeManager{answer: func(r *http.Request) (int, string) {
		list := api.VMList{Next: "b", VMs: []api.VM{{Name: "a", State: "created"}, {Name: "b", State: "detached"}}}
		if r.URL.Query().Get("after") == "b" {
			list = api.VMList{VMs: []api.VM{{Name: "c", State: "migrating", Doing: "finish", Dest: &api.VMPlace{PortGUID: "0x5", Function: 1}}}}
		}
		b, err := json.Marshal(list)
		if err != nil {
			t.Error(err)
		}
		return 200, string(b)
	}}
	a := f.serve(t).perform(t.Context(), vmdriver.Call{Verb: vmdriver.List})
	if a.Result != vmdriver.Done || len(a.List) != 3 || a.List[2].To != (vmdriver.Place{Port: 5, Function: 1}) || a.List[2].Doing != vmdriver.Finishing {
		t.Errorf("%+v", a)
	}
}

// obedient carries every order out at once, and notes it.
type obedient struct {
	tell   func(vmdriver.Event)
	orders chan vmdriver.Order
}

func (h *obedient) Begin(tell func(vmdriver.Event)) vmdriver.Inventory {
	h.tell = tell
	return vmdriver.Inventory{Ports: []ib.GUID{2}}
}

func (h *obedient) Do(o vmdriver.Order) {
	h.tell(vmdriver.Status{Guest: vmdriver.Guest{Name: o.Name, At: o.Place}, Gone: o.Kind == vmdriver.End})
	h.orders <- o
}

// TestRun: the driver lists when it is connected, and follows changes.
func TestRun(t *testing.T) {
	more := make(chan string)
	state := "attached"
	var mu sync.Mutex
	f := &fakeManager{answer: func(r *http.Request) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		one := fmt.Sprintf(`{"name":"web","state":%q,"guid":"0x10","lid_kind":"own","hypervisor":{"port_guid":"0x2","function":3}}`, state)
		switch {
		case r.URL.Path == "/v1/vms:changes" && r.URL.Query().Get("since") == "":
			return 200, `{"since":"1","reset":true,"changes":[]}`
		case r.URL.Path == "/v1/vms:changes":
			mu.Unlock()
			defer mu.Lock()
			select {
			case s := <-more:
				return 200, s
			case <-r.Context().Done():
				return 503, ""
			}
		case r.URL.Path == "/v1/vms":
			return 200, `{"total":1,"vms":[` + one + `]}`
		}
		return 200, one
	}}
	c := f.serve(t)
	h := &obedient{orders: make(chan vmdriver.Order, 8)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx, Config{Manager: c.find, Hypervisors: h, Core: vmdriver.Defaults(), Name: "test", Log: slog.New(slog.DiscardHandler)})
	}()
	if o := <-h.orders; o.Kind != vmdriver.Start || o.Name != "web" || o.Place != (vmdriver.Place{Port: 2, Function: 3}) || o.GUID != 16 || !o.OwnLID {
		t.Errorf("%+v", o)
	}
	mu.Lock()
	state = "detached"
	mu.Unlock()
	more <- `{"since":"2","changes":[{"name":"web"}]}`
	if o := <-h.orders; o.Kind != vmdriver.End {
		t.Errorf("%+v", o)
	}
	cancel()
	<-done
}
