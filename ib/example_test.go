package ib_test

import (
	"encoding/hex"
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
)

// Parse a MAD that was captured on the wire: the header first, then the attribute that it names.
func Example() {
	wire, _ := hex.DecodeString("01010181" + "0000" + "0000" + "00000000000004d2" + "0011" + "0000" + "00000000" +
		"0000000000000000" + "0000000000000000000000000000000000000000000000000000000000000000" +
		"01010224" + "0002c90300001230" + "0002c90300001234" + "0002c90300001234" + "0008" + "cb20" + "000000a1" + "070002c9")
	var m ib.MAD
	copy(m[:], wire)
	fmt.Println(m.Class(), m.Method(), ib.AttrName(m.Class(), m.AttrID()), "transaction", m.TID())

	var ni smp.NodeInfo
	if err := ni.Decode(smp.Data(&m)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ni.NodeType, ni.NodeGUID, ni.NumPorts, "ports, read by port", ni.LocalPortNum)
	// Output:
	// Subn GetResp NodeInfo transaction 1234
	// Switch 0x0002c90300001234 36 ports, read by port 7
}
