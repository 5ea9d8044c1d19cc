package osmdump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"heddle/ib"
)

// Bounds of the input: far above any subnet, far below harmful sizes.
const (
	maxLine     = 64 << 10
	maxSwitches = 1 << 16
	maxRoutes   = 1 << 28 // entries of all switches together
)

// Route is one entry of a switch's table.
type Route struct {
	LID  ib.LID
	Port uint8
}

// SwitchRoutes are the entries of one switch in the dump.
type SwitchRoutes struct {
	GUID   ib.GUID // node GUID
	Routes []Route
}

// Routes are dumped unicast tables.
type Routes struct {
	Switches []SwitchRoutes // in the order of the file
	// Owner is the port GUID that the dump gives for a LID; only
	// opensm-lfts.dump and its relatives have any.
	Owner map[ib.LID]ib.GUID
}

// ReadRoutes reads unicast tables: OpenSM's opensm-lfts.dump and opensm.fdbs,
// and what dump_lfts and dump_fts of infiniband-diags print. Lines that are
// neither a switch nor a route are ignored, as OpenSM does. Errors name the
// line.
func ReadRoutes(r io.Reader) (*Routes, error) {
	d := &routesReader{out: &Routes{Owner: map[ib.LID]ib.GUID{}}, seen: map[ib.GUID]bool{}}
	if err := lines(r, d.line); err != nil {
		return nil, err
	}
	if len(d.out.Switches) == 0 {
		return nil, errors.New("no switch in it: want opensm-lfts.dump, opensm.fdbs or the output of dump_lfts")
	}
	return d.out, nil
}

// routesReader is the state of ReadRoutes.
type routesReader struct {
	out   *Routes
	seen  map[ib.GUID]bool // switches
	at    *SwitchRoutes    // the switch whose routes follow
	total int              // routes
}

func (d *routesReader) line(text string) error {
	switch {
	case strings.HasPrefix(text, "Multicast mlids"):
		return errors.New("this is a dump of multicast tables; unicast ones (opensm-lfts.dump, opensm.fdbs) are needed")
	case strings.HasPrefix(text, "Unicast lids"):
		_, guid, ok := strings.Cut(text, " guid 0x")
		if !ok {
			return errors.New("a switch without its GUID")
		}
		return d.begin("0x" + word(guid))
	case strings.HasPrefix(text, "dump_ucast_routes: Switch "):
		return d.begin(word(strings.TrimPrefix(text, "dump_ucast_routes: Switch ")))
	case !strings.HasPrefix(text, "0x"):
		return nil
	}
	return d.route(text)
}

// begin begins the routes of a switch.
func (d *routesReader) begin(guid string) error {
	v, err := hex(guid, 64)
	if err != nil || v == 0 {
		return fmt.Errorf("%q is no switch GUID", clip(guid))
	}
	if d.seen[ib.GUID(v)] {
		return fmt.Errorf("switch %v occurs twice", ib.GUID(v))
	}
	if len(d.out.Switches) >= maxSwitches {
		return fmt.Errorf("more than %d switches", maxSwitches)
	}
	d.seen[ib.GUID(v)] = true
	d.out.Switches = append(d.out.Switches, SwitchRoutes{GUID: ib.GUID(v)})
	d.at = &d.out.Switches[len(d.out.Switches)-1]
	return nil
}

func (d *routesReader) route(text string) error {
	f := strings.Fields(text)
	if len(f) < 2 {
		return errors.New("a route needs a LID and a port")
	}
	port := f[1]
	if port == ":" {
		if len(f) < 3 {
			return errors.New("a route needs a LID and a port")
		}
		if port = f[2]; port == "UNREACHABLE" {
			return nil
		}
	}
	lid, err := unicast(f[0])
	if err != nil {
		return err
	}
	p, err := strconv.ParseUint(port, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is not a port (want 0 to 255)", clip(port))
	}
	if d.at == nil {
		return errors.New("a route before any switch")
	}
	if d.total++; d.total > maxRoutes {
		return fmt.Errorf("more than %d routes", maxRoutes)
	}
	d.at.Routes = append(d.at.Routes, Route{lid, uint8(p)})
	return d.owner(text, lid)
}

