package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"heddle/access"
)

// Route is a row of the table of access: who may call a path with a method. A path without a row is
// refused to everybody.
type Route struct {
	Method string // GET includes HEAD
	Path   string // a pattern of net/http
	// Least is the first role of the ladder viewer, operator, admin that may call it.
	Least access.Role
	// Public: everybody may have the files of the page (web.Has), without any credential: they hold no data.
	Public bool
	// Tenant may call it too, and sees or changes only what belongs to it.
	Tenant bool
	// Keys: the answer has keys, so that reading it is written to the audit log.
	Keys bool
	// Report: it says how something goes on, many times, and changes nothing that is stored. The audit
	// log leaves it out.
	Report bool
	// Body bounds the request in bytes; 0: maxBody.
	Body int64
}

// ownThings marks what tenants may call.
const ownThings = true

// routes is the table. docs/access.md shows it; TestRolesDocumented compares them.
var routes = []Route{
	// The page, probes and descriptions.
	{Method: http.MethodGet, Path: "/", Public: true, Least: access.Viewer, Tenant: ownThings}, // files of this program
	{Method: http.MethodGet, Path: "/healthz", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/readyz", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/openapi.json", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/openapi-3.0.json", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/openapi.yaml", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/openapi-3.0.yaml", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/schemas/{schema}", Least: access.Viewer, Tenant: ownThings},
	// The subnet.
	{Method: http.MethodGet, Path: "/metrics", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/metrics/fabric", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/status", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/nodes", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/links", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/repairs", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/sweeps", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/rails", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/cabling", Least: access.Viewer},
	{Method: http.MethodPost, Path: "/v1/cabling/check", Least: access.Operator, Report: true, Body: maxPlan},
	{Method: http.MethodGet, Path: "/v1/topology/ibnetdiscover", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/topology/slurm", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/drawing", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/use", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/path", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/map", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/map/places", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/history", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/events", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/events/stream", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/webhooks", Least: access.Viewer},
	{Method: http.MethodPost, Path: "/v1/sweep", Least: access.Operator},
	{Method: http.MethodPost, Path: "/v1/reroute", Least: access.Operator},
	// Pages of tables, details and the search.
	{Method: http.MethodGet, Path: "/v1/nodes/{guid}", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/ports/{guid}/{num}", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/search", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/nodes", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/ports", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/cables", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/groups", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/partitions", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/vms", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/findings", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/table/events", Least: access.Viewer},
	// Counters, and what follows from them.
	{Method: http.MethodGet, Path: "/v1/counters", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/counters/opensm", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/worst", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/ports/{guid}/{num}/counters", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/ports/actions", Least: access.Viewer},
	{Method: http.MethodPost, Path: "/v1/ports/{guid}/{num}/drain", Least: access.Operator},
	{Method: http.MethodPost, Path: "/v1/ports/{guid}/{num}/isolate", Least: access.Operator},
	{Method: http.MethodPost, Path: "/v1/ports/{guid}/{num}/restore", Least: access.Operator},
	{Method: http.MethodGet, Path: "/v1/findings", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/hotspots", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/congestion", Least: access.Viewer},
	{Method: http.MethodPost, Path: "/v1/congestion/mode", Least: access.Operator},
	// The subnet administrator.
	{Method: http.MethodGet, Path: "/v1/groups", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/services", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/subscriptions", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/signals", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/sa-key", Least: access.Admin, Keys: true},
	// Partitions and virtual machines.
	{Method: http.MethodGet, Path: "/v1/partitions", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodPut, Path: "/v1/partitions", Least: access.Admin, Body: maxPartitions},
	{Method: http.MethodPost, Path: "/v1/partitions", Least: access.Admin, Tenant: ownThings, Body: maxNewPartition},
	{Method: http.MethodDelete, Path: "/v1/partitions/{pkey}", Least: access.Admin, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/v1/partitions/{pkey}/members", Least: access.Viewer},
	{Method: http.MethodPut, Path: "/v1/partitions/{pkey}/members/{member}", Least: access.Admin},
	{Method: http.MethodDelete, Path: "/v1/partitions/{pkey}/members/{member}", Least: access.Admin},
	{Method: http.MethodGet, Path: "/v1/partitions/{pkey}/ready", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/v1/vms", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/v1/vms:changes", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms:batch", Least: access.Operator, Tenant: ownThings, Body: maxBatchLen},
	{Method: http.MethodGet, Path: "/v1/vms/pools", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/vms/{name}", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodDelete, Path: "/v1/vms/{name}", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPut, Path: "/v1/vms/{name}/keys", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPut, Path: "/v1/vms/{name}/migration", Least: access.Operator, Report: true},
	{Method: http.MethodPost, Path: "/v1/vms/{name}/attach", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms/{name}/migrate", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms/{name}/move", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms/{name}/finish", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms/{name}/rollback", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodPost, Path: "/v1/vms/{name}/detach", Least: access.Operator, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/v1/hypervisors", Least: access.Viewer, Tenant: ownThings},
	{Method: http.MethodGet, Path: "/v1/vports", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/kept", Least: access.Viewer},
	{Method: http.MethodPost, Path: "/v1/kept/adopt", Least: access.Admin},
	{Method: http.MethodPost, Path: "/v1/kept/drop", Least: access.Admin},
	// Managers, their state, and access to them.
	{Method: http.MethodGet, Path: "/v1/ha", Least: access.Viewer},
	{Method: http.MethodGet, Path: "/v1/ha/forks", Least: access.Viewer},
	{Method: http.MethodPost, Path: "/v1/ha/handover", Least: access.Operator},
	{Method: http.MethodPost, Path: "/v1/ha/takeover", Least: access.Admin},
	{Method: http.MethodGet, Path: "/v1/backup", Least: access.Admin, Keys: true},
	{Method: http.MethodGet, Path: "/v1/tokens", Least: access.Admin},
	{Method: http.MethodPost, Path: "/v1/tokens", Least: access.Admin},
	{Method: http.MethodDelete, Path: "/v1/tokens/{name}", Least: access.Admin},
	{Method: http.MethodGet, Path: "/v1/audit", Least: access.Admin},
	{Method: http.MethodPost, Path: "/v1/reload", Least: access.Admin},
	{Method: http.MethodGet, Path: "/v1/settings", Least: access.Admin},
	{Method: http.MethodGet, Path: "/v1/support", Least: access.Admin, Keys: true}, // it has none, but all else
	{Method: http.MethodPost, Path: "/v1/ha/priority", Least: access.Operator},
	{Method: http.MethodPost, Path: "/v1/ha/activate", Least: access.Operator},
	{Method: http.MethodGet, Path: "/v1/loglevel", Least: access.Viewer},
	{Method: http.MethodPut, Path: "/v1/loglevel", Least: access.Operator},
	{Method: http.MethodGet, Path: "/v1/whoami", Least: access.Viewer, Tenant: ownThings},
}

// Routes returns the table of access.
func Routes() []Route { return slices.Clone(routes) }

// allows reports whether a role may call the route.
func (r *Route) allows(role access.Role) bool {
	return role.May(r.Least) || r.Tenant && role == access.Tenant
}

// Roles are those that may call the route, in words.
func (r *Route) Roles() (list []string) {
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin, access.Tenant} {
		if r.allows(role) {
			list = append(list, role.String())
		}
	}
	return list
}

// table finds the row of a request by the rules of net/http, as the handlers' own mux does.
type table struct {
	mux  *http.ServeMux
	rows map[string]*Route
}

func newTable() *table {
	t := &table{http.NewServeMux(), map[string]*Route{}}
	for i := range routes {
		pattern := routes[i].Method + " " + routes[i].Path
		t.mux.Handle(pattern, http.NotFoundHandler())
		t.rows[pattern] = &routes[i]
	}
	return t
}

// find returns the row of a request, nil if there is none.
func (t *table) find(r *http.Request) *Route {
	_, pattern := t.mux.Handler(r)
	row := t.rows[pattern]
	if row != nil && row.Path == "/" && strings.HasPrefix(r.URL.Path, "/v1/") {
		return nil // no file of the page
	}
	return row
}

// packed reports whether the answer may be compressed: none with keys, whose length could tell about them,
// and no stream.
func (r *Route) packed(method string) bool {
	return method == http.MethodGet && !r.Keys && !strings.HasSuffix(r.Path, "/stream")
}

// known reports whether the path has a row with another method.
func (t *table) known(r *http.Request) bool {
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if row := t.find(other); row != nil && row.Path != "/" {
			return true
		}
	}
	return false
}

// router is a mux that knows its patterns.
type router struct {
	*http.ServeMux
	patterns []string
}

func newRouter() *router { return &router{ServeMux: http.NewServeMux()} }

// Handle adds a handler, as does HandleFunc.
func (m *router) Handle(pattern string, h http.Handler) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.Handle(pattern, h)
}

func (m *router) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(h))
}

