package cabling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"heddle/fabric"
	"heddle/ib"
)

// Kind says what a finding is about.
type Kind uint8

// The kinds.
const (
	// Missing is a planned cable of which both ports are free.
	Missing Kind = iota
	// Extra is a cable between ports for which none is planned.
	Extra
	// Swapped are two cables whose ends are exchanged.
	Swapped
	// Rotated are three or more cables whose ends went round.
	Rotated
	// Moved is a cable with an end in another port than planned; of several that displace each other
	// the finding names all.
	Moved
	// MissingNode is a planned node that the subnet does not have, with all its cables.
	MissingNode
	// ExtraNode is a node that is not planned, with all its cables.
	ExtraNode
	// Slow is a cable with another width or speed than planned, or below what both of its ends can do.
	Slow
	// Unclear is a node of the plan that several nodes of the subnet may be, or a port that it does
	// not have.
	Unclear
	// NumKinds is how many kinds there are.
	NumKinds
)

var kindNames = [...]string{"missing", "extra", "swapped", "rotated", "moved", "missing_node", "extra_node", "slow", "unclear"}

// String is the kind as the API has it.
func (k Kind) String() string { return kindNames[min(int(k), len(kindNames)-1)] }

// ParseKind is the kind of a name.
func ParseKind(name string) (Kind, bool) {
	i := slices.Index(kindNames[:], name)
	return Kind(max(i, 0)), i >= 0
}

// Pair are the ports of a cable.
type Pair struct{ A, B End }

// Finding is one difference between plan and subnet.
type Finding struct {
	Kind    Kind
	Planned []Pair // cables as planned
	Found   []Pair // cables as they are
	Node    End    // MissingNode, ExtraNode, Unclear; its port is 0, or the port that is not there
	Text    string // what is wrong, in a line
	Do      string // what to do
}

// Result is what Check found.
type Result struct {
	Planned, Found int // cables
	Right          int // planned cables that lead where they should
	Off            int // planned cables of which nobody can tell, because a port is disabled (Options.Off)
	Findings       []Finding
}

// Options of Check. The zero value is for a whole plan.
type Options struct {
	// Names are those of a node-name map, by node GUID: a plan may use them in the place of descriptions.
	Names map[ib.GUID]string
	// Partial: cables of nodes that the plan does not name are no findings.
	Partial bool
	// Able, if not nil, is the best width and speed that both ends of the cable at a port can do; 0:
	// not known.
	Able func(fabric.Ref) (ib.LinkWidth, ib.LinkSpeed)
	// Off, if not nil, reports whether a port is disabled: a cable in it is not seen, and not missed.
	Off func(fabric.Ref) bool
	// Ignore are kinds of findings that are left out.
	Ignore [NumKinds]bool
}

// Check compares a fabric with a plan. A node of the plan is the node with its GUID. If the fabric has
// none, it is the one node with its name that no other node of the plan is: the name of the map, the
// description, or its first word. The order of the findings depends on plan and fabric alone.
func Check(p *Plan, f *fabric.Fabric, o Options) *Result {
	c := &checker{f: f, o: o, res: &Result{Planned: len(p.Cables), Found: f.NumLinks()}}
	c.resolve(p)
	c.compare(p)
	return c.res
}

type checker struct {
	f   *fabric.Fabric
	o   Options
	res *Result

	node   map[planNode]int32 // of the fabric; -1: there is none
	of     []planNode         // node of the plan, by node of the fabric
	named  []bool             // is a node of the plan
	lost   []planNode         // nodes of the plan without one, in the order of the plan
	cables map[planNode][]int // planned cables of a node, by index
}

// planNode identifies a node of a plan.
type planNode struct {
	guid ib.GUID
	name string
}

func (e End) node() planNode { return planNode{e.GUID, e.Name} }

func (c *checker) add(x Finding) {
	if !c.o.Ignore[x.Kind] {
		c.res.Findings = append(c.res.Findings, x)
	}
}

