// Package slurm describes a fabric to the workload manager Slurm: as the tree of switches of
// topology/tree, or as blocks of topology/block, in the formats of topology.conf (Slurm 22.05 and later)
// and topology.yaml (25.05 and later).
//
// Slurm wants a tree, and fabrics are none. A host stands below its leaf switch. Leaf switches that reach
// each other over switches of the next level are one group, and so on upwards: pods of a fat tree become
// one switch with the leaves as its children. Fabrics where every switch has hosts, such as tori, have one
// group with all leaves.
//
// The same fabric gives the same text. The package does no I/O and holds no state.
package slurm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"heddle/fabric"
	"heddle/fabric/hosts"
	"heddle/ib"
)

// Rails says where a host with adapters on several leaf switches stands.
type Rails int

const (
	// Merge makes one leaf of all leaves that have a host in common: those of a unit of a rail-optimised
	// fabric.
	Merge Rails = 0
	// First counts a host's first adapter alone; n counts the n-th, and hosts with fewer are left out.
	First Rails = 1
)

// ParseRails reads "merge", "first" or the number of a rail from 1 to 64.
func ParseRails(s string) (Rails, error) {
	switch s {
	case "merge", "":
		return Merge, nil
	case "first":
		return First, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 64 {
		return 0, fmt.Errorf("rails %q; give merge, first or the number of a rail from 1 to 64", s)
	}
	return Rails(n), nil
}

// Options change how a fabric is described.
type Options struct {
	Names map[ib.GUID]string // of nodes, in the place of descriptions (node-name map); may be nil
	Rails Rails
}

// Switch is a switch as Slurm has it: a leaf with hosts, or a group of others.
type Switch struct {
	Name     string
	Hosts    []string // in natural order; nil for a group
	Children []string // nil for a leaf
}

// Topology is a fabric as Slurm sees it.
type Topology struct {
	Switches []Switch // children before their parents
	LeftOut  []string // what is not in it, each a line for a human
}

// New describes a fabric. The error says that no host has a name and a cable to a switch, or that many
// rails.
func New(f *fabric.Fabric, o Options) (*Topology, error) {
	t := &Topology{}
	all, unnamed := hosts.All(f, o.Names)
	for _, u := range unnamed {
		t.LeftOut = append(t.LeftOut, fmt.Sprintf("adapter %v: %s", f.Nodes[u.Node].GUID, u.Reason))
	}
	b := &builder{f: f, names: switchNames(f, o.Names), set: make([]int32, len(f.Nodes))}
	for i := range b.set {
		b.set[i] = int32(i)
	}
	below := make([][]string, len(f.Nodes)) // hosts by the switch of the rail that counts
	for _, h := range all {
		k := 0
		if o.Rails > 0 {
			if k = int(o.Rails) - 1; k >= len(h.Rails) {
				t.LeftOut = append(t.LeftOut, fmt.Sprintf("host %s: it has %d rails", h.Name, len(h.Rails)))
				continue
			}
		} else {
			for _, r := range h.Rails[1:] {
				b.join(h.Rails[0].Switch, r.Switch)
			}
		}
		below[h.Rails[k].Switch] = append(below[h.Rails[k].Switch], h.Name)
	}

	// Leaves, by the switch that stands for each set of merged ones.
	leaves := map[int32]*group{}
	members := map[int32]int{}
	for i := range f.Nodes {
		if len(all) > 0 && f.Nodes[i].IsSwitch() && hasHost(f, int32(i)) {
			members[b.find(int32(i))]++
		}
		if len(below[i]) == 0 {
			continue
		}
		s := b.find(int32(i))
		if leaves[s] == nil {
			leaves[s] = &group{}
		}
		leaves[s].hosts = append(leaves[s].hosts, below[i]...)
	}
	for s, g := range leaves {
		g.name = b.names[s]
		if members[s] > 1 {
			g.name = "rails-" + g.name
		}
		slices.SortFunc(g.hosts, hosts.Natural)
		g.hosts = slices.Compact(g.hosts)
		b.groups = append(b.groups, member{s, g})
	}
	if len(b.groups) == 0 {
		if len(all) > 0 {
			return nil, fmt.Errorf("no host has %d rails", o.Rails)
		}
		return nil, fmt.Errorf("no adapter that is cabled to a switch has the name of a host as its description (%d without)", len(unnamed))
	}
	b.sort()
	b.climb(levels(f))
	for _, g := range b.groups {
		t.add(g.group)
	}
	return t, nil
}

// hasHost reports whether a channel adapter is cabled to the switch.
func hasHost(f *fabric.Fabric, sw int32) bool {
	for p := range f.Nodes[sw].Ports {
		if q := f.Nodes[sw].Ports[p].Peer; p > 0 && q.Valid() && f.Nodes[q.Node].Type == ib.NodeCA {
			return true
		}
	}
	return false
}

// switchNames gives each switch a name that Slurm takes: that of the map, or its GUID.
func switchNames(f *fabric.Fabric, names map[ib.GUID]string) []string {
	out := make([]string, len(f.Nodes))
	used := map[string]int{}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() {
			out[i] = clean(names[n.GUID])
			used[out[i]]++
		}
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() && (out[i] == "" || used[out[i]] > 1) {
			out[i] = fmt.Sprintf("ib-%016x", uint64(n.GUID))
		}
	}
	return out
}

