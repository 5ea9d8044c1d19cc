package show

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"weak"

	"heddle/api"
	"heddle/fabric/hosts"
	"heddle/ib"
	"heddle/sm"
	"heddle/subnet"
)

// Tables makes pages of the tables of nodes, ports and cables. It keeps the orders of the rows of one
// published state, so that a page costs no sort. It is safe for concurrent use.
type Tables struct {
	mu     sync.Mutex
	of     weak.Pointer[subnet.Snapshot] // the state; guarded by mu
	orders map[string][]int32            // rows by table and column; guarded by mu
	// problems are the texts of Snapshot.Problems by node; guarded by mu, and not changed once made.
	problems map[ib.GUID]string
}

// source is what a table is made of: rows are named by numbers of nodes or ports.
type source struct {
	kind string
	all  func() []int32
	// text appends what words are looked for in, in lower case but for names.
	text    func(b []byte, i int32) []byte
	columns map[string]func(a, b int32) int
}

// page finds the rows of a page, in order. It reads every row's text if there are words, and copies none.
func (t *Tables) page(s *subnet.Snapshot, src *source, q *api.TableQuery) (rows []int32, total, matched int, err error) {
	compare, ok := src.columns[q.Sort]
	if !ok && q.Sort != "" {
		return nil, 0, 0, api.ErrColumn(q.Sort)
	}
	order := t.order(s, src, q.Sort, compare)
	words := q.Words()
	var find [][]byte
	for _, w := range words {
		find = append(find, []byte(w))
	}
	at := func(k int) int32 {
		if q.Desc {
			k = len(order) - 1 - k
		}
		return order[k]
	}
	if len(find) == 0 {
		from := min(q.Offset, len(order))
		for k := from; k < min(from+q.Limit, len(order)); k++ {
			rows = append(rows, at(k))
		}
		return rows, len(order), len(order), nil
	}
	var text []byte
	for k := range order {
		i := at(k)
		text = src.text(text[:0], i)
		lower(text)
		if !slices.ContainsFunc(find, func(w []byte) bool { return !bytes.Contains(text, w) }) {
			if matched >= q.Offset && len(rows) < q.Limit {
				rows = append(rows, i)
			}
			matched++
		}
	}
	return rows, len(order), matched, nil
}

// lower makes ASCII letters small in place.
func lower(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
}

// order returns the rows in the order of a column. The list is shared: nobody changes it.
func (t *Tables) order(s *subnet.Snapshot, src *source, column string, compare func(a, b int32) int) []int32 {
	key := src.kind + " " + column
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renew(s)
	if o, ok := t.orders[key]; ok {
		return o
	}
	o := src.all()
	if compare != nil {
		slices.SortStableFunc(o, compare)
	}
	t.orders[key] = o
	return o
}

// renew forgets what was of another state. The caller has mu.
func (t *Tables) renew(s *subnet.Snapshot) {
	if t.of == weak.Make(s) {
		return
	}
	t.of, t.orders, t.problems = weak.Make(s), map[string][]int32{}, map[ib.GUID]string{}
	for _, p := range s.Problems {
		if p.GUID != 0 && t.problems[p.GUID] == "" {
			t.problems[p.GUID] = p.Text
		}
	}
}

func (t *Tables) problemsOf(s *subnet.Snapshot) map[ib.GUID]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renew(s)
	return t.problems
}

func upTo(n int) func() []int32 {
	return func() []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(i)
		}
		return out
	}
}

// Nodes is a page of the nodes; s may be nil.
func (t *Tables) Nodes(s *subnet.Snapshot, q api.TableQuery) (out api.Table[api.Node], err error) {
	if s == nil {
		return out, nil
	}
	bad := t.problemsOf(s)
	node := func(i int32) *subnet.Node { return &s.Nodes[i] }
	rows, total, matched, err := t.page(s, &source{
		kind: "nodes", all: upTo(len(s.Nodes)),
		text: func(b []byte, i int32) []byte {
			n := node(i)
			b = appendGUID(append(append(b, n.Desc...), ' '), n.Info.NodeGUID)
			b = append(append(b, ' '), n.Info.NodeType.String()...)
			b = strconv.AppendInt(append(b, " lid="...), int64(nodeLID(s, i)), 10)
			return append(append(b, ' '), nodeState(n, bad)...)
		},
		columns: map[string]func(a, b int32) int{
			"guid":  cmp.Compare[int32], // nodes are in that order
			"name":  func(a, b int32) int { return hosts.Natural(node(a).Desc, node(b).Desc) },
			"type":  func(a, b int32) int { return cmp.Compare(node(a).Info.NodeType, node(b).Info.NodeType) },
			"ports": func(a, b int32) int { return cmp.Compare(node(a).Info.NumPorts, node(b).Info.NumPorts) },
			"lid":   func(a, b int32) int { return cmp.Compare(nodeLID(s, a), nodeLID(s, b)) },
			"state": func(a, b int32) int { return cmp.Compare(nodeState(node(a), bad), nodeState(node(b), bad)) },
		},
	}, &q)
	out = api.Table[api.Node]{Generation: s.Gen, Total: total, Matched: matched, Rows: make([]api.Node, len(rows))}
	for k, i := range rows {
		out.Rows[k] = nodeRow(s, i, bad)
	}
	return out, err
}