// off reports whether a port is disabled.
func (c *checker) off(r fabric.Ref) bool { return c.o.Off != nil && c.o.Off(r) }

// resolve finds the nodes of the plan in the fabric.
func (c *checker) resolve(p *Plan) {
	c.node, c.cables = map[planNode]int32{}, map[planNode][]int{}
	c.of, c.named = make([]planNode, len(c.f.Nodes)), make([]bool, len(c.f.Nodes))
	byGUID, byName := map[ib.GUID][]int32{}, map[string][]int32{}
	for i := range c.f.Nodes {
		n := &c.f.Nodes[i]
		byGUID[n.GUID] = append(byGUID[n.GUID], int32(i))
		for _, name := range c.names(n) {
			if list := byName[name]; len(list) == 0 || list[len(list)-1] != int32(i) {
				byName[name] = append(list, int32(i))
			}
		}
	}
	var all []planNode
	see := func(e End) {
		if _, ok := c.node[e.node()]; !ok {
			c.node[e.node()] = -1
			all = append(all, e.node())
		}
	}
	for i, x := range p.Cables {
		see(x.A)
		see(x.B)
		c.cables[x.A.node()] = append(c.cables[x.A.node()], i)
		if x.B.node() != x.A.node() {
			c.cables[x.B.node()] = append(c.cables[x.B.node()], i)
		}
	}
	for _, e := range p.Bare {
		see(e)
	}
	take := func(n planNode, i int32) {
		c.node[n], c.of[i], c.named[i] = i, n, true
	}
	for _, n := range all {
		if n.guid == 0 {
			continue
		}
		if list := byGUID[n.guid]; len(list) == 1 && !c.named[list[0]] {
			take(n, list[0])
		}
	}
	for _, n := range all {
		if c.node[n] >= 0 || n.name == "" {
			continue
		}
		free := slices.DeleteFunc(slices.Clone(byName[n.name]), func(i int32) bool { return c.named[i] && c.of[i].name != "" })
		exact := slices.DeleteFunc(slices.Clone(free), func(i int32) bool { return !c.is(&c.f.Nodes[i], n.name) })
		if len(exact) > 0 {
			free = exact
		}
		switch len(free) {
		case 0:
		case 1:
			take(n, free[0])
		default:
			var guids []string
			for _, i := range free[:min(len(free), 4)] {
				guids = append(guids, c.f.Nodes[i].GUID.String())
			}
			c.add(Finding{
				Kind: Unclear, Node: End{n.guid, n.name, 0},
				Text: fmt.Sprintf("%q of the plan may be %d nodes of the subnet: %s", n.name, len(free), strings.Join(guids, ", ")),
				Do:   "Write the node's GUID into the plan, or give the nodes descriptions that differ.",
			})
			c.node[n] = -2
		}
	}
	for _, n := range all {
		if c.node[n] == -1 {
			c.lost = append(c.lost, n)
		}
	}
}

// names are those by which a plan may call a node.
func (c *checker) names(n *fabric.Node) []string {
	list := []string{n.Name()}
	if m := c.o.Names[n.GUID]; m != "" {
		list = append(list, m)
	}
	if n.Type != ib.NodeSwitch {
		for _, s := range slices.Clone(list) {
			if word, _, more := strings.Cut(s, " "); more && word != "" {
				list = append(list, word)
			}
		}
	}
	return list
}

// is reports whether a name is a node's, and not only its first word.
func (c *checker) is(n *fabric.Node, name string) bool {
	return n.Name() == name || c.o.Names[n.GUID] == name
}

// end is a port of the fabric, as people call it.
func (c *checker) end(r fabric.Ref) End {
	n := &c.f.Nodes[r.Node]
	name := c.o.Names[n.GUID]
	if name == "" {
		name = n.Name()
	}
	return End{n.GUID, name, r.Port}
}

func (c *checker) pair(a, b fabric.Ref) Pair { return Pair{c.end(a), c.end(b)} }

// wire is a cable that is planned or found, and not both.
type wire struct{ a, b fabric.Ref }

