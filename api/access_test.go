package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heddle/access"
	"heddle/api/listen"
	"heddle/ib"
)

// anything answers any call.
var anything = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// TestFailuresAreLimited: 20 wrong credentials of an address are answered 401, then 429 for the rest of
// the minute. Random tokens are accepted all the same, the token to read is not even compared, and other
// addresses are not concerned.
func TestFailuresAreLimited(t *testing.T) {
	o, tokens := everything(t)
	now := time.Unix(1000, 0)
	o.ReadToken, o.Now = "reader reader reader", func() time.Time { return now }
	h := New(newFake(0), o)
	get := func(addr, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://127.0.0.1/v1/status", nil)
		r.RemoteAddr = addr
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	wrong := []string{
		"Bearer wrong", "Bearer " + tokens[access.Viewer] + "x", "Basic dXNlcjpwYXNz", "Bearer ", "Bearer heddle.viewer." + strings.Repeat("A", 43),
	}
	for i := range 20 {
		if w := get(fmt.Sprintf("[2001:db8::%d]:7", i), wrong[i%len(wrong)]); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
			t.Fatalf("wrong credential %d: %d %s", i, w.Code, w.Body)
		}
	}
	for _, c := range []struct {
		addr, token string
		want        int
	}{
		{"[2001:db8::99]:1", "Bearer wrong", 429},
		{"[2001:db8::99]:1", "Bearer " + o.ReadToken, 429},
		{"[2001:db8::99]:1", "Bearer " + tokens[access.Viewer], 200},
		{"[2001:db8::99]:1", "Bearer " + o.Token, 200},
		{"[2001:db8:0:1::99]:1", "Bearer " + o.ReadToken, 200},
		{"192.0.2.1:1", "Bearer " + o.ReadToken, 200},
		{"192.0.2.1:1", "Bearer wrong", 401},
	} {
		w := get(c.addr, c.token)
		if w.Code != c.want || (c.want == 429) != (w.Header().Get("Retry-After") == "60") {
			t.Errorf("%s %q: %d, Retry-After %q; want %d", c.addr, c.token, w.Code, w.Header().Get("Retry-After"), c.want)
		}
	}
	now = now.Add(time.Minute)
	if w := get("[2001:db8::99]:1", "Bearer "+o.ReadToken); w.Code != 200 {
		t.Errorf("after a minute: %d", w.Code)
	}
	// UFM calls share the limit.
	u := NewBasic(anything, BasicOptions{User: "u", Password: "right", Limits: o.Limits, Now: o.Now})
	basic := func(password string) int {
		r := httptest.NewRequest("GET", "http://127.0.0.1/ufmRest/app/ufm_version", nil)
		r.RemoteAddr = "192.0.2.7:1"
		r.SetBasicAuth("u", password)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		return w.Code
	}
	for i := range 21 {
		if code := basic("wrong"); code != 401 && i < 20 || i == 20 && code != 429 {
			t.Fatalf("UFM, wrong password %d: %d", i, code)
		}
	}
	if code := basic("right"); code != 429 {
		t.Errorf("the right password after 21 wrong ones: %d", code)
	}
}