func appendGUID(b []byte, g ib.GUID) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '0', 'x')
	for k := 60; k >= 0; k -= 4 {
		b = append(b, digits[g>>k&15])
	}
	return b
}

func nodeLID(s *subnet.Snapshot, i int32) ib.LID {
	for _, p := range s.NodePorts(i) {
		if p.EndPort >= 0 && p.LID != 0 {
			return p.LID
		}
	}
	return 0
}

func nodeState(n *subnet.Node, bad map[ib.GUID]string) string {
	switch why := bad[n.Info.NodeGUID]; {
	case why != "":
		return why
	case !n.OK:
		return "left out"
	}
	return "ok"
}

// nodeRow shows a node.
func nodeRow(s *subnet.Snapshot, i int32, bad map[ib.GUID]string) api.Node {
	n := &s.Nodes[i]
	row := api.Node{
		GUID: n.Info.NodeGUID.String(), Description: n.Desc, Type: n.Info.NodeType.String(),
		Ports: int(n.Info.NumPorts), Path: sm.PathString(n.Path), State: nodeState(n, bad),
	}
	for _, p := range s.NodePorts(i) {
		if p.EndPort >= 0 && p.LID != 0 {
			row.LID, row.LMC = int(p.LID), int(p.LMC)
			break
		}
	}
	return row
}

// listed reports whether a port is in the table of ports: port 0 of switches, their external ports, and
// ports of other nodes that were read. Virtual ports have a list of their own.
func listed(s *subnet.Snapshot, p *subnet.Port) bool {
	return p.Virtual == nil && (s.Nodes[p.Node].Info.NodeType == ib.NodeSwitch || p.Known && p.Num > 0)
}

