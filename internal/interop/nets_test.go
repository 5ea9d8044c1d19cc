package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
)

// A testNet is a fabric that the tests bring up, with where the manager sits.
type testNet struct {
	name   string
	gen    []string // arguments of `heddle topo gen`
	file   string   // or one of ibsim's example nets
	sm     string   // node of the manager; "" = the first switch
	long   bool     // only in make test-long
	engine string   // engine that --engine auto must end up with; "" = any
}

var testNets = []testNet{
	{name: "irregular-32", gen: []string{"irregular", "32"}},
	{name: "tree-648", gen: []string{"fattree", "648"}, engine: "ftree", long: true},
	{name: "torus-8x8", gen: []string{"torus", "8x8"}, engine: "updn"},
	{name: "tree-324", gen: []string{"fattree", "324"}, engine: "ftree", long: true},
	{name: "net.1", file: "net.1"},
	{name: "net.2sw2path4hca", file: "net.2sw2path4hca"},
	{name: "net.2sw2path4hca2port", file: "net.2sw2path4hca2port"},
}

// built is a testNet as a file with its parsed form.
type built struct {
	testNet
	dir  string
	path string
	fab  *fabric.Fabric
	sm   string
	cas  []string // ids of the CAs
}

func (n testNet) build(t *testing.T) built {
	t.Helper()
	b := built{testNet: n, dir: t.TempDir()}
	var text []byte
	if n.file != "" {
		text = exampleNet(t, n.file)
	} else {
		text = []byte(must(t, upTime, b.dir, nil, heddle, append([]string{"topo", "gen"}, n.gen...)...))
	}
	b.path = filepath.Join(b.dir, "fabric.net")
	if err := os.WriteFile(b.path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := fabric.ReadNetlist(bytes.NewReader(text), fabric.NetlistOptions{Name: n.name})
	if err != nil {
		t.Fatal(err)
	}
	b.fab, b.sm = f, n.sm
	for i := range f.Nodes {
		switch nd := &f.Nodes[i]; nd.Type {
		case ib.NodeCA:
			b.cas = append(b.cas, nd.ID)
		case ib.NodeSwitch:
			if b.sm == "" {
				b.sm = nd.ID
			}
		}
	}
	return b
}

// exampleNet reads one of the netlists that Debian ships with ibsim.
func exampleNet(t *testing.T, name string) []byte {
	t.Helper()
	list := must(t, upTime, "", nil, need.Tool(t, "dpkg"), "-L", "ibsim-utils")
	for l := range strings.SplitSeq(list, "\n") {
		if strings.HasSuffix(l, "/net-examples/"+name) {
			b, err := os.ReadFile(l)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	t.Fatalf("ibsim-utils has no example net %q", name)
	return nil
}

// cables lists the cables of a fabric by GUIDs and ports, each once, lower end
// first, in order: what two descriptions of one fabric must agree in.
func cables(f *fabric.Fabric) []string {
	var out []string
	for a, b := range f.Links {
		x := fmt.Sprintf("%v[%d]", f.Nodes[a.Node].GUID, a.Port)
		y := fmt.Sprintf("%v[%d]", f.Nodes[b.Node].GUID, b.Port)
		if y < x {
			x, y = y, x
		}
		out = append(out, x+" - "+y)
	}
	slices.Sort(out)
	return out
}

// diff tells the first differences of two sorted lists.
func diff(got, want []string) string {
	var b strings.Builder
	n := 0
	for _, g := range got {
		if _, ok := slices.BinarySearch(want, g); !ok && n < 5 {
			n++
			fmt.Fprintf(&b, "unexpected %s\n", g)
		}
	}
	for _, w := range want {
		if _, ok := slices.BinarySearch(got, w); !ok && n < 10 {
			n++
			fmt.Fprintf(&b, "missing %s\n", w)
		}
	}
	return b.String()
}
