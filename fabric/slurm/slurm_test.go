package slurm_test

import (
	"fmt"
	"io"
	"os"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"heddle/fabric"
	"heddle/fabric/hosts"
	"heddle/fabric/slurm"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/proc"
)

// railed is a fat tree of two units of hosts with four adapters each, every adapter on the leaf of its rail.
func railed(t testing.TB) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	spine := b.AddSwitch("spine", 16)
	for unit := range 2 {
		for rail := range 4 {
			leaf := b.AddSwitch(fmt.Sprintf("leaf-%d-%d", unit, rail), 16)
			b.Connect(leaf, 16, spine, 1+4*unit+rail)
			for h := range 6 {
				ca := b.AddCA(fmt.Sprintf("u%dh%02d mlx5_%d", unit, h, rail), 1)
				b.Connect(leaf, h+1, ca, 1)
			}
		}
	}
	return built(t, &b)
}

// managed is a tree of two levels with a management host on a spine, an adapter without a name, and an idle
// leaf.
func managed(t testing.TB) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	spines := []int{b.AddSwitch("s0", 8), b.AddSwitch("s1", 8)}
	for l := range 3 {
		leaf := b.AddSwitch(fmt.Sprintf("l%d", l), 8)
		for k, s := range spines {
			b.Connect(leaf, 7+k, s, 1+l)
		}
		for h := range 4 {
			b.Connect(leaf, 1+h, b.AddCA(fmt.Sprintf("n%d", 4*l+h+7), 1), 1)
		}
	}
	b.Connect(spines[0], 8, b.AddCA("admin", 1), 1)
	strange := b.AddCA("strange", 1)
	b.Node(strange).Desc = "[not a name]\n"
	b.Connect(spines[0], 7, strange, 1)
	b.Connect(b.AddSwitch("idle", 8), 8, spines[1], 4)
	return built(t, &b)
}

