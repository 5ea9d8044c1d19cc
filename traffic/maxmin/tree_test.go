package maxmin_test

import (
	"math"
	"testing"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/traffic"
	"heddle/traffic/maxmin"
)

// tree is a fat tree with the d-mod-k tables of route/engine/ftree.
type tree struct {
	g     *fabric.Graph
	t     *route.Tables
	hosts []traffic.Host
	net   *maxmin.Net
}

func newTree(t testing.TB, hosts int) *tree {
	t.Helper()
	f, err := fabric.Generate(fabric.FatTree{Hosts: hosts}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := &tree{g: g, hosts: traffic.Hosts(f, g)}
	if x.t, err = (ftree.Engine{}).Compute(g, route.Options{}); err != nil {
		t.Fatal(err)
	}
	x.net = maxmin.Fabric(f, g, x.hosts)
	return x
}

// rates are those of a pattern at full load.
func (x *tree) rates(t testing.TB, spec string, seed uint64) *maxmin.Result {
	t.Helper()
	s, err := traffic.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Bind(x.hosts, seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.net.Rates(x.t, 1, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// accepted is the mean over all hosts, and over the flows, the worst flow, and the
// most flows that ask for one channel: as shares of a link.
func (x *tree) accepted(r *maxmin.Result) (hosts, flows, worst, most float64) {
	link := x.hosts[0].Gbps
	sum := 0.0
	worst = 1
	for i := range r.Flows {
		a := r.Flows[i].Accepted() / link
		sum += a
		worst = min(worst, a)
	}
	for c := range r.Asked {
		most = max(most, r.Asked[c]/r.Capacity[c])
	}
	return sum / float64(len(x.hosts)), sum / float64(len(r.Flows)), worst, most
}

// TestPatterns is cases V17–V23 of the model of the data plane, as far as fair
// shares state them: permutations, shifts, bisections and hot spots on fat trees
// with full bisection. The expected numbers were computed independently.
func TestPatterns(t *testing.T) {
	small := newTree(t, 648)
	for _, c := range []struct {
		id, spec  string
		seeds     int
		field     string // what is compared
		want, tol float64
	}{
		{"V18 accepted", "permutation", 30, "hosts", 0.664, 0.01},
		{"V18 worst flow", "permutation", 30, "worst", 0.21, 0.01},
		{"V18 largest load", "permutation", 30, "most", 4.8, 0.1},
		{"V19", "shift:1", 1, "hosts", 1, 0},
		{"V19", "shift:17", 1, "hosts", 1, 0},
		{"V19", "shift:324", 1, "hosts", 1, 0},
		{"V19", "shift:-5", 1, "hosts", 1, 0},
		{"V21 one way", "bisection:one", 40, "flows", 0.809, 0.01},
		{"V21 both", "bisection:both", 40, "flows", 0.663, 0.01},
		{"V23 one host", "hot:5%:1,queue=host", 2, "cold", 1 / (0.05*647 + 0.95*646/647), 0.001},
		{"V23 three", "hot:5%:3,queue=host", 2, "cold", 0.0855, 0.001},
		{"V23 nine", "hot:5%:9,queue=host", 2, "cold", 0.222, 0.002},
	} {
		t.Run(c.id+" "+c.spec, func(t *testing.T) {
			got := small.mean(t, c.spec, c.seeds, c.field)
			if math.Abs(got-c.want) > c.tol {
				t.Errorf("%s of %d seeds: %.4f, want %.4f ± %g", c.field, c.seeds, got, c.want, c.tol)
			}
		})
	}
}

// mean is the mean over seeds of one figure.
func (x *tree) mean(t testing.TB, spec string, seeds int, field string) float64 {
	sum := 0.0
	for seed := range seeds {
		r := x.rates(t, spec, uint64(seed))
		hosts, flows, worst, most := x.accepted(r)
		cold := r.Flows[0].Rate / x.hosts[0].Gbps
		sum += map[string]float64{"hosts": hosts, "flows": flows, "worst": worst, "most": most, "cold": cold}[field]
	}
	return sum / float64(seeds)
}

// TestLargePatterns is V19–V21 on three levels.
func TestLargePatterns(t *testing.T) {
	if testing.Short() {
		t.Skip("a tree of 11,664 hosts")
	}
	x := newTree(t, 11664)
	for _, c := range []struct {
		id, spec  string
		seeds     int
		field     string
		want, tol float64
	}{
		{"V19", "shift:1", 1, "hosts", 1, 0},
		{"V19", "shift:5000", 1, "hosts", 1, 0},
		{"V20 accepted", "permutation", 4, "hosts", 0.515, 0.01},
		{"V20 largest load", "permutation", 8, "most", 6.5, 0.35},
		{"V21 one way", "bisection:one", 3, "flows", 0.68, 0.01},
		{"V21 both", "bisection:both", 3, "flows", 0.514, 0.01},
	} {
		t.Run(c.id+" "+c.spec, func(t *testing.T) {
			if got := x.mean(t, c.spec, c.seeds, c.field); math.Abs(got-c.want) > c.tol {
				t.Errorf("%s of %d seeds: %.4f, want %.4f ± %g", c.field, c.seeds, got, c.want, c.tol)
			}
		})
	}
}

// TestPermutationLoad is V17: with one flow for each host, what is accepted is the
// number of uplinks in use and of flows inside leaves.
func TestPermutationLoad(t *testing.T) {
	x := newTree(t, 648)
	for seed := range uint64(20) {
		r := x.rates(t, "permutation", seed)
		used, inside := 0, 0
		for c := range x.g.Channels {
			if r.Asked[c] > 0 && x.leaf(x.g.Channels[c].From) {
				used++
			}
		}
		for i := range r.Flows {
			if f := &r.Flows[i]; x.hosts[f.Src].Switch == x.hosts[f.Dst].Switch {
				inside++
			}
		}
		hosts, _, _, _ := x.accepted(r)
		if want := float64(used+inside) / 648; math.Abs(hosts-want) > 1e-9 {
			t.Errorf("seed %d: accepted %.6f, want (%d + %d)/648 = %.6f", seed, hosts, used, inside, want)
		}
	}
}

func (x *tree) leaf(sw int32) bool {
	for i := range x.hosts {
		if x.hosts[i].Switch == sw {
			return true
		}
	}
	return false
}

// TestPatternLoad is V22: route/check finds the same loads in its own way.
func TestPatternLoad(t *testing.T) {
	x := newTree(t, 648)
	p := check.PatternLoad(x.g, x.t, check.Permutation, check.PatternOptions{Rounds: 100})
	got := x.mean(t, "permutation", 100, "most")
	if math.Abs(got-p.MeanMaxLoad) > 0.12 || math.Abs(p.MeanMaxLoad-4.8) > 0.1 {
		t.Errorf("largest load %.3f here, %.3f in route/check; want 4.80", got, p.MeanMaxLoad)
	}
	// Its share of a flow is 1/load: never above the fair share.
	b := check.PatternLoad(x.g, x.t, check.Bisect, check.PatternOptions{Rounds: 100})
	if got := x.mean(t, "bisection", 100, "flows"); math.Abs(got-b.MeanShare) > 0.01 {
		t.Errorf("bisection %.4f here, %.4f in route/check", got, b.MeanShare)
	}
}

func BenchmarkRates(b *testing.B) {
	x := newTree(b, 648)
	for _, spec := range []string{"permutation", "random", "random,queue=destination"} {
		b.Run(spec, func(b *testing.B) {
			for b.Loop() {
				x.rates(b, spec, 1)
			}
		})
	}
}