// owner takes the port GUID that a route may name.
func (d *routesReader) owner(text string, lid ib.LID) error {
	_, guid, ok := strings.Cut(text, "portguid 0x")
	if !ok {
		return nil
	}
	guid, _, _ = strings.Cut(word(guid), ":")
	v, err := strconv.ParseUint(guid, 16, 64)
	if err != nil {
		return fmt.Errorf("%q is not a port GUID", clip(guid))
	}
	if was, ok := d.out.Owner[lid]; ok && was != ib.GUID(v) {
		return fmt.Errorf("LID %d belongs to port %v and to port %v", lid, was, ib.GUID(v))
	}
	d.out.Owner[lid] = ib.GUID(v)
	return nil
}

// PathSL is the service level toward one LID.
type PathSL struct {
	LID ib.LID
	SL  ib.SL
}

// SourceSLs are the service levels of the paths from one port.
type SourceSLs struct {
	// GUID is the port's, or its node's if Node says so.
	GUID ib.GUID
	Node bool
	SLs  []PathSL
}

// ReadPathSL reads opensm-path-sl.dump, in the form that WritePathSL writes or
// as the lines "node GUID, LID in decimal, SL" that ibdmchk takes as well.
// Errors name the line.
func ReadPathSL(r io.Reader) ([]SourceSLs, error) {
	var out []SourceSLs
	total := 0
	add := func(l ib.LID, sl string) error {
		v, err := strconv.ParseUint(sl, 10, 8)
		if err != nil || v > 15 {
			return fmt.Errorf("%q is not a service level (want 0 to 15)", clip(sl))
		}
		if total++; total > maxRoutes {
			return fmt.Errorf("more than %d paths", maxRoutes)
		}
		s := &out[len(out)-1]
		s.SLs = append(s.SLs, PathSL{l, ib.SL(v)})
		return nil
	}
	begin := func(guid string, node bool) error {
		v, err := hex(guid, 64)
		if err != nil || v == 0 {
			return fmt.Errorf("%q is not a GUID", clip(guid))
		}
		if n := len(out); n == 0 || out[n-1].GUID != ib.GUID(v) || out[n-1].Node != node {
			out = append(out, SourceSLs{GUID: ib.GUID(v), Node: node})
		}
		return nil
	}
	err := lines(r, func(text string) error {
		if guid, ok := port(text); ok {
			return begin(guid, false)
		}
		if !strings.HasPrefix(text, "0x") {
			return nil
		}
		f := strings.Fields(text)
		if len(f) < 3 {
			return errors.New("want \"0xLID : SL\" or \"0xGUID LID SL\"")
		}
		if f[1] == ":" {
			if len(out) == 0 || out[len(out)-1].Node {
				return errors.New("a path before any port")
			}
			l, err := unicast(f[0])
			if err != nil {
				return err
			}
			return add(l, f[2])
		}
		if err := begin(f[0], true); err != nil {
			return err
		}
		l, err := strconv.ParseUint(f[1], 10, 16)
		if err != nil || !ib.LID(l).IsUnicast() {
			return fmt.Errorf("%q is not a unicast LID (want 1 to %d, in decimal)", clip(f[1]), ib.LIDMaxUnicast)
		}
		return add(ib.LID(l), f[2])
	})
	return out, err
}

// LaneRow is the SL-to-VL table for packets that enter by one port and leave
// by another.
type LaneRow struct {
	In, Out uint8
	VL      [16]ib.VL
}

// PortLanes are the SL-to-VL tables of a switch, or the one of a CA port with
// In and Out 0.
type PortLanes struct {
	GUID   ib.GUID // the port's; for switches that of port 0
	Switch bool
	Rows   []LaneRow
}

// ReadSL2VL reads opensm-sl2vl.dump, or the lines "node GUID, in, out, eight
// bytes with two lanes each" that ibdmchk takes as well. Errors name the line.
func ReadSL2VL(r io.Reader) ([]PortLanes, error) {
	d := &lanesReader{}
	err := lines(r, d.line)
	return d.out, err
}

// lanesReader is the state of ReadSL2VL.
type lanesReader struct {
	out   []PortLanes
	total int // tables
}

