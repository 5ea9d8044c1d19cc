package lab

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/sm"
)

// stream is the generator of one property of a seed's schedule. Each property has a stream
// of its own: no two go together, and a new one changes no other.
func stream(seed uint64, property string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(property))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// pick draws one value of a property.
func pick[T any](seed uint64, property string, of ...T) T {
	return of[stream(seed, property).IntN(len(of))]
}

// drawn is what a seed says about routing: a chain of engines, and a small fabric that its
// first engine routes.
type drawn struct {
	what    string
	chain   RepairChain
	fabric  *fabric.Fabric
	inForce map[string]bool // engines whose tables were installed at some time
}

func drawRouting(seed uint64) *drawn {
	chain, net := vmRouting(seed, stream(seed, "net"))
	return &drawn{
		what: chain.Name + " on " + net, chain: chain, fabric: makeNet(net, stream(seed, "fabric").Uint64()), inForce: map[string]bool{},
	}
}

// apply gives a configuration the chain.
func (d *drawn) apply(cfg *sm.Config) {
	cfg.Engines, cfg.Explicit = slices.Clone(d.chain.Engines), len(d.chain.Engines) == 1
}

// watch notes which engines' tables a manager installs.
func (d *drawn) watch(m *Manager) {
	next := m.OnPublish
	m.OnPublish = func() {
		if m.Up() && m.Snap.Tables != nil {
			d.inForce[m.Snap.Engine] = true
		}
		if next != nil {
			next()
		}
	}
	if m.Snap != nil && m.Up() && m.Snap.Tables != nil {
		d.inForce[m.Snap.Engine] = true
	}
}

// TestDrawsAreIndependent: no property of a schedule correlates with the chain of engines or
// with another property.
func TestDrawsAreIndependent(t *testing.T) {
	const seeds = 14_000
	type pair struct{ a, b string }
	together, alone := map[pair]int{}, map[string]int{}
	for seed := uint64(1); seed <= seeds; seed++ {
		values := []string{
			"chain " + drawName(seed), "loss " + pick(seed, "loss", "0", "1", "2"), "kill " + pick(seed, "kill", "no", "yes"),
			"net " + pick(seed, "net of groups", "0", "1", "2", "3"),
		}
		for i, a := range values {
			alone[a]++
			for _, b := range values[i+1:] {
				together[pair{a, b}]++
			}
		}
	}
	for p, n := range together {
		if want := float64(alone[p.a]) * float64(alone[p.b]) / seeds; float64(n) < want*0.7 || float64(n) > want*1.3 {
			t.Errorf("%q and %q come together %d times, want about %.0f", p.a, p.b, n, want)
		}
	}
	if len(together) != 14*0+12*3+12*2+12*4+3*2+3*4+2*4 {
		t.Errorf("%d pairs of values come together", len(together))
	}
}

func drawName(seed uint64) string {
	chain, _ := vmRouting(seed, stream(seed, "net"))
	return chain.Name
}