// TestRateOfTokens: a token may make ten seconds' worth of its rate at a time; others, and the daemon's
// own token, are not concerned.
func TestRateOfTokens(t *testing.T) {
	o, tokens := everything(t)
	now := time.Unix(1000, 0)
	o.Limits, o.Now = NewLimits(2), func() time.Time { return now }
	h := New(newFake(0), o)
	get := func(token string) *httptest.ResponseRecorder {
		return ask(h, "GET", "/v1/whoami", nil, "Authorization: Bearer "+token)
	}
	for i := range 21 {
		w := get(tokens[access.Viewer])
		if i < 20 && w.Code != 200 || i == 20 && (w.Code != 429 || w.Header().Get("Retry-After") != "1") {
			t.Fatalf("request %d: %d %v", i, w.Code, w.Header())
		}
	}
	for range 50 {
		if w := get(o.Token); w.Code != 200 {
			t.Fatalf("the daemon's token: %d", w.Code)
		}
	}
	now = now.Add(500 * time.Millisecond)
	for _, want := range []int{200, 429} {
		if w := get(tokens[access.Viewer]); w.Code != want {
			t.Errorf("half a second later: %d, want %d", w.Code, want)
		}
	}
	if w := get(tokens[access.Operator]); w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"token:operator"`) {
		t.Errorf("another token: %d %s", w.Code, w.Body)
	}
}

// TestRateOfRefusedRequests: a token pushes no more out of the audit log by requests that it may not make
// than by others.
func TestRateOfRefusedRequests(t *testing.T) {
	o, tokens := everything(t)
	now := time.Unix(1000, 0)
	o.Limits, o.Now = NewLimits(2), func() time.Time { return now }
	h := New(newFake(0), o)
	for i := range 100 {
		want := 403
		if i >= 20 {
			want = 429
		}
		if w := ask(h, "POST", "/v1/sweep", nil, "Authorization: Bearer "+tokens[access.Tenant]); w.Code != want {
			t.Fatalf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if n := len(o.Audit.(*diary).entries); n != 20 {
		t.Errorf("the audit log has %d entries, want 20", n)
	}
}

// TestRevokedTokenEndsStreams: a stream of events ends when its token is revoked or expires, and stays
// when another one is.
func TestRevokedTokenEndsStreams(t *testing.T) {
	for _, how := range []string{"revoked", "expired"} {
		synctest.Test(t, func(t *testing.T) {
			o, _ := everything(t)
			text, _, err := o.TokenKeeper.CreateToken(access.NewToken{Name: "x", Role: access.Viewer, Expires: time.Now().Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			h := New(newFake(0), o)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := httptest.NewRequest("GET", "http://127.0.0.1/v1/events/stream", nil).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+text)
			ended := make(chan time.Time, 1)
			go func() {
				h.ServeHTTP(httptest.NewRecorder(), r)
				ended <- time.Now()
			}()
			if _, err := o.TokenKeeper.RevokeToken("viewer"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case <-ended:
				t.Fatal("the stream ended with another token")
			default:
			}
			begun := time.Now()
			if how == "revoked" {
				if _, err := o.TokenKeeper.RevokeToken("x"); err != nil {
					t.Fatal(err)
				}
			}
			took := (<-ended).Sub(begun)
			if how == "revoked" && took > 0 || how == "expired" && took != time.Hour {
				t.Errorf("%s: the stream ended after %v", how, took)
			}
			if w := ask(h, "GET", "/v1/status", nil, "Authorization: Bearer "+text); w.Code != 401 {
				t.Errorf("%s: status %d", how, w.Code)
			}
		})
	}
}

// TestRemovedCertificateEndsStreams: a stream of events ends when the line of its certificate is removed,
// within a second, and when the certificate has a role that may not follow events.
func TestRemovedCertificateEndsStreams(t *testing.T) {
	for _, after := range []string{"", "tenant:a- CN=x", "viewer CN=other"} {
		synctest.Test(t, func(t *testing.T) {
			o, _ := everything(t)
			var roles atomic.Pointer[access.Clients]
			set := func(text string) {
				c, err := access.ParseClients(strings.NewReader(text), "clients")
				if err != nil {
					t.Error(err)
				}
				roles.Store(c)
			}
			set("operator CN=x")
			o.Clients = roles.Load
			h := New(newFake(0), o)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := httptest.NewRequest("GET", "http://127.0.0.1/v1/events/stream", nil).WithContext(ctx)
			cert := &x509.Certificate{Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
			ended := make(chan time.Time, 1)
			go func() {
				h.ServeHTTP(httptest.NewRecorder(), r)
				ended <- time.Now()
			}()
			set("viewer CN=x") // that may follow events too
			<-time.After(10 * time.Second)
			select {
			case <-ended:
				t.Fatal("the stream ended with its role")
			default:
			}
			begun := time.Now()
			set(after)
			if took := (<-ended).Sub(begun); took > certifyTime {
				t.Errorf("the stream ended after %v", took)
			}
		})
	}
}

// TestOthersFailuresDoNotCloseReading: on loopback everybody without a token reads, also after others on
// this machine showed too many wrong ones; unknown tokens are refused without a comparison.
func TestOthersFailuresDoNotCloseReading(t *testing.T) {
	o, tokens := everything(t)
	now := time.Unix(1000, 0)
	o.Now = func() time.Time { return now }
	h := New(newFake(0), o)
	for range 30 {
		ask(h, "POST", "/v1/sweep", nil, "Authorization: Bearer wrong")
	}
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/v1/status", "", 200},
		{"GET", "/v1/status", "an old token", 429},
		{"POST", "/v1/sweep", "an old token", 429},
		{"GET", "/v1/backup", "an old token", 429},
		{"GET", "/v1/status", "heddle.viewer." + strings.Repeat("A", 43), 429},
		{"GET", "/v1/status", tokens[access.Viewer], 200},
	} {
		var head []string
		if c.token != "" {
			head = append(head, "Authorization: Bearer "+c.token)
		}
		if w := ask(h, c.method, c.path, nil, head...); w.Code != c.want {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.token, w.Code, c.want)
		}
	}
	// The UFM calls count their own failures: neither locks the other out.
	u := NewBasic(anything, BasicOptions{User: "u", Password: "right", Now: o.Now})
	r := httptest.NewRequest("GET", "http://127.0.0.1/ufmRest/app/ufm_version", nil)
	r.SetBasicAuth("u", "right")
	w := httptest.NewRecorder()
	if u.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("a UFM call: %d", w.Code)
	}
}

// TestSocketOwner: on the owner's socket root and the daemon's user are administrators; others are who
// they would be elsewhere.
func TestSocketOwner(t *testing.T) {
	o, tokens := everything(t)
	o.AllowWrite = true
	h := New(newFake(0), o)
	for _, c := range []struct {
		uid   int
		token string
		want  int
		name  string
	}{
		{0, "", 200, "socket:uid=0"},
		{os.Geteuid(), "", 200, fmt.Sprint("socket:uid=", os.Geteuid())},
		{54321, "", 401, ""},
		{listen.UnknownUID, "", 401, ""},
		{listen.UnknownUID, "", 401, ""},
		{54321, tokens[access.Viewer], 403, ""},
		{54321, tokens[access.Admin], 200, "token:admin"},
	} {
		r := httptest.NewRequest("GET", "http://localhost/v1/sa-key", nil)
		r = r.WithContext(listen.WithPeer(r.Context(), listen.Peer{UID: c.uid, PID: 7}))
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("uid %d: %d %s", c.uid, w.Code, w.Body)
		}
		if log := o.Audit.(*diary).entries; c.want == 200 && (log[len(log)-1].Who != c.name || log[len(log)-1].From != "pid 7") {
			t.Errorf("uid %d: the audit log has %+v", c.uid, log[len(log)-1])
		}
	}
}

// TestTokensOverHTTP: an administrator creates, lists and revokes tokens; the secret is shown once.
func TestTokensOverHTTP(t *testing.T) {
	o, tokens := everything(t)
	h := New(newFake(0), o)
	admin := "Authorization: Bearer " + tokens[access.Admin]
	do := func(method, path, body string) *httptest.ResponseRecorder {
		return ask(h, method, path, strings.NewReader(body), admin, inJSON)
	}
	w := do("POST", "/v1/tokens", `{"name":"x","role":"tenant","prefix":"x-","pkeys":["0x8005"],"valid_seconds":3600}`)
	if w.Code != 201 || !strings.Contains(w.Body.String(), `"token":"heddle.x.`) || !strings.Contains(w.Body.String(), `"0x0005"`) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	_, rest, _ := strings.Cut(w.Body.String(), `"token":"`)
	text, _, _ := strings.Cut(rest, `"`)
	if w := ask(h, "GET", "/v1/whoami", nil, "Authorization: Bearer "+text); !strings.Contains(w.Body.String(), `"role":"tenant","prefix":"x-"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = do("GET", "/v1/tokens", "")
	if w.Code != 200 || strings.Count(w.Body.String(), `"name"`) != 5 || !strings.Contains(w.Body.String(), `"created_by":"token:admin"`) || !strings.Contains(w.Body.String(), "last_used") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	log := o.Audit.(*diary)
	for _, where := range []string{w.Body.String(), fmt.Sprintf("%+v", log.entries)} {
		if strings.Contains(where, text[len("heddle.x."):]) {
			t.Errorf("the secret is in %s", where)
		}
	}
	if e := log.entries[0]; e.Who != "token:admin" || e.Status != 201 || !slices.Contains(e.Change, "prefix: x-") || !slices.Contains(e.Change, "role: tenant") {
		t.Errorf("%+v", e)
	}
	for body, code := range map[string]int{
		`{"name":"x","role":"viewer"}`: 409, `{"name":"y","role":"viewer","valid_seconds":3153600001}`: 400, `{"name":"y","role":"viewer","valid_seconds":1e300}`: 400, `{"name":"y","role":"root"}`: 422, `{"name":"y","role":"tenant"}`: 400,
		`{"name":"y z","role":"viewer"}`: 400, `{"name":"y","role":"viewer","prefix":"a"}`: 400, `{"name":"y","role":"tenant","prefix":"y-","pkeys":["zzz"]}`: 400,
	} {
		if w := do("POST", "/v1/tokens", body); w.Code != code {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := do("DELETE", "/v1/tokens/x", ""); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/whoami", nil, "Authorization: Bearer "+text); w.Code != 401 {
		t.Errorf("revoked: %d", w.Code)
	}
	if w := do("DELETE", "/v1/tokens/x", ""); w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do("GET", "/openapi.json", ""); !strings.Contains(w.Body.String(), `"scheme":"bearer"`) || !strings.Contains(w.Body.String(), `"x-roles":["operator","admin"]`) || !strings.Contains(w.Body.String(), "mutualTLS") {
		t.Errorf("the description has no security: %.300s", w.Body)
	}
}

// estate is a manager with interfaces and partitions of two tenants.
type estate struct{ *fake }

func (e *estate) names() []string { return []string{"acme-1", "acme-2", "acme-3", "other-1"} }

func (e *estate) VMs(f VMFilter) (out VMList, err error) { // pages of two
	for _, n := range e.names() {
		if n <= f.After {
			continue
		}
		if len(out.VMs) == 2 {
			out.Next = out.VMs[1].Name
			break
		}
		out.VMs = append(out.VMs, VM{Name: n})
	}
	out.Total = len(e.names())
	return out, nil
}

func (e *estate) VMChanges(context.Context, string) (c VMChanges, err error) {
	for _, n := range e.names() {
		c.Changes = append(c.Changes, VMChange{Name: n})
	}
	return c, nil
}

func (e *estate) Partitions() Partitions {
	return Partitions{Config: "secret configuration", Partitions: []Partition{
		{Name: "acme-net", PKey: "0x0005"}, {Name: "other-net", PKey: "0x0006"}, {Name: "acme-all", PKey: "0x7fff"},
	}}
}

// TestTenant: a tenant sees and changes what has its prefix and its P_Keys, and nothing else.
func TestTenant(t *testing.T) {
	o, tokens := everything(t)
	f := &estate{newFake(0)}
	h := New(f, o)
	for _, c := range []struct {
		method, path, body string
		code               int
		has, lacks         string
		operated           int
	}{
		{"GET", "/v1/vms", "", 200, `"total":3`, "other", 0},
		{"GET", "/v1/vms?limit=2", "", 200, `"next":"acme-2"`, "acme-3", 0},
		{"GET", "/v1/vms?limit=2&after=acme-2", "", 200, `acme-3`, `"next"`, 0},
		{"GET", "/v1/vms/acme-1", "", 200, "acme-1", "", 0},
		{"GET", "/v1/vms/other-1", "", 404, "", "", 0},
		{"GET", "/v1/partitions", "", 200, "acme-net", "other-net", 0},
		{"GET", "/v1/partitions", "", 200, "acme-net", "secret configuration", 0},
		{"GET", "/v1/partitions/0x8005/ready", "", 200, "", "", 0},
		{"GET", "/v1/partitions/0x6/ready", "", 404, "", "", 0},
		{"PUT", "/v1/partitions", `{"config":"x"}`, 403, "tenant", "", 0},
		{"GET", "/v1/partitions", "", 200, "acme-net", "revision", 0},
		{"POST", "/v1/partitions", `{"name":"acme-x"}`, 202, `"applied":true`, "0x1=full", 0},
		{"POST", "/v1/partitions?dry_run=true", `{"name":"acme-x"}`, 200, `"revision":""`, "0x1=full", 0},
		{"DELETE", "/v1/partitions/acme-net", "", 202, `"change":[]`, "more_change", 0},
		{"DELETE", "/v1/partitions/forbidden", "", 403, "not permitted", "", 0},
		{"DELETE", "/v1/partitions/used", "", 409, "in use", "", 0},
		{"PUT", "/v1/partitions/acme-net/members/0x1", `{"membership":"full"}`, 403, "tenant", "", 0},
		{"DELETE", "/v1/partitions/acme-net/members/0x1?dry_run=true", "", 403, "tenant", "", 0},
		{"GET", "/v1/partitions/acme-net/members", "", 403, "tenant", "", 0},
		{"POST", "/v1/sweep", "", 403, "", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x5"}]}`, 201, "", "", 1},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x8005","membership":"limited"}]}`, 201, "", "", 1},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x6"}]}`, 403, "0x6", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x8006"}]}`, 403, "", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9"}`, 403, "P_Key", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0xffff"}]}`, 403, "0xffff", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x5"}],"guid":"0x0002c90300000001"}`, 403, "GUIDs", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x5"}],"alias_guids":["0x1"]}`, 403, "", "", 0},
		{"POST", "/v1/vms", `{"name":"acme-9","keys":[{"pkey":"0x5"}],"lid":7}`, 403, "", "", 0},
		{"POST", "/v1/vms", `{"name":"other-9","keys":[{"pkey":"0x5"}]}`, 403, "acme-", "", 0},
		{"POST", "/v1/vms/acme-1/attach", `{"hypervisor":"H1"}`, 200, "", "", 1},
		{"POST", "/v1/vms/other-1/attach", `{"hypervisor":"H1"}`, 403, "", "", 0},
		{"POST", "/v1/vms/other-1/detach", "", 403, "", "", 0},
		{"DELETE", "/v1/vms/other-1?force=true", "", 403, "", "", 0},
		{"PUT", "/v1/vms/acme-1/keys", `{"keys":[{"pkey":"0x6"}]}`, 403, "", "", 0},
		{"PUT", "/v1/vms/acme-1/keys", `{"keys":[]}`, 403, "", "", 0},
		{"PUT", "/v1/vms/acme-1/keys", `{"keys":[{"pkey":"0x5"}]}`, 200, "", "", 1},
		{"PUT", "/v1/vms/acme-1/migration", `{}`, 403, "", "", 0},
		{"POST", "/v1/vms:batch", `{"operations":[{"op":"delete","name":"other-1"},{"op":"detach","name":"acme-2"},{"op":"move","name":"other-1"}]}`, 200, `"status":403`, "", 1},
		{"GET", "/v1/vms:changes", "", 200, "acme-1", "other", 0},
		{"GET", "/v1/vports", "", 403, "", "", 0},
		{"GET", "/v1/status", "", 403, "", "", 0},
		{"GET", "/healthz", "", 200, "ok", "", 0},
	} {
		f.ops = nil
		w := ask(h, c.method, c.path, strings.NewReader(c.body), "Authorization: Bearer "+tokens[access.Tenant], inJSON)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.has) || c.lacks != "" && strings.Contains(w.Body.String(), c.lacks) || len(f.ops) != c.operated {
			t.Errorf("%s %s %s: %d %s, %d operations; want %d", c.method, c.path, c.body, w.Code, w.Body, len(f.ops), c.code)
		}
		for _, op := range f.ops {
			if op.Scope == nil || op.Scope.Prefix != "acme-" {
				t.Errorf("%s %s: the operation has the scope %v: nobody would check its P_Keys again", c.method, c.path, op.Scope)
			}
		}
	}
}

