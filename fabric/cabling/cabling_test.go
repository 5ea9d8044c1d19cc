package cabling

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// tree is a fat tree with one adapter per host.
func tree(t testing.TB, hosts int) *fabric.Fabric {
	t.Helper()
	f, err := fabric.Generate(fabric.FatTree{Hosts: hosts}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// recable returns f with other cables: each pair of refs is one; a ref with NoRef is left free.
func recable(f *fabric.Fabric, cables ...[2]fabric.Ref) *fabric.Fabric {
	g := f.Clone()
	for _, c := range cables {
		for _, r := range c {
			if p := g.Port(r); p != nil && p.Cabled() {
				g.Port(p.Peer).Peer = fabric.NoRef()
				p.Peer = fabric.NoRef()
			}
		}
	}
	for _, c := range cables {
		if c[0].Valid() && c[1].Valid() {
			width, speed := ib.Width4x, ib.SpeedEDR
			for k, r := range c {
				p := g.Port(r)
				p.Peer, p.Width, p.Speed = c[1-k], width, speed
			}
		}
	}
	return g
}

func links(f *fabric.Fabric) (list [][2]fabric.Ref) {
	for a, b := range f.Links {
		list = append(list, [2]fabric.Ref{a, b})
	}
	return list
}

// plans are the forms in which a fabric can be planned.
func plans(t testing.TB, f *fabric.Fabric) map[string]*Plan {
	t.Helper()
	read := func(text string) *Plan {
		p, err := Read(strings.NewReader(text), "plan")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var netlist, found bytes.Buffer
	if err := fabric.WriteNetlist(&netlist, f); err != nil {
		t.Fatal(err)
	}
	var from fabric.Ref
	for i := range f.Nodes {
		if f.Nodes[i].Type == ib.NodeCA {
			from = fabric.Ref{Node: int32(i), Port: 1}
			break
		}
	}
	if err := fabric.WriteDiscovered(&found, f.Discovered(from), " Topology file"); err != nil {
		t.Fatal(err)
	}
	var names, guids strings.Builder
	names.WriteString("switch,port,node,port\n")
	for a, b := range f.Links {
		n, m := &f.Nodes[a.Node], &f.Nodes[b.Node]
		fmt.Fprintf(&names, "%s, %d, \"%s\", %d\n", m.Name(), b.Port, n.Name(), a.Port)
		fmt.Fprintf(&guids, "%v;%d;%v;%d;%v;%v\n", n.GUID, a.Port, m.GUID, b.Port, f.Port(a).Width, f.Port(a).Speed)
	}
	return map[string]*Plan{
		"netlist": read(netlist.String()), "ibnetdiscover": read(found.String()), "names": read(names.String()), "guids": read(guids.String()),
	}
}

// The right subnet has no findings, however it is planned.
func TestNothingWrong(t *testing.T) {
	for _, kind := range [][]string{
		{"fattree", "648"},
		{"torus", "4x4", "hosts=2"},
		{"dragonfly", "4", "2", "2"},
		{"irregular", "20", "ports=8", "hosts=2"},
	} {
		top, o, err := fabric.ParseTopology(kind[0], kind[1:], 3)
		if err != nil {
			t.Fatal(err)
		}
		f, err := fabric.Generate(top, o)
		if err != nil {
			t.Fatal(err)
		}
		for form, p := range plans(t, f) {
			r := Check(p, f, Options{})
			if len(r.Findings) != 0 || r.Right != f.NumLinks() || r.Planned != r.Right || r.Found != r.Right {
				t.Errorf("%v by %s: %d of %d cables right, findings %+v", kind, form, r.Right, f.NumLinks(), r.Findings)
			}
		}
	}
}

// Each of 1,000 random pairs of cables of a 648-host tree is named as a swap when two of their ends
// are exchanged, with the four ports, and nothing else is.
func TestSwap(t *testing.T) {
	f := tree(t, 648)
	all := links(f)
	forms := plans(t, f)
	names := []string{"netlist", "ibnetdiscover", "names", "guids"}
	rng := rand.New(rand.NewPCG(11, 4))
	for range 1000 {
		i, j := rng.IntN(len(all)), rng.IntN(len(all)-1)
		if j >= i {
			j++
		}
		x, y := all[i], all[j]
		if rng.IntN(2) == 0 {
			y[0], y[1] = y[1], y[0]
		}
		g := recable(f, [2]fabric.Ref{x[0], y[1]}, [2]fabric.Ref{y[0], x[1]})
		form := names[rng.IntN(len(names))]
		r := Check(forms[form], g, Options{})
		if len(r.Findings) != 1 || r.Findings[0].Kind != Swapped {
			t.Fatalf("%v and %v exchanged, by %s: %+v", x, y, form, r.Findings)
		}
		ports := func(list ...[2]fabric.Ref) (out []string) {
			for _, l := range list {
				for _, e := range l {
					out = append(out, fmt.Sprint(f.Nodes[e.Node].Name(), "/", e.Port))
				}
			}
			slices.Sort(out)
			return out
		}
		var said []string
		for _, l := range r.Findings[0].Planned {
			for _, e := range [2]End{l.A, l.B} {
				said = append(said, fmt.Sprint(e.Name, "/", e.Port))
			}
		}
		slices.Sort(said)
		if want := ports(x, y); !slices.Equal(said, want) {
			t.Fatalf("ports %v exchanged, the finding names %v", want, said)
		}
		if !strings.Contains(r.Findings[0].Do, "Exchange the cables in ") {
			t.Fatalf("nothing to do: %q", r.Findings[0].Do)
		}
	}
}

// What can be wrong, one by one, on the 648-host tree.
func TestKinds(t *testing.T) {
	f := tree(t, 324)
	all := links(f)
	plan := FromFabric(f, true)
	none := fabric.NoRef()
	free := func(r fabric.Ref) [2]fabric.Ref { return [2]fabric.Ref{r, none} }
	top := all[len(all)-1]
	last := f.Nodes[top[0].Node]
	rename := func(g *fabric.Fabric, node int32) *fabric.Fabric {
		g = g.Clone()
		g.Nodes[node].GUID, g.Nodes[node].Desc, g.Nodes[node].ID = 0xabcdef, "another", "another"
		return g
	}
	slow := f.Clone()
	slow.Port(all[0][0]).Width, slow.Port(all[0][1]).Width = ib.Width1x, ib.Width1x
	double := f.Clone()
	double.Nodes[0].GUID, double.Nodes[1].GUID = 0xa1, 0xa2
	double.Nodes[0].Desc, double.Nodes[1].Desc = "twin", "twin"
	twin := &Plan{Cables: []Cable{{A: End{Name: "twin", Port: 1}, B: End{Name: double.Nodes[30].Name(), Port: 1}}}}
	for _, c := range []struct {
		name string
		f    *fabric.Fabric
		plan *Plan
		want []Kind
		text string
	}{
		{"one cable out", recable(f, free(all[5][0])), plan, []Kind{Missing}, "a cable is missing"},
		{"two cables out", recable(f, free(all[5][0]), free(all[9][0])), plan, []Kind{Missing, Missing}, "a cable is missing"},
		{"three went round", recable(f, [2]fabric.Ref{all[3][0], all[4][1]}, [2]fabric.Ref{all[4][0], all[5][1]}, [2]fabric.Ref{all[5][0], all[3][1]}), plan, []Kind{Rotated}, "3 cables went round"},
		{
			"one end in the free port of another", recable(f, free(all[7][0]), [2]fabric.Ref{all[6][0], all[7][1]}), plan,
			[]Kind{Moved},
			"planned are",
		},
		{"another node in the place of one", rename(f, all[0][0].Node), plan, []Kind{MissingNode, ExtraNode}, "is not in the subnet"},
		{"narrow", slow, plan, []Kind{Slow}, "1X EDR and planned as 4X EDR"},
		{"twins", double, twin, []Kind{Unclear}, "may be 2 nodes"},
		{
			"a port too many", f, &Plan{Cables: []Cable{{A: End{Name: last.Name(), Port: 200}, B: End{Name: f.Nodes[0].Name(), Port: 1}}}},
			[]Kind{Unclear},
			"ports",
		},
	} {
		r := Check(c.plan, c.f, Options{Partial: c.plan != plan})
		var kinds []Kind
		for _, x := range r.Findings {
			if x.Kind == Extra && c.plan != plan {
				continue // the plan of one cable
			}
			kinds = append(kinds, x.Kind)
			if x.Do == "" {
				t.Errorf("%s: %q has nothing to do", c.name, x.Text)
			}
		}
		if !slices.Equal(kinds, c.want) || !strings.Contains(r.Findings[0].Text, c.text) {
			t.Errorf("%s: %+v", c.name, r.Findings)
		}
	}

	// A cable that nobody planned, between ports that were to be free.
	less := &Plan{Cables: slices.Clone(plan.Cables[1:])}
	less.Bare = []End{{GUID: plan.Cables[0].A.GUID, Name: plan.Cables[0].A.Name}}
	if r := Check(less, f, Options{}); len(r.Findings) != 1 || r.Findings[0].Kind != Extra {
		t.Errorf("one cable too many: %+v", r.Findings)
	}
	// A plan of the switches alone says nothing about hosts, if it is a partial one.
	part := &Plan{}
	for _, x := range plan.Cables {
		if strings.Contains(x.A.Name, "switch") && strings.Contains(x.B.Name, "switch") || x.A.GUID >= fabric.FirstSwitchGUID && x.B.GUID >= fabric.FirstSwitchGUID {
			part.Cables = append(part.Cables, x)
		}
	}
	if r := Check(part, f, Options{Partial: true}); len(r.Findings) != 0 || r.Right != 324 {
		t.Errorf("plan of the switches: %d right, %+v", r.Right, r.Findings)
	}
	if r := Check(part, f, Options{}); len(r.Findings) != 324 || r.Findings[0].Kind != ExtraNode {
		t.Errorf("whole plan of the switches: %d findings", len(r.Findings))
	}
	// Both ends can do more, and the plan does not say what is meant.
	able := func(fabric.Ref) (ib.LinkWidth, ib.LinkSpeed) { return ib.Width4x, ib.SpeedEDR }
	if r := Check(FromFabric(f, false), slow, Options{Able: able}); len(r.Findings) != 1 || r.Findings[0].Kind != Slow || !strings.Contains(r.Findings[0].Text, "both ends can do 4X EDR") {
		t.Errorf("narrower than both ends: %+v", r.Findings)
	}
}

// TestRates: width and speed are compared each for itself: with the plan, or with what both ends can do
// where the plan does not say it. A link that is better than planned has another remedy.
func TestRates(t *testing.T) {
	f := tree(t, 324).Clone()
	x := FromFabric(f, true).Cables[0]
	able := func(fabric.Ref) (ib.LinkWidth, ib.LinkSpeed) { return ib.Width4x, ib.SpeedEDR }
	const reseat, wider = "Reseat the cable", "wider or faster than planned"
	for _, c := range []struct {
		name             string
		width, planWidth ib.LinkWidth
		speed, planSpeed ib.LinkSpeed
		text, do         string
	}{
		{"as planned", ib.Width1x, ib.Width1x, ib.SpeedQDR, ib.SpeedQDR, "", ""},
		{"width alone, as planned", ib.Width4x, ib.Width4x, ib.SpeedEDR, 0, "", ""},
		{"width alone, too slow", ib.Width4x, ib.Width4x, ib.SpeedQDR, 0, "is 4X QDR, and both ends can do 4X EDR", reseat},
		{"speed alone, too narrow", ib.Width1x, 0, ib.SpeedEDR, ib.SpeedEDR, "is 1X EDR, and both ends can do 4X EDR", reseat},
		{"a planned limit of the speed", ib.Width4x, 0, ib.SpeedQDR, ib.SpeedQDR, "", ""},
		{"wider", ib.Width4x, ib.Width1x, ib.SpeedEDR, ib.SpeedEDR, "is 4X EDR and planned as 1X EDR", wider},
		{"faster", ib.Width4x, 0, ib.SpeedEDR, ib.SpeedQDR, "is 4X EDR and planned as 4X QDR", wider},
		{"wider and slower", ib.Width4x, ib.Width1x, ib.SpeedQDR, ib.SpeedEDR, "is 4X QDR and planned as 1X EDR", reseat},
	} {
		for r, p := range f.Links {
			for _, e := range [2]fabric.Ref{r, p} {
				f.Port(e).Width, f.Port(e).Speed = c.width, c.speed
			}
		}
		x.Width, x.Speed = c.planWidth, c.planSpeed
		r := Check(&Plan{Cables: []Cable{x}}, f, Options{Partial: true, Able: able})
		switch {
		case c.text == "" && len(r.Findings) > 0:
			t.Errorf("%s: %+v", c.name, r.Findings)
		case c.text != "" && (len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Text, c.text) || !strings.Contains(r.Findings[0].Do, c.do)):
			t.Errorf("%s: %+v; want %q, %q", c.name, r.Findings, c.text, c.do)
		}
	}
}

// Nodes are found by the names of a map, by the first word of an adapter's description, and by name
// where the GUIDs are others.
func TestNames(t *testing.T) {
	f := tree(t, 324).Clone()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Type == ib.NodeCA {
			n.Desc = fmt.Sprintf("node%d mlx5_0", i)
		}
	}
	var a, b fabric.Ref
	for x, y := range f.Links {
		if a, b = x, y; !f.Nodes[a.Node].IsSwitch() {
			break
		}
	}
	host, leaf := &f.Nodes[a.Node], &f.Nodes[b.Node]
	text := fmt.Sprintf("# hosts\nrack7-leaf,%d,%s,1\n", b.Port, strings.Fields(host.Desc)[0])
	p, err := Read(strings.NewReader(text), "x.csv")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Partial: true, Names: map[ib.GUID]string{leaf.GUID: "rack7-leaf"}}
	if r := Check(p, f, o); r.Right != 1 {
		t.Errorf("by the map and the first word: %+v", r)
	}
	other := f.Clone()
	for i := range other.Nodes {
		other.Nodes[i].GUID += 1 << 40
	}
	if r := Check(FromFabric(f, true), other, Options{}); len(r.Findings) != 0 || r.Right != f.NumLinks() {
		t.Errorf("with other GUIDs: %d right, %d findings", r.Right, len(r.Findings))
	}
	twice := &Plan{Cables: []Cable{
		{A: End{GUID: leaf.GUID, Port: b.Port}, B: End{Name: host.Name(), Port: 1}},
		{A: End{Name: leaf.Name(), Port: b.Port}, B: End{GUID: f.Nodes[0].GUID, Port: 1}},
	}}
	if r := Check(twice, f, Options{Partial: true}); len(r.Findings) == 0 || r.Findings[0].Kind != Unclear || !strings.Contains(r.Findings[0].Text, "two cables for a port") {
		t.Errorf("a port with two cables: %+v", r.Findings)
	}
}

func TestTableErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a,1,b,1\na,1,c,1\n":             `x:2: "a" port 1 has a cable in line 1 already`,
		"a,1,b,1\nc,0,d,1\n":             `x:2: port "0": a port is a number from 1 to 254`,
		"a,1,b,1\nc,1,d\n":               "x:2: 3 fields",
		"a,1,b,1,4x,FAST\n":              `x:1: speed "FAST"`,
		"a,1,b,1,5x\n":                   `x:1: width "5x"`,
		"a,1,0xzz,1\n":                   `x:1: "0xzz" is no GUID`,
		",1,b,1\n":                       "x:1: a node without a name",
		"switch,port,host,port\n":        "x:1: there is no cable",
		"a,1,b,1\n\"c,1,d,1\n":           "x:2: ",
		"a,1,b,1,4x,HDR,red,7\n":         "x:1: 8 fields",
		"leaf-1,19,spine-1\n":            "x:1: 3 fields; a line is: node, port, node, port",
		"# plan\n\nleaf-1;19\nb;1;c;1\n": "x:3: 2 fields",
		"leaf-1 19 spine-1 3\n":          `x:1: "leaf-1 19 spine-1 3" is no line of a table (node, port, node, port, with commas between)`,
		"# c\nnothing\n":                 `x:2: "nothing" is no line of a table`,
		"a,1,a,1\n":                      `x:1: "a" port 1 is both ends of the cable`,
		"a;1;b;300\n":                    `x:1: port "300"`,
		"a,1,b,1\nswitch,port,h,port\n":  `x:2: port "port"`,
	} {
		_, err := Read(strings.NewReader(text), "x")
		var bad *ParseError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
	if _, err := Read(strings.NewReader("nothing\n"), "x"); err == nil {
		t.Error("a text that is no plan was read")
	}
}

