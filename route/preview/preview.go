// Package preview says what other tables would change, before anybody asks for them: without a link, or
// computed anew. It computes and proves tables and installs none, so what is installed in the end may
// differ where the subnet changes meanwhile. A preview of 11,664 hosts takes seconds.
package preview

import (
	"errors"
	"fmt"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
)

// Routing is what tables are computed by.
type Routing struct {
	Engines  []route.Engine // the first that has tables
	Explicit bool           // no other than the first
	Options  route.Options
}

// Change is how much other tables change.
type Change struct {
	Switches int // with an entry that changes
	Blocks   int // of forwarding tables, route.BlockLen entries each
	Entries  int
}

// Result is what the tables would be.
type Result struct {
	Change
	Engine string   // whose tables they are
	Passed []string // engines before it, and why
	// Most paths over one channel, with the installed tables and with the new ones.
	LoadBefore, LoadAfter int64
}

// Anew previews tables of g that are computed from scratch, in place of was. Options.Previous is set here,
// unless they rebalance.
func Anew(g *fabric.Graph, was *route.Tables, r Routing) (out Result, err error) {
	was = was.Flat()
	if !r.Options.Rebalance {
		r.Options.Previous = was
	}
	for _, e := range r.Engines {
		now, err := e.Compute(g, r.Options)
		if err == nil {
			err = out.compare(g, g, was, now)
		}
		if err == nil {
			return out, nil
		}
		out.Passed = append(out.Passed, route.Refusal(e.Name(), err))
		if r.Explicit {
			break
		}
	}
	return out, errors.New("no engine has tables that may be installed: " + strings.Join(out.Passed, "; "))
}

// Without previews tables of g without channels and their ways back, in place of was. It refuses a link that
// is the last one to a part of the subnet, and one without which no tables can be proved.
func Without(g *fabric.Graph, channels []int32, was *route.Tables, r Routing) (out Result, err error) {
	h := g.Without(fabric.Loss{Channels: channels})
	before, after := g.Reach(0), h.Reach(0)
	for i := range after {
		if before[i] && !after[i] {
			return out, fmt.Errorf("it is the last link to a part of the subnet, such as switch %v", h.Switches[i].GUID)
		}
	}
	was = was.Flat()
	r.Options.Previous = was
	var now *route.Tables
	err = fmt.Errorf("no engine has tables without the link")
	for _, e := range r.Engines {
		if e.Name() != was.Engine && len(r.Engines) > 1 {
			continue
		}
		if u, ok := e.(route.Updater); ok {
			now, err = u.Update(route.Solution{Graph: g, Tables: was}, h, fabric.Diff(g, h), r.Options)
		} else {
			now, err = e.Compute(h, r.Options)
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("the routing engine refuses the subnet without the link: %w", err)
	}
	if err := out.compare(g, h, was, now); err != nil {
		return out, fmt.Errorf("tables without the link are not proved: %w", err)
	}
	return out, nil
}

// compare proves the tables of a graph, and compares them with those of the graph before.
func (out *Result) compare(before, after *fabric.Graph, was, now *route.Tables) error {
	o := check.Options{Workers: 1}
	rep := check.Verify(after, now, o)
	if err := rep.Err(); err != nil {
		return err
	}
	out.Engine, out.Change = now.Engine, changeOf(was, now)
	out.LoadBefore, out.LoadAfter = check.Verify(before, was, o).MaxChannelLoad, rep.MaxChannelLoad
	return nil
}

// changeOf counts what differs between tables of the same switches.
func changeOf(was, now *route.Tables) (c Change) {
	for i := range int32(now.Switches()) {
		before, block := c.Entries, -1
		for l := 1; l <= int(max(was.TopLID, now.TopLID)); l++ {
			if was.Entry(i, ib.LID(l)) == now.Entry(i, ib.LID(l)) {
				continue
			}
			c.Entries++
			if b := l / route.BlockLen; b != block {
				block = b
				c.Blocks++
			}
		}
		if c.Entries > before {
			c.Switches++
		}
	}
	return c
}
