package topo

import (
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
)

// Where names a port for people: node GUID, description, port number, LID and
// the directed path that leads there. The zero value is "nowhere".
type Where struct {
	Node  ib.GUID
	Desc  string
	Port  int // -1: the node as a whole
	LID   ib.LID
	Path  []byte // output ports from the manager, first hop first
	Known bool
}

// IsSet reports whether w names something.
func (w Where) IsSet() bool { return w.Known }

// PathString prints a directed path as diagnostics take it: 0,1,7.
func PathString(p []byte) string {
	var b strings.Builder
	b.WriteByte('0')
	for _, h := range p {
		b.WriteByte(',')
		b.WriteString(strconv.Itoa(int(h)))
	}
	return b.String()
}

// String prints w in one line.
func (w Where) String() string {
	if !w.Known {
		return ""
	}
	var b strings.Builder
	if w.Node != 0 {
		b.WriteString(w.Node.String())
	} else {
		b.WriteString("unknown node")
	}
	if w.Desc != "" {
		fmt.Fprintf(&b, " %q", w.Desc)
	}
	if w.Port >= 0 {
		fmt.Fprintf(&b, " port %d", w.Port)
	}
	if w.LID != 0 {
		fmt.Fprintf(&b, " LID %v", w.LID)
	}
	fmt.Fprintf(&b, " path %s", PathString(w.Path))
	return b.String()
}
