package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"heddle/fabric/hosts"
)

// Tables is the part of Backend about pages of large tables. An error is the client's.
type Tables interface {
	NodeTable(q TableQuery) (Table[Node], error)
	PortTable(q TableQuery) (Table[PortRow], error)
	CableTable(q TableQuery) (Table[Link], error)
	// Node and Port are details, named by GUID of node or port; false: there is none.
	Node(guid string) (NodeDetail, bool)
	Port(guid string, num int) (PortDetail, bool)
	// Search finds nodes and ports by name, GUID, LID or GID: at most limit, and whether there are more.
	Search(text string, limit int) (hits []Hit, more bool)
}

// TableQuery is a page of a table: the rows whose text has every word of Q, in an order.
type TableQuery struct {
	Q      string `query:"q" maxLength:"200" doc:"words; a row must have each of them, in any case"`
	Sort   string `query:"sort" maxLength:"32" doc:"the column; names are in natural order: n2 before n10"`
	Desc   bool   `query:"desc" doc:"from the last to the first"`
	Offset int    `query:"offset" minimum:"0" doc:"matching rows to pass over"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"rows of the page"`
}

// Table is a page of a table.
type Table[T any] struct {
	Generation uint64 `json:"generation" doc:"number of the published state"`
	Total      int    `json:"total" doc:"rows of the table"`
	Matched    int    `json:"matched" doc:"rows that have the words"`
	Rows       []T    `json:"rows"`
}

// Words are the words of Q in lower case.
func (q *TableQuery) Words() []string { return strings.Fields(strings.ToLower(q.Q)) }

// PortRow is one row of /v1/table/ports: a port of a switch, or one with a link.
type PortRow struct {
	GUID        string   `json:"guid" doc:"of the node"`
	Description string   `json:"description"`
	Type        string   `json:"type" doc:"of the node"`
	Port        int      `json:"port"`
	PortGUID    string   `json:"port_guid"`
	LID         int      `json:"lid" doc:"0: none; external ports of switches have that of port 0"`
	State       string   `json:"state"`
	Physical    string   `json:"physical"`
	Width       string   `json:"width"`
	Speed       string   `json:"speed"`
	MTU         int      `json:"mtu"`
	Held        bool     `json:"held,omitempty" doc:"the link fails repeatedly and is held down"`
	Peer        *LinkEnd `json:"peer,omitempty" doc:"the cable's other end"`
}

// NodeDetail is the body of /v1/nodes/{guid}.
type NodeDetail struct {
	Node
	Generation uint64    `json:"generation"`
	System     string    `json:"system_guid"`
	Vendor     string    `json:"vendor" doc:"IEEE OUI"`
	Device     string    `json:"device"`
	Revision   string    `json:"revision"`
	Unseen     bool      `json:"unseen,omitempty" doc:"it does not answer, and is shown as it was last read"`
	Problems   []string  `json:"problems"`
	PortRows   []PortRow `json:"port_rows" doc:"its ports, as /v1/table/ports has them"`
}

// PortDetail is the body of /v1/ports/{guid}/{num}.
type PortDetail struct {
	PortRow
	Generation     uint64   `json:"generation"`
	LMC            int      `json:"lmc"`
	GID            string   `json:"gid,omitempty"`
	Rate           string   `json:"rate,omitempty"`
	VLs            int      `json:"vls"`
	WidthSupported string   `json:"width_supported"`
	SpeedEnabled   string   `json:"speed_enabled"`
	PKeys          []string `json:"pkeys"`
	Aliases        []string `json:"alias_guids"`
	VPorts         int      `json:"virtual_ports"`
	Inner          bool     `json:"inner,omitempty" doc:"its link is between switches: it can be drained"`
}

// GroupRow is one row of /v1/table/groups.
type GroupRow struct {
	MGID      string `json:"mgid"`
	MLID      string `json:"mlid"`
	PKey      string `json:"pkey"`
	MTU       int    `json:"mtu"`
	Rate      string `json:"rate"`
	SL        int    `json:"sl"`
	WellKnown bool   `json:"well_known"`
	Members   int    `json:"members"`
}