// TestHoldOfLinks: a link is taken out of use for 30 days at most, or until somebody restores it.
func TestHoldOfLinks(t *testing.T) {
	o, tokens := everything(t)
	h := New(newFake(0), o)
	for hold, want := range map[string]int{"": 200, "&for=720h": 200, "&for=720h0m1s": 422, "&for=876000h": 422, "&for=0s": 422} {
		w := ask(h, "POST", "/v1/ports/0x1/3/drain?dry_run=false"+hold, nil, "Authorization: Bearer "+tokens[access.Operator])
		if w.Code != want || want == 422 && !strings.Contains(w.Body.String(), "720h (30 days) at most") {
			t.Errorf("%q: %d %s", hold, w.Code, w.Body)
		}
	}
}

// TestPlanOfTenant: a plan has also what is not carried out yet for others, and a tenant does not see it.
func TestPlanOfTenant(t *testing.T) {
	p := ownPlan(&access.Scope{Prefix: "acme-"}, &PartitionPlan{
		Applied: true, Revision: "r", Ports: 3, Change: []string{"+ acme-net=0x0005", "+ acme-net=0x0005: mgid=ff12::1"},
		Partitions:  []PlannedPartition{{Name: "acme-net", PKey: "0x0005", What: "new"}, {Name: "secret-project", PKey: "0x0001", What: "changed", Begin: 1}},
		Memberships: []PlannedMembership{{Partition: "secret-project"}}, InterfaceNames: []string{"secret-1"}, Notes: []string{"secret"},
	})
	got, err := json.Marshal(p)
	if err != nil || !p.Applied || p.Ports != 0 || !slices.Equal(p.Change, []string{"+ acme-net=0x0005"}) || len(p.Partitions) != 1 || strings.Contains(string(got), "secret") {
		t.Errorf("%s, %v", got, err)
	}
}

