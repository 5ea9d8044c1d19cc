package api

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/access"
	"heddle/store"
)

var update = flag.Bool("update", false, "write the table of docs/access.md anew")

// noHA is a process without a partner.
type noHA struct{ Availability }

func (noHA) HA() HA                        { return HA{Mode: "single"} }
func (noHA) Healthy(context.Context) error { return nil }

func (noHA) Handover(context.Context) error { return ErrNoPair }

func (noHA) Takeover(context.Context, bool) error { return ErrNoPair }

// tokenStore keeps tokens in memory.
type tokenStore struct {
	access.Registry
	st *store.Memory
}

func (t *tokenStore) CreateToken(n access.NewToken) (string, access.Token, error) {
	return t.Create(t.st, n, &counter{}, time.Now())
}

func (t *tokenStore) RevokeToken(name string) (access.Token, error) { return t.Revoke(t.st, name) }

// counter is a source of bytes for tests.
type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

// diary is an audit log in memory.
type diary struct{ entries []access.Entry }

func (d *diary) Audit(e access.Entry) {
	e.Seq = uint64(len(d.entries) + 1)
	d.entries = append(d.entries, e)
}

func (d *diary) Audited(after uint64, _ time.Time, limit int) ([]access.Entry, error) {
	list := d.entries[min(after, uint64(len(d.entries))):]
	return list[:min(limit, len(list))], nil
}

// everything are options with all that can be configured, and a token of each role.
func everything(t *testing.T) (Options, map[access.Role]string) {
	t.Helper()
	keep := &tokenStore{st: store.NewMemory()}
	tokens := map[access.Role]string{}
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin, access.Tenant} {
		n := access.NewToken{Name: role.String(), Role: role}
		if role == access.Tenant {
			n.Scope.Prefix = "acme-"
		}
		text, _, err := keep.CreateToken(n)
		if err != nil {
			t.Fatal(err)
		}
		tokens[role] = text
	}
	return Options{
		HA: noHA{}, Metrics: prometheus.NewRegistry(), Tokens: &keep.Registry, TokenKeeper: keep, Audit: &diary{},
		Token: "the token of the daemon", Control: &dial{level: "info"},
	}, tokens
}

// TestEveryRouteHasARole: what the API serves is in the table, and the table has nothing else.
func TestEveryRouteHasARole(t *testing.T) {
	o, _ := everything(t)
	served := build(newFake(0), o).patterns
	var rows []string
	for _, r := range Routes() {
		rows = append(rows, r.Method+" "+r.Path)
	}
	for _, p := range served {
		if !slices.Contains(rows, p) {
			t.Errorf("%q is served, and is not in the table of access: nobody can call it", p)
		}
	}
	for i, p := range rows {
		if !slices.Contains(served, p) {
			t.Errorf("%q is in the table of access, and is not served", p)
		}
		if slices.Contains(rows[:i], p) {
			t.Errorf("%q has two rows", p)
		}
	}
	for _, r := range Routes() {
		if writes(r.Method) && r.Least < access.Operator {
			t.Errorf("%s %s: a viewer changes something", r.Method, r.Path)
		}
	}
}

// badTokens are credentials that are not accepted: a token of nobody, malformed ones, ones of another
// scheme, and named ones that are not known, were revoked, or have expired in two hours.
func badTokens(t *testing.T, o *Options) []string {
	t.Helper()
	list := []string{
		"Bearer another token", "Bearer xxx", "Bearer ", "bearer xxx", "xxx", "Basic dXNlcjpwYXNz",
		"Bearer heddle.nobody." + strings.Repeat("A", 43), "Bearer heddle.viewer.AAAA", "Bearer heddle.viewer", "Bearer heddle..", "heddle.viewer.AAAA",
	}
	for _, n := range []access.NewToken{{Name: "revoked", Role: access.Admin}, {Name: "expired", Role: access.Admin, Expires: time.Now().Add(time.Hour)}} {
		text, _, err := o.TokenKeeper.CreateToken(n)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, "Bearer "+text)
	}
	if _, err := o.TokenKeeper.RevokeToken("revoked"); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTableOfAccess asks for every path of the table, and for paths that are not in it, with every
