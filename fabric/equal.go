package fabric

import "fmt"

// Diff describes the first difference between f and g in one line, "" if there
// is none.
func (f *Fabric) Diff(g *Fabric) string {
	if len(f.Nodes) != len(g.Nodes) {
		return fmt.Sprintf("%d nodes and %d nodes", len(f.Nodes), len(g.Nodes))
	}
	for i := range f.Nodes {
		a, b := &f.Nodes[i], &g.Nodes[i]
		x, y := *a, *b
		x.Ports, y.Ports = nil, nil
		switch {
		case a.ID != b.ID:
			return fmt.Sprintf("node %d: id %q and %q", i, a.ID, b.ID)
		case a.Desc != b.Desc:
			return fmt.Sprintf("node %q: description %q and %q", a.ID, a.Desc, b.Desc)
		case !sameNode(&x, &y):
			return fmt.Sprintf("node %q: %+v and %+v", a.ID, x, y)
		case len(a.Ports) != len(b.Ports):
			return fmt.Sprintf("node %q: %d and %d ports", a.ID, len(a.Ports), len(b.Ports))
		}
		for p := range a.Ports {
			if p == 0 && !a.IsSwitch() {
				continue // CAs have no port 0
			}
			u, v := a.Ports[p], b.Ports[p]
			if u.LIDCount() == v.LIDCount() {
				u.NumLIDs, v.NumLIDs = 0, 0
			}
			if u != v {
				return fmt.Sprintf("port %s: %+v and %+v", portName(a.ID, p), u, v)
			}
		}
	}
	for i := 0; i < max(len(f.Console), len(g.Console)); i++ {
		switch {
		case i >= len(f.Console):
			return fmt.Sprintf("console: nothing and %q", g.Console[i])
		case i >= len(g.Console):
			return fmt.Sprintf("console: %q and nothing", f.Console[i])
		case f.Console[i] != g.Console[i]:
			return fmt.Sprintf("console: %q and %q", f.Console[i], g.Console[i])
		}
	}
	return ""
}

func sameNode(a, b *Node) bool {
	return a.Type == b.Type && a.EnhancedPort0 == b.EnhancedPort0 && a.GUID == b.GUID &&
		a.SystemImageGUID == b.SystemImageGUID && a.VendorID == b.VendorID && a.DeviceID == b.DeviceID &&
		a.Revision == b.Revision && a.NumPorts == b.NumPorts
}
