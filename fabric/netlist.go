package fabric

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"heddle/ib"
)

// NetlistOptions configure the reading of a netlist. The zero value suits
// untrusted text: no file is read, no command accepted, sizes are bounded.
type NetlistOptions struct {
	Name    string // name of the text in errors; "netlist" if empty
	Include fs.FS  // where `include "FILE"` reads; nil: not allowed
	AllowDo bool   // accept `do COMMAND` into Fabric.Console
	// AllowDuplicateGUIDs accepts nodes with equal GUIDs, as ibsim -I does.
	AllowDuplicateGUIDs bool

	// Bounds; 0 means the default.
	MaxLine    int // bytes of a line; 4096
	MaxNodes   int // 65,536
	MaxPorts   int // of all nodes together; 1,048,576
	MaxBytes   int // of all files together; 256 MiB
	MaxInclude int // files open at the same time; 9
	MaxFiles   int // files read in all; 1,000
	MaxConsole int // `do` lines; 10,000
}

func (o *NetlistOptions) fill() {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.MaxLine, 4096)
	def(&o.MaxNodes, 1<<16)
	def(&o.MaxPorts, 1<<20)
	def(&o.MaxBytes, 256<<20)
	def(&o.MaxInclude, 9)
	def(&o.MaxFiles, 1000)
	def(&o.MaxConsole, 10000)
	if o.Name == "" {
		o.Name = "netlist"
	}
}

// NetlistError is a mistake in a netlist, with its position and the remedy.
type NetlistError struct {
	File      string
	Line, Col int    // from 1; 0: the text as a whole
	Reason    string // names the second place too if there are two
	Err       error  // cause, if it is another error
}

// Error is FILE:LINE:COLUMN: and the reason.
func (e *NetlistError) Error() string {
	where := e.File
	if e.Line > 0 {
		where += fmt.Sprintf(":%d:%d", e.Line, e.Col)
	}
	return "fabric: " + where + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *NetlistError) Unwrap() error { return e.Err }

// ReadNetlist reads a fabric in the text format of ibnetdiscover and ibsim. It
// accepts all that ibsim accepts (unknown lines are ignored), and in addition
// the speeds NDR and XDR and the port GUIDs that ibnetdiscover prints. Mistakes
// are *NetlistError.
//
// A line that does not describe a node is ignored, so a text without any node
// gives an error rather than an empty fabric.
func ReadNetlist(r io.Reader, o NetlistOptions) (*Fabric, error) {
	o.fill()
	n := &netlist{
		o: o, node: -1, names: make(map[string]int32), aliases: make(map[string]alias),
		width: ib.Width4x, basic: 1 << ib.SpeedSDR,
		base: [4]ib.GUID{ib.NodeCA: FirstCAGUID, ib.NodeSwitch: FirstSwitchGUID},
		next: [4]ib.GUID{ib.NodeCA: FirstCAGUID, ib.NodeSwitch: FirstSwitchGUID},
	}
	n.b.AllowDuplicateGUIDs = true // checked here, where the line number is known
	if err := n.file(r, o.Name); err != nil {
		return nil, err
	}
	if n.b.Len() == 0 {
		return nil, &NetlistError{File: o.Name, Reason: `there is no node; a netlist has lines such as Switch 36 "S-1" followed by the node's ports`}
	}
	if err := n.link(); err != nil {
		return nil, err
	}
	f, err := n.b.Build()
	if err != nil {
		return nil, &NetlistError{File: o.Name, Reason: err.Error(), Err: err}
	}
	f.Console = n.console
	return f, nil
}

// speeds is a set of link speeds, bit v for speed v.
type speeds uint16

// place is a position in the text.
type place struct {
	file int32 // index into netlist.files
	line int32
	col  int32
}

// cableEnd is a port line.
type cableEnd struct {
	at       place
	node     int32
	peer     int32 // index into netlist.nameList
	port     uint8
	peerPort uint8
	alias    bool // `@[n]`: the far end gives the destination
	viaAlias bool // peer is MODULE@ALIAS
	width    ib.LinkWidth
	basic    speeds
	ext      speeds
}

type alias struct {
	node int32
	port uint8
	at   place
}

// netlist is the state of one ReadNetlist.
type netlist struct {
	o     NetlistOptions
	b     Builder
	files []string
	depth int
	bytes int

	// Where we are.
	file32 int32
	line   int32

	// Defaults and values for the next node.
	prefix  string
	base    [4]ib.GUID // last absolute GUID by node type
	next    [4]ib.GUID
	vendor  uint32
	device  uint16
	image   ib.GUID
	hasImg  bool
	width   ib.LinkWidth
	basic   speeds
	ext     speeds
	pending notes

	node     int // node whose ports are being listed, -1: none
	ports    int // external ports so far, plus one a node
	ends     []cableEnd
	endOf    []int32 // index into ends +1, by endBase[node]+port
	endBase  []int32
	header   []place // of each node
	names    map[string]int32
	nameList []string
	nodeOf   []int32 // by name: node +1
	aliases  map[string]alias
	byGUID   map[ib.GUID]int32
	console  []string
}