// TestTenantPartitions: what a tenant asks for has its scope and no revision, and the P_Keys of tokens are
// kept for them, also when others ask.
func TestTenantPartitions(t *testing.T) {
	o, tokens := everything(t)
	n := access.NewToken{Name: "other", Role: access.Tenant, Scope: access.Scope{Prefix: "other-", PKeys: []ib.PKey{0x20, 0x21}}}
	if _, _, err := o.TokenKeeper.CreateToken(n); err != nil {
		t.Fatal(err)
	}
	f := newFake(0)
	h := New(f, o)
	for _, role := range []access.Role{access.Tenant, access.Admin} {
		f.change = PartitionsChange{}
		ask(h, "POST", "/v1/partitions", strings.NewReader(`{"name":"acme-x"}`), "Authorization: Bearer "+tokens[role], inJSON)
		if c := f.change; c.New.Name != "acme-x" || !slices.Equal(c.Reserved, n.Scope.PKeys) || (role == access.Tenant) != (c.Scope != nil && c.Scope.Prefix == "acme-") {
			t.Errorf("%v: %+v", role, c)
		}
	}
	f.change = PartitionsChange{}
	w := ask(h, "DELETE", "/v1/partitions/acme-x", nil, "Authorization: Bearer "+tokens[access.Tenant], `If-Match: "`+Revision("")+`"`)
	if w.Code != 403 || f.change.Partition != "" {
		t.Errorf("with a revision: %d %s", w.Code, w.Body)
	}
}

