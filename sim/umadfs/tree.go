package umadfs

import (
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
)

// nodeKind is the type of a node of the file system.
type nodeKind uint8

const (
	kindDir nodeKind = iota
	kindText
	kindUmad
	kindIssm
)

const (
	modeDir  = 0o040755
	modeText = 0o100444
	modeDev  = 0o100600
)

// node is one file or directory. Nodes are created at mount time and never
// move; those of a removed device are hidden.
type node struct {
	id   uint64
	name string
	kind nodeKind
	kids []*node
	port *port         // a device and its files; they disappear with it
	text func() string // kindText; under the driver's lock

	mode, uid, gid uint32 // of a device, which chmod and chown change, as a udev rule does
}

func (n *node) hidden() bool { return n.port != nil && n.port.kernel.Removed() }

func (n *node) attr() attr {
	a := attr{ino: n.id, nlink: 1}
	switch n.kind {
	case kindDir:
		a.mode, a.nlink = modeDir, 2
	case kindText:
		a.mode, a.size = modeText, 4096
	default:
		a.mode, a.uid, a.gid = n.mode, n.uid, n.gid
	}
	return a
}

func (n *node) child(name string) *node {
	i := slices.IndexFunc(n.kids, func(k *node) bool { return k.name == name })
	if i < 0 || n.kids[i].hidden() {
		return nil
	}
	return n.kids[i]
}

// tree is the file system of one mount:
//
//	class/infiniband/NAME/…      what ib_core shows in /sys
//	class/infiniband_mad/…       what ib_umad shows in /sys
//	infiniband/umadN, issmN      the devices, bound to /dev/infiniband
type tree struct {
	nodes []*node // nodeid-1
}

func (t *tree) add(parent *node, name string, kind nodeKind) *node {
	n := &node{id: uint64(len(t.nodes) + 1), name: name, kind: kind, mode: modeDev}
	if parent != nil {
		n.port = parent.port
		parent.kids = append(parent.kids, n)
	}
	t.nodes = append(t.nodes, n)
	return n
}

func (t *tree) dir(parent *node, path string) *node {
	for name := range strings.SplitSeq(path, "/") {
		if k := parent.child(name); k != nil {
			parent = k
		} else {
			parent = t.add(parent, name, kindDir)
		}
	}
	return parent
}

func (t *tree) file(parent *node, name string, text func() string) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		parent, name = t.dir(parent, name[:i]), name[i+1:]
	}
	t.add(parent, name, kindText).text = func() string { return text() + "\n" }
}

func (t *tree) value(parent *node, name, text string) {
	t.file(parent, name, func() string { return text })
}

func (t *tree) get(id uint64) *node {
	if id == 0 || id > uint64(len(t.nodes)) {
		return nil
	}
	return t.nodes[id-1]
}

// newTree makes the tree of a mount whose HCAs are hcas, in order.
func newTree(hcas []*hca) *tree {
	t := &tree{}
	root := t.add(nil, "", kindDir)
	ibClass := t.dir(root, "class/infiniband")
	madClass := t.dir(root, "class/infiniband_mad")
	devs := t.dir(root, "infiniband")
	t.value(madClass, "abi_version", "5")
	index := 0
	for i, h := range hcas {
		name := fmt.Sprintf("heddle%d", i)
		ca := t.add(ibClass, name, kindDir)
		ca.port = h.ports[0]
		t.nodeFiles(ca, h.ports[0])
		for _, p := range h.ports {
			t.portFiles(t.dir(ca, fmt.Sprintf("ports/%d", p.ep.PortNum())), p)
			for _, d := range []struct {
				name string
				kind nodeKind
			}{{"umad", kindUmad}, {"issm", kindIssm}} {
				name2 := fmt.Sprintf("%s%d", d.name, index)
				c := t.add(madClass, name2, kindDir)
				c.port = p
				t.value(c, "ibdev", name)
				t.value(c, "port", fmt.Sprint(p.ep.PortNum()))
				t.add(devs, name2, d.kind).port = p
			}
			index++
		}
	}
	return t
}

func guidText(g ib.GUID) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint64(g)>>48, uint64(g)>>32&0xFFFF, uint64(g)>>16&0xFFFF, uint64(g)&0xFFFF)
}

func gidText(g ib.GID) string {
	return guidText(ib.GUID(g.Prefix())) + ":" + guidText(g.GUID())
}

func (t *tree) nodeFiles(ca *node, p *port) {
	t.file(ca, "node_type", func() string {
		n := p.ep.NodeInfo().NodeType
		return fmt.Sprintf("%d: %s", n, map[ib.NodeType]string{
			ib.NodeCA: "CA", ib.NodeSwitch: "SWITCH", ib.NodeRouter: "ROUTER",
		}[n])
	})
	t.file(ca, "node_guid", func() string { return guidText(p.ep.NodeInfo().NodeGUID) })
	t.file(ca, "sys_image_guid", func() string { return guidText(p.ep.NodeInfo().SystemImageGUID) })
	t.file(ca, "node_desc", func() string {
		d := p.ep.NodeDescription()
		return d.String()
	})
	t.file(ca, "hw_rev", func() string { return fmt.Sprintf("%x", p.ep.NodeInfo().Revision) })
	t.file(ca, "hca_type", func() string { return fmt.Sprintf("heddle%d", p.ep.NodeInfo().DeviceID) })
	t.value(ca, "fw_ver", "1.0.0")
	t.value(ca, "board_id", "HEDDLE_SIM")
}

var stateNames = [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

var physNames = [...]string{
	"", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test",
}

func nameOf(names []string, i int) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return "<unknown>"
}

func (t *tree) portFiles(d *node, p *port) {
	ep := p.ep
	t.file(d, "lid", func() string { return fmt.Sprintf("%#x", uint16(ep.PortInfo().LID)) })
	t.file(d, "lid_mask_count", func() string { return fmt.Sprint(ep.PortInfo().LMC) })
	t.file(d, "sm_lid", func() string { return fmt.Sprintf("%#x", uint16(ep.PortInfo().MasterSMLID)) })
	t.file(d, "sm_sl", func() string { return fmt.Sprint(ep.PortInfo().MasterSMSL) })
	t.file(d, "state", func() string {
		s := ep.PortInfo().PortState
		return fmt.Sprintf("%d: %s", s, nameOf(stateNames[:], int(s)))
	})
	t.file(d, "phys_state", func() string {
		s := ep.PortInfo().PortPhysicalState
		return fmt.Sprintf("%d: %s", s, nameOf(physNames[:], int(s)))
	})
	t.file(d, "rate", func() string { return rateText(p) })
	t.file(d, "cap_mask", func() string { return fmt.Sprintf("0x%08x", uint32(ep.PortInfo().CapabilityMask)) })
	t.value(d, "link_layer", "InfiniBand")
	var gids []ib.GID
	// The kernel creates one file for each slot of the tables; here only the slots
	// in use have one, and the first always.
	gids = ep.GIDs(gids)
	for i := range max(len(gids), 1) {
		t.file(d, fmt.Sprintf("gids/%d", i), func() string {
			g := ep.GIDs(nil)
			if i >= len(g) {
				return gidText(ib.GID{})
			}
			return gidText(g[i])
		})
		t.value(d, fmt.Sprintf("gid_attrs/types/%d", i), "IB/RoCE v1")
	}
	for i := range len(ep.PKeys(nil)) {
		t.file(d, fmt.Sprintf("pkeys/%d", i), func() string {
			k := ep.PKeys(nil)
			if i >= len(k) {
				return "0x0000"
			}
			return fmt.Sprintf("0x%04x", uint16(k[i]))
		})
	}
}
