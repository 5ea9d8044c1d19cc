package partition

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"heddle/ib"
)

// MaxFile is the size of the largest file that Parse reads, in bytes: 100,000
// members on lines of their own take a tenth of it.
const MaxFile = 64 << 20

// Pos is a place in a file. Line and Col count from 1; Col counts bytes.
type Pos struct {
	File      string
	Line, Col int
}

// String prints file:line:col, as compilers do.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// ParseError is a mistake in a file, with its position.
type ParseError struct {
	Pos  Pos
	Text string
}

// Error implements error.
func (e *ParseError) Error() string { return e.Pos.String() + ": " + e.Text }

// Warning is a statement that was accepted, but perhaps not as intended.
type Warning struct {
	Pos  Pos
	Text string
}

// String prints the warning in one line.
func (w Warning) String() string { return w.Pos.String() + ": " + w.Text }

// ErrNothing is the cause of the error for a file without a statement: it is
// empty, or has only comments. Such a file neither grants nor denies anything;
// the caller decides what to do.
var ErrNothing = errors.New("the file has no statement")

// Parse reads OpenSM's partitions.conf; name is the file's name in messages. It
// accepts the same input as OpenSM, with the differences listed in docs/sa.md
// (Partitions). TestPartitionCorpus in internal/interop compares the two.
//
// A mistake rejects the whole file, with a *ParseError, and a file without any
// statement gives ErrNothing.
//
// As with OpenSM, a file with statements makes all ports limited members of the
// default partition, and the port of the subnet manager a full one, before its own
// rules; later members of a partition override earlier ones.
func Parse(r io.Reader, name string) (*Policy, []Warning, error) {
	src, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &parser{src: src, file: name, line: 1, byKey: map[ib.PKey]*building{}, groups: map[ib.GID]*building{}}
	if len(src) > MaxFile {
		return nil, nil, &ParseError{Pos{name, 1, 1}, "the file is larger than " + strconv.Itoa(MaxFile) + " bytes"}
	}
	// As if the file began with "Default=0x7fff : ALL=limited, SELF=full ;".
	def := p.partition("Default", DefaultKey)
	def.Members = []Member{{Kind: All, As: Limited, AnyIndex: true}, {Kind: Self, As: Full, AnyIndex: true}}
	switch n, err := p.parse(); {
	case err != nil:
		return nil, nil, err
	case n == 0:
		return nil, nil, fmt.Errorf("%s: %w", name, ErrNothing)
	}
	pol := p.policy()
	if err := pol.Validate(); err != nil { // checks beyond the grammar
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return pol, p.warn, nil
}

// building is an unfinished partition. Until it is finished, members without
// indx0 are AnyIndex.
type building struct {
	Partition
	called string // the name by which a header without P_Key finds it
	none   bool   // it says NONE: it exists without members
}

type parser struct {
	src  []byte
	file string
	at   int // offset of the next byte
	line int // of the next byte
	bol  int // offset of the first byte of that line

	order  []*building
	byKey  map[ib.PKey]*building
	named  bool // the default partition has the file's name
	warn   []Warning
	groups map[ib.GID]*building // partition of each group
	next   ib.PKey              // the key that was chosen last
}

// token is a word or a delimiter.
type token struct {
	pos  Pos
	text string // empty at the end of the file
}

func (t token) is(s string) bool { return t.text == s }

func (p *parser) pos() Pos { return Pos{p.file, p.line, p.at - p.bol + 1} }

func (p *parser) fail(at Pos, format string, a ...any) error {
	return &ParseError{at, fmt.Sprintf(format, a...)}
}

func (p *parser) warnf(at Pos, format string, a ...any) {
	p.warn = append(p.warn, Warning{at, fmt.Sprintf(format, a...)})
}

func isSpace(b byte) bool {
	return b == ' ' || b == '\t' || b == '\r' || b == '\n' || b == '\v' || b == '\f'
}

func isDelim(b byte) bool { return b == '=' || b == ',' || b == ':' || b == ';' }

// skip passes over white space and comments.
func (p *parser) skip() {
	for p.at < len(p.src) {
		switch b := p.src[p.at]; {
		case b == '#':
			for p.at < len(p.src) && p.src[p.at] != '\n' {
				p.at++
			}
		case b == '\n':
			p.at++
			p.line, p.bol = p.line+1, p.at
		case isSpace(b):
			p.at++
		default:
			return
		}
	}
}

// scan returns the next token.
func (p *parser) scan() token {
	p.skip()
	t := token{pos: p.pos()}
	from := p.at
	if p.at < len(p.src) && isDelim(p.src[p.at]) {
		p.at++
	} else {
		for p.at < len(p.src) && !isSpace(p.src[p.at]) && !isDelim(p.src[p.at]) && p.src[p.at] != '#' {
			p.at++
		}
	}
	t.text = string(p.src[from:p.at])
	return t
}

// back unreads t, the last token scanned.
func (p *parser) back(t token) { p.at = p.at - len(t.text) }

// rest returns the rest of the line, without a comment, up to a ";".
func (p *parser) rest() token {
	for p.at < len(p.src) && isSpace(p.src[p.at]) && p.src[p.at] != '\n' {
		p.at++
	}
	t := token{pos: p.pos()}
	from := p.at
	for p.at < len(p.src) && p.src[p.at] != '\n' && p.src[p.at] != '#' && p.src[p.at] != ';' {
		p.at++
	}
	t.text = strings.TrimSpace(string(p.src[from:p.at]))
	return t
}

func quote(t token) string {
	if t.text == "" {
		return "the end of the file"
	}
	return short(t.text)
}

// short quotes text that may be long.
func short(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return strconv.Quote(s)
}

// parse reads all statements and returns how many there are.
func (p *parser) parse() (n int, err error) {
	for ; ; n++ {
		p.skip()
		if p.at == len(p.src) {
			return n, nil
		}
		if err := p.statement(); err != nil {
			return n, err
		}
	}
}

// header is the part of a statement before the first colon.
type header struct {
	at     Pos
	name   string
	key    ib.PKey
	index0 bool
	ipoib  bool
	def    Membership
	group  groupFlags
}

func (p *parser) statement() error {
	h := header{at: p.pos(), def: Limited}
	if err := p.header(&h); err != nil {
		return err
	}
	b, err := p.open(&h)
	if err != nil {
		return err
	}
	return p.members(&h, b)
}

func (p *parser) header(h *header) error {
	var words []string
	t := p.scan()
	for ; t.text != "" && !isDelim(t.text[0]); t = p.scan() {
		words = append(words, t.text)
	}
	h.name = strings.Join(words, " ")
	if len(h.name) > maxName {
		return p.fail(h.at, "the name of a partition is longer than %d bytes", maxName)
	}
	if i := strings.IndexFunc(h.name, badInName); i >= 0 {
		return p.fail(h.at, "the name %s has a character that cannot be printed", short(h.name))
	}
	var key token
	switch {
	case t.is("="):
		key = p.scan()
		t = p.scan()
	case h.name != "" && h.name[0] >= '0' && h.name[0] <= '9':
		key = token{h.at, h.name} // a number instead of a name is the P_Key
		h.name = ""
	}
	if key.text != "" {
		n, err := p.number(key, 0xFFFF, "a P_Key")
		if err != nil {
			return err
		}
		h.key = ib.PKey(n).Base()
	}
	for t.is(",") {
		flag := p.scan()
		if flag.is(":") || flag.is(",") {
			t = flag
			continue
		}
		val := token{pos: flag.pos}
		if t = p.scan(); t.is("=") {
			if val = p.scan(); val.text == "" || isDelim(val.text[0]) {
				return p.fail(val.pos, "%s= is followed by %s instead of a value", flag.text, quote(val))
			}
			t = p.scan()
		}
		if err := p.flag(h, flag, val); err != nil {
			return err
		}
	}
	if !t.is(":") {
		return p.fail(t.pos, "%s where the partition's members should begin with \":\" or a \",\" should come", quote(t))
	}
	return nil
}

// open finds the partition that a statement belongs to, or begins it.
func (p *parser) open(h *header) (*building, error) {
	b := p.byKey[h.key]
	if h.key == 0 {
		if b = p.find(h.name); b == nil {
			for p.next++; p.byKey[p.next] != nil; p.next++ {
			}
			if p.next >= DefaultKey {
				return nil, p.fail(h.at, "no P_Key is left for partition %s", short(h.name))
			}
			h.key = p.next
		}
	}
	if b == nil {
		b = p.partition(h.name, h.key)
	} else if b.PKey == DefaultKey && !p.named && h.name != "" {
		b.Name, p.named = h.name, true // the name that the file gives it
	} else if h.name != b.Name && h.name != "" {
		p.warnf(h.at, "partition %s has P_Key %v of partition %s; they are merged", short(h.name), b.PKey, short(b.Name))
	}
	b.SL, b.HasSL = h.group.g.SL, h.group.set&setSL != 0
	if h.ipoib {
		if h.group.scopes&^(1<<linkLocal) != 0 {
			p.warnf(h.at, "scope= of the header is for the mgid lines below it: the broadcast group of the partition has scope %d", linkLocal)
		}
		g := Broadcast(b.PKey)
		h.group.apply(&g)
		g.TClass = h.group.g.TClass
		p.addGroup(h.at, b, g)
	}
	return b, nil
}

// find returns the partition that a header without P_Key names, nil if it is
// new. Of several with one name OpenSM takes the first of its table.
func (p *parser) find(name string) (b *building) {
	for _, o := range p.order {
		if name != "" && o.called == name && (b == nil || osmOrder(o.PKey, b.PKey) < 0) {
			b = o
		}
	}
	return b
}

func (p *parser) partition(name string, key ib.PKey) *building {
	b := &building{Partition: Partition{Name: name, PKey: key}, called: name}
	p.order = append(p.order, b)
	p.byKey[key] = b
	return b
}

func (p *parser) flag(h *header, flag, val token) error {
	if flag.is("indx0") {
		h.index0 = true
		return nil
	}
	if flag.text == "" || isDelim(flag.text[0]) {
		return p.fail(flag.pos, "%s instead of a flag", quote(flag))
	}
	switch w := p.keyword(flag, "ipoib", "defmember"); w {
	case "ipoib":
		h.ipoib = true
	case "defmember":
		as, ok := p.membership(val)
		if !ok {
			p.warnf(flag.pos, "defmember=%s is none of full, limited, both: it is ignored", val.text)
			break
		}
		h.def = as
	default:
		ok, err := p.groupFlag(&h.group, flag, val)
		if err != nil {
			return err
		}
		if !ok {
			p.warnf(flag.pos, "unknown flag %s is ignored", short(flag.text))
		}
	}
	return nil
}

// keyword returns the first of list that begins with the written word, or "".
// OpenSM matches that way, and files rely on it.
func (p *parser) keyword(t token, list ...string) string {
	if t.text == "" {
		return ""
	}
	for _, w := range list {
		if strings.HasPrefix(w, t.text) {
			if w != t.text {
				p.warnf(t.pos, "%s is taken for %s", short(t.text), w)
			}
			return w
		}
	}
	return ""
}

// membership reads full, limited or both; for anything else it returns limited
// and false.
func (p *parser) membership(t token) (as Membership, ok bool) {
	switch p.keyword(t, "full", "limited", "both") {
	case "full":
		return Full, true
	case "both":
		return Both, true
	case "limited":
		return Limited, true
	}
	return Limited, false
}

func (p *parser) members(h *header, b *building) error {
	for {
		t := p.scan()
		switch {
		case t.is(";"):
			return nil
		case t.is(","):
			continue
		case t.text == "":
			return p.fail(t.pos, "the last statement does not end with \";\": the file may be cut off")
		case isDelim(t.text[0]):
			return p.fail(t.pos, "%s instead of a member", quote(t))
		}
		if t.is("mgid") {
			if eq := p.scan(); !eq.is("=") {
				return p.fail(eq.pos, "mgid is followed by %s instead of \"=\"", quote(eq))
			}
			if err := p.group(h, b); err != nil {
				return err
			}
			continue
		}
		m, err := p.member(t)
		if err != nil {
			return err
		}
		m.As, m.AnyIndex = h.def, !h.index0
		next := p.scan()
		if next.is("=") {
			as := p.scan()
			switch {
			case as.text == "" || isDelim(as.text[0]):
				return p.fail(as.pos, "%s= is followed by %s: write full, limited or both", t.text, quote(as))
			case as.pos.Line != t.pos.Line: // which OpenSM does not see
				return p.fail(as.pos, "%s is not on the line of its member %s", quote(as), short(t.text))
			}
			var ok bool
			if m.As, ok = p.membership(as); !ok {
				p.warnf(as.pos, "%s is none of full, limited, both: limited is taken", short(as.text))
			}
			next = p.scan()
		}
		switch {
		case m.Kind == nobody:
			b.none = true
		case m.Kind == Self && m.As == Limited && b.PKey == DefaultKey:
			p.warnf(t.pos, "the port of the subnet manager stays a full member of the default partition; otherwise no port would reach it")
		default:
			b.Members = append(b.Members, m)
		}
		switch {
		case next.is(","):
		case next.is(";"), next.is("mgid"), next.text != "" && !isDelim(next.text[0]) && next.pos.Line != t.pos.Line:
			p.back(next) // a new line separates as a comma does
		default:
			return p.fail(next.pos, "%s after member %s, where \",\" or \";\" should come", quote(next), short(t.text))
		}
	}
}

var kindWords = []string{"ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF", "NONE"}

var kinds = map[string]Kind{"ALL": All, "ALL_CAS": AllCAs, "ALL_SWITCHES": AllSwitches, "ALL_ROUTERS": AllRouters, "SELF": Self, "NONE": nobody}

// nobody is the kind of NONE.
const nobody Kind = 0xFF

func (p *parser) member(t token) (m Member, err error) {
	if t.text[0] >= '0' && t.text[0] <= '9' {
		n, err := p.number(t, 1<<64-1, "a port GUID")
		if err == nil && n == 0 {
			err = p.fail(t.pos, "no port has GUID 0")
		}
		return Member{Kind: Port, GUID: ib.GUID(n)}, err
	}
	w := p.keyword(t, kindWords...)
	if w == "" {
		return m, p.fail(t.pos, "%s is neither a port GUID (0x…) nor one of %s; a file takes no names of nodes", short(t.text), strings.Join(kindWords, ", "))
	}
	return Member{Kind: kinds[w]}, nil
}

// number reads a number as C does: hexadecimal after 0x, octal after 0.
func (p *parser) number(t token, most uint64, what string) (uint64, error) {
	s, base := t.text, 10
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		s, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(s, base, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, p.fail(t.pos, "%s is not %s: a number in hexadecimal with 0x or in decimal", quote(t), what)
	case err != nil || n > most:
		return 0, p.fail(t.pos, "%s is too large for %s: %d (%#x) at most", quote(t), what, most, most)
	}
	if base == 8 {
		p.warnf(t.pos, "%s begins with 0 and is read as octal, as C does: %d", t.text, n)
	}
	return n, nil
}

// policy is the file's policy, ascending by key. Partitions without a member
// are omitted, unless they say NONE: such a partition has a name, a P_Key and
// groups, and virtual machines add its members.
func (p *parser) policy() *Policy {
	pol := &Policy{}
	for _, b := range p.order {
		b.Members = effective(b.Members)
		b.Index0 = slices.ContainsFunc(b.Members, func(m Member) bool { return !m.AnyIndex })
		for i := range b.Members {
			b.Members[i].AnyIndex = b.Members[i].AnyIndex && b.Index0
		}
		if len(b.Members) > 0 || b.none {
			pol.Partitions = append(pol.Partitions, b.Partition)
		}
	}
	pol.sort()
	return pol
}