// TestBodiesOfTenants: a tenant sends 1 MiB at most, where others may send more.
func TestBodiesOfTenants(t *testing.T) {
	o, tokens := everything(t)
	h := New(newFake(0), o)
	large := `{"operations":[{"op":"detach","name":"acme-1"}]` + strings.Repeat(" ", maxTenantBody) + "}"
	for role, want := range map[access.Role]int{access.Tenant: 413, access.Operator: 200} {
		if w := ask(h, "POST", "/v1/vms:batch", strings.NewReader(large), "Authorization: Bearer "+tokens[role], inJSON); w.Code != want {
			t.Errorf("%v: %d %.200s", role, w.Code, w.Body)
		}
	}
}

// TestAuditCampaign: the audit log has every request of a random campaign that was to change something
// or read keys, by whom and with which result, in order, and nothing else.
func TestAuditCampaign(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	o, tokens := everything(t)
	log := o.Audit.(*diary)
	f := newFake(0)
	f.mode = "observe"
	h := New(f, o)
	u := NewBasic(anything, BasicOptions{User: "k8s", Password: "planted password", Kind: "ufm", Audit: log})
	names := map[access.Role]string{
		access.Viewer: "token:viewer", access.Operator: "token:operator", access.Admin: "token:admin", access.Tenant: "token:tenant",
	}
	requests := []struct{ method, path, body string }{
		{"POST", "/v1/sweep", ""},
		{"POST", "/v1/reroute?rebalance=true", ""},
		{"POST", "/v1/congestion/mode", `{"mode":"act"}`},
		{"POST", "/v1/congestion/mode", `{"mode":"nonsense"}`},
		{"PUT", "/v1/partitions", `{"config":"a=0x5:ALL;\nb=0x6, Q_Key=0x7777:ALL;"}`},
		{"PUT", "/v1/partitions", `{"config":"bad"}`},
		{"PUT", "/v1/partitions?dry_run=true", `{"config":"a=0x5:ALL;"}`},
		{"POST", "/v1/partitions", `{"name":"b","members":[{"member":"0x1"}]}`},
		{"DELETE", "/v1/partitions/other", ""},
		{"PUT", "/v1/partitions/0x5/members/0x1", `{"membership":"full"}`},
		{"DELETE", "/v1/partitions/0x5/members/host-1?dry_run=true", ""},
		{"POST", "/v1/vms", `{"name":"acme-1","keys":[{"pkey":"0x5"}]}`},
		{"POST", "/v1/vms/acme-1/attach", `{"hypervisor":"H1"}`},
		{"DELETE", "/v1/vms/acme-1", ""},
		{"POST", "/v1/vms:batch", `{"operations":[{"op":"detach","name":"acme-2"}]}`},
		{"POST", "/v1/kept/adopt", `{"ports":["0x1"]}`},
		{"POST", "/v1/tokens", `{"name":"viewer","role":"viewer"}`},
		{"DELETE", "/v1/tokens/none", ""},
		{"GET", "/v1/sa-key", ""},
		{"GET", "/v1/backup", ""},
		{"GET", "/v1/support?seconds=0", ""}, // no trace, which takes seconds
		{"GET", "/v1/status", ""},
		{"GET", "/v1/vms", ""},
		{"PUT", "/v1/vms/acme-1/migration", `{"stage":"copying"}`},
		{"POST", "/v1/nosuch", `{}`},
	}
	// Every other route that changes something or shows keys is asked too, with values that need not be valid.
	for _, r := range Routes() {
		listed := func(q struct{ method, path, body string }) bool {
			path, _, _ := strings.Cut(q.path, "?")
			row := rowOf(q.method, path)
			return row != nil && row.Method == r.Method && row.Path == r.Path
		}
		if (writes(r.Method) || r.Keys) && !slices.ContainsFunc(requests, listed) {
			requests = append(requests, struct{ method, path, body string }{r.Method, regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(r.Path, "1"), "{}"})
		}
	}
	asked := map[string]bool{}
	roles := []access.Role{access.None, access.Viewer, access.Operator, access.Admin, access.Tenant}
	type line struct {
		who, method, path string
		status            int
	}
	var want []line
	for range 4000 {
		if rng.IntN(20) == 0 {
			r := httptest.NewRequest("POST", "/ufmRest/resources/pkeys/", strings.NewReader(`{"pkey":"0x5","guids":["0002c90300000001"]}`))
			r.SetBasicAuth("k8s", "planted password")
			w := httptest.NewRecorder()
			u.ServeHTTP(w, r)
			want = append(want, line{"ufm:k8s", "POST", "/ufmRest/resources/pkeys/", w.Code})
			continue
		}
		q := requests[rng.IntN(len(requests))]
		role := roles[rng.IntN(len(roles))]
		var head []string
		if text := tokens[role]; text != "" {
			head = append(head, "Authorization: Bearer "+text)
		}
		w := ask(h, q.method, q.path, strings.NewReader(q.body), append(head, inJSON)...)
		path, _, _ := strings.Cut(q.path, "?")
		row := rowOf(q.method, path)
		known := role != access.None
		switch {
		case row == nil || row.Report && row.allows(role):
			// Nothing was to change, or nobody may.
		case known && (writes(q.method) || row.Keys) && (row.allows(role) || w.Code == 403):
			want = append(want, line{names[role], q.method, q.path, w.Code})
			asked[row.Method+" "+row.Path] = true
		}
	}
	for _, r := range Routes() {
		if (writes(r.Method) || r.Keys) && !r.Report && !asked[r.Method+" "+r.Path] {
			t.Errorf("no request of %s %s is in the campaign", r.Method, r.Path)
		}
	}
	if len(want) < 500 || f.sweeps == 0 {
		t.Fatalf("%d requests count", len(want))
	}
	if len(log.entries) != len(want) {
		t.Errorf("the audit log has %d entries, want %d", len(log.entries), len(want))
	}
	for i := range min(len(want), len(log.entries)) {
		e := &log.entries[i]
		if got := (line{e.Who, e.Method, e.Path, e.Status}); got != want[i] {
			t.Fatalf("entry %d: %+v, want %+v", i, got, want[i])
		}
	}
	text := fmt.Sprintf("%+v", log.entries)
	for _, has := range []string{"mode: observe -> act", "+ a=0x5:ALL;", "Q_Key=...", "line 1: bad", "rebalance=true", "attach acme-1", "dry run: nothing changed", "+ a=0x0005: 0x1=full and 3 more lines", "because: other"} {
		if !strings.Contains(text, has) {
			t.Errorf("the audit log lacks %q", has)
		}
	}
	for _, secret := range append([]string{"0x7777", "planted", "0x1122334455667788"}, tokens[access.Admin]) {
		if strings.Contains(text, secret) {
			t.Errorf("the audit log has %q", secret)
		}
	}
	if w := ask(h, "GET", fmt.Sprint("/v1/audit?after=", len(want)-2, "&limit=1"), nil, "Authorization: Bearer "+tokens[access.Admin]); w.Code != 200 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"next":%d`, len(want)-1)) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestAuditOfPanic: a handler that panics is in the audit log.
func TestAuditOfPanic(t *testing.T) {
	log := &diary{}
	h := newGuard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), Options{AllowWrite: true, Audit: log})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		ask(h, "POST", "/v1/sweep", nil)
	}()
	if len(log.entries) != 1 || log.entries[0].Status != 500 {
		t.Errorf("%+v", log.entries)
	}
}

// TestOwnKeys: P_Keys are those of a partition whatever the membership bit.
func TestOwnKeys(t *testing.T) {
	x := tenant{scope: access.Scope{Prefix: "a-", PKeys: []ib.PKey{7}}}
	for text, want := range map[string]bool{"0x7": true, "0x8007": true, "0x8": false, "": false, "zz": false} {
		if x.hasKey(x.scope.PKeys, text) != want {
			t.Errorf("%q", text)
		}
	}
}
