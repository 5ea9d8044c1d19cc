package sm

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

// problem reports something that is left out and remembers it for the
// snapshot.
func (c *Core) Problem(at notice.Where, n notice.Notice) {
	if c.Region && c.Phase == notice.PhaseDiscover {
		if !n.Where.Known {
			n.Where = at
		}
		c.giveUp(n.Kind.String() + ": " + n.Where.String())
		return
	}
	if !n.Where.Known {
		n.Where = at
	}
	text := n.Text
	if n.Err != nil {
		text = strings.TrimPrefix(text+": "+n.Err.Error(), ": ")
	}
	c.Fabric.Problems = append(c.Fabric.Problems, subnet.Problem{
		Node: n.Where.String(), GUID: n.Where.Node, Port: uint8(max(n.Where.Port, 0)), Kind: n.Kind.String(), Text: text,
	})
	// Not the LIDs nor the descriptions: those may come later than the problem.
	key := n.Kind.String() + n.Where.Node.String() + strconv.Itoa(n.Where.Port) + n.Peer.Node.String() + strconv.Itoa(n.Peer.Port)
	if n.Where.Node == 0 && !n.Peer.Known {
		key += topo.PathString(n.Where.Path) // all that tells it from another unknown node
	}
	if !c.NoteOnce(key) {
		n.Level = notice.Debug // told before; it is still so
	}
	c.Notify(n)
}

// silent reports that nobody answers behind r.
func (c *Core) silent(r ref, err error) {
	at := c.Fabric.Behind(r)
	n := notice.Notice{
		Kind: notice.KindNodeSilent, Level: notice.Warn, Where: at, Err: err,
		Text: "the link is up but the far end does not answer; it is left out and asked again",
	}
	if _, was := c.absent.WasBehind(r); was {
		n.Text = "the link is up but the far end does not answer; it stays in the subnet as it was last read, and is asked again"
	}
	if r.Node < 0 {
		n.Text = "our own node does not answer on the local port; it is asked again. If another program has put an M_Key on the port, name it (--m-key) or reset the adapter"
	} else {
		n.Peer = c.Fabric.Where(r.Node, int(r.Port))
		if c.Last != nil && c.Last != c.Fabric { // say who was there before
			if i, ok := c.Last.Find(c.Fabric.Nodes[r.Node].Info.NodeGUID); ok && int(r.Port) <= int(c.Last.Nodes[i].Info.NumPorts) {
				if q := c.Last.PortOf(i, r.Port).Peer; q.Node >= 0 {
					was := c.Last.Where(q.Node, int(q.Port))
					was.Path = at.Path
					n.Where = was
				}
			}
		}
	}
	c.Problem(at, n)
}

func (c *Core) garbage(at notice.Where, attr ib.AttrID, err error) {
	c.Problem(at, notice.Notice{
		Kind: notice.KindNodeGarbage, Level: notice.Warn, Err: err,
		Text: "left out, because it answers Get(" + ib.AttrName(ib.ClassSubnDR, attr) + ") with nonsense",
	})
}

// unread reports an attribute of a known node that could not be read.
func (c *Core) unread(n int32, p int, attr ib.AttrID, err error) {
	kind, what := notice.KindNodeSilent, "does not answer"
	if !mad.Unanswered(err) {
		kind, what = notice.KindNodeGarbage, "answers nonsense to"
		var se *work.StatusError
		if !errors.As(err, &se) {
			c.Fabric.Nodes[n].Flags |= topo.NodeNonsense
		}
	}
	rest := "the port is left out"
	if p <= 0 || !c.Fabric.Nodes[n].IsSwitch() {
		rest = "the node is left out"
	}
	c.Problem(notice.Where{}, notice.Notice{
		Kind: kind, Level: notice.Warn, Where: c.Fabric.Where(n, p), Err: err,
		Text: what + " Get(" + ib.AttrName(ib.ClassSubnDR, attr) + "); " + rest + " and asked again",
	})
}

// duplicate reports a second node or port with a GUID that is taken.
func (c *Core) duplicate(from ref, idx int32, port int, why string) {
	f := c.Fabric
	if from.Node >= 0 {
		f.Port(from).Flags |= topo.PortBadPeer | topo.PortSilent
	}
	second := f.Where(idx, port)
	second.Path = f.Behind(from).Path
	c.Problem(notice.Where{}, notice.Notice{
		Kind: notice.KindDuplicateGUID, Level: notice.Error, Where: second, Peer: f.Where(idx, port),
		Text: "this node GUID is already in use by the second node named (" + why + "); this one is left out: give it a GUID of its own",
	})
}