// clean makes a name of what a human wrote: other characters become "-". 50 characters leave room for what
// is put before the name of a group.
func clean(s string) string {
	b := []byte(strings.TrimSpace(s))
	for i, c := range b {
		if c > '~' || !strings.ContainsRune("-_.", rune(c)) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			b[i] = '-'
		}
	}
	return strings.Trim(string(b[:min(len(b), 50)]), "-.")
}

// levels gives each switch its distance from the leaves, 1 for a leaf, 0 for one that no leaf reaches.
//
// A switch with few hosts between leaves is none itself: management hosts often are on a spine. So it is a
// leaf unless all its neighbours have hosts, and on average more than twice as many.
func levels(f *fabric.Fabric) []int {
	n := make([]int, len(f.Nodes)) // hosts of each switch
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			continue
		}
		for p := range f.Nodes[i].Ports {
			if q := f.Nodes[i].Ports[p].Peer; p > 0 && q.Valid() && f.Nodes[q.Node].Type == ib.NodeCA {
				n[i]++
			}
		}
	}
	level := make([]int, len(f.Nodes))
	var queue []int32
	for i := range f.Nodes {
		if n[i] == 0 {
			continue
		}
		links, around, least := 0, 0, math.MaxInt
		eachSwitch(f, int32(i), func(q int32) {
			links, around, least = links+1, around+n[q], min(least, n[q])
		})
		if links == 0 || least == 0 || around <= 2*links*n[i] {
			level[i] = 1
			queue = append(queue, int32(i))
		}
	}
	for k := 0; k < len(queue); k++ {
		eachSwitch(f, queue[k], func(q int32) {
			if level[q] == 0 {
				level[q] = level[queue[k]] + 1
				queue = append(queue, q)
			}
		})
	}
	return level
}

// eachSwitch calls do for the switch at the far end of each cable of sw.
func eachSwitch(f *fabric.Fabric, sw int32, do func(int32)) {
	for p := range f.Nodes[sw].Ports {
		if q := f.Nodes[sw].Ports[p].Peer; p > 0 && q.Valid() && f.Nodes[q.Node].IsSwitch() {
			do(q.Node)
		}
	}
}

type group struct {
	name     string
	hosts    []string
	children []*group
}

// member is a group that has no parent yet, and one of its switches.
type member struct {
	sw int32
	*group
}

type builder struct {
	f      *fabric.Fabric
	names  []string
	set    []int32 // of nodes: a node of the same set, itself for the one that stands for it
	groups []member
}

func (b *builder) find(i int32) int32 {
	for b.set[i] != i {
		b.set[i] = b.set[b.set[i]]
		i = b.set[i]
	}
	return i
}

// join makes one set of two. The switch with the lower GUID stands for it, in whatever order sets are
// joined.
func (b *builder) join(i, j int32) {
	i, j = b.find(i), b.find(j)
	if b.f.Nodes[j].GUID < b.f.Nodes[i].GUID {
		i, j = j, i
	}
	b.set[j] = i
}

func (b *builder) sort() {
	slices.SortFunc(b.groups, func(x, y member) int {
		return cmp.Or(hosts.Natural(x.name, y.name), cmp.Compare(b.f.Nodes[x.sw].GUID, b.f.Nodes[y.sw].GUID))
	})
}

// climb joins groups, level by level, that switches up to that level connect.
func (b *builder) climb(level []int) {
	top := slices.Max(level)
	for l := 1; l <= top; l++ {
		highest := map[int32]int32{} // by set: the switch of this level with the lowest GUID
		for i := range b.f.Nodes {
			if level[i] == 0 || level[i] > l {
				continue
			}
			eachSwitch(b.f, int32(i), func(q int32) {
				if level[q] > 0 && level[q] <= l {
					b.join(int32(i), q)
				}
			})
		}
		for i := range b.f.Nodes {
			if level[i] != l {
				continue
			}
			s := b.find(int32(i))
			if h, ok := highest[s]; !ok || b.f.Nodes[i].GUID < b.f.Nodes[h].GUID {
				highest[s] = int32(i)
			}
		}
		var sets []int32
		of := map[int32][]member{}
		for _, g := range b.groups {
			s := b.find(g.sw)
			if of[s] == nil {
				sets = append(sets, s)
			}
			of[s] = append(of[s], g)
		}
		var next []member
		for _, s := range sets {
			if len(of[s]) == 1 {
				next = append(next, of[s][0])
				continue
			}
			named, ok := highest[s]
			if !ok {
				named = s
			}
			parent := &group{name: "group-" + b.names[named]}
			for _, g := range of[s] {
				parent.children = append(parent.children, g.group)
			}
			next = append(next, member{s, parent})
		}
		b.groups = next
	}
	b.sort()
}
