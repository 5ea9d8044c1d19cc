// Package cabling compares a subnet with the plan of its cables: which are missing, which are not
// planned, which lead elsewhere, and which are narrower or slower than planned. Two cables whose ends
// are exchanged are one finding, a swap.
//
// A plan is a netlist, the text of ibnetdiscover, or a CSV table (Read). Check is a pure function of
// a plan and a fabric. The package does no I/O of its own and holds no state.
package cabling

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"heddle/fabric"
	"heddle/ib"
)

// End is a port of a plan. A node has a GUID, a name, or both.
type End struct {
	GUID ib.GUID // of the node; 0: the plan does not say
	Name string  // its description, or the name that a node-name map gives it; "": the plan does not say
	Port uint8   // 1–254
}

// String is the name, or the GUID where there is none, and the port.
func (e End) String() string {
	if e.Name != "" {
		return fmt.Sprintf("%q port %d", e.Name, e.Port)
	}
	return fmt.Sprintf("%v port %d", e.GUID, e.Port)
}

// Cable is a planned cable.
type Cable struct {
	A, B  End
	Width ib.LinkWidth // one width; 0: any
	Speed ib.LinkSpeed // 0: any
	Line  int          // of a CSV table; 0: of a netlist
}

// Plan are the cables that a subnet is to have, and nodes without any.
type Plan struct {
	Cables []Cable
	// Bare are nodes of the plan that are to have no cable; their ports are 0.
	Bare []End
}

// Limits of a plan.
const (
	maxCables = 1 << 19
	maxLine   = 4096
)

// ParseError is a mistake in a CSV table.
type ParseError struct {
	Name   string // of the text
	Line   int    // from 1
	Reason string // with the remedy
}

// Error is NAME:LINE: and the reason.
func (e *ParseError) Error() string {
	return fmt.Sprintf("cabling: %s:%d: %s", e.Name, e.Line, e.Reason)
}

// Read reads a plan: a netlist that fabric.ReadNetlist reads, which the text of ibnetdiscover is, or a
// CSV table. name is that of the text in errors: *fabric.NetlistError, *ParseError.
//
// A line of the table is: node, port, node, port, and if they are known width (4x) and speed (HDR).
// A node is given by its description or by its GUID (0x and hexadecimal digits). Fields are separated
// by commas, semicolons or tabs; lines that begin with # are comments, and a first line whose ports
// are no numbers is a heading.
//
// A netlist without any width or speed says nothing about them, and one without a GUID for nodes of a
// type nothing about the GUIDs of that type.
func Read(r io.Reader, name string) (*Plan, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	at, first := firstLine(head)
	if sep := separator(first); sep != 0 {
		return readTable(br, name, sep)
	}
	scan := &scanner{r: br}
	f, err := fabric.ReadNetlist(scan, fabric.NetlistOptions{Name: name})
	if bad := (*fabric.NetlistError)(nil); errors.As(err, &bad) && bad.Line == 0 && bad.Err == nil && len(first) > 0 && !netlistLine(first) {
		return nil, &ParseError{name, at, fmt.Sprintf("%.60q is no line of a table (node, port, node, port, with commas between), and no netlist follows (Switch 36 \"S-1\" and its ports)", first)}
	}
	if err != nil {
		return nil, err
	}
	return fromFabric(f, scan.rates, scan.guids), nil
}

// FromFabric is the plan of the cables that a fabric has; rates says whether their widths and speeds
// are planned too.
func FromFabric(f *fabric.Fabric, rates bool) *Plan {
	return fromFabric(f, rates, [4]bool{true, true, true, true})
}

// fromFabric is FromFabric; guids says of which types of nodes the GUIDs are planned.
func fromFabric(f *fabric.Fabric, rates bool, guids [4]bool) *Plan {
	p := &Plan{}
	end := func(r fabric.Ref) End {
		n := &f.Nodes[r.Node]
		e := End{Name: n.Name(), Port: r.Port}
		if guids[n.Type&3] {
			e.GUID = n.GUID
		}
		return e
	}
	cabled := make([]bool, len(f.Nodes))
	for a, b := range f.Links {
		c := Cable{A: end(a), B: end(b)}
		if rates {
			c.Width, c.Speed = f.Port(a).Width, f.Port(a).Speed
		}
		cabled[a.Node], cabled[b.Node] = true, true
		p.Cables = append(p.Cables, c)
	}
	for i := range f.Nodes {
		if !cabled[i] {
			p.Bare = append(p.Bare, end(fabric.Ref{Node: int32(i)}))
		}
	}
	return p
}

// firstLine is the first line that says anything, without a comment, and its number.
func firstLine(head []byte) (n int, line []byte) {
	for line := range bytes.Lines(head) {
		n++
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			line, _, _ = bytes.Cut(line, []byte("#"))
			return n, bytes.TrimSpace(line)
		}
	}
	return n, nil
}

