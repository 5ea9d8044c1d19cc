package fabric_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"heddle/fabric"
	"heddle/ib"
)

// pair is a switch and a CA joined by one cable, with options at each end and
// lines above.
func pair(above, sw, ca string) string {
	return above + "\nSwitch 4 \"S\"\n[2] \"H\"[1] " + sw + "\n\nCa 1 \"H\"\n[1] \"S\"[2] " + ca + "\n"
}

// TestLinkOptions: a link comes up with the widest and fastest that both ends
// have enabled, as ibsim's do (protocol notes: w=, s=, e=, the tail of the
// comment, defaults).
func TestLinkOptions(t *testing.T) {
	for _, c := range []struct {
		above, sw, ca string
		width         ib.LinkWidth
		speed         ib.LinkSpeed
	}{
		{"", "", "", ib.Width4x, ib.SpeedSDR},
		{"", "w=3", "w=1", ib.Width1x, ib.SpeedSDR},
		{"", "w=12", "w=15", ib.Width12x, ib.SpeedSDR},
		{"", "w=31", "w=16", ib.Width2x, ib.SpeedSDR},
		{"", "s=7", "s=7", ib.Width4x, ib.SpeedQDR},
		{"", "s=7", "s=3", ib.Width4x, ib.SpeedDDR},
		{"", "s=0", "s=4", ib.Width4x, ib.SpeedQDR},
		{"", "e=3", "e=7", ib.Width4x, ib.SpeedEDR},
		{"", "e=15 w=2", "w=6 e=15", ib.Width4x, ib.SpeedNDR},
		{"", "e=1", "", ib.Width4x, ib.SpeedSDR},
		{"", "speed_s = 4", "s=4", ib.Width4x, ib.SpeedQDR},
		{"width=8\nspeed=2", "", "", ib.Width12x, ib.SpeedDDR},
		{"extspeed=2", "", "", ib.Width4x, ib.SpeedEDR},
		{"extspeed=2", "# \"H\" lid 3 4xHDR", "e=4", ib.Width4x, ib.SpeedHDR},
		{"", "# \"H\" lid 3 12xQDR", "# lid 3 lmc 0 \"S\" lid 1 12xQDR", ib.Width12x, ib.SpeedQDR},
		{"", "# \"H\" lid 3 4xFDR10", "# lid 3 lmc 0 \"S\" lid 1 4xFDR10", ib.Width4x, ib.SpeedFDR10},
		{"", "# \"H\" lid 3 4xFDR10", "s=7", ib.Width4x, ib.SpeedQDR},
		{"", "# \"H\" lid 3 2xHDR", "# lid 3 lmc 0 \"S\" lid 1 2xHDR", ib.Width2x, ib.SpeedHDR},
		{"", "# \"H\" lid 3 4xXDR", "# lid 3 lmc 0 \"S\" lid 1 4xXDR", ib.Width4x, ib.SpeedXDR},
		{"", "# \"H\" lid 3 4x???", "# no tail at all", ib.Width4x, ib.SpeedSDR},
		{"", "# \"4xHDR\" lid 3", "# \"w=1 4xEDR\"", ib.Width4x, ib.SpeedSDR},
	} {
		f := read(t, pair(c.above, c.sw, c.ca), fabric.NetlistOptions{})
		a, b := f.Nodes[0].Ports[2], f.Nodes[1].Ports[1]
		if a.Width != c.width || a.Speed != c.speed || b.Width != c.width || b.Speed != c.speed {
			t.Errorf("%q %q %q: %v %v, want %v %v", c.above, c.sw, c.ca, a.Width, a.Speed, c.width, c.speed)
		}
	}
}