// portColumns are the columns of ports and of cables, which are named by their lower end.
func portColumns(s *subnet.Snapshot) map[string]func(a, b int32) int {
	port := func(i int32) *subnet.Port { return s.Ports[i] }
	name := func(p, q *subnet.Port) int {
		if p.Node == q.Node {
			return cmp.Compare(p.Num, q.Num)
		}
		return cmp.Or(hosts.Natural(s.Nodes[p.Node].Desc, s.Nodes[q.Node].Desc), cmp.Compare(p.Node, q.Node))
	}
	return map[string]func(a, b int32) int{
		"guid":  cmp.Compare[int32],
		"name":  func(a, b int32) int { return name(port(a), port(b)) },
		"lid":   func(a, b int32) int { return cmp.Compare(port(a).LID, port(b).LID) },
		"width": func(a, b int32) int { return cmp.Compare(port(a).Info.LinkWidthActive, port(b).Info.LinkWidthActive) },
		"speed": func(a, b int32) int {
			return cmp.Compare(s.Speed(port(a)).DataGbps(), s.Speed(port(b)).DataGbps())
		},
		"peer": func(a, b int32) int {
			p, q := s.Port(port(a).Peer), s.Port(port(b).Peer)
			switch {
			case p == nil || q == nil: // ports without a cable come last
				return cmp.Compare(b2i(p == nil), b2i(q == nil))
			}
			return name(p, q)
		},
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// portText appends the text of a port; number is that of the port after a slash, so that "0x…17/3" and
// "sw-3 port 3" find it.
func portText(s *subnet.Snapshot, b []byte, p *subnet.Port) []byte {
	n := &s.Nodes[p.Node]
	b = append(append(b, n.Desc...), " port "...)
	b = strconv.AppendInt(b, int64(p.Num), 10)
	b = strconv.AppendInt(append(appendGUID(append(b, ' '), n.Info.NodeGUID), '/'), int64(p.Num), 10)
	if p.GUID != 0 && p.GUID != n.Info.NodeGUID {
		b = appendGUID(append(b, ' '), p.GUID)
	}
	return strconv.AppendInt(append(b, " lid="...), int64(p.LID), 10)
}

// Ports is a page of the ports; s may be nil.
func (t *Tables) Ports(s *subnet.Snapshot, q api.TableQuery) (out api.Table[api.PortRow], err error) {
	if s == nil {
		return out, nil
	}
	columns := portColumns(s)
	columns["state"] = func(a, b int32) int { return cmp.Compare(portState(s.Ports[a]), portState(s.Ports[b])) }
	rows, total, matched, err := t.page(s, &source{
		kind: "ports", columns: columns,
		all: func() (all []int32) {
			for i, p := range s.Ports {
				if listed(s, p) {
					all = append(all, int32(i))
				}
			}
			return all
		},
		text: func(b []byte, i int32) []byte {
			p := s.Ports[i]
			b = append(append(portText(s, b, p), ' '), portState(p)...)
			b = append(append(b, ' '), s.Nodes[p.Node].Info.NodeType.String()...)
			if peer := s.Port(p.Peer); peer != nil {
				b = append(append(b, ' '), s.Nodes[peer.Node].Desc...)
			}
			return b
		},
	}, &q)
	out = api.Table[api.PortRow]{Generation: s.Gen, Total: total, Matched: matched, Rows: make([]api.PortRow, len(rows))}
	for k, i := range rows {
		out.Rows[k] = portRow(s, s.Ports[i])
	}
	return out, err
}

func portState(p *subnet.Port) string {
	if p.Held {
		return "held down"
	}
	return p.State().String()
}

// portRow shows a port.
func portRow(s *subnet.Snapshot, p *subnet.Port) api.PortRow {
	n := &s.Nodes[p.Node]
	row := api.PortRow{
		GUID: n.Info.NodeGUID.String(), Description: n.Desc, Type: n.Info.NodeType.String(), Port: int(p.Num), PortGUID: p.GUID.String(),
		LID: int(p.LID), State: portState(p), Physical: p.Info.PortPhysicalState.String(), MTU: p.MTU.Bytes(), Held: p.Held,
	}
	if p.State() > ib.StateDown {
		row.Width, row.Speed = p.Info.LinkWidthActive.String(), s.Speed(p).String()
	}
	if q := s.Port(p.Peer); q != nil {
		to := linkEnd(s, q)
		row.Peer = &to
	}
	return row
}

// Cables is a page of the links, from their lower ends; s may be nil.
func (t *Tables) Cables(s *subnet.Snapshot, q api.TableQuery) (out api.Table[api.Link], err error) {
	if s == nil {
		return out, nil
	}
	columns := portColumns(s)
	columns["state"] = func(a, b int32) int { return cmp.Compare(linkState(s, s.Ports[a]), linkState(s, s.Ports[b])) }
	rows, total, matched, err := t.page(s, &source{
		kind: "cables", columns: columns,
		all: func() (all []int32) {
			for i, p := range s.Ports {
				if isLink(s, p) {
					all = append(all, int32(i))
				}
			}
			return all
		},
		text: func(b []byte, i int32) []byte {
			p := s.Ports[i]
			b = append(portText(s, b, p), ' ')
			b = append(portText(s, b, s.Port(p.Peer)), ' ')
			b = append(append(b, linkState(s, p)...), ' ')
			b = append(append(b, p.Info.LinkWidthActive.String()...), ' ')
			b = append(b, s.Speed(p).String()...)
			if between(s, p) {
				return append(b, " between switches"...)
			}
			return append(b, " to a host"...)
		},
	}, &q)
	out = api.Table[api.Link]{Generation: s.Gen, Total: total, Matched: matched, Rows: make([]api.Link, len(rows))}
	for k, i := range rows {
		out.Rows[k] = linkRow(s, s.Ports[i])
	}
	return out, err
}

// NodeDetail shows a node, named by its GUID or by that of a port; s may be nil.
func (t *Tables) NodeDetail(s *subnet.Snapshot, guid string) (out api.NodeDetail, ok bool) {
	i := nodeNamed(s, guid)
	if i < 0 {
		return out, false
	}
	n := &s.Nodes[i]
	out = api.NodeDetail{
		Node: nodeRow(s, i, t.problemsOf(s)), Generation: s.Gen, System: n.Info.SystemImageGUID.String(), Unseen: n.Unseen,
		Vendor: fmt.Sprintf("0x%06x", n.Info.VendorID), Device: fmt.Sprintf("0x%04x", n.Info.DeviceID), Revision: fmt.Sprintf("0x%x", n.Info.Revision),
	}
	for _, p := range s.Problems {
		if p.GUID == n.Info.NodeGUID {
			out.Problems = append(out.Problems, p.Text)
		}
	}
	for _, p := range s.NodePorts(i) {
		if listed(s, p) {
			out.PortRows = append(out.PortRows, portRow(s, p))
		}
	}
	return out, true
}

// nodeNamed is the node with a GUID, or with a port that has it; -1: there is none.
func nodeNamed(s *subnet.Snapshot, guid string) int32 {
	g, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(guid), "0x"), 16, 64)
	if s == nil || err != nil {
		return -1
	}
	if i := s.NodeByGUID(ib.GUID(g)); i >= 0 {
		return i
	}
	if i := s.PortByGUID(ib.GUID(g)); i >= 0 {
		return s.Ports[s.Physical(i)].Node
	}
	return -1
}

