package fabric_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
)

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

func read(t testing.TB, text string, o fabric.NetlistOptions) *fabric.Fabric {
	t.Helper()
	f, err := fabric.ReadNetlist(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t testing.TB, f *fabric.Fabric) string {
	t.Helper()
	var b bytes.Buffer
	if err := fabric.WriteNetlist(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRoundTrip: read, written and read again is equal, for every kind.
func TestRoundTrip(t *testing.T) {
	for _, args := range []string{
		"xgft 2 4,4 1,2", "kary 3 3", "mport 6 2", "torus 4x4 speed=HDR", "mesh 3x3 width=12x", "hypercube 3",
		"hyperx 3x3 trunk=2", "dragonfly 4 2 2", "dragonfly+ 4 4 4 2", "irregular 32", "fattree 324",
	} {
		a := strings.Fields(args)
		f := generate(t, a[0], a[1:]...)
		for _, lids := range []int{0, 1, 4} {
			if lids > 0 {
				if err := fabric.AssignLIDs(f, lids); err != nil {
					t.Fatal(err)
				}
			}
			text := write(t, f)
			g := read(t, text, fabric.NetlistOptions{})
			if d := f.Diff(g); d != "" {
				t.Errorf("%s with %d LIDs a port: %s", args, lids, d)
			}
			if again := write(t, g); again != text {
				t.Errorf("%s: written twice differs", args)
			}
			for l := range strings.SplitSeq(text, "\n") {
				if len(l) > 254 {
					t.Errorf("%s: a line of %d bytes, ibsim reads 254", args, len(l))
				}
			}
		}
	}
}

// TestOddNames: descriptions hold anything.
func TestOddNames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b fabric.Builder
		s := b.AddSwitch("S", 4)
		h := b.AddCA("H", 1)
		desc := rapid.StringN(0, 20, 60).Draw(rt, "desc")
		b.Node(h).Desc = strings.ReplaceAll(desc, "\x00", "")
		b.Connect(s, 2, h, 1)
		f, err := b.Build()
		if err != nil {
			rt.Fatal(err)
		}
		var out bytes.Buffer
		if err := fabric.WriteNetlist(&out, f); err != nil {
			rt.Fatal(err)
		}
		g, err := fabric.ReadNetlist(&out, fabric.NetlistOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		if d := f.Diff(g); d != "" {
			rt.Fatalf("%q: %s", desc, d)
		}
	})
}

// TestIbnetdiscover reads what Debian's ibnetdiscover 44.0 printed of an
// irregular net of 8 switches that ibsim ran.
func TestIbnetdiscover(t *testing.T) {
	text, err := os.ReadFile("testdata/ibnetdiscover-irregular8.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, string(text), fabric.NetlistOptions{Name: "ibnetdiscover"})
	want := generate(t, "irregular", "8")
	if len(f.Nodes) != len(want.Nodes) || f.NumLinks() != want.NumLinks() {
		t.Fatalf("%d nodes and %d cables, want %d and %d", len(f.Nodes), f.NumLinks(), len(want.Nodes), want.NumLinks())
	}
	for i := range want.Nodes {
		w := &want.Nodes[i]
		n := &f.Nodes[f.FindGUID(w.GUID)]
		if n.Type != w.Type || n.NumPorts != w.NumPorts || n.Desc != w.Desc {
			t.Errorf("%s read as %+v", w.ID, n)
		}
		for p := 1; p <= w.NumPorts; p++ {
			if w.Ports[p].Cabled() != n.Ports[p].Cabled() {
				t.Errorf("%s port %d", w.ID, p)
				continue
			}
			if q := w.Ports[p].Peer; q.Valid() {
				if r := n.Ports[p].Peer; f.Nodes[r.Node].GUID != want.Nodes[q.Node].GUID || r.Port != q.Port {
					t.Errorf("%s port %d leads elsewhere", w.ID, p)
				}
			}
		}
		lid := n.Ports[0].LID
		if !n.IsSwitch() {
			lid = n.Ports[1].LID
		}
		if lid == 0 {
			t.Errorf("%s has no LID", w.ID)
		}
	}
}

// TestIbsimExamples reads every netlist that Debian ships with ibsim.
func TestIbsimExamples(t *testing.T) {
	need.Tool(t, "ibsim")
	files, _ := filepath.Glob("/usr/share/doc/ibsim-utils/examples/net-examples/*")
	more, _ := filepath.Glob("/usr/share/doc/ibsim-utils/net-examples/*")
	files = append(files, more...)
	if len(files) == 0 {
		need.Missing(t, "net-examples", "ibsim-utils has no example nets where they are looked for")
	}
	for _, p := range files {
		text, err := os.ReadFile(p)
		if err != nil || strings.HasSuffix(p, ".README") {
			continue
		}
		if _, err := fabric.ReadNetlist(bytes.NewReader(text), fabric.NetlistOptions{Name: filepath.Base(p), AllowDo: true, Include: os.DirFS(filepath.Dir(p))}); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestMistakes: each says where and what.
func TestMistakes(t *testing.T) {
	const two = "Switch 4 \"S\"\n[1] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"S\"[1]\n"
	for _, c := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"nothing", "# only a remark\n", 0, "no node"},
		{"a port that the switch does not have", "Switch 4 \"S\"\n[5] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"S\"[5]\n", 2, "5"},
		{"port 0", "Switch 4 \"S\"\n[0] \"H\"[1]\n", 2, "0"},
		{"an unknown peer", "Switch 4 \"S\"\n[1] \"H\"[1]\n", 2, "H"},
		{"a cable with one end", "Switch 4 \"S\"\n[1] \"H\"[1]\n\nHca 1 \"H\"\n", 2, "H"},
		{"ends that disagree", "Switch 4 \"S\"\n[1] \"H\"[1]\n[2] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"S\"[1]\n", 3, "H"},
		{"a port twice", "Switch 4 \"S\"\n[1] \"H\"[1]\n[1] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"S\"[1]\n", 3, "1"},
		{"a node twice", two + "\nHca 1 \"H\"\n", 7, "H"},
		{"a GUID twice", "switchguid=0x5\nSwitch 4 \"S\"\n\nswitchguid=0x5\nSwitch 4 \"T\"\n", 0, "0x0000000000000005"},
		{"too many ports", "Switch 4000 \"S\"\n", 1, "254"},
		{"no name", "Switch 4\n", 1, ""},
		{"an open quote", "Switch 4 \"S\n", 1, ""},
		{"include without leave", "include \"x\"\n" + two, 1, "include"},
		{"do without leave", "do Quit\n" + two, 1, "do"},
		{"a GUID that is none", "switchguid=zz\n" + two, 1, "zz"},
		{"an impossible speed", "Switch 4 \"S\"\n[1] \"H\"[1] s=99\n\nHca 1 \"H\"\n[1] \"S\"[1]\n", 2, "99"},
	} {
		f, err := fabric.ReadNetlist(strings.NewReader(c.text), fabric.NetlistOptions{Name: "net"})
		var ne *fabric.NetlistError
		if !asError(err, &ne) {
			t.Errorf("%s: %v, %v", c.name, f, err)
			continue
		}
		if c.line != 0 && (ne.Line != c.line || ne.Col < 1) || !strings.Contains(ne.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBounds: what strangers send is bounded before it is stored.
func TestBounds(t *testing.T) {
	endless := func(line string) io.Reader { return io.LimitReader(repeat(line), 1<<31) }
	for _, c := range []struct {
		name string
		r    io.Reader
		o    fabric.NetlistOptions
	}{
		{"a line without end", endless("x"), fabric.NetlistOptions{}},
		{"remarks without end", endless("# remark\n"), fabric.NetlistOptions{MaxBytes: 1 << 20}},
		{"too many nodes", strings.NewReader("Switch 4 \"A\"\nSwitch 4 \"B\"\nSwitch 4 \"C\"\n"), fabric.NetlistOptions{MaxNodes: 2}},
		{"too many ports", strings.NewReader("Switch 36 \"A\"\nSwitch 36 \"B\"\n"), fabric.NetlistOptions{MaxPorts: 50}},
		{"too many console lines", strings.NewReader("do a\ndo b\ndo c\n"), fabric.NetlistOptions{AllowDo: true, MaxConsole: 2}},
		{"a file that includes itself", strings.NewReader("include \"a\"\n"), fabric.NetlistOptions{Include: fstest.MapFS{"a": {Data: []byte("include \"a\"\n")}}}},
		{"an include outside", strings.NewReader("include \"../../etc/passwd\"\n"), fabric.NetlistOptions{Include: fstest.MapFS{}}},
	} {
		var ne *fabric.NetlistError
		if _, err := fabric.ReadNetlist(c.r, c.o); !asError(err, &ne) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// repeat reads a text over and over.
type repeat string

func (r repeat) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		n += copy(b[n:], r)
	}
	return n, nil
}

func TestIncludeAndConsole(t *testing.T) {
	fs := fstest.MapFS{"leaf": {Data: []byte("module \"m\"\nSwitch 4 \"L\"\n@[1] \"up\"\n[2] \"H\"[1]\n\nHca 1 \"H\"\n[1] \"L\"[2]\n")}}
	f := read(t, "include \"leaf\"\ndo Link \"a\"[1] \"b\"[2]\n", fabric.NetlistOptions{Include: fs, AllowDo: true})
	if len(f.Nodes) != 2 || len(f.Console) != 1 || f.NumLinks() != 1 {
		t.Errorf("%d nodes, %d cables, console %q", len(f.Nodes), f.NumLinks(), f.Console)
	}
}

// TestDefaults: GUIDs and widths are ibsim's where the text says nothing.
func TestDefaults(t *testing.T) {
	f := read(t, "Switch 4 \"S\"\n[1] \"H\"[1]\n\nHca 2 \"H\"\n[1] \"S\"[1]\n", fabric.NetlistOptions{})
	s, h := &f.Nodes[f.Find("S")], &f.Nodes[f.Find("H")]
	if s.GUID != fabric.FirstSwitchGUID || h.GUID != fabric.FirstCAGUID || h.Ports[2].GUID != h.GUID+2 || s.Ports[0].GUID != s.GUID ||
		h.Ports[1].Width != ib.Width4x || h.Desc != "H" {
		t.Errorf("switch %+v\nhost %+v", s, h)
	}
}

func BenchmarkReadNetlist(b *testing.B) {
	text := write(b, generate(b, "fattree", "11664"))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := fabric.ReadNetlist(strings.NewReader(text), fabric.NetlistOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzReadNetlist: no text crashes the reader, and what is read can be
// written and read again to the same.
func FuzzReadNetlist(f *testing.F) {
	f.Add("Switch 4 \"S\"\n[1] \"H\"[1] w=2 s=4\n\nHca 1 \"H\"\n[1] \"S\"[1] # \"S\" lid 3 4xQDR\n")
	f.Add("module \"m\"\nswitchguid+4\nSwitch 36 \"A\" # \"name\" enhanced port 0 lid 7 lmc 0\n@[3] \"x\"\n")
	f.Add("vendid=0x2c9\ndevid=0xb924\nsysimgguid=0x1\nswitchguid=0x5(5)\nSwitch\t2 \"S-5\"\n")
	if text, err := os.ReadFile("testdata/ibnetdiscover-irregular8.txt"); err == nil {
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := fabric.NetlistOptions{MaxNodes: 64, MaxPorts: 1024, MaxBytes: 1 << 16, AllowDo: true}
		one, err := fabric.ReadNetlist(strings.NewReader(text), o)
		if err != nil {
			if err.Error() == "" || fmt.Sprintf("%T", err) != "*fabric.NetlistError" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		var b bytes.Buffer
		if err := fabric.WriteNetlist(&b, one); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		two, err := fabric.ReadNetlist(&b, fabric.NetlistOptions{AllowDo: true})
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, write(t, one))
		}
		if d := one.Diff(two); d != "" {
			t.Fatalf("%s\n%s", d, write(t, one))
		}
	})
}