func (w *wire) far(r fabric.Ref) fabric.Ref {
	if w.a == r {
		return w.b
	}
	return w.a
}

func compareRefs(a, b fabric.Ref) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
}

// compare compares the cables.
func (c *checker) compare(p *Plan) {
	planned, found := map[fabric.Ref]*wire{}, map[fabric.Ref]*wire{}
	var wanted, extra []*wire
	right, taken := map[fabric.Ref]bool{}, map[fabric.Ref]bool{}
	for i := range p.Cables {
		x := &p.Cables[i]
		a, okA := c.ref(x.A)
		b, okB := c.ref(x.B)
		if !okA || !okB {
			continue
		}
		if taken[a] || taken[b] {
			c.add(Finding{
				Kind: Unclear, Node: x.A, Text: fmt.Sprintf("the plan has two cables for a port of %v to %v", x.A, x.B),
				Do: "Correct the plan: it names one node in two ways, and gives one of its ports two cables.",
			})
			continue
		}
		taken[a], taken[b] = true, true
		if c.f.Port(a).Peer == b {
			c.res.Right++
			right[a], right[b] = true, true
			c.rate(a, b, x)
			continue
		}
		w := &wire{a, b}
		planned[a], planned[b] = w, w
		wanted = append(wanted, w)
	}
	for a, b := range c.f.Links {
		if right[a] {
			continue
		}
		w := &wire{a, b}
		found[a], found[b] = w, w
		extra = append(extra, w)
	}
	c.missingNodes(p)
	done := map[*wire]bool{}
	nodes, unplanned := c.strangers(extra, planned, done)
	for _, w := range wanted {
		if !done[w] {
			c.group(w, planned, found, done)
		}
	}
	for _, w := range extra {
		if done[w] {
			continue
		}
		done[w] = true
		x := c.pair(w.a, w.b)
		c.add(Finding{
			Kind: Extra, Found: []Pair{x}, Text: fmt.Sprintf("a cable that is not planned: %v to %v", x.A, x.B),
			Do: "Remove the cable, or add it to the plan.",
		})
	}
	if !c.o.Partial {
		c.extraNodes(nodes, unplanned)
	}
}

// strangers finds the cables of nodes that are not in the plan, but for those in ports of planned ones,
// and marks them as done.
func (c *checker) strangers(extra []*wire, planned map[fabric.Ref]*wire, done map[*wire]bool) (nodes []int32, unplanned map[int32][]*wire) {
	unplanned = map[int32][]*wire{}
	for _, w := range extra {
		if planned[w.a] != nil || planned[w.b] != nil {
			continue
		}
		for _, r := range [2]fabric.Ref{w.a, w.b} {
			if !c.named[r.Node] {
				if unplanned[r.Node] == nil {
					nodes = append(nodes, r.Node)
				}
				unplanned[r.Node] = append(unplanned[r.Node], w)
				done[w] = true
				break
			}
		}
	}
	return nodes, unplanned
}

// extraNodes adds the nodes that are not planned.
func (c *checker) extraNodes(nodes []int32, unplanned map[int32][]*wire) {
	for _, n := range nodes {
		e := c.end(fabric.Ref{Node: n})
		x := Finding{
			Kind: ExtraNode, Node: e, Text: fmt.Sprintf("the plan does not name %q (%v), which has %s", e.Name, e.GUID, cablesOf(len(unplanned[n]))),
			Do: "Remove the node, or add it to the plan; a node with another name or GUID than planned is both missing and not planned.",
		}
		for _, w := range unplanned[n] {
			x.Found = append(x.Found, c.pair(w.a, w.b))
		}
		c.add(x)
	}
}

func cablesOf(n int) string {
	if n == 1 {
		return "1 cable"
	}
	return fmt.Sprintf("%d cables", n)
}