// separator is that of a CSV table by its first line, 0 if the text is none: it has at least three, or any
// comma or semicolon and is no line of a netlist. Such a table has a mistake there, which its reader
// names.
func separator(first []byte) rune {
	for _, sep := range []byte{',', ';', '\t'} {
		if n := bytes.Count(first, []byte{sep}); n >= 3 || n > 0 && sep != '\t' && !netlistLine(first) {
			return rune(sep)
		}
	}
	return 0
}

// netlistLine reports whether a line may be one of a netlist: names in quotation marks, ports in
// brackets, or NAME=VALUE.
func netlistLine(line []byte) bool { return bytes.ContainsAny(line, `"[=`) }

// rates are the places of a netlist that say widths or speeds.
var rates = regexp.MustCompile(`(?mi)^\s*(width|speed|extspeed)\b|\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b|\s[wse]=\d`)

// guids are the places of a netlist that say GUIDs. Nodes of a type without one are numbered.
var guids = regexp.MustCompile(`(?i)^\s*(switch|ca|rt)guid\b`)

// scanner notes what a netlist says.
type scanner struct {
	r     *bufio.Reader
	rest  []byte  // of the line that Read has returned a part of
	rates bool    // widths or speeds
	guids [4]bool // by type of node
}

func (s *scanner) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		line, err := s.r.ReadSlice('\n')
		if len(line) == 0 {
			return 0, err
		}
		s.rates = s.rates || rates.Match(line)
		if m := guids.FindSubmatch(line); m != nil {
			switch m[1][0] | 0x20 {
			case 's':
				s.guids[ib.NodeSwitch] = true
			case 'c':
				s.guids[ib.NodeCA] = true
			default:
				s.guids[ib.NodeRouter] = true
			}
		}
		s.rest = line
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func readTable(r io.Reader, name string, sep rune) (*Plan, error) {
	p := &Plan{}
	c := csv.NewReader(r)
	c.Comma, c.Comment, c.FieldsPerRecord, c.TrimLeadingSpace, c.ReuseRecord = sep, '#', -1, true, true
	type port struct {
		guid ib.GUID
		name string
		num  uint8
	}
	seen := map[port]int{}
	line := 1
	for first := true; ; first = false {
		row, err := c.Read()
		if err == nil {
			line, _ = c.FieldPos(0)
		}
		fail := func(format string, a ...any) (*Plan, error) {
			return nil, &ParseError{name, line, fmt.Sprintf(format, a...)}
		}
		var bad *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			if len(p.Cables) == 0 {
				return fail("there is no cable; a line is: node, port, node, port")
			}
			return p, nil
		case errors.As(err, &bad):
			line = bad.Line
			return fail("%v", bad.Err)
		case err != nil:
			return nil, err
		}
		for len(row) > 4 && strings.TrimSpace(row[len(row)-1]) == "" {
			row = row[:len(row)-1]
		}
		if len(row) < 4 || len(row) > 6 {
			return fail("%d fields; a line is: node, port, node, port, and if they are known width and speed", len(row))
		}
		x := Cable{Line: line}
		errA, errB := x.A.parse(row[0], row[1]), x.B.parse(row[2], row[3])
		if first && errors.Is(errA, errPort) && errors.Is(errB, errPort) {
			continue // a heading
		}
		if err := errors.Join(errA, errB); err != nil {
			return fail("%v", err)
		}
		if len(row) > 4 && strings.TrimSpace(row[4]) != "" {
			if x.Width, err = ib.ParseLinkWidth(strings.TrimSpace(row[4])); err != nil {
				return fail("width %q; give 1x, 2x, 4x, 8x or 12x", row[4])
			}
		}
		if len(row) > 5 {
			if x.Speed, err = ib.ParseLinkSpeed(strings.TrimSpace(row[5])); err != nil {
				return fail("speed %q; give SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR", row[5])
			}
		}
		if x.A == x.B {
			return fail("%v is both ends of the cable", x.A)
		}
		for _, e := range [2]End{x.A, x.B} {
			k := port{e.GUID, e.Name, e.Port}
			if at := seen[k]; at != 0 {
				return fail("%v has a cable in line %d already", e, at)
			}
			seen[k] = line
		}
		if len(p.Cables) == maxCables {
			return fail("more than %d cables", maxCables)
		}
		p.Cables = append(p.Cables, x)
	}
}

var errPort = errors.New("a port is a number from 1 to 254")

// parse reads an end of a row.
func (e *End) parse(node, port string) error {
	node, port = strings.TrimSpace(node), strings.TrimSpace(port)
	n, err := strconv.ParseUint(port, 10, 8)
	if err != nil || n == 0 || n > fabric.MaxPorts {
		return fmt.Errorf("port %q: %w", port, errPort)
	}
	e.Port = uint8(n)
	switch {
	case node == "":
		return errors.New("a node without a name")
	case len(node) > maxLine:
		return errors.New("a name is too long")
	case strings.HasPrefix(node, "0x"), strings.HasPrefix(node, "0X"):
		if e.GUID, err = ib.ParseGUID(node); err != nil || e.GUID == 0 {
			return fmt.Errorf("%q is no GUID", node)
		}
	default:
		e.Name = node
	}
	return nil
}
