package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"heddle/access"
)

// TestPartitionChanges: each call passes on what it was asked, with the revision of If-Match, and each
// reason of a refusal has a status of its own. A dry run is answered 200, a change 202.
func TestPartitionChanges(t *testing.T) {
	o, tokens := everything(t)
	f := newFake(0)
	h := New(f, o)
	do := func(method, path, body string, head ...string) *httptest.ResponseRecorder {
		f.change = PartitionsChange{}
		return ask(h, method, path, strings.NewReader(body), append(head, "Authorization: Bearer "+tokens[access.Admin], inJSON)...)
	}
	w := do("GET", "/v1/partitions", "")
	tag := w.Header().Get("ETag")
	if w.Code != 200 || tag != `"`+Revision("")+`"` || !strings.Contains(w.Body.String(), `"revision":"`+Revision("")+`"`) {
		t.Errorf("%d %s %s", w.Code, tag, w.Body)
	}
	for _, c := range []struct {
		method, path, body string
		want               PartitionsChange
	}{
		{"POST", "/v1/partitions", `{"name":"b","pkey":"0x6","ipoib":true,"members":[{"member":"host-1","membership":"full"}]}`, PartitionsChange{
			Op: CreatePartition, New: NewPartition{Name: "b", PKey: "0x6", IPoIB: true, Members: []NewMember{{"host-1", "full"}}},
		}},
		{"DELETE", "/v1/partitions/a%2Fb", "", PartitionsChange{Op: DeletePartition, Partition: "a/b"}},
		{"PUT", "/v1/partitions/0x5/members/a%20b%2Fc:1", `{"membership":"both"}`, PartitionsChange{Op: SetMember, Partition: "0x5", Member: "a b/c:1", Membership: "both"}},
		{"DELETE", "/v1/partitions/0x5/members/ALL_CAS", "", PartitionsChange{Op: RemoveMember, Partition: "0x5", Member: "ALL_CAS"}},
		{"PUT", "/v1/partitions", `{"config":"a=5:ALL;","name":"f"}`, PartitionsChange{Config: "a=5:ALL;", Name: "f"}},
	} {
		same := func(dry bool, match string) bool {
			got := f.change
			ok := got.DryRun == dry && got.Match == match && got.Op == c.want.Op && got.Partition == c.want.Partition && got.Member == c.want.Member &&
				got.Membership == c.want.Membership && got.Config == c.want.Config && got.Name == c.want.Name && got.New.Name == c.want.New.Name &&
				got.New.PKey == c.want.New.PKey && got.New.IPoIB == c.want.New.IPoIB && len(got.New.Members) == len(c.want.New.Members)
			return ok && (len(got.New.Members) == 0 || got.New.Members[0] == c.want.New.Members[0])
		}
		if w := do(c.method, c.path, c.body); w.Code != 202 || !strings.Contains(w.Body.String(), `"applied":true`) || !same(false, "") {
			t.Errorf("%s %s: %d %s\n%+v", c.method, c.path, w.Code, w.Body, f.change)
		}
		if w := do(c.method, c.path+"?dry_run=true", c.body, "If-Match: "+tag); w.Code != 200 || !strings.Contains(w.Body.String(), `"applied":false`) || !same(true, strings.Trim(tag, `"`)) {
			t.Errorf("%s %s: %d %s\n%+v", c.method, c.path, w.Code, w.Body, f.change)
		}
		if w := do(c.method, c.path+"?dryrun=true", c.body); w.Code != 422 || f.change.Op != 0 || f.change.Config != "" {
			t.Errorf("%s %s with a parameter that it does not have: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	for name, code := range map[string]int{"stored": 503, "outdated": 412, "found": 404, "exists": 409, "other": 422} {
		if w := do("DELETE", "/v1/partitions/"+name, ""); w.Code != code || !strings.Contains(w.Body.String(), "because: ") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for _, body := range []string{`{"name":"","members":[{"member":"0x1"}]}`, `{"members":[{"member":"0x1"}]}`, `{"name":"b","members":[{}]}`, `{`} {
		if w := do("POST", "/v1/partitions", body); w.Code != 422 && w.Code != 400 || f.change.Op != 0 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := do("GET", "/v1/partitions/0x5/members?limit=10", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"membership":"0x5"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do("PUT", "/v1/partitions/0x5/members/0x1", `{"membership":"full"}`, `If-Match: *`); w.Code != 202 || f.change.Match != "" {
		t.Errorf("%d %s %q", w.Code, w.Body, f.change.Match)
	}
}
