package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"heddle/vm"
)

// fakeMachines is an address manager that notes what it is asked for, and answers
// as it is told.
type fakeMachines struct {
	view    *vm.View
	ops     []VMOperation
	outcome VMOutcome // of each operation
	refused error     // of all
	filter  VMFilter
	standby error

	progress  []VMProgress
	performed []vm.Op
	kept      []Kept
	ports     []string // what was asked about kept entries
	reply     func(vm.Op) error
}

func (f *fakeMachines) VMs(q VMFilter) (VMList, error) {
	f.filter = q
	return VMList{}, f.refused
}

func (f *fakeMachines) VM(name string) (VM, error) {
	if name == "gone" {
		return VM{}, fmt.Errorf("%q: %w", name, vm.ErrNotFound)
	}
	return VM{Name: name}, nil
}

func (f *fakeMachines) Operate(_ context.Context, ops []VMOperation) ([]VMOutcome, error) {
	f.ops = append(f.ops, ops...)
	return slices.Repeat([]VMOutcome{f.outcome}, len(ops)), f.refused
}

func (f *fakeMachines) Pools() VMPools            { return VMPools{LIDs: 7} }
func (f *fakeMachines) Hypervisors() []Hypervisor { return nil }
func (f *fakeMachines) VPorts() []VPort {
	return []VPort{{GUID: "0x00aa000000000001", PortGUID: "0x0002c90300000001", NodeGUID: "0x0002c90300000000", Node: "H1", Port: 1, State: "ACTIVE", LID: 9}}
}

func (f *fakeMachines) PartitionReady(k string) (PartitionReady, error) {
	return PartitionReady{PKey: k}, f.refused
}

func (f *fakeMachines) VMChanges(_ context.Context, since string) (VMChanges, error) {
	return VMChanges{Since: since + "1", Reset: since == ""}, f.refused
}

func (f *fakeMachines) SetMigration(name string, p VMProgress) error {
	if name == "gone" {
		return fmt.Errorf("%q: %w", name, vm.ErrNotFound)
	}
	f.progress = append(f.progress, p)
	return f.refused
}

func (f *fakeMachines) Kept() []Kept { return f.kept }

func (f *fakeMachines) Adopt(_ context.Context, ports []string) ([]Adopted, error) {
	f.ports = append(f.ports, "adopt "+strings.Join(ports, " "))
	return []Adopted{{What: "P_Key 5"}, {What: "P_Key 6", Error: "no"}}, f.refused
}

func (f *fakeMachines) DropKept(_ context.Context, ports []string) error {
	f.ports = append(f.ports, "drop "+strings.Join(ports, " "))
	return f.refused
}

func (f *fakeMachines) Interfaces() *vm.View { return f.view }
func (f *fakeMachines) Master() error        { return f.standby }
func (f *fakeMachines) Perform(_ context.Context, ops []vm.Op) ([]vm.Reply, error) {
	out := make([]vm.Reply, len(ops))
	for i, op := range ops {
		f.performed = append(f.performed, op)
		if f.reply != nil {
			out[i].Err = f.reply(op)
		}
	}
	return out, nil
}

const (
	secret = "Authorization: Bearer secret"
	inJSON = "Content-Type: application/json"
)

