package fabric_test

import (
	"fmt"
	"strings"

	"heddle/fabric"
)

// Build a fabric of two switches, give its ports LIDs and write it as a netlist, which ibsim reads too.
func Example() {
	var b fabric.Builder
	left, right := b.AddSwitch("left", 4), b.AddSwitch("right", 4)
	b.Connect(left, 4, right, 4)
	for i, sw := range []int{left, left, right} {
		host := b.AddCA(fmt.Sprintf("host-%d", i), 1)
		b.Connect(host, 1, sw, i+1)
	}
	f, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		fmt.Println(err)
		return
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(g.Switches), "switches,", len(g.EndPorts), "end ports,", len(g.Channels), "channels between switches")
	var text strings.Builder
	if err := fabric.WriteNetlist(&text, f); err != nil {
		fmt.Println(err)
		return
	}
	again, err := fabric.ReadNetlist(strings.NewReader(text.String()), fabric.NetlistOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range again.Nodes {
		fmt.Println(n.ID, n.Type)
	}
	// Output:
	// 2 switches, 5 end ports, 2 channels between switches
	// left Switch
	// right Switch
	// host-0 Channel Adapter
	// host-1 Channel Adapter
	// host-2 Channel Adapter
}
