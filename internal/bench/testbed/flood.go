package testbed

import (
	"encoding/json"
	"os"
	"strings"

	"heddle/fabric"
)

// maxDestinations bounds the destinations of a flood, which are command-line arguments.
const maxDestinations = 4096

// Floodable reads from a netlist which nodes to flood from, those after the
// manager's, and the destinations, spread over the whole fabric.
func Floodable(netlist string) (nodes []string, dst string, err error) {
	file, err := os.Open(netlist)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	f, err := fabric.ReadNetlist(file, fabric.NetlistOptions{})
	if err != nil {
		return nil, "", err
	}
	var guids []string
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() {
			nodes = append(nodes, n.ID)
			guids = append(guids, n.Ports[1].GUID.String())
		}
	}
	step := (len(guids) + maxDestinations - 1) / maxDestinations
	var some []string
	for i := 0; i < len(guids); i += step {
		some = append(some, guids[i])
	}
	return nodes[1:7], strings.Join(some, ","), nil
}

// Flood runs heddle flood to its end and decodes its figures.
func (b *Testbed) Flood(to any, args ...string) error {
	out, err := Output(b.Dir, nil, b.Heddle, append([]string{"flood", "--json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, to)
}