func (d *lanesReader) line(text string) error {
	if guid, ok := port(text); ok {
		v, err := hex(guid, 64)
		if err != nil || v == 0 {
			return fmt.Errorf("%q is not a GUID", clip(guid))
		}
		d.out = append(d.out, PortLanes{GUID: ib.GUID(v), Switch: strings.HasPrefix(text, "Switch")})
		return nil
	}
	f := strings.Fields(text)
	switch {
	case len(f) == 0 || f[0][0] < '0' || f[0][0] > '9':
		return nil
	case strings.HasPrefix(f[0], "0x"):
		return d.packed(f)
	}
	return d.listed(f)
}

// ports begins the table of an input and an output port.
func (d *lanesReader) ports(in, egress string) (LaneRow, error) {
	i, err1 := strconv.ParseUint(in, 10, 8)
	o, err2 := strconv.ParseUint(egress, 10, 8)
	if err := errors.Join(err1, err2); err != nil {
		return LaneRow{}, fmt.Errorf("%q and %q are not ports (want 0 to 255)", clip(in), clip(egress))
	}
	if d.total++; d.total > maxRoutes/16 {
		return LaneRow{}, fmt.Errorf("more than %d tables", maxRoutes/16)
	}
	return LaneRow{In: uint8(i), Out: uint8(o)}, nil
}

// listed takes a line of opensm-sl2vl.dump.
func (d *lanesReader) listed(f []string) error {
	if len(f) != 19 || f[2] != ":" {
		return errors.New("want two ports, a colon and 16 lanes")
	}
	if len(d.out) == 0 {
		return errors.New("a table before any port")
	}
	row, err := d.ports(f[0], f[1])
	if err != nil {
		return err
	}
	for sl, w := range f[3:] {
		v, err := strconv.ParseUint(w, 10, 8)
		if err != nil || v > 15 {
			return fmt.Errorf("%q is not a lane (want 0 to 15)", clip(w))
		}
		row.VL[sl] = ib.VL(v)
	}
	at := &d.out[len(d.out)-1]
	at.Rows = append(at.Rows, row)
	return nil
}

// packed takes a line with two lanes in a byte.
func (d *lanesReader) packed(f []string) error {
	if len(f) < 11 {
		return errors.New("want a GUID, two ports and eight bytes")
	}
	guid, err := hex(f[0], 64)
	if err != nil || guid == 0 {
		return fmt.Errorf("%q is not a GUID", clip(f[0]))
	}
	row, err := d.ports(f[1], f[2])
	if err != nil {
		return err
	}
	for i, w := range f[3:11] {
		v, err := hex(w, 8)
		if err != nil {
			return fmt.Errorf("%q is not a byte (want 0x00 to 0xff)", clip(w))
		}
		row.VL[2*i], row.VL[2*i+1] = ib.VL(v>>4), ib.VL(v&15)
	}
	if n := len(d.out); n == 0 || d.out[n-1].GUID != ib.GUID(guid) || !d.out[n-1].Switch {
		d.out = append(d.out, PortLanes{GUID: ib.GUID(guid), Switch: true})
	}
	at := &d.out[len(d.out)-1]
	at.Rows = append(at.Rows, row)
	return nil
}

// Error is a line of a dump that cannot be read.
type Error struct {
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap is what is wrong with the line.
func (e *Error) Unwrap() error { return e.Err }

// lines calls fn with every line, without blanks at its ends, and puts the
// line's number before the error.
func lines(r io.Reader, fn func(text string) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), maxLine)
	n := 0
	for sc.Scan() {
		n++
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if err := fn(text); err != nil {
			return &Error{n, err}
		}
	}
	if err := sc.Err(); err != nil {
		return &Error{n + 1, err}
	}
	return nil
}

// port is the GUID of a line that begins a block for a port.
func port(text string) (guid string, ok bool) {
	for _, kind := range []string{"Channel Adapter ", "Switch ", "Router "} {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			guid, _, _ := strings.Cut(rest, ",")
			return strings.TrimSpace(guid), true
		}
	}
	return "", false
}

// unicast reads a LID in hex.
func unicast(s string) (ib.LID, error) {
	v, err := hex(s, 16)
	if err != nil || !ib.LID(v).IsUnicast() {
		return 0, fmt.Errorf("%q is not a unicast LID (want 0x1 to %#x)", clip(s), uint16(ib.LIDMaxUnicast))
	}
	return ib.LID(v), nil
}

// hex reads a number with 0x before it.
func hex(s string, bits int) (uint64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(digits, 16, bits)
}

// word is the first word of s.
func word(s string) string {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i]
	}
	return s
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