// ref is the port of the fabric that a port of the plan is.
func (c *checker) ref(e End) (fabric.Ref, bool) {
	i := c.node[e.node()]
	if i < 0 {
		return fabric.NoRef(), false
	}
	n := &c.f.Nodes[i]
	if int(e.Port) > n.NumPorts {
		c.add(Finding{
			Kind: Unclear, Node: e, Text: fmt.Sprintf("the plan has %v, and the node has %d ports", e, n.NumPorts),
			Do: "Correct the plan: ports count from 1.",
		})
		return fabric.NoRef(), false
	}
	return fabric.Ref{Node: i, Port: e.Port}, true
}

// missingNodes adds the nodes that are not there.
func (c *checker) missingNodes(p *Plan) {
	for _, n := range c.lost {
		if c.behindOff(p, n) {
			c.res.Off += len(c.cables[n])
			continue
		}
		e := End{n.guid, n.name, 0}
		called := fmt.Sprintf("%q", n.name)
		if n.name == "" {
			called = n.guid.String()
		}
		x := Finding{
			Kind: MissingNode, Node: e, Text: fmt.Sprintf("%s is not in the subnet; %s planned for it", called, cablesOf(len(c.cables[n]))),
			Do: "Check whether the node is on; a node with another name or GUID than planned is both missing and not planned.",
		}
		for _, i := range c.cables[n] {
			x.Planned = append(x.Planned, Pair{p.Cables[i].A, p.Cables[i].B})
		}
		c.add(x)
	}
}

// behindOff reports whether all cables that are planned for a missing node lead to disabled ports.
func (c *checker) behindOff(p *Plan, n planNode) bool {
	for _, i := range c.cables[n] {
		far := p.Cables[i].A
		if far.node() == n {
			far = p.Cables[i].B
		}
		if at := c.node[far.node()]; at < 0 || int(far.Port) > c.f.Nodes[at].NumPorts || !c.off(fabric.Ref{Node: at, Port: far.Port}) {
			return false
		}
	}
	return len(c.cables[n]) > 0
}

// group adds the finding that a planned cable belongs to. Each port has at most one planned and one
// found cable, so these form chains and rings, in which they alternate. A chain or ring has one cause.
func (c *checker) group(w *wire, planned, found map[fabric.Ref]*wire, done map[*wire]bool) {
	// Go to an end of the chain, or once round the ring.
	from, isPlan := w.a, true
	x, start := w, w
	for {
		side := found
		if !isPlan {
			side = planned
		}
		next := side[from]
		if next == nil || next == start && !isPlan {
			break
		}
		x, from, isPlan = next, next.far(from), !isPlan
	}
	var plan, real []*wire
	ring := false
	from = x.far(from)
	if isPlan {
		plan = append(plan, x)
	} else {
		real = append(real, x)
	}
	first := x
	done[x] = true
	for {
		side := found
		if !isPlan {
			side = planned
		}
		next := side[from]
		if next == nil {
			break
		}
		if next == first {
			ring = true
			break
		}
		done[next] = true
		from, isPlan = next.far(from), !isPlan
		if isPlan {
			plan = append(plan, next)
		} else {
			real = append(real, next)
		}
	}
	c.addGroup(plan, real, ring)
}

