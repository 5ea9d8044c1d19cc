package sm

import (
	"errors"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/subnet"
)

// problem reports something that is left out and remembers it for the
// snapshot.
func (c *Core) problem(at Where, n Notice) {
	if c.reg.on && c.phase == PhaseDiscover {
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
	c.f.Problems = append(c.f.Problems, subnet.Problem{
		Node: n.Where.String(), GUID: n.Where.Node, Port: uint8(max(n.Where.Port, 0)), Kind: n.Kind.String(), Text: text,
	})
	// Not the LIDs nor the descriptions: those may come later than the problem.
	key := n.Kind.String() + n.Where.Node.String() + strconv.Itoa(n.Where.Port) + n.Peer.Node.String() + strconv.Itoa(n.Peer.Port)
	if n.Where.Node == 0 && !n.Peer.Known {
		key += topo.PathString(n.Where.Path) // all that tells it from another unknown node
	}
	if !c.noteOnce(key) {
		n.Level = Debug // told before; it is still so
	}
	c.out.notify(n)
}

// silent reports that nobody answers behind r.
func (c *Core) silent(r ref, err error) {
	at := c.f.Behind(r)
	n := Notice{
		Kind: KindNodeSilent, Level: Warn, Where: at, Err: err,
		Text: "the link is up but the far end does not answer; it is left out and asked again",
	}
	if _, was := c.wasBehind(r); was {
		n.Text = "the link is up but the far end does not answer; it stays in the subnet as it was last read, and is asked again"
	}
	if r.Node < 0 {
		n.Text = "our own node does not answer on the local port; it is asked again. If another program has put an M_Key on the port, name it (--m-key) or reset the adapter"
	} else {
		n.Peer = c.f.Where(r.Node, int(r.Port))
		if c.last != nil && c.last != c.f { // say who was there before
			if i, ok := c.last.Find(c.f.Nodes[r.Node].Info.NodeGUID); ok && int(r.Port) <= int(c.last.Nodes[i].Info.NumPorts) {
				if q := c.last.PortOf(i, r.Port).Peer; q.Node >= 0 {
					was := c.last.Where(q.Node, int(q.Port))
					was.Path = at.Path
					n.Where = was
				}
			}
		}
	}
	c.problem(at, n)
}

func (c *Core) garbage(at Where, attr ib.AttrID, err error) {
	c.problem(at, Notice{
		Kind: KindNodeGarbage, Level: Warn, Err: err,
		Text: "left out, because it answers Get(" + ib.AttrName(ib.ClassSubnDR, attr) + ") with nonsense",
	})
}

// unread reports an attribute of a known node that could not be read.
func (c *Core) unread(n int32, p int, attr ib.AttrID, err error) {
	kind, what := KindNodeSilent, "does not answer"
	if !mad.Unanswered(err) {
		kind, what = KindNodeGarbage, "answers nonsense to"
		var se *StatusError
		if !errors.As(err, &se) {
			c.f.Nodes[n].Flags |= topo.NodeNonsense
		}
	}
	rest := "the port is left out"
	if p <= 0 || !c.f.Nodes[n].IsSwitch() {
		rest = "the node is left out"
	}
	c.problem(Where{}, Notice{
		Kind: kind, Level: Warn, Where: c.f.Where(n, p), Err: err,
		Text: what + " Get(" + ib.AttrName(ib.ClassSubnDR, attr) + "); " + rest + " and asked again",
	})
}

// duplicate reports a second node or port with a GUID that is taken.
func (c *Core) duplicate(from ref, idx int32, port int, why string) {
	f := c.f
	if from.Node >= 0 {
		f.Port(from).Flags |= topo.PortBadPeer | topo.PortSilent
	}
	second := f.Where(idx, port)
	second.Path = f.Behind(from).Path
	c.problem(Where{}, Notice{
		Kind: KindDuplicateGUID, Level: Error, Where: second, Peer: f.Where(idx, port),
		Text: "this node GUID is already in use by the second node named (" + why + "); this one is left out: give it a GUID of its own",
	})
}
