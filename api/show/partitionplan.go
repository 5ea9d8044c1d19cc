package show

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/plural"
	"heddle/partition"
	"heddle/partition/preview"
	"heddle/subnet"
	"heddle/vm"
)

// Bounds of a plan, in entries of its lists.
const (
	maxPlanLines = 90 // the audit log keeps 100
	maxPlanRows  = 100
)

// PartitionPlan shows what a policy would change in place of base.
func PartitionPlan(s *subnet.Snapshot, base, next *partition.Policy, p *preview.Plan) *api.PartitionPlan {
	out := &api.PartitionPlan{}
	out.Change, out.MoreChange = bounded(partition.Diff(base, next), maxPlanLines)
	out.Change = append([]string{}, out.Change...)
	names := map[ib.PKey]string{}
	pending := map[ib.PKey]*preview.Pending{}
	for i := range p.Pending {
		pending[p.Pending[i].PKey] = &p.Pending[i]
	}
	out.Partitions = []api.PlannedPartition{}
	for i := range p.Partitions {
		x := &p.Partitions[i]
		names[x.PKey] = cmp.Or(x.Name, x.Was)
		if len(out.Partitions) == maxPlanRows {
			out.MorePartitions++
			continue
		}
		out.Partitions = append(out.Partitions, plannedPartition(x, pending[x.PKey]))
	}
	changes, more := bounded(p.Changes, maxPlanRows)
	out.Memberships, out.MoreChanges = []api.PlannedMembership{}, more
	for i := range changes {
		c := &changes[i]
		out.Memberships = append(out.Memberships, api.PlannedMembership{
			Partition: names[c.PKey], PKey: c.PKey.String(), From: as(c.From), To: as(c.To), PlannedPorts: plannedPorts(s, &c.Ports),
		})
	}
	out.Ports, out.Hosts, out.SwitchPorts = p.Ports, plannedTables(&p.Hosts), plannedTables(&p.Switches)
	out.Switches, out.SwitchNames = p.SwitchCount, []string{}
	for _, n := range p.SwitchNodes {
		out.SwitchNames = append(out.SwitchNames, cmp.Or(s.Nodes[n].Desc, s.Nodes[n].Info.NodeGUID.String()))
	}
	out.EnforceOn, out.EnforceOff, out.NoRoom, out.Overflow = p.EnforceOn, p.EnforceOff, p.Crowded, plannedPorts(s, &p.Overflow)
	for _, k := range p.Waiting {
		out.Waiting = append(out.Waiting, k.String())
	}
	groups, more := bounded(p.Groups, maxPlanRows)
	out.Groups, out.MoreGroups = []api.PlannedGroup{}, more
	for i := range groups {
		out.Groups = append(out.Groups, plannedGroup(&groups[i]))
	}
	out.Interfaces, out.InterfaceNames = p.Interfaces, p.Names
	return out
}

// bounded are the first entries of a list, and how many more there are.
func bounded[T any](list []T, most int) ([]T, int) {
	n := min(len(list), most)
	return list[:n:n], len(list) - n
}

// as is a membership in a word.
func as(m partition.Membership) string {
	if m == 0 {
		return "none"
	}
	return m.String()
}

func plannedPartition(x *preview.Partition, p *preview.Pending) api.PlannedPartition {
	out := api.PlannedPartition{Name: cmp.Or(x.Name, x.Was), PKey: x.PKey.String(), What: "changed"}
	switch {
	case x.New:
		out.What = "new"
	case x.Gone:
		out.What = "gone"
	case x.Was != x.Name:
		out.What, out.Was = "renamed", x.Was
	}
	if p != nil {
		out.Begin, out.End = p.Begin, p.End
		for _, g := range p.First {
			out.Pending = append(out.Pending, g.String())
		}
	}
	return out
}