// TestVMRequests: every request reaches the address manager as the matching operation.
func TestVMRequests(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		want               VMOperation
		code               int
	}{
		{"POST", "/v1/vms", `{"name":"web"}`, VMOperation{Op: "create", Name: "web"}, 201},
		{
			"POST", "/v1/vms", `{"name":"web","guid":"0x00aa000000000001","lid_kind":"own","mode":"balanced","keys":[{"pkey":"0x5","membership":"limited"}],"hypervisor":"H1","function":3}`,
			VMOperation{
				Op: "create", Name: "web", VMAddress: VMAddress{GUID: "0x00aa000000000001", LIDKind: "own", Mode: "balanced", Keys: []VMKey{{"0x5", "limited"}}},
				VMTarget: VMTarget{"H1", 3},
			},
			201,
		},
		{"POST", "/v1/vms/web/attach", `{"hypervisor":"H1"}`, VMOperation{Op: "attach", Name: "web", VMTarget: VMTarget{Hypervisor: "H1"}}, 200},
		{"POST", "/v1/vms/web/migrate", `{"hypervisor":"H2","function":1}`, VMOperation{Op: "migrate", Name: "web", VMTarget: VMTarget{"H2", 1}}, 200},
		{"POST", "/v1/vms/web/move", `{"hypervisor":"H2"}`, VMOperation{Op: "move", Name: "web", VMTarget: VMTarget{Hypervisor: "H2"}}, 200},
		{"POST", "/v1/vms/web/finish", "", VMOperation{Op: "finish", Name: "web"}, 200},
		{"POST", "/v1/vms/a%2Fb/rollback", "", VMOperation{Op: "rollback", Name: "a/b"}, 200},
		{"POST", "/v1/vms/" + url.PathEscape("a//b:c") + "/detach", "", VMOperation{Op: "detach", Name: "a//b:c"}, 200},
		{"PUT", "/v1/vms/web/keys", `{"keys":[{"pkey":"0x6"}]}`, VMOperation{Op: "keys", Name: "web", VMAddress: VMAddress{Keys: []VMKey{{PKey: "0x6"}}}}, 200},
		{"DELETE", "/v1/vms/web", "", VMOperation{Op: "delete", Name: "web"}, 204},
		{"DELETE", "/v1/vms/web?force=true", "", VMOperation{Op: "delete", Name: "web", Force: true}, 204},
		{"POST", "/v1/vms:batch", `{"operations":[{"op":"move","name":"web","hypervisor":"H2"}]}`, VMOperation{Op: "move", Name: "web", VMTarget: VMTarget{Hypervisor: "H2"}}, 200},
	} {
		f := newFake(0)
		h := New(f, Options{Token: "secret"})
		if w := ask(h, c.method, c.path, strings.NewReader(c.body), inJSON); w.Code != 401 || len(f.ops) != 0 {
			t.Errorf("%s %s without the token: %d, %v", c.method, c.path, w.Code, f.ops)
		}
		w := ask(h, c.method, c.path, strings.NewReader(c.body), secret, inJSON)
		if w.Code != c.code || len(f.ops) != 1 || fmt.Sprint(f.ops[0]) != fmt.Sprint(c.want) {
			t.Errorf("%s %s %s: %d, operations %+v, want %d %+v\n%s", c.method, c.path, c.body, w.Code, f.ops, c.code, c.want, w.Body)
		}
	}
}

// TestVMErrors: the status of a response gives the outcome of an operation, alone and
// in a batch.
func TestVMErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{vm.ErrNotFound, 404},
		{vm.ErrConflict, 409},
		{vm.ErrInvalid, 400},
		{vm.ErrNoRoom, 507},
		{vm.ErrStore, 503},
		{ErrNotMaster, 503},
		{ErrBusy, 503},
	} {
		err := fmt.Errorf("what was asked: %w: and why", c.err)
		f := newFake(0)
		f.outcome.Err = err
		h := New(f, Options{Token: "secret"})
		if w := ask(h, "POST", "/v1/vms/web/finish", nil, secret); w.Code != c.code || !strings.Contains(w.Body.String(), err.Error()) {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
		if w := ask(h, "DELETE", "/v1/vms/web", nil, secret); w.Code != c.code {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
		w := ask(h, "POST", "/v1/vms:batch", strings.NewReader(`{"operations":[{"op":"finish","name":"web"}]}`), secret, inJSON)
		var got vmBatchReply
		if e := json.Unmarshal(w.Body.Bytes(), &got); w.Code != 200 || e != nil || len(got.Results) != 1 || got.Results[0].Status != c.code || got.Results[0].Error != err.Error() {
			t.Errorf("%v in a batch: %d %s", c.err, w.Code, w.Body)
		}
		f.outcome.Err, f.refused = nil, err
		if w := ask(h, "POST", "/v1/vms:batch", strings.NewReader(`{"operations":[{"op":"finish","name":"web"}]}`), secret, inJSON); w.Code != c.code {
			t.Errorf("%v of all: %d %s", c.err, w.Code, w.Body)
		}
	}
	f := newFake(0)
	f.outcome.VM = VM{Name: "web", Waiting: true, Reason: "H2 is not there"}
	h := New(f, Options{Token: "secret"})
	if w := ask(h, "POST", "/v1/vms/web/attach", strings.NewReader(`{"hypervisor":"H2"}`), secret, inJSON); w.Code != 202 || !strings.Contains(w.Body.String(), "H2 is not there") {
		t.Errorf("one that waits: %d %s", w.Code, w.Body)
	}
	if w := ask(h, "DELETE", "/v1/vms/web", nil, secret); w.Code != 202 {
		t.Errorf("one that waits: %d %s", w.Code, w.Body)
	}
}

// TestVMBadRequests: invalid requests are refused before any effect.
func TestVMBadRequests(t *testing.T) {
	for _, c := range []struct {
		method, path, body, says string
		code                     int
	}{
		{"POST", "/v1/vms", `{"name":"web","color":"red"}`, "unexpected property", 422},
		{"POST", "/v1/vms", `{"name":""}`, "length", 422},
		{"POST", "/v1/vms", `{"name":"` + strings.Repeat("x", 129) + `"}`, "length", 422},
		{"POST", "/v1/vms", `{}`, "name", 422},
		{"POST", "/v1/vms", `{"name":"web","lid_kind":"mine"}`, "one of", 422},
		{"POST", "/v1/vms", `{"name":"web","lid":49152}`, "49151", 422},
		{"POST", "/v1/vms", `{"name":"web","mode":"fast"}`, "one of", 422},
		{"POST", "/v1/vms", `{"name":`, "", 400},
		{"POST", "/v1/vms/web/attach", `{"hypervisor":"H1","function":-1}`, "", 422},
		{"POST", "/v1/vms/web/attach", ``, "body", 400},
		{"POST", "/v1/vms/web/finish?wait=51", ``, "50", 422},
		{"POST", "/v1/vms:batch", `{"operations":[]}`, "", 422},
		{"POST", "/v1/vms:batch", `{"operations":[{"op":"explode","name":"web"}]}`, "one of", 422},
		{"POST", "/v1/vms", `{"name":"` + strings.Repeat("x", maxBody) + `"}`, "", 413},
		{"GET", "/v1/vms?limit=10001", "", "10000", 422},
		{"GET", "/v1/vms?state=asleep", "", "one of", 422},
		{"GET", "/v1/vms/gone", "", "no such interface", 404},
	} {
		f := newFake(0)
		h := New(f, Options{Token: "secret"})
		w := ask(h, c.method, c.path, strings.NewReader(c.body), secret, inJSON)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) || len(f.ops) != 0 {
			t.Errorf("%s %s %.60s: %d %.300s, operations %v; want %d and %q", c.method, c.path, c.body, w.Code, w.Body, f.ops, c.code, c.says)
		}
	}
}