// Hit is something that a search found.
type Hit struct {
	Kind string `json:"kind" doc:"node, port, vm, group or partition"`
	Name string `json:"name"`
	GUID string `json:"guid,omitempty" doc:"of the node of a node or port"`
	Port int    `json:"port,omitempty"`
	LID  int    `json:"lid,omitempty"`
	By   string `json:"by" doc:"what of it is the text: name, GUID, LID or GID"`
}

// Hits is the body of /v1/search.
type Hits struct {
	Hits []Hit `json:"hits" doc:"those whose name or number is the text first"`
	More bool  `json:"more" doc:"there are more"`
}

// column is how rows are ordered by a column.
type column[T any] func(a, b *T) int

// by makes an order of a value.
func by[T any, V cmp.Ordered](value func(*T) V) column[T] {
	return func(a, b *T) int { return cmp.Compare(value(a), value(b)) }
}

// natural makes an order of a text with numbers.
func natural[T any](value func(*T) string) column[T] {
	return func(a, b *T) int { return hosts.Natural(value(a), value(b)) }
}

// ErrColumn says that a table has no such column to sort by.
func ErrColumn(sort string) error {
	return fmt.Errorf("sort=%q: the table has no such column", sort)
}

// pageOf makes a page of rows that are there already: tables of some thousand rows. text is what words are
// looked for in. Rows are in their order without a column.
func pageOf[T any](q *TableQuery, rows []T, text func(*T) string, columns map[string]column[T]) (Table[T], error) {
	out := Table[T]{Total: len(rows), Rows: []T{}}
	order, ok := columns[q.Sort]
	if !ok && q.Sort != "" {
		return out, ErrColumn(q.Sort)
	}
	words := q.Words()
	var match []T
	for i := range rows {
		if len(words) == 0 || hasAll(strings.ToLower(text(&rows[i])), words) {
			match = append(match, rows[i])
		}
	}
	if order != nil {
		slices.SortStableFunc(match, func(a, b T) int { return order(&a, &b) })
	}
	if q.Desc {
		slices.Reverse(match)
	}
	out.Matched = len(match)
	from := min(q.Offset, len(match))
	out.Rows = append(out.Rows, match[from:min(from+q.Limit, len(match))]...)
	return out, nil
}

