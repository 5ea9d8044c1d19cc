package partition

import (
	"bufio"
	"fmt"
	"io"

	"heddle/ib"
)

// Format writes a policy as a partitions.conf that Parse reads as the same
// policy, and OpenSM too.
func (p *Policy) Format(w io.Writer) error {
	b := bufio.NewWriter(w)
	for i := range p.Partitions {
		(&formatter{b: b, q: &p.Partitions[i]}).partition()
	}
	return b.Flush()
}

// formatter writes one partition. It uses a single statement if that suffices:
// lines with and without indx0 need separate statements, and so do IP groups
// whose MTU or rate differs from that of the header above them.
type formatter struct {
	b        *bufio.Writer
	q        *Partition
	head     groupFlags // inherited by groups of the open statement
	open     bool
	anyIndex bool // the statement that is open is without indx0
	list     bool // it has members
}

func (f *formatter) partition() {
	groups, members := f.q.Groups, f.q.Members
	indexed := f.q.Index0 && len(members) > 0 && !members[0].AnyIndex
	sl := ib.SL(0)
	if f.q.HasSL {
		sl = f.q.SL
	}
	if len(groups) > 0 && groups[0].MGID == Broadcast(f.q.PKey).MGID && groups[0].SL == sl {
		f.header(indexed, &groups[0], true)
		groups = groups[1:]
	}
	for i := range groups {
		g := &groups[i]
		if in := f.inherited(g); !f.open || isIP(&g.MGID) && (in.MTU != g.MTU || in.Rate != g.Rate) {
			own := Group{MTU: 4, Rate: ib.Rate10}
			if isIP(&g.MGID) {
				own.MTU, own.Rate = g.MTU, g.Rate
			}
			f.header(indexed, &own, false)
		}
		f.group(g)
	}
	for _, m := range members {
		if want := f.q.Index0 && !m.AnyIndex; !f.open || f.anyIndex == want {
			f.header(want, &Group{MTU: 4, Rate: ib.Rate10}, false)
		}
		if f.list {
			f.b.WriteString(",\n")
		}
		fmt.Fprintf(f.b, "\t%v=%v", m, m.As)
		f.list = true
	}
	if !f.open {
		f.header(f.q.Index0, &Group{MTU: 4, Rate: ib.Rate10}, false)
	}
	if len(members) == 0 {
		f.b.WriteString("\tNONE")
	}
	f.end()
}

// header begins a statement whose groups inherit the values of g, which is the
// broadcast group of the partition if ipoib is set.
func (f *formatter) header(index0 bool, g *Group, ipoib bool) {
	if f.open {
		f.end()
	}
	f.open, f.anyIndex, f.list = true, !index0, false
	f.head = groupFlags{set: setMTU | setRate, g: *g}
	f.head.g.SL = 0
	fmt.Fprintf(f.b, "%s=%v", f.q.Name, f.q.PKey)
	if index0 {
		f.b.WriteString(", indx0")
	}
	plain := Group{MTU: 4, Rate: ib.Rate10}
	if ipoib {
		f.b.WriteString(", ipoib")
		if plain.QKey = 0x0B1B; g.QKey == plain.QKey {
			f.head.g.QKey = 0
		}
	}
	g.format(f.b, ", ", &plain)
	if f.q.HasSL {
		fmt.Fprintf(f.b, ", sl=%d", f.q.SL)
		f.head.g.SL = f.q.SL
	}
	f.head.set |= setSL
	f.b.WriteString(" :\n")
}

func (f *formatter) end() {
	f.b.WriteString(" ;\n")
}

// inherited is a group with g's MGID and only inherited values.
func (f *formatter) inherited(g *Group) (in Group) {
	in.MGID = g.MGID
	if isIP(&g.MGID) {
		in.QKey = 0x0B1B
	}
	f.head.apply(&in)
	return in
}

// group writes the line of a group.
func (f *formatter) group(g *Group) {
	in := f.inherited(g)
	fmt.Fprintf(f.b, "\tmgid=%v", g.MGID)
	if s := g.MGID[1] & 0xF; s != linkLocal {
		fmt.Fprintf(f.b, ",scope=%d", s)
	}
	g.format(f.b, ",", &in)
	if g.SL != in.SL {
		fmt.Fprintf(f.b, ",sl=%d", g.SL)
	}
	f.b.WriteByte('\n')
}

// format writes the flags of a group that differ from those of plain, except
// the service level and the scope.
func (g *Group) format(b *bufio.Writer, sep string, plain *Group) {
	if g.MTU != plain.MTU {
		fmt.Fprintf(b, "%smtu=%d", sep, g.MTU)
	}
	if g.Rate != plain.Rate {
		fmt.Fprintf(b, "%srate=%d", sep, g.Rate)
	}
	if g.QKey != plain.QKey {
		fmt.Fprintf(b, "%sQ_Key=%#x", sep, uint32(g.QKey))
	}
	if g.TClass != plain.TClass {
		fmt.Fprintf(b, "%sTClass=%d", sep, g.TClass)
	}
	if g.FlowLabel != plain.FlowLabel {
		fmt.Fprintf(b, "%sFlowLabel=%d", sep, g.FlowLabel)
	}
}
