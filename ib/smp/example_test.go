package smp_test

import (
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
)

// Ask the node behind port 7 of the first switch who it is.
func Example() {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1, 7})
	fmt.Println(m.Class(), m.Method(), ib.AttrName(m.Class(), m.AttrID()), "path", smp.Path(&m))

	// What the node's agent does:
	ni := smp.NodeInfo{BaseVersion: 1, ClassVersion: 1, NodeType: ib.NodeSwitch, NumPorts: 36, NodeGUID: 0x0002c90300001234, LocalPortNum: 3}
	ni.Put(smp.Data(&m))
	smp.Respond(&m, ib.StatusOK)

	var got smp.NodeInfo
	if err := got.Decode(smp.Data(&m)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(m.Method(), smp.StatusOf(&m), got.NodeType, got.NodeGUID, "by port", got.LocalPortNum)
	// Output:
	// SubnDR Get NodeInfo path [1 7]
	// GetResp ok Switch 0x0002c90300001234 by port 3
}
