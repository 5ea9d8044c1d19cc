package check_test

import (
	"fmt"
	"strings"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/file"
	"heddle/route/osmdump"
)

// Verify tables that another subnet manager dumped: switch middle sends the packets to LID 2 back
// to switch left.
func Example() {
	var b fabric.Builder
	left, middle, right := b.AddSwitch("left", 2), b.AddSwitch("middle", 2), b.AddSwitch("right", 2)
	b.Connect(left, 2, middle, 1)
	b.Connect(middle, 2, right, 2)
	b.Connect(b.AddCA("host-1", 1), 1, left, 1)
	b.Connect(b.AddCA("host-2", 1), 1, right, 1)
	f, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := fabric.AssignLIDs(f, 1); err != nil { // hosts 1 and 2, switches 3 to 5
		fmt.Println(err)
		return
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	dump, err := osmdump.ReadRoutes(strings.NewReader(fmt.Sprintf(`Unicast lids [0x1-0x5] of switch Lid 3 guid %v (left):
0x0001 001 : (Channel Adapter portguid 0x0000000000100001: 'host-1')
0x0002 002 : (Channel Adapter portguid 0x0000000000100003: 'host-2')
0x0003 000 : (Switch portguid 0x0000000000200000: 'left')
0x0004 002 : (Switch portguid 0x0000000000200001: 'middle')
0x0005 002 : (Switch portguid 0x0000000000200002: 'right')
Unicast lids [0x1-0x5] of switch Lid 4 guid %v (middle):
0x0001 001 : (Channel Adapter portguid 0x0000000000100001: 'host-1')
0x0002 001 : (Channel Adapter portguid 0x0000000000100003: 'host-2')
0x0003 001 : (Switch portguid 0x0000000000200000: 'left')
0x0004 000 : (Switch portguid 0x0000000000200001: 'middle')
0x0005 002 : (Switch portguid 0x0000000000200002: 'right')
Unicast lids [0x1-0x5] of switch Lid 5 guid %v (right):
0x0001 002 : (Channel Adapter portguid 0x0000000000100001: 'host-1')
0x0002 001 : (Channel Adapter portguid 0x0000000000100003: 'host-2')
0x0003 002 : (Switch portguid 0x0000000000200000: 'left')
0x0004 002 : (Switch portguid 0x0000000000200001: 'middle')
0x0005 000 : (Switch portguid 0x0000000000200002: 'right')
`, g.Switches[0].GUID, g.Switches[1].GUID, g.Switches[2].GUID)))
	if err != nil {
		fmt.Println(err)
		return
	}
	tables, err := file.Engine{Dump: dump}.Compute(g, route.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := check.Verify(g, tables, check.Options{})
	fmt.Println(r.OK(), r.UnreachablePairs, "pairs unreachable,", r.Loops, "loop")
	fmt.Println(r.Err())
	// Output:
	// false 3 pairs unreachable, 1 loop
	// check: 3 unreachable pairs, 1 loop, 1 credit cycle
}
