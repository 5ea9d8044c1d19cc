package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"heddle/api"
)

// TestPortNamed: the port of a link by the name of its switch. An unknown name is answered with the
// nearest one, and nothing is asked for.
func TestPortNamed(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes" {
			_ = json.NewEncoder(w).Encode([]api.Node{{GUID: "0x1", Description: "leaf 1", Type: "Switch"}, {GUID: "0x2", Description: "leaf2", Type: "CA"}, {GUID: "0x3", Description: "twin"}, {GUID: "0x4", Description: "twin"}})
			return
		}
		asked = r.URL.Path
		_ = json.NewEncoder(w).Encode(api.PortPlan{PortAction: api.PortAction{Action: "drain"}})
	}))
	defer s.Close()
	for _, x := range []struct{ port, asked, err string }{
		{"leaf 1:3", "/v1/ports/0x1/3/drain", ""},
		{"0x0000000000000007:3", "/v1/ports/0x0000000000000007/3/drain", ""},
		{"leaf1:3", "", `no node is called "leaf1"; did you mean "leaf 1"?`},
		{"twin:3", "", `several nodes are called "twin"; give the GUID`},
		{"leaf 1:255", "", `port "leaf 1:255"; give NODE:NUMBER`},
		{"leaf 1", "", `port "leaf 1"; give NODE:NUMBER`},
	} {
		asked = ""
		var out, errs strings.Builder
		code := run(context.Background(), []string{"ctl", "port", "drain", x.port, "--api", s.URL}, strings.NewReader(""), &out, &errs)
		if asked != x.asked || (code == 0) != (x.err == "") || !strings.Contains(errs.String(), x.err) {
			t.Errorf("%s: exit status %d, asked for %q: %s", x.port, code, asked, errs.String())
		}
	}
}

// TestPrintPortPlan: a plan says when an isolated port is disabled.
func TestPrintPortPlan(t *testing.T) {
	for _, x := range []struct {
		p    api.PortPlan
		want string
	}{
		{
			api.PortPlan{PortAction: api.PortAction{Action: "isolate", Description: "a", Port: 1, PeerDescription: "b", PeerPort: 2, Entries: 3}, Engine: "minhop", Wait: 137.44},
			`isolate: "a" port 1 to "b" port 2
3 entries lead over the link; 0 entries change, in 0 blocks of 0 switches (minhop)
most paths over one link: 0 now, 0 without it
one end is disabled about 2m17s after the last entry over the link has gone: packets of before may be under way so long
nothing was changed; --apply does it
`,
		},
		{
			api.PortPlan{PortAction: api.PortAction{Action: "isolate", Description: "a", Port: 1, PeerDescription: "b", PeerPort: 2}, Applied: true},
			`isolate: "a" port 1 to "b" port 2
one end is disabled by the next sweep
requested; 'heddle ctl status' shows the sweep, 'heddle ctl port list' the links
`,
		},
		{
			api.PortPlan{PortAction: api.PortAction{Action: "drain", Description: "a", Port: 1, PeerDescription: "b", PeerPort: 2, Entries: 1}, Engine: "minhop"},
			`drain: "a" port 1 to "b" port 2
1 entry leads over the link; 0 entries change, in 0 blocks of 0 switches (minhop)
most paths over one link: 0 now, 0 without it
nothing was changed; --apply does it
`,
		},
	} {
		body, err := json.Marshal(x.p)
		if err != nil {
			t.Fatal(err)
		}
		var w strings.Builder
		if err := printPortPlan(&w, body); err != nil || w.String() != x.want {
			t.Errorf("%v: got\n%s\nwant\n%s", err, w.String(), x.want)
		}
	}
}
