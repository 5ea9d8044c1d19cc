package osmdump_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/osmdump"
)

// lfts is a dump as OpenSM 3.3 writes it.
const lfts = `Unicast lids [0-6] of switch Lid 1 guid 0x0000000000200000 ('Switch1'):
0x0001 000 # Switch portguid 0x0000000000200000: 'Switch1'
0x0002 001 # Channel Adapter portguid 0x0000000000100001: 'Hca1'
0x0009 004 # unknown node and type
6 lids dumped
`

// diags is one as dump_lfts of infiniband-diags prints it.
const diags = `Unicast lids [0x0-0x6] of switch DR path slid 0; dlid 0; 0 guid 0x0000000000200000 (Switch1):
  Lid  Out   Destination
       Port     Info 
0x0001 000 : (Switch portguid 0x0000000000200000: 'Switch1')
0x0002 001 : (Channel Adapter portguid 0x0000000000100001: 'Hca1')
0x0009 004 : (unknown node and type)
3 valid lids dumped 
`

const fdbs = `dump_ucast_routes: Switch 0x0000000000200000
LID    : Port : Hops : Optimal
0x0001 : 000  : 00   : yes
0x0002 : 001  : 00   : yes
0x0007 : UNREACHABLE
0x0009 : 004  : 03   : No 2 hop path possible via port 1!
`

func TestReadRoutes(t *testing.T) {
	want := &osmdump.Routes{
		Switches: []osmdump.SwitchRoutes{{GUID: 0x200000, Routes: []osmdump.Route{{1, 0}, {2, 1}, {9, 4}}}},
		Owner:    map[ib.LID]ib.GUID{1: 0x200000, 2: 0x100001},
	}
	for name, in := range map[string]string{"lfts": lfts, "diags": diags, "crlf": strings.ReplaceAll(lfts, "\n", "\r\n")} {
		if got, err := osmdump.ReadRoutes(strings.NewReader(in)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v %+v", name, err, got)
		}
	}
	want.Owner = map[ib.LID]ib.GUID{}
	if got, err := osmdump.ReadRoutes(strings.NewReader(fdbs)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("fdbs: %v %+v", err, got)
	}
}