// PortDetail shows a port; s may be nil.
func PortDetail(s *subnet.Snapshot, guid string, num int) (out api.PortDetail, ok bool) {
	n := nodeNamed(s, guid)
	if n < 0 || num < 0 || num > 254 {
		return out, false
	}
	i := s.PortIndex(subnet.Ref{Node: n, Port: uint8(num)})
	if i < 0 {
		return out, false
	}
	p := s.Ports[i]
	out = api.PortDetail{
		PortRow: portRow(s, p), Generation: s.Gen, LMC: int(p.LMC), VLs: ib.VLsOf(p.Info.OperationalVLs),
		WidthSupported: p.Info.LinkWidthSupported.String(), SpeedEnabled: p.Info.LinkSpeedEnabled.String(),
	}
	out.Inner = s.Port(p.Peer) != nil && between(s, p)
	if p.EndPort >= 0 {
		out.GID = s.GID(i).String()
	}
	if p.State() > ib.StateDown {
		out.Rate = p.Rate.String()
	}
	for _, k := range p.PKeys {
		if !k.IsEmpty() {
			out.PKeys = append(out.PKeys, k.String())
		}
	}
	for _, g := range p.Aliases {
		if g != 0 {
			out.Aliases = append(out.Aliases, g.String())
		}
	}
	for range s.VPortsOf(i) {
		out.VPorts++
	}
	return out, true
}

// Search finds nodes and ports by LID, GUID and GID, then nodes by name: those with the name itself before
// those with a part of it. s may be nil.
func Search(s *subnet.Snapshot, text string, limit int) (hits []api.Hit, more bool) {
	if s == nil || text == "" {
		return nil, false
	}
	hits = byNumber(s, text)
	var parts []api.Hit
	for i := range s.Nodes {
		n := &s.Nodes[i]
		hit := api.Hit{Kind: "node", Name: n.Desc, GUID: n.Info.NodeGUID.String(), LID: int(nodeLID(s, int32(i)))}
		switch low := strings.ToLower(n.Desc); {
		case strings.EqualFold(n.Desc, text):
			hit.By = "name"
			hits = append(hits, hit)
		case len(parts) <= limit && strings.Contains(low, strings.ToLower(text)):
			hit.By = "part of the name"
			parts = append(parts, hit)
		}
	}
	hits = append(hits, parts...)
	if len(hits) > limit {
		return hits[:limit], true
	}
	return hits, false
}

// byNumber finds what a number or GID names.
func byNumber(s *subnet.Snapshot, text string) (hits []api.Hit) {
	add := func(i int32, by string) {
		if i < 0 {
			return
		}
		p := s.Ports[s.Physical(i)]
		n := &s.Nodes[p.Node]
		hit := api.Hit{Kind: "port", Name: description(s, s.Ports[i]), GUID: n.Info.NodeGUID.String(), Port: int(p.Num), LID: int(s.Ports[i].LID), By: by}
		if p.Num == 0 {
			hit.Kind = "node"
		}
		hits = append(hits, hit)
	}
	if g, err := ib.ParseGID(text); err == nil {
		add(s.PortByGID(g), "GID")
	}
	if v, err := strconv.ParseUint(text, 0, 16); err == nil && v > 0 && v <= 0xBFFF {
		add(s.PortByLID(ib.LID(v)), "LID")
	}
	hex := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(text), "0x"), ":", "")
	if v, err := strconv.ParseUint(hex, 16, 64); err == nil && len(hex) > 4 {
		if n := s.NodeByGUID(ib.GUID(v)); n >= 0 {
			hits = append(hits, api.Hit{Kind: "node", Name: s.Nodes[n].Desc, GUID: s.Nodes[n].Info.NodeGUID.String(), LID: int(nodeLID(s, n)), By: "GUID"})
		}
		if i := s.PortByGUID(ib.GUID(v)); i >= 0 && s.Ports[i].Num != 0 {
			add(i, "GUID")
		}
	}
	return hits
}
