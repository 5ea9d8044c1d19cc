// Package hosts finds the hosts of a fabric: which channel adapters are in one machine, in which order,
// and on which switch each of them is. Schedulers and checks of rails need that.
//
// A host's name is the first word of its adapters' NodeDescription, which is how rdma-ndd names them
// ("node17 mlx5_0"). The package does no I/O and holds no state.
package hosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"heddle/fabric"
	"heddle/ib"
)

// Rail is a cabled port of a host's adapter: the host's way to one switch.
type Rail struct {
	Port   fabric.Ref // of the adapter
	Switch int32      // index of the node that it is cabled to
}

// Host is a machine.
type Host struct {
	Name  string
	Rails []Rail // by the names of adapters, then by node GUID and port
}

// Unnamed is an adapter whose description does not begin with the name of a host.
type Unnamed struct {
	Node   int32
	Reason string
}

// All lists the hosts with a cable to a switch, by name in natural order (n2 before n10), and the adapters
// that belong to no host. names, if not nil, are descriptions to use in the place of the nodes' own, by
// node GUID (a node-name map).
func All(f *fabric.Fabric, names map[ib.GUID]string) ([]Host, []Unnamed) {
	type adapter struct {
		node  int32
		host  string
		label string // the rest of the description: "mlx5_0"
	}
	var adapters []adapter
	var unnamed []Unnamed
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Type != ib.NodeCA || !onSwitch(f, n) {
			continue
		}
		desc := n.Desc
		if d, ok := names[n.GUID]; ok {
			desc = d
		}
		host, label, _ := strings.Cut(strings.TrimSpace(desc), " ")
		if reason := badName(host); reason != "" {
			unnamed = append(unnamed, Unnamed{int32(i), reason})
			continue
		}
		adapters = append(adapters, adapter{int32(i), host, strings.TrimSpace(label)})
	}
	slices.SortFunc(adapters, func(a, b adapter) int {
		return cmp.Or(Natural(a.host, b.host), Natural(a.label, b.label), cmp.Compare(f.Nodes[a.node].GUID, f.Nodes[b.node].GUID))
	})
	var hosts []Host
	for _, a := range adapters {
		if len(hosts) == 0 || hosts[len(hosts)-1].Name != a.host {
			hosts = append(hosts, Host{Name: a.host})
		}
		h := &hosts[len(hosts)-1]
		for p := range f.Nodes[a.node].Ports {
			if peer := f.Nodes[a.node].Ports[p].Peer; p > 0 && peer.Valid() && f.Nodes[peer.Node].IsSwitch() {
				h.Rails = append(h.Rails, Rail{fabric.Ref{Node: a.node, Port: uint8(p)}, peer.Node})
			}
		}
	}
	return hosts, unnamed
}

func onSwitch(f *fabric.Fabric, n *fabric.Node) bool {
	for p := 1; p <= n.NumPorts; p++ {
		if peer := n.Ports[p].Peer; peer.Valid() && f.Nodes[peer.Node].IsSwitch() {
			return true
		}
	}
	return false
}

// maxName is the longest name of a node or switch that Slurm takes.
const maxName = 64

// badName says why s is no name of a host, "" if it is one. Characters are those of Slurm's NodeName.
func badName(s string) string {
	switch {
	case s == "":
		return "it has no description"
	case len(s) >= maxName:
		return fmt.Sprintf("a name of %d characters", len(s))
	case s[0] == '-' || s[0] == '.':
		return fmt.Sprintf("%q does not begin like a name", s)
	}
	for _, c := range s {
		if c > '~' || !strings.ContainsRune("-_.", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return fmt.Sprintf("%q is no name of a host", s)
		}
	}
	return ""
}

// Natural compares names so that numbers in them count as numbers: n2 before n10, n01 before n1.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx == 0 || dy == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		u, v := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
		if c := cmp.Or(cmp.Compare(len(u), len(v)), strings.Compare(u, v)); c != 0 {
			return c
		}
		x, y = x[dx:], y[dy:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits is how many digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
