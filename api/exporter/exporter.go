// Package exporter writes the counters of a fabric in Prometheus' text format, under the names that
// two known exporters use, so that their dashboards and rules go on working: those of
// treydock/infiniband_exporter, and of guilbaults/infiniband-exporter.
//
// It writes family by family from a round of the performance manager, in one buffer, and keeps
// nothing between scrapes. Large fabrics are scraped in shards: each has the ports of some nodes,
// always the same ones.
package exporter

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"

	"heddle/ib"
	"heddle/perf"
)

// Names is a set of names.
type Names uint8

// The sets.
const (
	Treydock Names = iota
	Guilbaults
)

// Options choose what is written.
type Options struct {
	Names Names
	// Shard of Of shards, from 0; Of 0 or 1: everything.
	Shard, Of int
	// Sparse leaves error counters out until they were not 0. In the first round after that they
	// are written as 0, so that a rule sees the first error.
	Sparse bool
	// Ended is when the round ended.
	Ended time.Time
}

// bufferLen is the size of the write buffer.
const bufferLen = 64 << 10

// writer writes one scrape.
type writer struct {
	*bufio.Writer
	r    *perf.Round
	o    Options
	num  []byte
	list []port
}

// port is a port of the shard with its labels.
type port struct {
	i      int32
	sw     bool
	labels []byte // of counters, with braces
}

// Write writes the shard of a round; r nil: nothing has been read.
func Write(w io.Writer, r *perf.Round, o Options) error {
	x := &writer{Writer: bufio.NewWriterSize(w, bufferLen), r: r, o: o}
	if r != nil {
		x.choose()
		if o.Names == Guilbaults {
			x.guilbaults()
		} else {
			x.treydock()
			x.own()
		}
	}
	return x.Flush()
}

// InShard reports whether the ports of a node belong to a shard. Nodes keep their shard while others
// come and go.
func InShard(g ib.GUID, shard, of int) bool {
	return of <= 1 || int(uint64(g)*0x9E3779B97F4A7C15>>33%uint64(of)) == shard
}

// choose lists the ports of the shard that were read.
func (x *writer) choose() {
	s := x.r.Snap
	var text []byte
	for n := range s.Nodes {
		node := &s.Nodes[n]
		if !InShard(node.Info.NodeGUID, x.o.Shard, x.o.Of) {
			continue
		}
		for k := range s.NodePorts(int32(n)) {
			i := node.First + int32(k)
			if x.r.At(i) == 0 {
				continue
			}
			from := len(text)
			text = x.counterLabels(text, i)
			x.list = append(x.list, port{i: i, sw: node.SwitchIndex >= 0, labels: text[from:len(text):len(text)]})
		}
	}
}

// counterLabels appends the labels of the counters of port i.
func (x *writer) counterLabels(b []byte, i int32) []byte {
	s := x.r.Snap
	p := s.Ports[i]
	node := &s.Nodes[p.Node]
	if x.o.Names == Treydock {
		b = label(b, '{', "guid", guidText(node.Info.NodeGUID))
		return append(label(b, ',', "port", strconv.Itoa(int(p.Num))), '}')
	}
	component, guid := "ca", p.GUID
	if node.SwitchIndex >= 0 {
		component, guid = "switch", node.Info.NodeGUID
	}
	b = label(b, '{', "component", component)
	b = label(b, ',', "local_name", node.Desc)
	b = label(b, ',', "local_guid", "0x"+strconv.FormatUint(uint64(guid), 16))
	b = label(b, ',', "local_port", strconv.Itoa(int(p.Num)))
	remote, num, name := "", "", ""
	if q := s.Port(p.Peer); q != nil {
		to := &s.Nodes[q.Node]
		remote, num, name = guidText(q.GUID), strconv.Itoa(int(q.Num)), to.Desc
	}
	b = label(b, ',', "remote_guid", remote)
	b = label(b, ',', "remote_port", num)
	return append(label(b, ',', "remote_name", name), '}')
}

// guidText is a GUID as ibnetdiscover -p prints it.
func guidText(g ib.GUID) string { return g.String() }

// escaper escapes the value of a label.
var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label appends a label behind a brace or comma.
func label(b []byte, sep byte, name, value string) []byte {
	b = append(append(b, sep), name...)
	b = append(b, '=', '"')
	if strings.ContainsAny(value, "\\\"\n") {
		value = escaper.Replace(value)
	}
	return append(append(b, strings.ToValidUTF8(value, "�")...), '"')
}

// family begins a family.
func (x *writer) family(name, kind, help string) {
	x.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// count writes a sample of a counter.
func (x *writer) count(name string, labels []byte, v uint64) {
	x.WriteString(name)
	x.Write(labels)
	x.num = append(strconv.AppendUint(append(x.num[:0], ' '), v, 10), '\n')
	x.Write(x.num)
}

// gauge writes a sample of a gauge.
func (x *writer) gauge(name string, labels []byte, v float64) {
	x.WriteString(name)
	x.Write(labels)
	x.num = append(strconv.AppendFloat(append(x.num[:0], ' '), v, 'g', -1, 64), '\n')
	x.Write(x.num)
}

// shown is the value of an error counter that is written; ok is false if it is left out.
func (x *writer) shown(i int32, c perf.Counter) (v uint64, ok bool) {
	v = x.r.Total(i, c)
	if !x.o.Sparse || !c.IsError() {
		return v, true
	}
	if d := x.r.Delta(i, c); v == d { // they are new, or there are none
		return 0, v > 0
	}
	return v, true
}

// counter writes a family of counters of the ports of the shard, those of switches or the others.
func (x *writer) counter(name, help string, sw bool, c perf.Counter, times uint64) {
	begun := false
	for k := range x.list {
		p := &x.list[k]
		if p.sw != sw || !x.r.Has(p.i, c) {
			continue
		}
		v, ok := x.shown(p.i, c)
		if !ok {
			continue
		}
		if !begun {
			begun = true
			x.family(name, "counter", help)
		}
		x.count(name, p.labels, v*times)
	}
}
