package dataplane_test

import (
	"fmt"

	"heddle/fabric"
	"heddle/sim/dataplane"
)

// A host sends to another through a switch as fast as its link takes it, and the
// other takes 12.9 Gb/s.
func Example() {
	t := &dataplane.Topology{
		Nodes: []dataplane.Node{{Name: "a", Ports: 1}, {Name: "b", Ports: 1}, {Name: "switch", Switch: true, Ports: 2}},
		Links: []dataplane.Link{
			{A: fabric.Ref{Node: 0, Port: 1}, B: fabric.Ref{Node: 2, Port: 1}, Rate: dataplane.Rate{Num: 500, Den: 1}, Delay: dataplane.DefaultCable},
			{A: fabric.Ref{Node: 1, Port: 1}, B: fabric.Ref{Node: 2, Port: 2}, Rate: dataplane.Rate{Num: 500, Den: 1}, Delay: dataplane.DefaultCable},
		},
	}
	tables := dataplane.NewPlain(t, 1)
	tables.SetRoute(2, 2, 2) // host b has LID 2 and hangs on port 2
	e, err := dataplane.New(t, tables, dataplane.Defaults())
	if err != nil {
		fmt.Println(err)
		return
	}
	const payload, bytes = 2048, 2048 + dataplane.OverheadRC
	e.SetCaps(1, dataplane.Rate{}, dataplane.Cap(12.9, payload, bytes))
	if _, err := e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(1), Bytes: bytes}); err != nil {
		fmt.Println(err)
		return
	}
	e.Run(dataplane.Millisecond)
	e.ResetStats()
	e.Run(11 * dataplane.Millisecond)
	s := e.Stats()
	fmt.Printf("%.1f Gb/s, %d lost\n", float64(s.Delivered)*payload*8/float64(10*dataplane.Millisecond/dataplane.Nanosecond), s.Drops())
	// Output: 12.9 Gb/s, 0 lost
}
