package ibsimd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/internal/ibtools"
	"heddle/internal/need"
	"heddle/sim"
)

// tree has two levels: spines, leaves and hosts for each leaf.
func tree(t testing.TB, spines, leaves, hosts int) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	var sp []int
	for s := range spines {
		sp = append(sp, b.AddSwitch(fmt.Sprintf("Spine%d", s), leaves))
	}
	for l := range leaves {
		leaf := b.AddSwitch(fmt.Sprintf("Leaf%d", l), hosts+spines)
		for h := range hosts {
			b.Connect(leaf, h+1, b.AddCA(fmt.Sprintf("H-%d-%d", l, h), 1), 1)
		}
		for s := range spines {
			b.Connect(leaf, hosts+1+s, sp[s], l+1)
		}
	}
	return build(t, &b)
}

// torus has one host on every switch; ports 1 and 2 are +x and -x, 3 and 4 +y
// and -y, 5 the host.
func torus(t testing.TB, x, y int) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	sw := make([]int, x*y)
	for i := range sw {
		sw[i] = b.AddSwitch(fmt.Sprintf("SW-%d-%d", i/y, i%y), 5)
	}
	for i := range sw {
		b.Connect(sw[i], 1, sw[(i/y+1)%x*y+i%y], 2)
		b.Connect(sw[i], 3, sw[i/y*y+(i%y+1)%y], 4)
		b.Connect(sw[i], 5, b.AddCA(fmt.Sprintf("H-%d-%d-0", i/y, i%y), 1), 1)
	}
	return build(t, &b)
}

func build(t testing.TB, b *fabric.Builder) *fabric.Fabric {
	t.Helper()
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func conform(t *testing.T, f *fabric.Fabric, smNode, client string, slow bool) {
	for _, tool := range []string{"ibsim-run", "opensm", "osmtest", "smpquery"} {
		need.Tool(t, tool)
	}
	// Every request is answered, however late OpenSM gets the processor.
	b := serve(t, f, sim.Config{}, Options{AnswerTimeout: need.Patience})
	bench := ibtools.New(t, b.srv.SockName())
	bench.OpenSM(t, smNode, need.Patience)
	begin := time.Now()
	passed, failed := bench.RunChecks(t, client, slow, ibtools.Checks())
	t.Logf("%d passed, %d failed in %v", passed, failed, time.Since(begin).Round(time.Millisecond))
	if t.Failed() {
		return
	}
	t.Run("discovery", func(t *testing.T) { discovery(t, bench, f, client) })
}

// discovery compares what ibnetdiscover and iblinkinfo print with the fabric.
func discovery(t *testing.T, bench *ibtools.Bench, f *fabric.Fabric, client string) {
	r := bench.Run(need.Patience, client, "ibnetdiscover")
	nodes, cables := 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		linked := 0
		for _, p := range n.Ports {
			if p.Peer.Node >= 0 {
				linked++
			}
		}
		if linked == 0 {
			continue
		}
		nodes++
		cables += linked
		if guid := fmt.Sprintf("%x", uint64(n.GUID)); !strings.Contains(r.Out, "guid=0x"+guid) {
			t.Errorf("ibnetdiscover does not show %s, GUID %s", n.ID, guid)
		}
	}
	if got := len(regexp.MustCompile(`(?m)^(Switch|Ca)\s`).FindAllString(r.Out, -1)); got != nodes {
		t.Errorf("ibnetdiscover shows %d nodes, want %d", got, nodes)
	}
	if got := len(regexp.MustCompile(`(?m)^\[\d+\]`).FindAllString(r.Out, -1)); got != cables {
		t.Errorf("ibnetdiscover shows %d cable ends, want %d", got, cables)
	}
	r = bench.Run(need.Patience, client, "iblinkinfo", "-l")
	for line := range strings.SplitSeq(r.Out, "\n") {
		if strings.Contains(line, "LinkUp") && !strings.Contains(line, "Active/") {
			t.Errorf("a link is not active: %s", line)
		}
	}
}

func TestConformance(t *testing.T) {
	t.Run("star", func(t *testing.T) { conform(t, star(t, 2), "S", "H1", false) })
	t.Run("tree", func(t *testing.T) { conform(t, tree(t, 2, 4, 4), "Spine0", "H-0-0", true) })
}

// All checks, osmtest's flows among them, on every kind of net.
func TestConformanceLong(t *testing.T) {
	need.Long(t)
	t.Run("torus", func(t *testing.T) { conform(t, torus(t, 4, 4), "SW-0-0", "H-1-1-0", true) })
	for _, name := range []string{"net.1", "net.2sw2path4hca", "net.2sw2path4hca2port"} {
		t.Run(name, func(t *testing.T) { conform(t, packaged(t, name), "Switch1", "Hca1", true) })
	}
}

// packaged reads an example of Debian's ibsim-utils.
func packaged(t testing.TB, name string) *fabric.Fabric {
	t.Helper()
	file, err := os.Open(examples + name)
	if err != nil {
		need.Missing(t, "ibsim", err.Error())
	}
	defer file.Close()
	f, err := fabric.ReadNetlist(file, fabric.NetlistOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const examples = "/usr/share/doc/ibsim-utils/net-examples/"

// The same list against Debian's ibsim: what fails there as well is not the
// simulator's doing.
func TestConformanceOfIbsim(t *testing.T) {
	need.Long(t)
	path := filepath.Join(t.TempDir(), "net")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := fabric.WriteNetlist(file, tree(t, 2, 4, 4)); err != nil {
		t.Fatal(err)
	}
	bench, _ := ibtools.Ibsim(t, path, sockName())
	bench.OpenSM(t, "Spine0", need.Patience)
	passed, failed := bench.RunChecks(t, "H-0-0", true, ibtools.Checks())
	t.Logf("%d passed, %d failed", passed, failed)
}
