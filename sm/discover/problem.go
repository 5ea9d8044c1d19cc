package discover

import (
	"errors"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Problem reports something that is left out, and keeps it for the snapshot. A region discovery
// gives up instead; at is the place if the notice has none.
func (d *Discovery) Problem(at notice.Where, n notice.Notice) {
	if d.Region && d.Phase == notice.PhaseDiscover {
		if !n.Where.Known {
			n.Where = at
		}
		d.GiveUp(n.Kind.String() + ": " + n.Where.String())
		return
	}
	if !n.Where.Known {
		n.Where = at
	}
	text := n.Text
	if n.Err != nil {
		text = strings.TrimPrefix(text+": "+n.Err.Error(), ": ")
	}
	d.Fabric.Problems = append(d.Fabric.Problems, subnet.Problem{
		Node: n.Where.String(), GUID: n.Where.Node, Port: uint8(max(n.Where.Port, 0)), Kind: n.Kind.String(), Text: text,
	})
	// LIDs and descriptions are no part of the key: they may become known later.
	key := n.Kind.String() + n.Where.Node.String() + strconv.Itoa(n.Where.Port) + n.Peer.Node.String() + strconv.Itoa(n.Peer.Port)
	if n.Where.Node == 0 && !n.Peer.Known {
		key += topo.PathString(n.Where.Path) // the path alone distinguishes unknown nodes
	}
	if !d.NoteOnce(key) {
		n.Level = notice.Debug // reported before, and still true
	}
	d.Notify(n)
}

// silent reports that no node answers behind port r.
func (d *Discovery) silent(r ref, err error) {
	at := d.Fabric.Behind(r)
	n := notice.Notice{
		Kind: notice.KindNodeSilent, Level: notice.Warn, Where: at, Err: err,
		Text: "the link is up, but the node at the far end does not answer; it is excluded, and asked again",
	}
	if _, was := d.absent.WasBehind(r); was {
		n.Text = "the link is up, but the node at the far end does not answer; it stays in the subnet as it was last read, and is asked again"
	}
	if r.Node < 0 {
		n.Text = "the manager's own node does not answer on the local port; it is asked again. If another program has set an M_Key on the port, configure that key (--m-key) or reset the adapter"
	} else {
		n.Peer = d.Fabric.Where(r.Node, int(r.Port))
		if d.Last != nil && d.Last != d.Fabric { // name the node that was there before
			if i, ok := d.Last.Find(d.Fabric.Nodes[r.Node].Info.NodeGUID); ok && int(r.Port) <= int(d.Last.Nodes[i].Info.NumPorts) {
				if q := d.Last.PortOf(i, r.Port).Peer; q.Node >= 0 {
					was := d.Last.Where(q.Node, int(q.Port))
					was.Path = at.Path
					n.Where = was
				}
			}
		}
	}
	d.Problem(at, n)
}

// garbage reports an answer that cannot be true.
func (d *Discovery) garbage(at notice.Where, attr ib.AttrID, err error) {
	d.Problem(at, notice.Notice{
		Kind: notice.KindNodeGarbage, Level: notice.Warn, Err: err,
		Text: "the answer to Get(" + ib.AttrName(ib.ClassSubnDR, attr) + ") is invalid; the node is excluded",
	})
}

// unread reports an attribute of a known node that could not be read.
func (d *Discovery) unread(n int32, p int, attr ib.AttrID, err error) {
	kind, what := notice.KindNodeSilent, "does not answer"
	if !mad.Unanswered(err) {
		kind, what = notice.KindNodeGarbage, "gives an invalid answer to"
		var se *work.StatusError
		if !errors.As(err, &se) {
			d.Fabric.Nodes[n].Flags |= topo.NodeNonsense
		}
	}
	rest := "the port is excluded"
	if p <= 0 || !d.Fabric.Nodes[n].IsSwitch() {
		rest = "the node is excluded"
	}
	d.Problem(notice.Where{}, notice.Notice{
		Kind: kind, Level: notice.Warn, Where: d.Fabric.Where(n, p), Err: err,
		Text: what + " Get(" + ib.AttrName(ib.ClassSubnDR, attr) + "); " + rest + ", and asked again",
	})
}

// duplicate reports a second node or port with the same GUID.
func (d *Discovery) duplicate(from ref, idx int32, port int, why string) {
	f := d.Fabric
	if from.Node >= 0 {
		f.Port(from).Flags |= topo.PortBadPeer | topo.PortSilent
	}
	second := f.Where(idx, port)
	second.Path = f.Behind(from).Path
	d.Problem(notice.Where{}, notice.Notice{
		Kind: notice.KindDuplicateGUID, Level: notice.Error, Where: second, Peer: f.Where(idx, port),
		Text: "this node GUID is already in use by the second node named (" + why + "); this one is excluded: give it another GUID",
	})
}