// TestHeaders: descriptions and presets in all the forms that ibsim takes.
func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		tail     string
		desc     string
		enhanced bool
		lid      ib.LID
		lmc      uint8
	}{
		{``, "S", false, 0, 0},
		{`# "leaf 1" enhanced port 0 lid 7 lmc 2`, "leaf 1", true, 7, 2},
		{`# "leaf 1" base port 0 lid 0x10 lmc 0`, "leaf 1", false, 16, 0},
		{`# leaf one enhanced port 0 lid 9`, "leaf one", true, 9, 0},
		{`# leaf two lid 9`, "leaf two", false, 9, 0},
		{`# "says lid 5" lid 6 lmc 0`, "says lid 5", false, 6, 0},
		{`# "a "b" c" base port 0 lid 3 lmc 0`, `a "b" c`, false, 3, 0},
		{`# "enhanced port 0"`, "enhanced port 0", false, 0, 0},
		{`# ""`, "S", false, 0, 0},
		{`# "never closed`, "never closed", false, 0, 0},
		{`enhanced port 0 lid 4 # "later"`, "later", true, 4, 0},
		{`# "unmanaged" base port 0 lid 65535 lmc 0`, "unmanaged", false, 0, 0},
		{`# "` + strings.Repeat("x", 100) + `" lid 8`, strings.Repeat("x", 64), false, 8, 0},
	} {
		n := read(t, "Switch\t4 \"S\"\t\t"+c.tail+"\n", fabric.NetlistOptions{}).Nodes[0]
		if n.Desc != c.desc || n.EnhancedPort0 != c.enhanced || n.Ports[0].LID != c.lid || n.Ports[0].LMC != c.lmc {
			t.Errorf("%q: %q, enhanced %v, LID %d, LMC %d", c.tail, n.Desc, n.EnhancedPort0, n.Ports[0].LID, n.Ports[0].LMC)
		}
	}
}

// TestGUIDLines: absolute and relative GUIDs, what is kept and what is for one
// node only.
func TestGUIDLines(t *testing.T) {
	f := read(t, `
switchguid=0x1000(1000)
vendid=0x2c9
devid=0x10
sysimgguid=0x99
Switch 4 "S1"
Switch 4 "S2"

switchguid+0x100
Switch 4 "S3"
caguid=0x5000
Ca 2 "H1"
Hca 2 "H2"
hcaguids+32
Ca 1 "H3"
rtguid=77
Rt 1 "R"
`, fabric.NetlistOptions{})
	for _, c := range []struct {
		id          string
		guid, image ib.GUID
		vendor      uint32
		device      uint16
	}{
		{"S1", 0x1000, 0x99, 0x2c9, 0x10},
		{"S2", 0x1001, 0x1001, 0, 0x10},
		{"S3", 0x1100, 0x1100, 0, 0x10},
		{"H1", 0x5000, 0x5000, 0, 0x10},
		{"H2", 0x5003, 0x5003, 0, 0x10},
		{"H3", 0x5020, 0x5020, 0, 0x10},
		{"R", 77, 77, 0, 0x10},
	} {
		n := f.Nodes[f.Find(c.id)]
		if n.GUID != c.guid || n.SystemImageGUID != c.image || n.VendorID != c.vendor || n.DeviceID != c.device {
			t.Errorf("%s: %v %v %#x %#x", c.id, n.GUID, n.SystemImageGUID, n.VendorID, n.DeviceID)
		}
	}
}

// TestPortForms: what ibnetdiscover puts around port numbers.
func TestPortForms(t *testing.T) {
	f := read(t, `
Switch	24 "S-1"		# "spine" base port 0 lid 3 lmc 0
[1][ext 7]	"H-1"[2](beef) 		# "h" lid 5 4xQDR
[2]	"S-2"[3][ext 9]		# "line" lid 4 4xQDR
[3] "H-2"		# 1 is the port where none is given
Switch	24 "S-2"
[3][ext 9]	"S-1"[2]		# "spine" lid 3 4xQDR

Ca	2 "H-1"		# "h"
[2](beef) 	"S-1"[1][ext 7]		# lid 5 lmc 1 "spine" lid 3 4xQDR
# a remark does not end the ports
[1](0xcafe) "H-2"[2]

Ca 2 "H-2"
[1] "S-1" [3] lid 6
[2] "H-1"[1]
`, fabric.NetlistOptions{})
	if f.NumLinks() != 4 {
		t.Errorf("%d cables", f.NumLinks())
	}
	h := f.Nodes[f.Find("H-1")]
	if h.Ports[2].GUID != 0xbeef || h.Ports[1].GUID != 0xcafe || h.Ports[2].LID != 5 || h.Ports[2].LMC != 1 {
		t.Errorf("%+v", h.Ports)
	}
	if l := f.Nodes[f.Find("H-2")].Ports[1].LID; l != 6 {
		t.Errorf("LID %d", l)
	}
}