// method and as every caller. Only what the table has reaches a handler. Who shows a credential that is
// not accepted gets 401, also where everybody reads.
func TestTableOfAccess(t *testing.T) {
	o, tokens := everything(t)
	bad := badTokens(t, &o)
	o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	var reached string
	next := newRouter()
	for _, r := range Routes() {
		next.HandleFunc(r.Method+" "+r.Path, func(http.ResponseWriter, *http.Request) { reached = r.Method + " " + r.Path })
	}
	h := newGuard(next, o)
	login := o
	login.Login = true
	closed := newGuard(next, login)
	owner := newGuard(next, Options{AllowWrite: true})

	paths := []string{"/v1/nosuch", "/v1/vms/x/nosuch", "/v1/tokens/x/y", "/v2/status", "/debug/pprof/", "/v1"}
	for _, r := range Routes() {
		p := strings.NewReplacer("{guid}", "0x1", "{num}", "1", "{pkey}", "0x5", "{name}", "acme-1", "{schema}", "VM.json").Replace(r.Path)
		if !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"}
	callers := []access.Role{access.None, access.Viewer, access.Operator, access.Admin, access.Tenant}
	asked := 0
	for _, path := range paths {
		for _, method := range methods {
			row := rowOf(method, path)
			for _, role := range callers {
				for _, server := range []struct {
					name string
					h    http.Handler
				}{{"open", h}, {"closed", closed}} {
					r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
					counts := role
					if text := tokens[role]; text != "" {
						r.Header.Set("Authorization", "Bearer "+text)
					} else if server.name == "open" {
						counts = access.Viewer
					}
					want := row != nil && (counts.May(row.Least) || counts == access.Tenant && row.Tenant || row.Public && path == "/")
					w := httptest.NewRecorder()
					reached = ""
					server.h.ServeHTTP(w, r)
					asked++
					if want != (reached != "") || want && reached != row.Method+" "+row.Path {
						t.Errorf("%s %s as %v (%s): reached %q, status %d, want %v", method, path, role, server.name, reached, w.Code, want)
					}
					if !want && (w.Code < 400 || w.Code >= 500) {
						t.Errorf("%s %s as %v (%s): refused with status %d", method, path, role, server.name, w.Code)
					}
				}
			}
			refused := http.StatusUnauthorized
			if method == http.MethodConnect {
				refused = http.StatusForbidden // it has no Host that this server answers to
			}
			for _, credential := range bad {
				for _, h := range []http.Handler{h, closed} {
					r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
					r.Header.Set("Authorization", credential)
					r.RemoteAddr = fmt.Sprintf("127.%d.%d.1:9", asked>>8, asked&255) // below the limit of failures
					reached = ""
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					asked++
					if row != nil && row.Public && path == "/" {
						if reached == "" {
							t.Errorf("%s %s with %q: status %d for a file of the page", method, path, credential, w.Code)
						}
					} else if reached != "" || w.Code != refused || (refused == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
						t.Errorf("%s %s with %q: reached %q, status %d, want %d", method, path, credential, reached, w.Code, refused)
					}
				}
			}
			r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
			reached = ""
			owner.ServeHTTP(httptest.NewRecorder(), r)
			if (row != nil) != (reached != "") {
				t.Errorf("%s %s over the owner's socket: reached %q", method, path, reached)
			}
		}
	}
	t.Logf("%d requests", asked)
}

// rowOf finds the row of a request without net/http: by the parts of its path.
func rowOf(method, path string) (best *Route) {
	if method == "HEAD" {
		method = "GET"
	}
	parts := strings.Split(path, "/")
	exact := -1
	for i := range routes {
		r := &routes[i]
		want := strings.Split(r.Path, "/")
		if r.Method != method || r.Path != "/" && len(want) != len(parts) {
			continue
		}
		n, ok := 0, true
		for j := range want {
			if same := want[j] == parts[j]; r.Path != "/" && same {
				n++
			} else if r.Path != "/" && !strings.HasPrefix(want[j], "{") {
				ok = false
			}
		}
		if ok && n > exact {
			best, exact = r, n
		}
	}
	if best != nil && best.Path == "/" && strings.HasPrefix(path, "/v1/") {
		return nil
	}
	return best
}

// TestUnknownPathIsRefused: the page's files are the only thing below / that is not in the table.
func TestUnknownPathIsRefused(t *testing.T) {
	o, tokens := everything(t)
	h := New(newFake(0), o)
	for _, path := range []string{"/v1/nosuch", "/v1/status/", "/v1/vms/x/y/z", "/debug/pprof/", "/metrics/other", "/.git/config", "/../etc/passwd"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			w := ask(h, method, path, nil, "Authorization: Bearer "+tokens[access.Admin])
			if w.Code != 404 && w.Code != 405 && w.Code != 307 && w.Code != 301 {
				t.Errorf("%s %s: status %d", method, path, w.Code)
			}
		}
	}
}

// TestRolesDocumented: the table of docs/access.md is that of the program.
func TestRolesDocumented(t *testing.T) {
	const file, begin, end = "../docs/access.md", "<!-- roles -->\n", "<!-- end of roles -->\n"
	var b strings.Builder
	b.WriteString("| method | path | nobody | viewer | operator | admin | tenant |\n|---|---|---|---|---|---|---|\n")
	for _, r := range Routes() {
		fmt.Fprintf(&b, "| %s | `%s` | %s |", r.Method, r.Path, map[bool]string{true: "yes"}[r.Public])
		for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin, access.Tenant} {
			mark := ""
			if r.allows(role) {
				mark = "yes"
			}
			if mark != "" && role == access.Tenant && strings.Contains(r.Path, "vms") || mark != "" && role == access.Tenant && strings.Contains(r.Path, "partitions") {
				mark = "its own"
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		b.WriteString("\n")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table of roles", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != b.String() {
		t.Errorf("%s has another table: go test ./api -run TestRolesDocumented -update", file)
	}
}