// notes are a netlist's comments on the next node, as WriteNetlist writes them.
type notes struct {
	desc      string
	hasDesc   bool
	rev       uint32
	hasRev    bool
	portGUIDs []portGUID
}

type portGUID struct {
	port int
	guid ib.GUID
}

func (n *netlist) errAt(at place, format string, a ...any) error {
	return &NetlistError{File: n.files[at.file], Line: int(at.line), Col: int(at.col), Reason: fmt.Sprintf(format, a...)}
}

// err is an error at column col (from 0) of the current line.
func (n *netlist) err(col int, format string, a ...any) error {
	return n.errAt(n.at(col), format, a...)
}

func (n *netlist) at(col int) place { return place{n.file32, n.line, int32(col) + 1} }

// place describes the position of a port line.
func (n *netlist) place(p place) string {
	s := "line " + strconv.Itoa(int(p.line))
	if len(n.files) > 1 {
		s = n.files[p.file] + " " + s
	}
	return s
}

// file reads one file. A node must be complete within one file.
func (n *netlist) file(r io.Reader, name string) error {
	oldFile, oldLine := n.file32, n.line
	defer func() { n.file32, n.line, n.node = oldFile, oldLine, -1 }()
	n.file32, n.line, n.node = int32(len(n.files)), 0, -1
	n.files = append(n.files, name)
	n.depth++
	defer func() { n.depth-- }()

	br := bufio.NewReaderSize(r, max(n.o.MaxLine+2, 4096))
	for {
		line, err := br.ReadSlice('\n')
		n.line++
		if n.bytes += len(line); n.bytes > n.o.MaxBytes {
			return n.err(0, "the netlist is larger than %d bytes; raise MaxBytes if you trust it", n.o.MaxBytes)
		}
		text := trimEOL(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || len(text) > n.o.MaxLine:
			return n.err(n.o.MaxLine, "the line is longer than %d bytes; break it up", n.o.MaxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return &NetlistError{File: name, Line: int(n.line), Col: 1, Reason: "reading failed: " + err.Error(), Err: err}
		}
		if len(text) > 0 || err == nil {
			if e := n.statement(text); e != nil {
				return e
			}
		}
		if err != nil {
			return nil
		}
	}
}

func trimEOL(b []byte) []byte {
	if k := len(b); k > 0 && b[k-1] == '\n' {
		b = b[:k-1]
	}
	if k := len(b); k > 0 && b[k-1] == '\r' {
		b = b[:k-1]
	}
	return b
}

// keywords begin ibsim's lines.
var keywords = []string{
	"Switch", "Hca", "Ca", "Rt", "switchguid", "hcaguids", "caguid", "rtguid",
	"vendid", "devid", "sysimgguid", "width", "speed", "extspeed", "module", "include", "do",
}

// run reads a line that begins with a keyword; its arguments begin at column
// at.
func (n *netlist) run(keyword string, l []byte, at int) error {
	switch keyword {
	case "Switch":
		return n.nodeHeader(l, at, ib.NodeSwitch)
	case "Hca", "Ca":
		return n.nodeHeader(l, at, ib.NodeCA)
	case "Rt":
		return n.nodeHeader(l, at, ib.NodeRouter)
	case "switchguid":
		return n.guidBase(l, at, ib.NodeSwitch)
	case "hcaguids", "caguid":
		return n.guidBase(l, at, ib.NodeCA)
	case "rtguid":
		return n.guidBase(l, at, ib.NodeRouter)
	case "vendid":
		return n.vendid(l, at)
	case "devid":
		return n.devid(l, at)
	case "sysimgguid":
		return n.sysimgguid(l, at)
	case "width":
		return n.widthLine(l, at)
	case "speed":
		return n.speedLine(l, at)
	case "extspeed":
		return n.extSpeedLine(l, at)
	case "module":
		return n.module(l, at)
	case "include":
		return n.include(l, at)
	}
	return n.do(l, at)
}

// statement reads a line.
func (n *netlist) statement(l []byte) error {
	if len(l) == 0 {
		n.node = -1
		return nil
	}
	switch l[0] {
	case '#':
		return n.comment(l)
	case '[', '@':
		if n.node < 0 {
			return n.err(0, "this port belongs to no node; put it right below the line of its node, without an empty line between")
		}
		return n.portLine(l)
	}
	n.node = -1
	for _, k := range keywords {
		if at := len(k); hasPrefix(l, k) && (at == len(l) || !isWord(l[at]) || isDigit(l[at])) {
			return n.run(k, l, at)
		}
	}
	return nil
}

// value reads the number after '='; lo and hi bound it.
func (n *netlist) value(l []byte, at int, lo, hi uint64) (uint64, error) {
	at = skipSpace(l, at)
	if at >= len(l) || l[at] != '=' {
		return 0, n.err(at, "'=' is missing; write %s=VALUE", firstWord(l))
	}
	at = skipSpace(l, at+1)
	v, end, ok := parseUint(l, at)
	if !ok || v < lo || v > hi {
		top := strconv.FormatUint(hi, 10)
		if hi > 255 {
			top = "0x" + strconv.FormatUint(hi, 16)
		}
		return 0, n.err(at, "%q is not a number from %d to %s", word(l, at, end), lo, top)
	}
	return v, nil
}

func (n *netlist) guidBase(l []byte, at int, t ib.NodeType) error {
	at = skipSpace(l, at)
	if at >= len(l) || l[at] != '=' && l[at] != '+' {
		return n.err(at, "'=' or '+' is missing; write %s=GUID", firstWord(l))
	}
	v, end, ok := parseUint(l, skipSpace(l, at+1))
	if !ok {
		return n.err(at+1, "%q is not a GUID; write it as 0x and up to 16 hex digits", word(l, at+1, end))
	}
	if l[at] == '=' {
		n.base[t], n.next[t] = ib.GUID(v), ib.GUID(v)
	} else {
		n.next[t] = n.base[t] + ib.GUID(v)
	}
	return nil
}

func (n *netlist) vendid(l []byte, at int) error {
	v, err := n.value(l, at, 0, 1<<24-1)
	n.vendor = uint32(v)
	return err
}

func (n *netlist) devid(l []byte, at int) error {
	v, err := n.value(l, at, 0, 1<<16-1)
	n.device = uint16(v)
	return err
}

func (n *netlist) sysimgguid(l []byte, at int) error {
	v, err := n.value(l, at, 0, 1<<64-1)
	n.image, n.hasImg = ib.GUID(v), true
	return err
}

func (n *netlist) widthLine(l []byte, at int) error {
	v, err := n.value(l, at, 1, 31)
	n.width = ib.LinkWidth(v)
	return err
}

func (n *netlist) speedLine(l []byte, at int) error {
	v, err := n.value(l, at, 0, 7)
	n.basic = basicSpeeds(v)
	return err
}

func (n *netlist) extSpeedLine(l []byte, at int) error {
	v, err := n.value(l, at, 0, 15)
	n.ext = extSpeeds(v)
	return err
}

// basicSpeeds and extSpeeds translate LinkSpeedEnabled and
// LinkSpeedExtEnabled. 0 means QDR to ibsim 0.12.
func basicSpeeds(v uint64) speeds {
	if v == 0 {
		return 1 << ib.SpeedQDR
	}
	return speeds(v) << ib.SpeedSDR
}

func extSpeeds(v uint64) speeds { return speeds(v) << ib.SpeedFDR }

func (n *netlist) module(l []byte, at int) error {
	at = skipSpace(l, at)
	if at < len(l) && l[at] == '=' {
		at++
	}
	name, at, ok := quoted(l, skipSpace(l, at))
	if !ok {
		return n.err(at, `the name of the module is missing; write module="NAME"`)
	}
	if strings.ContainsAny(name, "#@") || len(name) > 32 {
		return n.err(at, "%s is not the name of a module: it has at most 32 bytes, none of them '#' or '@'", quoteName(name))
	}
	n.prefix = name
	return nil
}

func (n *netlist) include(l []byte, at int) error {
	col := skipSpace(l, at)
	name, end, ok := quoted(l, col)
	switch {
	case !ok:
		return n.err(end, `the file is missing; write include "FILE"`)
	case n.o.Include == nil:
		return n.err(col, "include of %s is not allowed here; put the text of the file in its place", quoteName(name))
	case n.depth >= n.o.MaxInclude:
		return n.err(col, "include of %s: %d files include one another already; does a file include itself?", quoteName(name), n.depth)
	}
	if len(n.files) >= n.o.MaxFiles {
		return n.err(col, "include of %s: %d files were read already; raise MaxFiles if you trust the netlist", quoteName(name), len(n.files))
	}
	name = path.Clean(name)
	if !fs.ValidPath(name) {
		return n.err(col, "include of %s: the file must lie at or below the netlist's directory", quoteName(name))
	}
	where := n.at(col)
	f, err := n.o.Include.Open(name)
	if err == nil {
		defer f.Close()
		var st fs.FileInfo
		if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
			err = errors.New("it is not an ordinary file")
		}
	}
	if err != nil {
		return &NetlistError{File: n.files[where.file], Line: int(where.line), Col: int(where.col), Reason: "include of " + quoteName(name) + ": " + err.Error(), Err: err}
	}
	return n.file(f, name)
}

func (n *netlist) do(l []byte, at int) error {
	if at < len(l) && l[at] != ' ' && l[at] != '\t' {
		return nil
	}
	switch {
	case !n.o.AllowDo:
		return n.err(0, "console commands are not allowed here; take out the line or allow `do`")
	case len(n.console) >= n.o.MaxConsole:
		return n.err(0, "there are more than %d `do` lines", n.o.MaxConsole)
	}
	if c := strings.TrimSpace(string(l[at:])); c != "" {
		n.console = append(n.console, c)
	}
	return nil
}
