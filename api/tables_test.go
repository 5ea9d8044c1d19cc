package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPageOf: words, columns, directions and bounds of tables whose rows are there already.
func TestPageOf(t *testing.T) {
	rows := []Partition{{Name: "p10", PKey: "0x000a"}, {Name: "p9", PKey: "0x0009", Full: 3}, {Name: "Blue", PKey: "0x0002", Full: 1}}
	text := func(p *Partition) string { return p.Name + " " + p.PKey }
	columns := map[string]column[Partition]{
		"name": natural(func(p *Partition) string { return p.Name }),
		"full": by(func(p *Partition) int { return p.Full }),
	}
	for _, c := range []struct {
		q             TableQuery
		want          string
		matched, fail int
	}{
		{TableQuery{Limit: 9}, "p10 p9 Blue", 3, 0},
		{TableQuery{Limit: 9, Desc: true}, "Blue p9 p10", 3, 0},
		{TableQuery{Limit: 9, Sort: "name"}, "Blue p9 p10", 3, 0},
		{TableQuery{Limit: 2, Sort: "full", Desc: true}, "p9 Blue", 3, 0},
		{TableQuery{Limit: 1, Offset: 1, Sort: "full", Desc: true}, "Blue", 3, 0},
		{TableQuery{Limit: 1, Offset: 3, Sort: "full"}, "", 3, 0},
		{TableQuery{Limit: 9, Q: " P 0x000 ", Sort: "name"}, "p9 p10", 2, 0},
		{TableQuery{Limit: 9, Q: "BLUE"}, "Blue", 1, 0},
		{TableQuery{Limit: 9, Q: "blue p9"}, "", 0, 0},
		{TableQuery{Limit: 9, Sort: "color"}, "", 0, 1},
	} {
		p, err := pageOf(&c.q, rows, text, columns)
		var names []string
		for _, r := range p.Rows {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != c.want || p.Matched != c.matched || p.Total != 3 || (err != nil) != (c.fail == 1) {
			t.Errorf("%+v: %q, %d of %d, %v", c.q, got, p.Matched, p.Total, err)
		}
	}
}

// TestTablesAndSearch: each table answers, refuses what it does not know, and finds groups by any of their
// names; the rows of groups have no Q_Key.
func TestTablesAndSearch(t *testing.T) {
	f := newFake(3)
	f.groups = []Group{{MGID: "ff12::1", MLID: "0xc000", PKey: "0xffff", QKey: "0x00000b1b", Members: []GroupMember{{}, {}}}, {MGID: "ff12::2", MLID: "0xc001"}}
	h := New(f, Options{})
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/v1/table/nodes", 200, `"rows":[]`},
		{"/v1/table/groups?sort=members&desc=true&limit=1", 200, `"total":2,"matched":2,"rows":[{"mgid":"ff12::1","mlid":"0xc000","pkey":"0xffff","mtu":0,"rate":"","sl":0,"well_known":false,"members":2}]`},
		{"/v1/table/groups?q=c001", 200, `"matched":1,"rows":[{"mgid":"ff12::2"`},
		{"/v1/table/groups?sort=qkey", 422, "no such column"},
		{"/v1/table/groups?limit=501", 422, "<= 500"},
		{"/v1/table/groups?offset=-1", 422, ">= 0"},
		{"/v1/table/vms", 200, `"rows":`},
		{"/v1/table/partitions", 200, `"rows":`},
		{"/v1/table/findings?sort=severity", 200, `"rows":`},
		{"/v1/table/events?sort=time&desc=true", 200, `"rows":`},
		{"/v1/table/colors", 404, ""},
		{"/v1/search?q=0xC001", 200, `"hits":[{"kind":"group","name":"ff12::2","by":"MLID"}]`},
		{"/v1/search?q=ff12&limit=1", 200, `"hits":[{"kind":"group","name":"ff12::1","by":"part of the name"}],"more":true`},
		{"/v1/search?q=" + strings.Repeat("a", 201), 422, "length"},
		{"/v1/search", 422, "required"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+c.path, nil)
		h.ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.path, w.Code, body, c.code, c.want)
		}
	}
	if text := fmt.Sprint(f.groups); !strings.Contains(text, "b1b") {
		t.Error("the test has no Q_Key to hide")
	}
}
