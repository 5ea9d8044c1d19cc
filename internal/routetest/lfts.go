package routetest

import (
	"bufio"
	"fmt"
	"io"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// WriteLFTs writes the unicast tables as opensm-lfts.dump, the form that OpenSM's and our own file
// engine read: LIDs without a route are left out, and the port that has each LID is named.
func WriteLFTs(w io.Writer, g *fabric.Graph, t *route.Tables) error {
	out := bufio.NewWriter(w)
	for s := range g.Switches {
		sw := &g.Switches[s]
		fmt.Fprintf(out, "Unicast lids [0-%d] of switch Lid %d guid %v (''):\n", t.TopLID, g.EndPorts[sw.EndPort].LID, sw.GUID)
		for l := ib.LID(1); l <= t.TopLID; l++ {
			p := t.Entry(int32(s), l)
			if p == route.Drop {
				continue
			}
			fmt.Fprintf(out, "0x%04x %03d # ", uint16(l), p)
			if int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
				fmt.Fprintln(out, "unknown node and type")
				continue
			}
			e := &g.EndPorts[g.LIDOwner[l]]
			kind := map[ib.NodeType]string{ib.NodeSwitch: "Switch", ib.NodeRouter: "Router", ib.NodeCA: "Channel Adapter"}[e.Type]
			fmt.Fprintf(out, "%s portguid %v: ''\n", kind, e.GUID)
		}
		fmt.Fprintf(out, "%d lids dumped\n", t.TopLID)
	}
	return out.Flush()
}