// A plan that was read has the cables of its text: written as a table and read again it is the same,
// and its own fabric has no findings.
func FuzzRead(f *testing.F) {
	f.Add([]byte("a,1,b,1\n"))
	f.Add([]byte("switch;port;node;port\nleaf 1;19;0x2c9;1;4x;HDR\n"))
	f.Add([]byte("a\t1\tb\t2\t\tEDR\n# comment\n"))
	f.Add([]byte("Switch 4 \"S-1\" # \"sw, of, four, commas\"\n[1] \"H-1\"[1] # 4xEDR\n\nCa 1 \"H-1\"\n[1] \"S-1\"[1]\n"))
	f.Add([]byte("vendid=0x2c9\nswitchguid=0x10(10)\nSwitch\t36 \"S-10\"\t\t# \"leaf\" base port 0 lid 3 lmc 0\n[1]\t\"S-11\"[1]\ts=4\n\nswitchguid=0x11\nSwitch 36 \"S-11\"\n[1] \"S-10\"[1]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Read(bytes.NewReader(b), "fuzz")
		if err != nil {
			if p != nil {
				t.Fatal("an error and a plan")
			}
			return
		}
		var s strings.Builder
		field := func(e End) string {
			if e.GUID != 0 {
				return e.GUID.String()
			}
			return `"` + strings.ReplaceAll(e.Name, `"`, `""`) + `"`
		}
		table := true
		for _, c := range p.Cables {
			table = table && c.Line > 0
			for _, e := range [2]End{c.A, c.B} {
				if e.Port == 0 || e.Port > fabric.MaxPorts || e.GUID == 0 && e.Name == "" {
					t.Fatalf("end %+v", e)
				}
			}
			fmt.Fprintf(&s, "%s,%d,%s,%d", field(c.A), c.A.Port, field(c.B), c.B.Port)
			if c.Width != 0 || c.Speed != 0 {
				s.WriteString(",")
				if c.Width != 0 {
					s.WriteString(c.Width.String())
				}
				if c.Speed != 0 {
					s.WriteString("," + c.Speed.String())
				}
			}
			s.WriteString("\n")
		}
		if !table || len(p.Cables) == 0 {
			return
		}
		q, err := Read(strings.NewReader("name,port,name,port\n"+s.String()), "again")
		if err != nil {
			t.Fatalf("%v of\n%s", err, s.String())
		}
		if len(q.Cables) != len(p.Cables) {
			t.Fatalf("%d cables, %d again", len(p.Cables), len(q.Cables))
		}
		for i := range p.Cables {
			x, y := p.Cables[i], q.Cables[i]
			if x.Line, y.Line = 0, 0; x != y {
				t.Fatalf("%+v, again %+v", x, y)
			}
		}
	})
}

// Any plan can be compared with any fabric, and each of its cables that are wrong is in one finding.
func FuzzCheck(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, seed, more uint64) {
		rng := rand.New(rand.NewPCG(seed, more))
		g := tree(t, 324)
		all := links(g)
		h := g
		for range rng.IntN(20) {
			x, y := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
			if x[0] == y[0] {
				continue
			}
			if rng.IntN(4) == 0 {
				h = recable(h, [2]fabric.Ref{x[0], fabric.NoRef()})
				continue
			}
			h = recable(h, [2]fabric.Ref{x[rng.IntN(2)], y[rng.IntN(2)]})
		}
		r := Check(FromFabric(g, false), h, Options{})
		wrong, found := 0, 0
		for _, x := range r.Findings {
			wrong += len(x.Planned)
			found += len(x.Found)
		}
		if r.Right+wrong != r.Planned || r.Right+found != r.Found {
			t.Fatalf("%d planned, %d found, %d right, findings have %d and %d", r.Planned, r.Found, r.Right, wrong, found)
		}
		if again := Check(FromFabric(g, false), h, Options{}); fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatal("another result for the same input")
		}
	})
}