// addGroup adds the finding of a chain or ring.
func (c *checker) addGroup(plan, real []*wire, ring bool) {
	order := func(list []*wire) {
		for _, w := range list {
			if compareRefs(w.b, w.a) < 0 {
				w.a, w.b = w.b, w.a
			}
		}
		slices.SortFunc(list, func(x, y *wire) int { return compareRefs(x.a, y.a) })
	}
	order(plan)
	order(real)
	x := Finding{}
	for _, w := range plan {
		x.Planned = append(x.Planned, c.pair(w.a, w.b))
	}
	for _, w := range real {
		x.Found = append(x.Found, c.pair(w.a, w.b))
	}
	switch n := len(plan); {
	case ring && n == 2:
		x.Kind = Swapped
		x.Text = fmt.Sprintf("two cables are swapped: %s should go to %s, and %s to %s", x.Planned[0].A, x.Planned[0].B, x.Planned[1].A, x.Planned[1].B)
		x.Do = c.exchange(plan)
	case ring:
		x.Kind = Rotated
		x.Text = fmt.Sprintf("%d cables went round: %s", n, leads(x.Found))
		x.Do = "Put these cables where they are planned: " + leads(x.Planned) + "."
	case len(real) == 0 && (c.off(plan[0].a) || c.off(plan[0].b)):
		c.res.Off++
		return
	case len(real) == 0:
		x.Kind = Missing
		x.Text = fmt.Sprintf("a cable is missing: %v to %v", x.Planned[0].A, x.Planned[0].B)
		x.Do = "Plug it in, or check whether the port at either end is off or its cable broken."
	default:
		x.Kind = Moved
		x.Text = fmt.Sprintf("planned are %s; found are %s", leads(x.Planned), leads(x.Found))
		if n == 1 {
			x.Text = fmt.Sprintf("the cable from %v to %v leads elsewhere: %s", x.Planned[0].A, x.Planned[0].B, leads(x.Found))
		}
		x.Do = "Put the cables where they are planned, or correct the plan."
	}
	c.add(x)
}

// exchange says where two swapped cables are to be exchanged: at the node that has an end of both.
func (c *checker) exchange(plan []*wire) string {
	p, q := plan[0], plan[1]
	now := c.f.Port(p.a).Peer
	// If p.a has the far port of q, the ends that are exchanged are p.a with q's near end, or p.b with
	// its far one.
	near, far := q.a, q.b
	if now == q.a {
		near, far = q.b, q.a
	}
	for _, pair := range [2][2]fabric.Ref{{p.b, far}, {p.a, near}} {
		if pair[0].Node == pair[1].Node {
			return fmt.Sprintf("Exchange the cables in ports %d and %d of %q.", pair[0].Port, pair[1].Port, c.end(pair[0]).Name)
		}
	}
	return fmt.Sprintf("Exchange the cables in %v and %v.", c.end(p.b), c.end(far))
}

// leads lists cables, at most six.
func leads(list []Pair) string {
	var s []string
	for i, x := range list {
		if i == 6 {
			s = append(s, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		s = append(s, fmt.Sprintf("%v to %v", x.A, x.B))
	}
	return strings.Join(s, ", ")
}

// rate compares width and speed of a cable that leads where it should. What the plan leaves out is
// compared with what both ends can do.
func (c *checker) rate(a, b fabric.Ref, x *Cable) {
	p := c.f.Port(a)
	what := func(width ib.LinkWidth, speed ib.LinkSpeed) string {
		if width == 0 {
			width = p.Width
		}
		if speed == 0 {
			speed = p.Speed
		}
		return fmt.Sprintf("%v %v", width, speed)
	}
	do := "Reseat the cable; look for a limit that somebody set at an end, or a cable made for less."
	var text string
	switch {
	case x.Width != 0 && x.Width != p.Width, x.Speed != 0 && x.Speed != p.Speed:
		text = fmt.Sprintf("is %s and planned as %s", what(0, 0), what(x.Width, x.Speed))
		if (x.Width == 0 || p.Width.Lanes() >= x.Width.Lanes()) && p.Speed >= x.Speed {
			do = "The link is wider or faster than planned: correct the plan, or check whether the cable is the planned one."
		}
	case c.o.Able != nil && (x.Width == 0 || x.Speed == 0):
		w, s := c.o.Able(a)
		if x.Width != 0 {
			w = p.Width // as planned
		}
		if x.Speed != 0 {
			s = p.Speed
		}
		if w.Lanes() <= p.Width.Lanes() && s <= p.Speed {
			return
		}
		text = fmt.Sprintf("is %s, and both ends can do %s", what(0, 0), what(w, s))
	default:
		return
	}
	y := c.pair(a, b)
	c.add(Finding{Kind: Slow, Planned: []Pair{y}, Found: []Pair{y}, Text: fmt.Sprintf("the link from %v to %v %s", y.A, y.B, text), Do: do})
}