// TestVMReading: lists and filters.
func TestVMReading(t *testing.T) {
	f := newFake(0)
	h := New(f, Options{})
	if w := ask(h, "GET", "/v1/vms?state=migrating&hypervisor=H1&pkey=0x5&after=m&limit=10", nil); w.Code != 200 || f.filter != (VMFilter{"migrating", "H1", "0x5", "m", 10}) {
		t.Errorf("%d %s, filter %+v", w.Code, w.Body, f.filter)
	}
	if w := ask(h, "GET", "/v1/vms", nil); f.filter.Limit != 1000 || !strings.Contains(w.Body.String(), `"vms":[]`) {
		t.Errorf("%d %s, filter %+v", w.Code, w.Body, f.filter)
	}
	if w := ask(h, "GET", "/v1/vms/pools", nil); w.Code != 200 || !strings.Contains(w.Body.String(), `"lids":7`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/hypervisors", nil); w.Code != 200 || strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/vports", nil); w.Code != 200 || !strings.Contains(w.Body.String(), `"node":"H1"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/partitions/0x0005/ready", nil); w.Code != 200 || !strings.Contains(w.Body.String(), `"pkey":"0x0005"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/openapi.json", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/v1/vms/{name}/migrate") {
		t.Errorf("the description: %d", w.Code)
	}
}

// TestVMHostileNames: a name in the path reaches the address manager unchanged or not
// at all; it never selects another resource of the API.
func TestVMHostileNames(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/vms/%2E%2E%2Fstatus/detach":                  "../status",
		"/v1/vms/a%2F..%2F..%2Fb/detach":                  "a/../../b",
		"/v1/vms/a%00b/detach":                            "a\x00b",
		"/v1/vms/%FF%FE/detach":                           "\xff\xfe",
		"/v1/vms/a%3Fforce=true/detach":                   "a?force=true",
		"/v1/vms/%7Bname%7D/detach":                       "{name}",
		"/v1/vms/web%2Fdetach/detach":                     "web/detach",
		"/v1/vms//detach":                                 "",
		"/v1/vms/../sweep":                                "",
		"/v1/vms/" + strings.Repeat("x", 200) + "/detach": "",
	} {
		f := newFake(0)
		w := ask(New(f, Options{Token: "secret"}), "POST", path, nil, secret)
		got := ""
		if len(f.ops) > 0 {
			got = f.ops[0].Name
		}
		if got != want || f.sweeps != 0 || want == "" && w.Code < 300 {
			t.Errorf("%s: %d, name %q, %d sweeps; want %q", path, w.Code, got, f.sweeps, want)
		}
	}
}