// TestModules: ids get the prefix of their module; other modules say
// module#id, or module@alias.
func TestModules(t *testing.T) {
	text := `
module="rack1"
Switch 4 "leaf"
[1] "h"[1]
[2] "rack2#leaf"[2]
@[3] "up"

Ca 1 "h"
[1] "leaf"[1]

module="rack2"
Switch 4 "leaf"
[2] "rack1#leaf"[2]
@[4] "up"

module=""
Switch 4 "root"
[1] "rack1@up"
[2] "rack2@up"[9]
`
	f := read(t, text, fabric.NetlistOptions{})
	var got strings.Builder
	for a, b := range f.Links {
		got.WriteString(fmt.Sprintf("%s-%s ", f.PortName(a), f.PortName(b)))
	}
	want := `"rack1#leaf"[1]-"rack1#h"[1] "rack1#leaf"[2]-"rack2#leaf"[2] "rack1#leaf"[3]-"root"[1] "rack2#leaf"[4]-"root"[2] `
	if got.String() != want {
		t.Errorf("cables %s\nwant   %s", got.String(), want)
	}
	if d := f.Diff(read(t, write(t, f), fabric.NetlistOptions{})); d != "" {
		t.Error(d)
	}
}

// TestErrorsNameBothPlaces: line and column of one, the other in the text.
func TestErrorsNameBothPlaces(t *testing.T) {
	for _, c := range []struct {
		name, text, where string
		says              []string
	}{
		{
			"ends disagree", "Switch 4 \"A\"\n[1] \"B\"[2]\n\nSwitch 4 \"B\"\n[2] \"A\"[3]\n\nSwitch 4 \"C\"\n", "net:2:1:",
			[]string{`"A"[1]`, `"B"[2]`, `"A"[3]`, "line 5", "agree"},
		},
		{"one end only", "Switch 4 \"A\"\n[1] \"B\"[2]\n\nSwitch 4 \"B\"\n", "net:2:1:", []string{`"B"[2]`, "line 4", `add [2] "A"[1]`}},
		{"port too high", "Switch 4 \"A\"\n[1] \"B\"[9]\n\nSwitch 4 \"B\"\n", "net:2:1:", []string{"ports 1 to 4", "line 4"}},
		{"no width in common", pair("", "w=1", "w=2"), "net:3:1:", []string{"1X here", "4X there", "line 6"}},
		{"no speed in common", pair("", "s=1", "s=4"), "net:3:1:", []string{`"S"[2]`, `"H"[1]`, "line 6", "s="}},
		{"a port to itself", "Switch 4 \"A\"\n[1] \"A\"[1]\n", "net:2:1:", []string{"itself"}},
		{"a node twice", "Switch 4 \"A\"\n\nCa 2 \"A\"\n", "net:3:6:", []string{"line 1", "unique"}},
		{"a GUID twice", "switchguid=5\nSwitch 4 \"A\"\n\ncaguid=5\nCa 2 \"B\"\n", "net:5:1:", []string{`"A"`, "line 2"}},
		{"a port without node", "Switch 4 \"A\"\n\n[1] \"B\"[1]\n", "net:3:1:", []string{"empty line"}},
		{"an alias twice", "Switch 4 \"A\"\n@[1] \"x\"\n@[2] \"x\"\n", "net:3:6:", []string{`"A"[1]`, "line 2"}},
		{"an alias nobody has", "Switch 4 \"A\"\n[1] \"m@x\"\n", "net:2:1:", []string{"alias"}},
		{"an alias taken twice", "Switch 4 \"A\"\n@[1] \"x\"\n\nSwitch 4 \"B\"\n[1] \"@x\"\n[2] \"@x\"\n", "net:6:1:", []string{`"B"[1]`, "already"}},
		{"an option that is none", pair("", "q=1", ""), "net:3:12:", []string{"w=, s= and e="}},
		{"a width that is none", pair("", "w=32", ""), "net:3:14:", []string{"1 to 31"}},
		{"a default that is none", "width=0\n", "net:1:7:", []string{"31"}},
		{"a LID that is none", "Ca 1 \"H\"\n[1] \"S\"[1] # lid 50000 lmc 0 \"x\"\n", "net:2:18:", []string{"50000", "49151"}},
		{"an LMC that is none", "Switch 4 \"S\" # \"S\" lid 5 lmc 8\n", "net:1:30:", []string{"0 to 7"}},
		{"a range that leaves the LIDs", "Switch 4 \"S\" # \"S\" lid 49151 lmc 1\n", "net:1:", []string{"range"}},
		{"an id with a reserved character", "Switch 4 \"S@x\"\n", "net:1:10:", []string{"'@'"}},
		{"a module in the id", "Switch 4 \"m#x\"\n", "net:1:10:", []string{"module="}},
		{"a port that is none", "Switch 4 \"A\"\n[x] \"B\"[1]\n", "net:2:1:", []string{"[PORT]"}},
		{"a peer port that is none", "Switch 4 \"A\"\n[1] \"B\"[0]\n", "net:2:8:", []string{`"B"`}},
		{"a GUID of a port that is none", "Ca 1 \"A\"\n[1](xyz) \"B\"[1]\n", "net:2:5:", []string{"GUID"}},
		{"no peer", "Switch 4 \"A\"\n[1]\n", "net:2:4:", []string{"PEER"}},
	} {
		_, err := fabric.ReadNetlist(strings.NewReader(c.text), fabric.NetlistOptions{Name: "net"})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, s := range append(c.says, c.where) {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v\nshould say %q", c.name, err, s)
			}
		}
	}
}