// MemberPage is a page of the lines of a partition, by default in the order in which they apply.
func MemberPage(q *TableQuery, rows []PartitionMember) (Table[PartitionMember], error) {
	text := func(m *PartitionMember) string {
		t := strings.Join([]string{m.Member, m.Membership, m.Node, m.NodeGUID, m.Interface}, " ")
		if m.Pending {
			t += " pending"
		}
		return t
	}
	return pageOf(q, rows, text, map[string]column[PartitionMember]{
		"member":     by(func(m *PartitionMember) string { return m.Member }),
		"membership": by(func(m *PartitionMember) string { return m.Membership }),
		"node":       natural(func(m *PartitionMember) string { return m.Node }),
	})
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// serveTable adds a table. generation is that of tables that do not say theirs.
func serveTable[T any](a huma.API, kind string, generation func() uint64, page func(q TableQuery) (Table[T], error)) {
	huma.Get(a, "/v1/table/"+kind, func(_ context.Context, q *TableQuery) (*body[Table[T]], error) {
		t, err := page(*q)
		if err != nil {
			return nil, huma.Error422UnprocessableEntity(err.Error())
		}
		if t.Generation == 0 {
			t.Generation = generation()
		}
		t.Rows = nonNil(t.Rows)
		return reply(t), nil
	})
}

// smallTables adds those whose rows are made at once: some thousand at most, but virtual machines.
func smallTables(a huma.API, b Backend) {
	gen := func() uint64 { return b.Status().Generation }
	serveTable(a, "groups", gen, func(q TableQuery) (Table[GroupRow], error) {
		groups := b.Groups()
		rows := make([]GroupRow, len(groups))
		for i := range groups {
			g := &groups[i]
			rows[i] = GroupRow{g.MGID, g.MLID, g.PKey, g.MTU, g.Rate, g.SL, g.WellKnown, len(g.Members)}
		}
		text := func(g *GroupRow) string { return strings.Join([]string{g.MGID, g.MLID, g.PKey, g.Rate}, " ") }
		return pageOf(&q, rows, text, map[string]column[GroupRow]{
			"mgid":    by(func(g *GroupRow) string { return g.MGID }),
			"mlid":    by(func(g *GroupRow) string { return g.MLID }),
			"pkey":    by(func(g *GroupRow) string { return g.PKey }),
			"members": by(func(g *GroupRow) int { return g.Members }),
		})
	})
	serveTable(a, "partitions", gen, func(q TableQuery) (Table[Partition], error) {
		text := func(p *Partition) string { return p.Name + " " + p.PKey }
		return pageOf(&q, b.Partitions().Partitions, text, map[string]column[Partition]{
			"name":            natural(func(p *Partition) string { return p.Name }),
			"pkey":            by(func(p *Partition) string { return p.PKey }),
			"full_members":    by(func(p *Partition) int { return p.Full }),
			"limited_members": by(func(p *Partition) int { return p.Limited }),
		})
	})
	serveTable(a, "vms", gen, func(q TableQuery) (Table[VM], error) {
		list, err := b.VMs(VMFilter{Limit: math.MaxInt32})
		if err != nil {
			return Table[VM]{}, err
		}
		return pageOf(&q, list.VMs, vmText, map[string]column[VM]{
			"name":       natural(func(v *VM) string { return v.Name }),
			"state":      by(func(v *VM) string { return v.State }),
			"lid":        by(func(v *VM) int { return v.LID }),
			"placement":  by(func(v *VM) string { return v.Placement }),
			"hypervisor": natural(hypervisorName),
		})
	})
	serveTable(a, "findings", gen, func(q TableQuery) (Table[Finding], error) {
		f := b.Findings(FindingsQuery{Worst: true})
		return pageOf(&q, append(f.Open, f.Closed...), findingText, map[string]column[Finding]{
			"severity": by(func(f *Finding) int { return slices.Index(severities, f.Severity) }),
			"title":    by(func(f *Finding) string { return f.Title }),
			"rule":     by(func(f *Finding) string { return f.Rule }),
			"since":    func(x, y *Finding) int { return x.Since.Compare(y.Since) },
			"closed":   func(x, y *Finding) int { return ended(x).Compare(ended(y)) },
		})
	})
	serveTable(a, "events", gen, (&eventTable{journal: b}).pageOf)
}

// severities and levels in their order, the worst first.
var (
	severities = []string{"critical", "warning", "info"}
	levels     = []string{"error", "warn", "info", "debug"}
)

func hypervisorName(v *VM) string {
	if v.Hypervisor == nil {
		return ""
	}
	return cmp.Or(v.Hypervisor.Description, v.Hypervisor.PortGUID)
}

func vmText(v *VM) string {
	parts := []string{v.Name, v.State, v.GUID, v.GID, strconv.Itoa(v.LID), v.Placement, hypervisorName(v)}
	for _, k := range v.Keys {
		parts = append(parts, k.PKey)
	}
	return strings.Join(parts, " ")
}

// ended is when a finding ended; one that is open ends after all others.
func ended(f *Finding) time.Time {
	if f.Closed == nil {
		return time.Unix(math.MaxInt32, 0)
	}
	return *f.Closed
}

func findingText(f *Finding) string {
	parts := []string{f.Severity, f.Title, f.Rule, "open"}
	if f.Closed != nil {
		parts[3] = "ended"
	}
	for i := range f.Ends {
		parts = append(parts, endText(&f.Ends[i]))
	}
	return strings.Join(parts, " ")
}

func endText(e *FindingEnd) string {
	return fmt.Sprintf("%s %s/%d port %d", e.Description, e.GUID, e.Port, e.Port)
}

// eventText has the attributes in the order of their names.
func eventText(e *Event) string {
	parts := []string{e.Level, e.Kind, e.Message}
	for _, k := range slices.Sorted(maps.Keys(e.Attrs)) {
		parts = append(parts, k+"="+e.Attrs[k])
	}
	return strings.Join(append(parts, fmt.Sprintf("cause:%d;", e.Cause)), " ") // so that no number is part of another
}

// tables adds the tables, details and the search.
func tables(a huma.API, b Backend) {
	none := func() uint64 { return 0 }
	serveTable(a, "nodes", none, b.NodeTable)
	serveTable(a, "ports", none, b.PortTable)
	serveTable(a, "cables", none, b.CableTable)
	smallTables(a, b)
	huma.Get(a, "/v1/nodes/{guid}", func(_ context.Context, in *struct {
		GUID string `path:"guid" doc:"of the node or of a port"`
	},
	) (*body[NodeDetail], error) {
		d, ok := b.Node(in.GUID)
		if !ok {
			return nil, huma.Error404NotFound(fmt.Sprintf("no node has the GUID %q", in.GUID))
		}
		d.Problems, d.PortRows = nonNil(d.Problems), nonNil(d.PortRows)
		return reply(d), nil
	})
	huma.Get(a, "/v1/ports/{guid}/{num}", func(_ context.Context, in *portInput) (*body[PortDetail], error) {
		d, ok := b.Port(in.GUID, in.Num)
		if !ok {
			return nil, huma.Error404NotFound(fmt.Sprintf("no node has the GUID %q and a port %d", in.GUID, in.Num))
		}
		d.PKeys, d.Aliases = nonNil(d.PKeys), nonNil(d.Aliases)
		return reply(d), nil
	})
	huma.Get(a, "/v1/search", func(_ context.Context, in *searchInput) (*body[Hits], error) {
		return reply(search(b, strings.TrimSpace(in.Q), in.Limit)), nil
	})
}

type searchInput struct {
	Q     string `query:"q" required:"true" minLength:"1" maxLength:"200" doc:"a name or a part of it, a GUID, LID, GID, MGID, P_Key"`
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// search finds virtual machines, groups and partitions too. What is the text itself comes first.
func search(b Backend, text string, limit int) Hits {
	hits, more := b.Search(text, limit+1)
	low := strings.ToLower(text)
	add := func(kind, name, other, by string) {
		switch {
		case strings.EqualFold(name, text):
			hits = append(hits, Hit{Kind: kind, Name: name, By: "name"})
		case other != "" && strings.EqualFold(other, text):
			hits = append(hits, Hit{Kind: kind, Name: name, By: by})
		case strings.Contains(strings.ToLower(name), low):
			hits = append(hits, Hit{Kind: kind, Name: name, By: "part of the name"})
		}
	}
	if list, err := b.VMs(VMFilter{Limit: math.MaxInt32}); err == nil {
		for i := range list.VMs {
			v := &list.VMs[i]
			switch {
			case v.GUID != "" && strings.EqualFold(v.GUID, text):
				add("vm", v.Name, v.GUID, "GUID")
			default:
				add("vm", v.Name, v.GID, "GID")
			}
		}
	}
	for _, g := range b.Groups() {
		add("group", g.MGID, g.MLID, "MLID")
	}
	for _, p := range b.Partitions().Partitions {
		add("partition", p.Name, p.PKey, "P_Key")
	}
	rank := func(h Hit) int {
		if h.By == "part of the name" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(hits, func(x, y Hit) int { return cmp.Compare(rank(x), rank(y)) })
	if len(hits) > limit {
		hits, more = hits[:limit], true
	}
	return Hits{Hits: nonNil(hits), More: more}
}