// describe adds to the OpenAPI description how clients show who they are, and which roles an operation
// needs.
func describe(o *huma.OpenAPI) {
	if o.Components.SecuritySchemes == nil {
		o.Components.SecuritySchemes = map[string]*huma.SecurityScheme{}
	}
	o.Components.SecuritySchemes["token"] = &huma.SecurityScheme{
		Type: "http", Scheme: "bearer", Description: "a named token (heddle ctl token create), the daemon's token file, or the token to read (--api-read-token-file)",
	}
	o.Components.SecuritySchemes["certificate"] = &huma.SecurityScheme{
		Type: "mutualTLS", Description: "a client certificate of --api-client-ca, whose subject has a role in --api-clients",
	}
	need := []map[string][]string{{"token": {}}, {"certificate": {}}}
	for i := range routes {
		item := o.Paths[routes[i].Path]
		if item == nil {
			continue
		}
		op := map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodDelete: item.Delete,
		}[routes[i].Method]
		if op == nil {
			continue
		}
		op.Security = need
		if routes[i].Least == access.Viewer {
			op.Security = append(slices.Clone(need), map[string][]string{}) // on loopback anybody reads
		}
		if op.Extensions == nil {
			op.Extensions = map[string]any{}
		}
		op.Extensions["x-roles"] = routes[i].Roles()
	}
}