func TestReadErrors(t *testing.T) {
	head := "Unicast lids [0-6] of switch Lid 1 guid 0x200000 ('a'):\n"
	for in, want := range map[string]string{
		"":                                 "no switch in it: want",
		"Multicast mlids [0xc000] of":      "line 1: this is a dump of multicast tables",
		"\nUnicast lids without":           "line 2: a switch without its GUID",
		"Unicast lids guid 0xzz":           `line 1: "0xzz" is no switch GUID`,
		"Unicast lids guid 0x0 x":          `line 1: "0x0" is no switch GUID`,
		"0x0001 000":                       "line 1: a route before any switch",
		head + head:                        "line 2: switch 0x0000000000200000 occurs twice",
		head + "0x0001":                    "line 2: a route needs a LID and a port",
		head + "0x0001 :":                  "line 2: a route needs a LID and a port",
		head + "0xc000 001":                `line 2: "0xc000" is not a unicast LID (want 0x1 to 0xbfff)`,
		head + "0x0000 001":                `line 2: "0x0000" is not a unicast LID`,
		head + "0x0001 256":                `line 2: "256" is not a port (want 0 to 255)`,
		head + "0x0001 1 # x portguid 0x-": `line 2: "-" is not a port GUID`,
		head + "0x0001 1 # x portguid 0x1: 'a'\n0x0001 1 # x portguid 0x2: 'a'": "line 3: LID 1 belongs to port 0x0000000000000001 and to port 0x0000000000000002",
		strings.Repeat("y", 70<<10): "line 1: bufio.Scanner: token too long",
	} {
		_, err := osmdump.ReadRoutes(strings.NewReader(in))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: got  %v\nwant %s", in, err, want)
		}
		if strings.HasPrefix(want, "line ") { // the number is in the error, too
			line, ok := errors.AsType[*osmdump.Error](err)
			if !ok || !strings.HasPrefix(want, fmt.Sprintf("line %d: ", line.Line)) {
				t.Errorf("%.40q: %#v", in, err)
			}
		}
	}
	for in, want := range map[string]string{
		"0x0001 : 3":                      "line 1: a path before any port",
		"0x1 5 2\n0x0001 : 3":             "line 2: a path before any port",
		"Switch 0x5, base\n0x0001 : 16":   `line 2: "16" is not a service level (want 0 to 15)`,
		"Switch 0x5, base\n0x0001 :":      `line 2: want "0xLID : SL" or "0xGUID LID SL"`,
		"Switch x":                        `line 1: "x" is not a GUID`,
		"0x10 0x5 1":                      `line 1: "0x5" is not a unicast LID (want 1 to 49151, in decimal)`,
		"0x10 5 1\n0x10 5 99":             `line 2: "99" is not a service level`,
		"Channel Adapter 0x5, x\n0x0 : 1": `line 2: "0x0" is not a unicast LID`,
	} {
		if _, err := osmdump.ReadPathSL(strings.NewReader(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got  %v\nwant %s", in, err, want)
		}
	}
	row := "1   2   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  "
	for in, want := range map[string]string{
		row + "7":                                          "line 1: a table before any port",
		"Switch 0x5, x\n" + row:                            "line 2: want two ports, a colon and 16 lanes",
		"Switch 0x5, x\n" + row + "16":                     `line 2: "16" is not a lane (want 0 to 15)`,
		"Switch 0x5, x\n300 1" + row[5:]:                   `line 2: want two ports`,
		"Switch 0x5, x\n300" + row[3:] + "1":               `line 2: "300" and "2" are not ports (want 0 to 255)`,
		"0x5 1 2 0x01":                                     "line 1: want a GUID, two ports and eight bytes",
		"0x5 1 2 0x01 0x23 0x45 0x67 0x89 0xab 0xcd 0xefe": `line 1: "0xefe" is not a byte (want 0x00 to 0xff)`,
	} {
		if _, err := osmdump.ReadSL2VL(strings.NewReader(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got  %v\nwant %s", in, err, want)
		}
	}
}

// TestFormats: the exact lines, as OpenSM writes and ibdmchk reads them.
func TestFormats(t *testing.T) {
	_, g := pair(t)
	tb := route.New("x", 2, 4)
	tb.LFT[0][1], tb.LFT[0][2], tb.LFT[1][2] = 10, 2, 3
	tb.SwitchClasses(g)
	tb.SL = []ib.SL{0, 1, 2, 0}
	var b bytes.Buffer
	if err := osmdump.WritePathSL(&b, g, tb); err != nil {
		t.Fatal(err)
	}
	if want := "Channel Adapter 0x0000000000100001, base LID 1, \"\"\n# LID  : SL\n#-----------\n0x0001 : 0\n0x0002 : 1\n0x0003 : 0\n0x0004 : 1\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
	if !strings.HasSuffix(b.String(), "Switch 0x0000000000200001, base LID 4, \"\"\n# LID  : SL\n#-----------\n0x0001 : 2\n0x0002 : 0\n0x0003 : 2\n0x0004 : 0\n") {
		t.Errorf("got  %s", b.String())
	}
	b.Reset()
	if err := osmdump.WriteSL2VL(&b, g, tb); err != nil {
		t.Fatal(err)
	}
	rule := "#--------------------------------------------------------\n"
	head := "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n" + rule
	lane0 := ":" + strings.Repeat(" 0 ", 16) + "\n"
	if want := "Channel Adapter 0x0000000000100001, base LID 1, \"\"\n" + head + "0   0   " + lane0 + rule + "\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
	if want := "Switch 0x0000000000200000, base LID 3, \"\"\n" + head + "0   1   " + lane0 + "1   1   " + lane0; !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "\n10  10  "+lane0) || strings.Contains(strings.Split(b.String(), "Switch ")[1], "\n0   3   ") {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
	b.Reset()
	if err := routetest.WriteLFTs(&b, g, tb); err != nil {
		t.Fatal(err)
	}
	want := `Unicast lids [0-4] of switch Lid 3 guid 0x0000000000200000 (''):
0x0001 010 # Channel Adapter portguid 0x0000000000100001: ''
0x0002 002 # Channel Adapter portguid 0x0000000000100002: ''
4 lids dumped
Unicast lids [0-4] of switch Lid 4 guid 0x0000000000200001 (''):
0x0002 003 # Channel Adapter portguid 0x0000000000100002: ''
4 lids dumped
`
	want = strings.ReplaceAll(want, "0x0000000000100002", g.EndPorts[1].GUID.String())
	if b.String() != want {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
}

// TestRoundTrip: written files are read back equal.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		e      route.Engine
		kind   string
		params string
	}{{torus.Engine{}, "torus", "5x5"}, {updn.Engine{}, "irregular", "16"}} {
		_, g, _ := build(t, updn.Engine{}, 2, c.kind, c.params)
		for i := range g.Channels {
			g.Channels[i].VLs = 8
		}
		tb, err := c.e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var a, b, sl, vl bytes.Buffer
		for _, err := range []error{
			routetest.WriteLFTs(&a, g, tb), osmdump.WriteFDBs(&b, g, tb), osmdump.WritePathSL(&sl, g, tb), osmdump.WriteSL2VL(&vl, g, tb),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for name, in := range map[string]*bytes.Buffer{"lfts": &a, "fdbs": &b} {
			d, err := osmdump.ReadRoutes(in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(d.Switches) != len(g.Switches) || name == "lfts" != (len(d.Owner) > 0) {
				t.Fatalf("%s: %d switches, %d owners", name, len(d.Switches), len(d.Owner))
			}
			for s, sw := range d.Switches {
				if sw.GUID != g.Switches[s].GUID {
					t.Fatalf("%s: switch %d is %v", name, s, sw.GUID)
				}
				for _, r := range sw.Routes {
					if tb.LFT[s][r.LID] != r.Port {
						t.Errorf("%s: switch %d LID %d: %d, want %d", name, s, r.LID, r.Port, tb.LFT[s][r.LID])
					}
				}
			}
		}
		levels, err := osmdump.ReadPathSL(&sl)
		if err != nil {
			t.Fatal(err)
		}
		if len(levels) != len(g.EndPorts) {
			t.Errorf("%d sources, want %d", len(levels), len(g.EndPorts))
		}
		owned := 0
		for _, e := range g.LIDOwner {
			if e != fabric.NoLID {
				owned++
			}
		}
		for i, s := range levels {
			e := &g.EndPorts[i]
			if s.GUID != e.GUID || s.Node || len(s.SLs) != owned {
				t.Fatalf("source %d: %+v", i, s)
			}
			for _, p := range s.SLs {
				if tb.PathSL(e.Switch, p.LID) != p.SL {
					t.Errorf("from %v to LID %d: %d", e.GUID, p.LID, p.SL)
				}
			}
		}
		lanes, err := osmdump.ReadSL2VL(&vl)
		if err != nil || len(lanes) != len(g.EndPorts) {
			t.Fatalf("%v, %d ports", err, len(lanes))
		}
		for i, p := range lanes {
			e := &g.EndPorts[i]
			if p.GUID != e.GUID || p.Switch != (e.Type == ib.NodeSwitch) {
				t.Fatalf("port %d: %v", i, p.GUID)
			}
			for _, r := range p.Rows {
				for sl, v := range r.VL {
					if p.Switch && tb.VL(e.Switch, r.In, r.Out, ib.SL(sl), 8) != v {
						t.Errorf("%v in %d out %d SL %d: %d", p.GUID, r.In, r.Out, sl, v)
					}
				}
			}
		}
	}
}

func TestFormatVariants(t *testing.T) {
	sl, err := osmdump.ReadPathSL(strings.NewReader("# psl\n0x100000 7 3\n0x100000 8 0\n0x100001 7 15\n"))
	if want := []osmdump.SourceSLs{
		{GUID: 0x100000, Node: true, SLs: []osmdump.PathSL{{7, 3}, {8, 0}}}, {GUID: 0x100001, Node: true, SLs: []osmdump.PathSL{{7, 15}}},
	}; err != nil || !reflect.DeepEqual(sl, want) {
		t.Errorf("%v %+v", err, sl)
	}
	vl, err := osmdump.ReadSL2VL(strings.NewReader("0x200000 1 2 0x01 0x23 0x45 0x67 0x89 0xab 0xcd 0xef\n0x200000 2 1 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x01\n"))
	var up, last [16]ib.VL
	for i := range up {
		up[i] = ib.VL(i)
	}
	last[15] = 1
	if want := []osmdump.PortLanes{{GUID: 0x200000, Switch: true, Rows: []osmdump.LaneRow{{1, 2, up}, {2, 1, last}}}}; err != nil || !reflect.DeepEqual(vl, want) {
		t.Errorf("%v %+v", err, vl)
	}
}

func TestGroups(t *testing.T) {
	_, g := pair(t)
	if osmdump.Groups(g, nil) != nil {
		t.Error("groups out of nothing")
	}
	got := osmdump.Groups(g, &route.Multicast{Trees: []route.Tree{{MLID: 0xC001, Switches: []int32{1}, Ports: [][4]uint64{{0b1001, 1, 0, 1 << 63}}}}})
	if want := []osmdump.Multicast{{MLID: 0xC001, Ports: [][]uint8{nil, {0, 3, 64, 255}}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func FuzzReadRoutes(f *testing.F) {
	f.Add(lfts)
	f.Add(diags)
	f.Add(fdbs)
	f.Fuzz(func(t *testing.T, in string) {
		d, err := osmdump.ReadRoutes(strings.NewReader(in))
		if err != nil {
			if d != nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v %q", d, err)
			}
			return
		}
		for _, s := range d.Switches {
			for _, r := range s.Routes {
				if !r.LID.IsUnicast() {
					t.Errorf("LID %d", r.LID)
				}
			}
		}
	})
}

func FuzzReadPathSL(f *testing.F) {
	f.Add("Channel Adapter 0x0000000000100001, base LID 1, \"\"\n# LID  : SL\n#-----------\n0x0001 : 0\n0x0002 : 1\n")
	f.Add("0x100000 7 3\n0x100000 8 0\n0x100001 7 15\n")
	f.Fuzz(func(t *testing.T, in string) {
		out, err := osmdump.ReadPathSL(strings.NewReader(in))
		if err != nil {
			return
		}
		for _, s := range out {
			for _, p := range s.SLs {
				if p.SL > 15 || !p.LID.IsUnicast() {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}

func FuzzReadSL2VL(f *testing.F) {
	f.Add("Switch 0x0000000000200000, base LID 3, \"\"\n#in out : 0\n0   1   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  7 \n")
	f.Add("0x200000 1 2 0x01 0x23 0x45 0x67 0x89 0xab 0xcd 0xef\n")
	f.Fuzz(func(t *testing.T, in string) {
		out, err := osmdump.ReadSL2VL(strings.NewReader(in))
		if err != nil {
			return
		}
		for _, p := range out {
			for _, r := range p.Rows {
				for _, v := range r.VL {
					if v > 15 {
						t.Errorf("%+v", r)
					}
				}
			}
		}
	})
}