// TestInclude: files lie at or below the netlist's; errors name the file they
// are in; what a file sets stays set.
func TestInclude(t *testing.T) {
	files := fstest.MapFS{
		"sub/leaf":   {Data: []byte("switchguid=0x70\nSwitch 4 \"L\"\n[1] \"R\"[1]\n")},
		"sub/broken": {Data: []byte("\nSwitch 0 \"L\"\n")},
		"sub/dir/x":  {Data: []byte("")},
	}
	o := fabric.NetlistOptions{Name: "net", Include: files}
	f := read(t, "include \"./sub/leaf\"\nSwitch 4 \"R\"\n[1] \"L\"[1]\n", o)
	if len(f.Nodes) != 2 || f.Nodes[1].GUID != 0x71 || f.NumLinks() != 1 {
		t.Errorf("%+v", f.Nodes)
	}
	for text, want := range map[string]string{
		"include \"sub/broken\"\n":     "sub/broken:2:8:",
		"\ninclude \"sub/nothing\"\n":  "net:2:9:",
		"include \"sub/dir\"\n":        "not an ordinary file",
		"include \"/etc/passwd\"\n":    "at or below",
		"include \"sub/../../net\"\n":  "at or below",
		"include sub/leaf\n":           "include \"FILE\"",
		"include \"sub/leaf\"\nSwitch": "",
	} {
		_, err := fabric.ReadNetlist(strings.NewReader(text), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := fabric.ReadNetlist(strings.NewReader("include \"no\"\n"), o)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap the cause", err)
	}
	// A tree of includes is bounded by bytes and by files.
	bomb := fstest.MapFS{}
	for i := range 7 {
		bomb[fmt.Sprint(i)] = &fstest.MapFile{Data: []byte(strings.Repeat(fmt.Sprintf("include \"%d\"\n", i+1), 50))}
	}
	bomb["7"] = &fstest.MapFile{Data: []byte(strings.Repeat("# remark\n", 1000))}
	if _, err := fabric.ReadNetlist(strings.NewReader("include \"0\"\n"), fabric.NetlistOptions{Include: bomb, MaxBytes: 1 << 18}); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a bomb of includes: %v", err)
	}
	bomb["7"] = &fstest.MapFile{}
	if _, err := fabric.ReadNetlist(strings.NewReader("include \"0\"\n"), fabric.NetlistOptions{Include: bomb}); err == nil || !strings.Contains(err.Error(), "1000 files") {
		t.Errorf("a bomb of empty includes: %v", err)
	}
}
