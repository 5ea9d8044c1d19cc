package live

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"heddle/flood"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// ErrNoSA: the SA does not answer, or not with a node.
var ErrNoSA = errors.New("the SA does not answer")

// tableTimeout is how long the table of all nodes may take: a kernel without
// hardware below it moves some ten thousand segments a second.
const tableTimeout = 5 * time.Second

// wave is how many LIDs are queried concurrently if the whole table is
// unavailable.
const wave = 256

// Ends queries the SA at sa for the end ports, and returns those of hosts and
// routers by LID, or those of switches if there are no others. If the table is
// not available as a whole, because the port or the SA has no RMPP, it queries
// the nodes LID by LID, from 1 on until a wave of LIDs has none.
func (p *Port) Ends(ctx context.Context, to mad.Addr, prefix ib.SubnetPrefix, timed bool) ([]flood.End, error) {
	to.QP = 1
	a := newAsker(p.t, timed)
	p.use(a, nil)
	defer p.use(nil, nil)
	var nodes []sa.NodeRecord
	var err error
	if p.t.SegmentsRMPP() {
		nodes, err = p.table(ctx, a, to)
	}
	if len(nodes) < 2 && ctx.Err() == nil && (err == nil || mad.Unanswered(err)) {
		// No table, or one MAD from an SA that assumes single-MAD clients.
		nodes, err = p.byLID(ctx, a, to)
	}
	if mad.Unanswered(err) {
		err = fmt.Errorf("%w (is its manager master, and its first sweep over?)", ErrNoSA)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the SA at LID %d through %s for the nodes: %w", to.LID, p.name, err)
	}
	return ends(nodes, prefix), nil
}

// ends picks the destinations among the nodes.
func ends(nodes []sa.NodeRecord, prefix ib.SubnetPrefix) []flood.End {
	seen := map[ib.GUID]bool{}
	var hosts, switches []flood.End
	for i := range nodes {
		n := &nodes[i]
		g := n.NodeInfo.PortGUID
		if seen[g] || n.LID == 0 {
			continue
		}
		seen[g] = true
		e := flood.End{GID: ib.MakeGID(prefix, g), LID: n.LID}
		if n.NodeInfo.NodeType == ib.NodeSwitch {
			switches = append(switches, e)
		} else {
			hosts = append(hosts, e)
		}
	}
	if len(hosts) == 0 {
		hosts = switches
	}
	slices.SortFunc(hosts, func(a, b flood.End) int { return int(a.LID) - int(b.LID) })
	return hosts
}

// table queries all nodes in one request.
func (p *Port) table(ctx context.Context, a *asker, to mad.Addr) ([]sa.NodeRecord, error) {
	r := mad.Request{Addr: to, Timeout: tableTimeout, Retries: -1}
	sa.New(&r.MAD, ib.MethodGetTable, sa.AttrNodeRecord, 0, 0)
	b, err := p.ask(ctx, a, &r)
	if err != nil {
		return nil, err
	}
	return nodes(b)
}

// nodes reads a table of NodeRecords.
func nodes(b []byte) ([]sa.NodeRecord, error) {
	if len(b) < sa.HeaderLen {
		return nil, fmt.Errorf("an answer of %d bytes", len(b))
	}
	switch st := ib.Status(binary.BigEndian.Uint16(b[4:])); st {
	case ib.StatusOK:
	case ib.StatusSATooManyRecords:
		return nil, nil // it assumes that this port takes single MADs only
	default:
		return nil, fmt.Errorf("status %s", st.Text(ib.ClassSA))
	}
	const bare = sa.NodeRecordLen - 4 // the last record may lack its padding
	step := 8 * int(binary.BigEndian.Uint16(b[44:]))
	b = b[sa.HeaderLen:]
	if step < bare && len(b) >= bare {
		return nil, fmt.Errorf("a table whose records are %d bytes apart", step)
	}
	var out []sa.NodeRecord
	for ; len(b) >= bare; b = b[min(step, len(b)):] {
		var n sa.NodeRecord
		if err := n.Decode(b[:bare]); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// byLID queries LID by LID.
func (p *Port) byLID(ctx context.Context, a *asker, to mad.Addr) ([]sa.NodeRecord, error) {
	var out []sa.NodeRecord
	for first := ib.LID(1); first <= ib.LIDMaxUnicast; first += wave {
		var found [wave]*sa.NodeRecord
		var errs [wave]error
		var wg sync.WaitGroup
		for i := range wave {
			if lid := first + ib.LID(i); lid <= ib.LIDMaxUnicast {
				wg.Go(func() { found[i], errs[i] = p.node(ctx, a, to, lid) })
			}
		}
		wg.Wait()
		had := len(out)
		for i, n := range found {
			if errs[i] != nil {
				return nil, errs[i]
			}
			if n != nil {
				out = append(out, *n)
			}
		}
		if had > 0 && len(out) == had {
			break
		}
	}
	return out, nil
}

// node queries the node at a LID; nil if there is none.
func (p *Port) node(ctx context.Context, a *asker, to mad.Addr, lid ib.LID) (*sa.NodeRecord, error) {
	r := mad.Request{Addr: to}
	sa.New(&r.MAD, ib.MethodGet, sa.AttrNodeRecord, 0, sa.NodeCompLID)
	n := sa.NodeRecord{LID: lid}
	n.Put(sa.Data(&r.MAD))
	b, err := p.ask(ctx, a, &r)
	if err != nil {
		return nil, err
	}
	if len(b) < sa.HeaderLen+sa.NodeRecordLen {
		return nil, fmt.Errorf("an answer of %d bytes", len(b))
	}
	switch st := ib.Status(binary.BigEndian.Uint16(b[4:])); st {
	case ib.StatusOK:
	case ib.StatusSANoRecords, ib.StatusSATooManyRecords:
		return nil, nil
	default:
		return nil, fmt.Errorf("LID %d: status %s", lid, st.Text(ib.ClassSA))
	}
	if err := n.Decode(b[sa.HeaderLen:]); err != nil {
		return nil, err
	}
	return &n, nil
}