func built(t testing.TB, b *fabric.Builder) *fabric.Fabric {
	t.Helper()
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func generated(t testing.TB, kind string, params ...string) *fabric.Fabric {
	t.Helper()
	top, o, err := fabric.ParseTopology(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.Generate(top, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fabrics(t testing.TB) map[string]*fabric.Fabric {
	return map[string]*fabric.Fabric{
		"two levels":   generated(t, "fattree", "324"),
		"three levels": generated(t, "kary", "4", "3"),
		"torus":        generated(t, "torus", "4x4", "hosts=2"),
		"dragonfly":    generated(t, "dragonfly", "4", "2", "2"),
		"irregular":    generated(t, "irregular", "12", "hosts=2"),
		"rails":        railed(t),
		"managed":      managed(t),
	}
}

// names are those of all hosts, in natural order.
func names(f *fabric.Fabric) []string {
	all, _ := hosts.All(f, nil)
	var out []string
	for _, h := range all {
		out = append(out, h.Name)
	}
	return out
}

// TestTree: every host is below one leaf, every switch but the top has one parent, which comes after it.
func TestTree(t *testing.T) {
	depth := map[string]int{"two levels": 2, "three levels": 3, "torus": 2, "dragonfly": 2, "irregular": 3, "rails": 2, "managed": 2}
	for name, f := range fabrics(t) {
		t.Run(name, func(t *testing.T) {
			top, err := slurm.New(f, slurm.Options{})
			if err != nil {
				t.Fatal(err)
			}
			level, below := map[string]int{}, map[string]int{}
			var placed []string
			for _, s := range top.Switches {
				if _, twice := level[s.Name]; twice || len(s.Name) >= 64 {
					t.Errorf("switch %q: there are two, or its name is too long", s.Name)
				}
				if (s.Hosts == nil) == (s.Children == nil) || len(s.Children) == 1 {
					t.Errorf("switch %s has hosts %q and children %q", s.Name, s.Hosts, s.Children)
				}
				level[s.Name] = 1
				placed = append(placed, s.Hosts...)
				for _, c := range s.Children {
					if level[c] == 0 {
						t.Errorf("%s comes before its child %s", s.Name, c)
					}
					level[s.Name] = max(level[s.Name], level[c]+1)
					below[c]++
				}
			}
			tops := 0
			for s := range level {
				if below[s] == 0 {
					tops++
				}
				if below[s] > 1 {
					t.Errorf("%s has %d parents", s, below[s])
				}
			}
			slices.SortFunc(placed, hosts.Natural)
			if want := names(f); !slices.Equal(placed, want) || len(want) == 0 {
				t.Errorf("hosts %q, want %q", placed, want)
			}
			if last := top.Switches[len(top.Switches)-1]; tops != 1 || level[last.Name] != depth[name] {
				t.Errorf("%d switches without a parent; %d levels, want %d", tops, level[last.Name], depth[name])
			}
		})
	}
}

// TestSlurmctld: Debian's Slurm takes our topology.conf and has the same switches and hosts.
func TestSlurmctld(t *testing.T) {
	need.Tool(t, "slurmctld")
	need.Tool(t, "scontrol")
	for name, f := range fabrics(t) {
		t.Run(name, func(t *testing.T) {
			top, err := slurm.New(f, slurm.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := top.WriteConf(&text); err != nil {
				t.Fatal(err)
			}
			show := slurmctld(t, text.String(), slurm.Fold(names(f)))
			var leaves, want []string
			for l := range strings.Lines(show) {
				var s, level, nodes string
				for w := range strings.FieldsSeq(l) {
					k, v, _ := strings.Cut(w, "=")
					switch k {
					case "SwitchName":
						s = v
					case "Level":
						level = v
					case "Nodes":
						nodes = v
					}
				}
				if level == "0" {
					leaves = append(leaves, s+" "+nodes)
				}
			}
			for _, s := range top.Switches {
				if s.Hosts != nil {
					want = append(want, s.Name+" "+slurm.Fold(s.Hosts))
				}
			}
			slices.Sort(leaves)
			slices.Sort(want)
			if !slices.Equal(leaves, want) || strings.Count(show, "SwitchName=") != len(top.Switches) {
				t.Errorf("Slurm shows\n%s\nof\n%s", show, text.String())
			}
		})
	}
}

// slurmctld starts Slurm's controller with a topology and these nodes, and returns what it shows of it.
func slurmctld(t *testing.T, topology, nodes string) string {
	t.Helper()
	dir := t.TempDir()
	user := "root"
	if u, err := osuser.Current(); err == nil {
		user = u.Username
	}
	port := need.Port(t, 2)
	conf := fmt.Sprintf(`ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%d
SlurmdPort=%d
SlurmUser=%s
AuthType=auth/none
CredType=cred/none
StateSaveLocation=%[4]s
SlurmctldPidFile=%[4]s/pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
TopologyPlugin=topology/tree
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=%[5]s NodeAddr=127.0.0.1 CPUs=1
PartitionName=all Nodes=ALL Default=YES
`, port, port+1, user, dir, nodes)
	file := filepath.Join(dir, "slurm.conf")
	for f, text := range map[string]string{file: conf, filepath.Join(dir, "topology.conf"): topology} {
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"SLURM_CONF=" + file}
	daemon, err := proc.Start(proc.Command(dir, env, "slurmctld", "-D", "-vv"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(daemon.Kill)
	if err := daemon.WaitFor("Running as primary controller", need.Patience); err != nil {
		t.Fatal(err)
	}
	r := proc.Run(need.Patience, proc.Command(dir, env, "scontrol", "--oneliner", "show", "topology"))
	if r.Err != nil || r.Code != 0 {
		t.Fatalf("scontrol: %v, exit %d\n%s\n%s", r.Err, r.Code, r.Out, daemon.Output())
	}
	for l := range strings.Lines(daemon.Output()) {
		if strings.Contains(l, "topology/tree") && (strings.Contains(l, "error") || strings.Contains(l, "WARNING")) {
			t.Errorf("slurmctld: %s", l)
		}
	}
	return r.Out
}

// TestRails: what becomes of hosts with an adapter on each of four leaves.
func TestRails(t *testing.T) {
	f := railed(t)
	named := map[ib.GUID]string{}
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			named[f.Nodes[i].GUID] = f.Nodes[i].ID
		}
	}
	for rails, want := range map[string]string{
		"merge": "SwitchName=rails-leaf-0-0 Nodes=u0h[00-05]\nSwitchName=rails-leaf-1-0 Nodes=u1h[00-05]\n" +
			"SwitchName=group-spine Switches=rails-leaf-0-0,rails-leaf-1-0\n",
		"first": "SwitchName=leaf-0-0 Nodes=u0h[00-05]\nSwitchName=leaf-1-0 Nodes=u1h[00-05]\nSwitchName=group-spine Switches=leaf-0-0,leaf-1-0\n",
		"3":     "SwitchName=leaf-0-2 Nodes=u0h[00-05]\nSwitchName=leaf-1-2 Nodes=u1h[00-05]\nSwitchName=group-spine Switches=leaf-0-2,leaf-1-2\n",
		"5":     "",
	} {
		r, err := slurm.ParseRails(rails)
		if err != nil {
			t.Fatal(err)
		}
		top, err := slurm.New(f, slurm.Options{Rails: r, Names: named})
		if (err != nil) != (want == "") {
			t.Fatalf("rails %s: %v", rails, err)
		}
		if err != nil {
			continue
		}
		if got := lines(t, top.WriteConf); got != want {
			t.Errorf("rails %s:\n%swant\n%s", rails, got, want)
		}
	}
	for _, bad := range []string{"0", "65", "all", "-1"} {
		if _, err := slurm.ParseRails(bad); err == nil {
			t.Errorf("rails %q are taken", bad)
		}
	}
}

// lines is what write writes, without comments.
func lines(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var all, b strings.Builder
	if err := write(&all); err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(all.String()) {
		if !strings.HasPrefix(l, "#") {
			b.WriteString(l)
		}
	}
	return b.String()
}

// TestManaged: a management host on a spine does not make a leaf of the spine's group, and what has no name
// is named in a comment of one line.
func TestManaged(t *testing.T) {
	top, err := slurm.New(managed(t), slurm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := top.Switches[len(top.Switches)-1]
	if len(last.Children) != 4 {
		t.Errorf("the top has %q, want three leaves and the spine with a host", last.Children)
	}
	var b strings.Builder
	if err := top.WriteConf(&b); err != nil {
		t.Fatal(err)
	}
	if len(top.LeftOut) != 1 || strings.Count(b.String(), "\n# left out: ") != 1 {
		t.Errorf("left out %q\n%s", top.LeftOut, b.String())
	}
}

// TestYAML: topology.yaml has the fields of topology.yaml(5), and what topology.conf has.
func TestYAML(t *testing.T) {
	f := generated(t, "kary", "4", "3")
	top, err := slurm.New(f, slurm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	type named struct {
		Switch, Children, Nodes, Block string
	}
	type topology struct {
		Topology       string
		ClusterDefault bool `yaml:"cluster_default"`
		Tree           struct{ Switches []named }
		Block          struct {
			BlockSizes []int `yaml:"block_sizes"`
			Blocks     []named
		}
	}
	var tree, blocks []topology
	if err := yaml.UnmarshalWithOptions([]byte(lines(t, top.WriteYAML)), &tree, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if len(tree) != 1 || !tree[0].ClusterDefault || len(tree[0].Tree.Switches) != len(top.Switches) {
		t.Fatalf("%+v", tree)
	}
	for i, s := range tree[0].Tree.Switches {
		if w := top.Switches[i]; s.Switch != w.Name || s.Nodes != slurm.Fold(w.Hosts) || s.Children != slurm.Fold(w.Children) {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
	text := lines(t, func(w io.Writer) error { return top.WriteBlocks(w, 4, true) })
	if err := yaml.UnmarshalWithOptions([]byte(text), &blocks, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if b := blocks[0].Block; !slices.Equal(b.BlockSizes, []int{4, 8, 16, 32, 64}) || len(b.Blocks) != 16 {
		t.Errorf("%+v", b)
	}
	conf := lines(t, func(w io.Writer) error { return top.WriteBlocks(w, 4, false) })
	if strings.Count(conf, "BlockName=") != 16 || !strings.HasSuffix(conf, "BlockSizes=4,8,16,32,64\n") {
		t.Error(conf)
	}
	if err := top.WriteBlocks(io.Discard, 5, false); err == nil {
		t.Error("blocks of 5 hosts, of leaves with 4")
	}
}

func TestFold(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"n1":                      "n1",
		"n1 n2 n3 n7 n8 n10":      "n[1-3,7-8,10]",
		"n08 n09 n10":             "n[08-10]",
		"n9 n10 n011":             "n[9-10],n011",
		"login n1 n3 rack2-1":     "login,n[1,3],rack2-1",
		"a1b a2b":                 "a1b,a2b",
		"n1234567890 n1234567891": "n1234567890,n1234567891",
	} {
		if got := slurm.Fold(strings.Fields(in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