func plannedPorts(s *subnet.Snapshot, p *preview.Ports) api.PlannedPorts {
	out := api.PlannedPorts{Count: p.Count}
	for _, i := range p.First {
		out.Names = append(out.Names, portName(s, i))
	}
	return out
}

// portName names a port as WithMember takes it, as far as names are unique.
func portName(s *subnet.Snapshot, i int32) string {
	p := s.Ports[i]
	n := &s.Nodes[p.Node]
	switch {
	case p.Virtual != nil:
		return cmp.Or(p.Virtual.Desc, p.GUID.String())
	case n.Desc == "":
		return p.GUID.String()
	case p.Num == 0 || n.Info.NumPorts == 1:
		return n.Desc
	}
	return n.Desc + ":" + strconv.Itoa(int(p.Num))
}

func plannedTables(t *preview.Tables) api.PlannedTables {
	return api.PlannedTables{Tables: t.Tables, Blocks: t.Blocks, Writes: t.Writes, Unread: t.Unread}
}

func plannedGroup(g *preview.Group) api.PlannedGroup {
	out := api.PlannedGroup{
		MGID: g.MGID.String(), PKey: g.PKey.Base().String(), Ends: g.Ends,
		What: [...]string{
			preview.GroupMembers: "members", preview.GroupNew: "new", preview.GroupGone: "gone", preview.GroupKept: "stays",
			preview.GroupFixed: "permanent", preview.GroupValues: "values",
		}[g.What],
	}
	if g.MLID != 0 {
		out.MLID = fmt.Sprintf("%#x", uint16(g.MLID))
	}
	return out
}

// Partition finds the partition that a client names by its name or P_Key. The P_Key need not be in use.
func Partition(p *partition.Policy, text string) (ib.PKey, error) {
	var found []ib.PKey
	for i := range p.Partitions {
		if p.Partitions[i].Name == text {
			found = append(found, p.Partitions[i].PKey)
		}
	}
	switch len(found) {
	case 0:
	case 1:
		return found[0], nil
	default:
		return 0, fmt.Errorf("%d partitions are called %q: give the P_Key", len(found), text)
	}
	k, err := ib.ParsePKey(text)
	if err != nil || k.Base() == 0 {
		return 0, fmt.Errorf("%q is neither the name of a partition nor a P_Key: %w; 'heddle ctl partitions' lists them", text, partition.ErrNotFound)
	}
	return k.Base(), nil
}

// Member finds the member of a partition that a client names: a port GUID with 0x, a class of ports, or the
// port of a node by its description, with ":NUMBER" where it has several. s may be nil.
func Member(s *subnet.Snapshot, v *vm.View, text string) (partition.Member, error) {
	m, ok := partition.ParseMember(text)
	if ok {
		if m.Kind == partition.Port && s != nil && s.PortByGUID(m.GUID) < 0 {
			if n := s.NodeByGUID(m.GUID); n >= 0 && s.Nodes[n].Info.NodeGUID == m.GUID {
				return m, fmt.Errorf("%v is the GUID of node %q, not of a port: give %s", m.GUID, s.Nodes[n].Desc, strings.Join(endGUIDs(s, n), " or "))
			}
		}
		return m, nil
	}
	if strings.HasPrefix(text, "0x") {
		return m, fmt.Errorf("%q is not a port GUID: 0x and up to 16 hexadecimal digits", text)
	}
	i, err := namedPort(s, text)
	switch {
	case err == nil:
		return partition.Member{Kind: partition.Port, GUID: s.Ports[i].GUID}, nil
	case !errors.Is(err, errNoName):
		return m, err
	}
	if _, is := Interface(v, text); is {
		return m, fmt.Errorf("%q is an interface of a virtual machine: change its P_Keys ('heddle ctl vm keys')", text)
	}
	return m, err
}

var errNoName = errors.New("give a port GUID with 0x, NODE or NODE:PORT of a node on the fabric, or ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF")

