package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// group is a line of a --groups file.
type group struct {
	MLID             ib.LID
	MGID             ib.GID
	SL               ib.SL
	Members, Senders []ib.GUID
}

const groupsHelp = "`FILE` with multicast groups, a line each: MLID MGID [sl=N] then port GUIDs; send:GUID only sends"

// readGroups reads a --groups file.
func readGroups(r io.Reader) ([]group, error) {
	var list []group
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 4<<20) // a group may have every port of a subnet
	for n := 1; sc.Scan(); n++ {
		text, _, _ := strings.Cut(sc.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		g, err := parseGroup(f)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		for _, h := range list {
			if h.MLID == g.MLID || h.MGID == g.MGID {
				return nil, fmt.Errorf("line %d: MLID %#x or MGID %v is in use already", n, uint16(g.MLID), g.MGID)
			}
		}
		list = append(list, g)
	}
	return list, sc.Err()
}

func parseGroup(f []string) (g group, err error) {
	if len(f) < 2 {
		return g, fmt.Errorf("want MLID, MGID and port GUIDs")
	}
	mlid, err := strconv.ParseUint(f[0], 0, 16)
	if err != nil || mlid < 0xC000 || mlid > 0xFFFE {
		return g, fmt.Errorf("%q is not an MLID (want 0xc000 to 0xfffe)", f[0])
	}
	g.MLID = ib.LID(mlid)
	if g.MGID, err = ib.ParseGID(f[1]); err != nil || g.MGID[0] != 0xFF {
		return g, fmt.Errorf("%q is not an MGID (want ff...)", f[1])
	}
	for _, w := range f[2:] {
		if s, ok := strings.CutPrefix(w, "sl="); ok {
			v, err := strconv.ParseUint(s, 0, 8)
			if err != nil || v > 15 {
				return g, fmt.Errorf("%q: want sl=0 to sl=15", w)
			}
			g.SL = ib.SL(v)
			continue
		}
		s, sender := strings.CutPrefix(w, "send:")
		v, err := strconv.ParseUint(s, 0, 64)
		if err != nil || v == 0 {
			return g, fmt.Errorf("%q is not a port GUID", w)
		}
		g.Members = append(g.Members, ib.GUID(v))
		if sender {
			g.Senders = append(g.Senders, ib.GUID(v))
		}
	}
	return g, nil
}

// onGraph resolves a group on a graph. A member that the fabric lacks is an
// error: a netlist cannot get it later.
func (g *group) onGraph(gr *fabric.Graph) (route.Group, error) {
	out := route.Group{MLID: g.MLID, SL: g.SL}
	for _, guid := range g.Members {
		// End ports ascend by port GUID.
		i, ok := slices.BinarySearchFunc(gr.EndPorts, guid, func(e fabric.EndPort, want ib.GUID) int {
			switch {
			case e.GUID < want:
				return -1
			case e.GUID > want:
				return 1
			}
			return 0
		})
		if !ok {
			return out, fmt.Errorf("group %#x: the fabric has no port with GUID %v", uint16(g.MLID), guid)
		}
		out.Members = append(out.Members, int32(i))
		if slices.Contains(g.Senders, guid) {
			out.Senders = append(out.Senders, int32(i))
		}
	}
	slices.Sort(out.Members)
	out.Members = slices.Compact(out.Members)
	slices.Sort(out.Senders)
	out.Senders = slices.Compact(out.Senders)
	return out, nil
}
