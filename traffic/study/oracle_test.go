package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/traffic"
)

// oracleSeeds are those of a campaign: HEDDLE_SEED alone, HEDDLE_SEEDS of them, or n.
func oracleSeeds(n uint64) (first, end uint64) {
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEED"), 10, 64); err == nil {
		return v, v + 1
	}
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEEDS"), 10, 64); err == nil {
		n = v
	}
	return 0, n
}

// lanesTopology draws a fabric of up to some 30 hosts.
func lanesTopology(r *rand.Rand) fabric.Topology {
	switch r.IntN(4) {
	case 0:
		return fabric.XGFT{Children: []int{4 + r.IntN(20)}, Parents: []int{1}} // one switch
	case 1:
		return fabric.XGFT{Children: []int{2 + r.IntN(4), 2 + r.IntN(4)}, Parents: []int{1, 1 + r.IntN(3)}}
	case 2:
		return fabric.Torus{Dims: []int{3 + r.IntN(2), 3}, Hosts: 1 + r.IntN(2)}
	}
	return fabric.Irregular{Switches: 8 + r.IntN(8), Ports: 6, Hosts: 2, Seed: r.Uint64()}
}

// lanesQuestion draws up to 15 flows at various rates, each on a lane of its own; a
// third of them go to one host. nil: there are none.
func lanesQuestion(t *testing.T, seed uint64, topo fabric.Topology, r *rand.Rand) *Question {
	speed := []ib.LinkSpeed{ib.SpeedQDR, ib.SpeedEDR}[r.IntN(2)]
	f, err := fabric.Generate(topo, fabric.GenerateOptions{Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	q := &Question{
		Name: "test", Fabric: f, Choices: []Choice{{"updn", []route.Engine{updn.Engine{}}}}, VLs: 15,
		Loads: []float64{1}, Options: route.Options{Workers: 1, MaxVLs: 15}, Seeds: 1, First: seed,
		Time: time.Millisecond, Packets: DefaultPackets(),
	}
	o := &q.Packets
	o.Warmup, o.VOQ, o.Reads, o.Buffer = 300*time.Microsecond, true, 15, 15*16384
	hosts, err := q.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	hot := r.IntN(len(hosts))
	for lane := range 4 + r.IntN(12) {
		src, dst := r.IntN(len(hosts)), r.IntN(len(hosts))
		if r.IntN(3) == 0 {
			dst = hot
		}
		if src == dst {
			continue
		}
		spec, err := traffic.Parse(fmt.Sprintf("pair:%s>%s,rate=%d%%,sl=%d,source=constant",
			hosts[src].Name, hosts[dst].Name, 10+r.IntN(91), lane))
		if err != nil {
			t.Fatal(err)
		}
		q.Specs = append(q.Specs, spec)
	}
	if len(q.Specs) == 0 {
		return nil
	}
	return q
}

// acceptedBy is what each pattern gets by a model, in Gb/s.
func acceptedBy(t *testing.T, q *Question, flow bool) []float64 {
	q.Flow = flow
	if err := q.Check(); err != nil {
		t.Fatalf("seed %d: %v", q.First, err)
	}
	_, s := q.route(q.Choices[0])
	outs, err := q.ask(t.Context(), s, 1)
	if err != nil {
		t.Fatalf("seed %d: %v", q.First, err)
	}
	got := make([]float64, len(q.Specs))
	for i := range outs[0].flows {
		got[outs[0].flows[i].demand] += outs[0].flows[i].accepted
	}
	return got
}

// TestLanesAgree: if each flow has a lane of its own, no packet waits behind another
// flow's, and outputs serve the flows in turn. Then packets get the max-min fair
// shares, whatever the fabric and wherever flows meet: each flow within 2 % of a link,
// and the sum within 1 %. On one lane of FIFOs it fails.
func TestLanesAgree(t *testing.T) {
	from, to := oracleSeeds(12)
	met := 0
	for seed := from; seed < to; seed++ {
		r := rand.New(rand.NewPCG(seed, 0x6c616e65))
		topo := lanesTopology(r)
		q := lanesQuestion(t, seed, topo, r)
		if q == nil {
			continue
		}
		want, got := acceptedBy(t, q, true), acceptedBy(t, q, false)
		link, sum, all := q.hosts[0].Gbps, 0.0, 0.0
		for i, x := range want {
			sum, all = sum+got[i], all+x
			if x < link*q.Specs[i].Rate.Share*0.99 {
				met++
			}
			if math.Abs(got[i]-x) > 0.02*link {
				t.Errorf("seed %d, %+v: %s gets %.2f Gb/s by packets, %.2f by fair shares",
					seed, topo, q.Specs[i].Text, got[i], x)
			}
		}
		if math.Abs(sum-all) > 0.01*all {
			t.Errorf("seed %d, %+v: %.2f Gb/s by packets, %.2f by fair shares", seed, topo, sum, all)
		}
	}
	if to-from >= 12 && met < 20 {
		t.Errorf("only %d flows met others", met)
	}
}
