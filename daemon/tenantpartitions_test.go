package daemon_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heddle/access"
	"heddle/api"
	"heddle/daemon"
	"heddle/ib"
	"heddle/store"
)

// TestPartitionsOfTenants: a tenant creates and deletes partitions of its own, and takes nothing of others:
// no name, no P_Key of a partition, an interface or a token, no host, not the default partition,
// and no more than its share.
func TestPartitionsOfTenants(t *testing.T) {
	r := newRig(t, false, "xgft", "2", "4,4", "1,2")
	tokens, keep := &access.Registry{}, store.NewMemory()
	token := map[string]string{}
	for _, n := range []access.NewToken{
		{Name: "acme", Scope: access.Scope{Prefix: "acme-"}},
		{Name: "evil", Scope: access.Scope{Prefix: "evil-", PKeys: []ib.PKey{4}}},
		{Name: "odd", Scope: access.Scope{Prefix: "0x00"}},
		{Name: "d", Scope: access.Scope{Prefix: "D"}},
	} {
		n.Role = access.Tenant
		text, _, err := tokens.Create(keep, n, rand.Reader, time.Unix(1000, 0))
		if err != nil {
			t.Fatal(err)
		}
		token[n.Name] = text
	}
	srv := httptest.NewServer(api.New(r.d, api.Options{Token: "secret", Tokens: tokens}))
	defer srv.Close()
	r.awaitUp()
	at := srv.URL + "/v1/partitions"
	do := func(who, method, path, body string, code int, has string) string {
		t.Helper()
		text := "secret"
		if who != "admin" {
			text = token[who]
		}
		got, answer := change(t, method, at+path, body, "Authorization", "Bearer "+text)
		if got != code || !strings.Contains(answer, has) {
			t.Fatalf("%s: %s %s %s: %d %s, want %d %s", who, method, path, body, got, answer, code, has)
		}
		return answer
	}
	keys := func(name, pkey string) {
		t.Helper()
		out, err := r.d.Operate(t.Context(), []api.VMOperation{{Op: "create", Name: name, VMAddress: api.VMAddress{Keys: []api.VMKey{{PKey: pkey}}}}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
	}
	// 1 and 3 are partitions, 2 is that of an interface alone, 4 is a token's.
	do("admin", "POST", "", `{"name":"secret-project","pkey":"0x1","members":[{"member":"host-2","membership":"full"}]}`, 202, "")
	keys("operator-1", "0x2")
	do("admin", "POST", "", `{"name":"admins","pkey":"0x3","members":[{"member":"host-3"}]}`, 202, "")

	answer := do("acme", "POST", "?dry_run=true", `{"name":"acme-net"}`, 200, `"+ acme-net=0x0005"`)
	answer += do("acme", "POST", "", `{"name":"acme-net","ipoib":true}`, 202, `"name":"acme-net","pkey":"0x0005","what":"new"`)
	for _, secret := range []string{"secret-project", "admins", "operator-1", "host-", "sw-"} {
		if strings.Contains(answer, secret) {
			t.Errorf("a plan of the tenant has %q: %s", secret, answer)
		}
	}
	do("evil", "POST", "", `{"name":"evil-net"}`, 202, "0x0006")
	if code, body := change(t, "POST", srv.URL+"/v1/vms", `{"name":"acme-1","keys":[{"pkey":"0x5"}]}`, "Authorization", "Bearer "+token["acme"]); code != 201 {
		t.Errorf("an interface in the new partition: %d %s", code, body)
	}
	for _, c := range []struct {
		who, method, path, body string
		code                    int
		has                     string
	}{
		{"evil", "POST", "", `{"name":"acme-2"}`, 403, "evil-"},
		{"evil", "POST", "", `{"name":"Evil-2"}`, 403, "evil-"},
		{"evil", "POST", "", `{"name":" evil-2"}`, 403, "evil-"},
		{"evil", "POST", "", `{"name":"evil-a, b=0x5"}`, 422, "printable"},
		{"evil", "POST", "", `{"name":"evil-a\u202eb"}`, 422, "printable"},
		{"evil", "POST", "", `{"name":"evil-a\n"}`, 422, "printable"},
		{"evil", "POST", "", `{"name":"evil-` + strings.Repeat("a", 252) + `"}`, 422, "256"},
		{"evil", "POST", "", `{"name":"evil-net"}`, 409, "another name"},
		{"odd", "POST", "", `{"name":"0x0005"}`, 422, "reads as a P_Key"},
		{"evil", "POST", "", `{"name":"evil-2","pkey":"0x5"}`, 403, "chooses P_Keys"},
		{"evil", "POST", "", `{"name":"evil-2","pkey":"0x2"}`, 403, "chooses P_Keys"},
		{"evil", "POST", "", `{"name":"evil-2","pkey":"0x4"}`, 403, "chooses P_Keys"},
		{"evil", "POST", "", `{"name":"evil-2","pkey":"0xffff"}`, 403, "chooses P_Keys"},
		{"evil", "POST", "", `{"name":"evil-2","members":[{"member":"host-2"}]}`, 403, "without members"},
		{"evil", "POST", "", `{"name":"evil-2","members":[{"member":"ALL"}]}`, 403, "without members"},
		{"evil", "PUT", "/evil-net/members/host-2", `{"membership":"full"}`, 403, "tenant"},
		{"evil", "DELETE", "/evil-net/members/host-2", "", 403, "tenant"},
		{"evil", "PUT", "", `{"config":"evil-net=0x6: ALL=full;"}`, 403, "tenant"},
		{"evil", "DELETE", "/acme-net", "", 404, "not found"},
		{"evil", "DELETE", "/0x5", "", 404, "not found"},
		{"evil", "DELETE", "/0x8001", "", 404, "not found"},
		{"evil", "DELETE", "/0x4", "", 404, "not found"},
		{"evil", "DELETE", "/0x7fff", "", 404, "not found"},
		{"d", "DELETE", "/Default", "", 404, "not found"},
		{"d", "POST", "", `{"name":"DEFAULT"}`, 403, "default partition"},
		{"acme", "DELETE", "/acme-net", "", 409, "in use"},
		{"acme", "DELETE", "/acme-net?dry_run=true", "", 409, "in use"},
	} {
		do(c.who, c.method, c.path, c.body, c.code, c.has)
	}
	// A partition that is only one by interfaces has its P_Key as its name: that is nobody's prefix.
	do("admin", "PUT", "/0x2/members/host-2", `{"membership":"full"}`, 202, "0x0002=0x0002")
	do("odd", "DELETE", "/0x2", "", 404, "not found")
	for who, name := range map[string]string{"odd": "0x00-1", "d": "D-1"} {
		code, body := change(t, "POST", srv.URL+"/v1/vms", `{"name":"`+name+`","keys":[{"pkey":"0x2"}]}`, "Authorization", "Bearer "+token[who])
		if code != 403 {
			t.Errorf("an interface of %s in a partition of others: %d %s", who, code, body)
		}
		if code, body = change(t, "GET", at, "", "Authorization", "Bearer "+token[who]); code != 200 || !strings.Contains(body, `"partitions":[]`) {
			t.Errorf("%s sees partitions of others: %d %s", who, code, body)
		}
	}
	// An interface that is on no hypervisor keeps the P_Key from others, whoever deletes the partition.
	do("admin", "DELETE", "/acme-net", "", 202, "")
	do("evil", "POST", "?dry_run=true", `{"name":"evil-2"}`, 200, "0x0007")
	do("evil", "DELETE", "/0x8006", "", 202, `"- evil-net=0x0006"`)
	// What an administrator named a member of stays: the tenant could not create it again.
	do("admin", "POST", "", `{"name":"evil-hosts","pkey":"0x100","members":[{"member":"host-2"}]}`, 202, "")
	do("evil", "DELETE", "/evil-hosts", "", 409, "an administrator")
	do("evil", "POST", "", `{"name":"evil-net"}`, 202, "0x0006")
	for i := range 62 {
		do("evil", "POST", "", fmt.Sprintf(`{"name":"evil-%d"}`, i), 202, "")
	}
	do("evil", "POST", "", `{"name":"evil-64"}`, 403, "the most there can be")
	do("acme", "POST", "", `{"name":"acme-net"}`, 202, "")
	var seen api.Partitions
	_, body := change(t, "GET", at, "", "Authorization", "Bearer "+token["acme"])
	if err := json.NewDecoder(bytes.NewBufferString(body)).Decode(&seen); err != nil || len(seen.Partitions) != 1 || seen.Revision != "" {
		t.Errorf("%v: %s", err, body)
	}
}

// waitingStore keeps writes of interfaces waiting once hold is set.
type waitingStore struct {
	store.Store
	hold    atomic.Bool
	in, out chan struct{}
}

func (s *waitingStore) Apply(ops []store.Op) error {
	if s.hold.Load() && slices.ContainsFunc(ops, func(o store.Op) bool { return o.Record.Table == store.TableInterfaces }) {
		s.in <- struct{}{}
		<-s.out
	}
	return s.Store.Apply(ops)
}

// TestKeyOfRequestUnderWay: while an interface with a P_Key is being stored, no partition gets the P_Key,
// and its tenant does not delete its partition. A request that was permitted before another tenant's
// partition got the P_Key is refused.
func TestKeyOfRequestUnderWay(t *testing.T) {
	st := &waitingStore{Store: store.NewMemory(), in: make(chan struct{}), out: make(chan struct{})}
	r := newRigWith(t, func(c *daemon.Config) { c.Store = st }, "xgft", "2", "4,4", "1,2")
	r.awaitUp()
	acme, evil := &access.Scope{Prefix: "acme-"}, &access.Scope{Prefix: "evil-"}
	create := func(s *access.Scope, name, want string) {
		t.Helper()
		p, err := r.d.ChangePartitions(t.Context(), &api.PartitionsChange{Op: api.CreatePartition, Scope: s, New: api.NewPartition{Name: name}})
		if err != nil || !slices.Contains(p.Plan.Change, "+ "+name+"="+want) {
			t.Fatalf("%s: %+v, %v, want P_Key %s", name, p.Plan, err, want)
		}
	}
	ask := func(name, pkey string) error {
		out, err := r.d.Operate(t.Context(), []api.VMOperation{{Op: "create", Name: name, VMAddress: api.VMAddress{Keys: []api.VMKey{{PKey: pkey}}}, Scope: acme}})
		if err != nil {
			return err
		}
		return out[0].Err
	}
	create(acme, "acme-net", "0x0001")
	st.hold.Store(true)
	end, release := make(chan error, 1), sync.OnceFunc(func() { close(st.out) })
	defer release()
	go func() { end <- ask("acme-1", "0x1") }()
	<-st.in
	remove := &api.PartitionsChange{Op: api.DeletePartition, Partition: "acme-net", Scope: acme}
	if _, err := r.d.ChangePartitions(t.Context(), remove); !errors.Is(err, api.ErrInUse) {
		t.Errorf("a partition that is asked for was deleted: %v", err)
	}
	remove.Scope = nil // an administrator
	if _, err := r.d.ChangePartitions(t.Context(), remove); err != nil {
		t.Error(err)
	}
	create(evil, "evil-net", "0x0002")
	st.hold.Store(false)
	release()
	if err := <-end; err != nil {
		t.Error(err)
	}
	create(evil, "evil-2", "0x0003")
	for _, pkey := range []string{"0x1", "0x2", "0x3", "0x7fff"} {
		if err := ask("acme-2", pkey); !errors.Is(err, api.ErrForbidden) {
			t.Errorf("an interface of another tenant with P_Key %s: %v", pkey, err)
		}
	}
}
