package show

import (
	"errors"
	"fmt"
	"io"
	"time"

	"heddle/api"
	"heddle/fabric"
	"heddle/fabric/hosts"
	"heddle/fabric/slurm"
	"heddle/subnet"
)

var errUnread = errors.New("the subnet has not been read yet")

// Slurm is the published subnet for a workload manager, and the number of the state.
func Slurm(s *subnet.Snapshot, o slurm.Options) (*slurm.Topology, uint64, error) {
	if s == nil {
		return nil, 0, errUnread
	}
	t, err := slurm.New(s.Fabric(), o)
	return t, s.Gen, err
}

// Netlist returns what writes the published subnet as ibnetdiscover prints it from the manager's port, and
// the number of the state. published is when it was published, for its first lines.
func Netlist(s *subnet.Snapshot, published time.Time) (func(io.Writer) error, uint64, error) {
	if s == nil || s.Self == subnet.NoRef() {
		return nil, 0, errUnread
	}
	f := s.Fabric()
	from := fabric.Ref{Node: s.Self.Node, Port: s.Self.Port}
	d := f.Discovered(from)
	n := &f.Nodes[from.Node]
	guid := n.Ports[from.Port].GUID
	return func(w io.Writer) error {
		return fabric.WriteDiscovered(w, d, "", " Topology file: generated on "+published.Format(time.ANSIC), "",
			fmt.Sprintf(" Initiated from node %016x port %016x", uint64(n.GUID), uint64(guid)))
	}, s.Gen, nil
}

// Rails says which hosts of the published subnet break the rail rule.
func Rails(s *subnet.Snapshot) api.Rails {
	if s == nil {
		return api.Rails{}
	}
	f := s.Fabric()
	all, unnamed := hosts.All(f, nil)
	u := hosts.CheckRails(all)
	out := api.Rails{Hosts: len(all), Rails: u.Rails, Units: u.Units, Unnamed: len(unnamed)}
	byName := map[string]*hosts.Host{}
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	node := func(i int32) string {
		if i < 0 {
			return ""
		}
		return fmt.Sprintf("%s (%v)", f.Nodes[i].Name(), f.Nodes[i].GUID)
	}
	for _, m := range u.Misplaced {
		fault := api.RailFault{Host: m.Host, Missing: m.Missing, Swapped: m.Swapped != [2]int{}}
		for i, k := range m.Wrong {
			port := byName[m.Host].Rails[k].Port
			fault.Wrong = append(fault.Wrong, api.RailWrong{
				Rail: k + 1, Adapter: f.Nodes[port.Node].Name(), Port: int(port.Port), On: node(m.On[i]), Should: node(m.Should[i]),
			})
		}
		out.Misplaced = append(out.Misplaced, fault)
	}
	return out
}