// namedPort finds the end port of NODE or NODE:PORT.
func namedPort(s *subnet.Snapshot, text string) (int32, error) {
	if s == nil {
		return -1, fmt.Errorf("%q: %w", text, errNoName)
	}
	var found []int32 // nodes
	num := -1
	look := func(name string) {
		for i := range s.Nodes {
			if s.Nodes[i].Desc == name {
				found = append(found, int32(i))
			}
		}
	}
	look(text)
	if at := strings.LastIndexByte(text, ':'); len(found) == 0 && at > 0 {
		if n, err := strconv.Atoi(text[at+1:]); err == nil {
			num = n
			look(text[:at])
		}
	}
	switch {
	case len(found) == 0:
		return -1, fmt.Errorf("%q: %w", text, errNoName)
	case len(found) > 1:
		return -1, fmt.Errorf("%s are called %q: give a port GUID", plural.Of(len(found), "node"), s.Nodes[found[0]].Desc)
	}
	n := found[0]
	ends := ends(s, n)
	if num >= 0 {
		ends = slices.DeleteFunc(ends, func(i int32) bool { return int(s.Ports[i].Num) != num })
	}
	switch {
	case len(ends) == 0:
		return -1, fmt.Errorf("%q has no such port in the subnet: it has %s", text, strings.Join(endGUIDs(s, n), " and "))
	case len(ends) > 1:
		return -1, fmt.Errorf("%q has several ports: give NODE:PORT, or %s", text, strings.Join(endGUIDs(s, n), " or "))
	}
	return ends[0], nil
}

// ends are the end ports of a node, indices in Ports.
func ends(s *subnet.Snapshot, n int32) (list []int32) {
	for i, p := range s.NodePorts(n) {
		if p.EndPort >= 0 {
			list = append(list, s.Nodes[n].First+int32(i))
		}
	}
	return list
}

// endGUIDs names the end ports of a node.
func endGUIDs(s *subnet.Snapshot, n int32) (list []string) {
	for _, i := range ends(s, n) {
		list = append(list, fmt.Sprintf("port %d (%v)", s.Ports[i].Num, s.Ports[i].GUID))
	}
	if len(list) == 0 {
		list = []string{"none with an address"}
	}
	return list
}

// PartitionMembers is a page of the lines of a partition, named by name or P_Key: those of the policy of
// administrators, base, and those that are added to them in force, p. s, base and p may be nil.
func PartitionMembers(s *subnet.Snapshot, v *vm.View, base, p *partition.Policy, name string, page *api.TableQuery) (api.Table[api.PartitionMember], error) {
	none := api.Table[api.PartitionMember]{}
	if s == nil || p == nil {
		return none, errors.New("the subnet is not known yet")
	}
	key, err := Partition(p, name)
	if err != nil {
		return none, err
	}
	q := p.Find(key)
	if q == nil {
		return none, fmt.Errorf("no partition has the P_Key %v: %w", key, partition.ErrNotFound)
	}
	own := 0
	if b := base.Find(key); b != nil {
		own = len(b.Members)
	}
	names := map[ib.GUID]string{}
	if v != nil {
		for x := range v.All() {
			names[x.GUID] = x.Name
		}
	}
	rows := make([]api.PartitionMember, len(q.Members))
	for i, m := range q.Members {
		row := &rows[i]
		row.Member, row.Membership, row.ByInterface = m.String(), m.As.String(), i >= own
		if m.Kind != partition.Port {
			continue
		}
		row.Interface = names[m.GUID]
		at := s.PortByGUID(m.GUID)
		if row.Pending = at < 0; row.Pending {
			continue
		}
		x := s.Ports[at]
		row.Node, row.NodeGUID, row.Port = s.Nodes[x.Node].Desc, s.Nodes[x.Node].Info.NodeGUID.String(), int(x.Num)
	}
	t, err := api.MemberPage(page, rows)
	t.Generation = s.Gen
	return t, err
}
