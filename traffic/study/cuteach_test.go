package study

import (
	"context"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/updn"
)

// cut names cables by one of their ends.
func cut(t testing.TB, q *Question, ports ...string) (out []fabric.Ref) {
	t.Helper()
	for _, text := range ports {
		r, err := FindPort(q.Fabric, text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestCutPackets: for each cable the ranking has what --cut says of it, to the
// packet; and where nothing was simulated, the whole history is that without the cut.
func TestCutPackets(t *testing.T) {
	for _, spec := range []string{"permutation", "shift:3,rate=50%", "hot:20%:1,hosts=host-1*", "pair:host-1>host-9"} {
		q := packets(t, smallTree, spec)
		q.CutEach, q.CutPackets, q.Seeds = true, -1, 2
		e := answer(t, q).Engines[0]
		if len(e.Costs) != 32 || e.Simulated != 32 {
			t.Fatalf("%s: %d cables, %d simulated", spec, len(e.Costs), e.Simulated)
		}
		same := 0
		for i, c := range e.Costs {
			if i > 0 && c.Packets.Cost > e.Costs[i-1].Packets.Cost {
				t.Errorf("%s: %s costs more than the one before", spec, c.Cable)
			}
			name, _, _ := strings.Cut(c.Cable, " ")
			one := packets(t, smallTree, spec)
			one.Cuts, one.Seeds = cut(t, one, name), 2
			x := answer(t, one).Engines[0]
			after := x.Cut.Points[0]
			if c.Packets.Accepted != after.Accepted || c.Packets.Worst != after.Worst || c.Packets.P99 != after.Packets.P99 {
				t.Errorf("%s: %s: %+v, --cut says %+v", spec, c.Cable, c.Packets, after)
			}
			if !c.Packets.Same {
				continue
			}
			if same++; x.Points[0].Packets.Hash != after.Packets.Hash {
				t.Errorf("%s: %s was not simulated, and changes what is delivered", spec, c.Cable)
			}
		}
		if strings.HasPrefix(spec, "pair") && same != 28 {
			t.Errorf("%s: %d cables are without use, want all but 4", spec, same)
		}
	}
}

// TestCutPacketsSome: packets are asked about the dearest of each kind, which come
// first; an interruption leaves what was done.
func TestCutPacketsSome(t *testing.T) {
	q := packets(t, smallTree, "permutation")
	q.CutEach, q.CutPackets, q.Options.Workers = true, 3, 1
	e := answer(t, q).Engines[0]
	least := [2]float64{1, 1}
	for i, c := range e.Costs {
		k := 0
		if c.Host {
			k = 1
		}
		if (c.Packets != nil) != (i < 6) {
			t.Errorf("place %d: packets asked %v", i, c.Packets != nil)
		}
		if c.Packets != nil {
			least[k] = min(least[k], c.Shares.Cost)
		} else if c.Shares.Cost > least[k] {
			t.Errorf("%s costs more than one that packets were asked about", c.Cable)
		}
	}
	if e.Simulated != 6 || !strings.Contains(e.RankText(), "6 of the dearest 6 by packets too") {
		t.Errorf("%d simulated: %s", e.Simulated, e.RankText())
	}
	dearest := e.kindOf(false)[0]
	if text := e.KindText(false); !strings.Contains(text, "at most "+dearest.Packets.text()+" by packets, ") {
		t.Errorf("%s; the dearest is %+v", text, dearest.Packets)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, err := q.Answer(ctx, func(what string, share float64) {
		if strings.Contains(what, "by packets") && share >= 2./6 {
			cancel()
		}
	})
	if err != nil || !a.Interrupted || len(a.Engines[0].Costs) != 32 {
		t.Fatalf("%v: %+v", err, a)
	}
	if text := a.Engines[0].RankText(); !strings.Contains(text, "2 of the dearest 6 by packets") {
		t.Error(text)
	}
}

// TestHits: who loses how much, and what others get stays as it was: they draw the
// same with and without the host.
func TestHits(t *testing.T) {
	for _, flow := range []bool{true, false} {
		q := packets(t, smallTree, "shift:4,rate=40%")
		q.Flow, q.CutEach, q.CutPackets = flow, true, -1
		e := answer(t, q).Engines[0]
		for _, c := range e.Costs {
			l := c.best()
			if !c.Host {
				continue
			}
			host := c.CutOff[0]
			if len(c.CutOff) != 1 || !strings.HasPrefix(c.Cable, host+":") && !strings.Contains(c.Cable, " - "+host+":") {
				t.Errorf("%s cuts off %q", c.Cable, c.CutOff)
			}
			// It sends to one, and one sends to it.
			if l.Senders != 2 || len(l.Hit) != 2 {
				t.Errorf("%s: %v senders lose: %+v", c.Cable, l.Senders, l.Hit)
			}
			for _, h := range l.Hit {
				src, dst, _ := strings.Cut(h.Flow, " > ")
				if src != host && dst != host || h.After != 0 || h.Before < 30 || h.Before > 50 {
					t.Errorf("%s: %+v", c.Cable, h)
				}
			}
		}
	}
}

// barbell is two switches of 2 and 3 hosts with one cable between; one of the hosts
// has a cable to each of them.
func barbell(t testing.TB) *fabric.Fabric {
	t.Helper()
	b := fabric.Builder{}
	for _, name := range []string{"a", "b", "c", "d"} {
		b.AddCA(name, 1)
	}
	two := b.AddCA("two", 2)
	left, right := b.AddSwitch("left", 4), b.AddSwitch("right", 4)
	for i := range 2 {
		b.Connect(i, 1, left, i+1)
		b.Connect(2+i, 1, right, i+1)
	}
	b.Connect(two, 1, right, 3)
	b.Connect(left, 4, right, 4)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCutOff: a cable that was the only way cuts off the smaller side.
func TestCutOff(t *testing.T) {
	q := packets(t, smallTree, "shift:2,rate=10%")
	q.Fabric, q.Choices = barbell(t), []Choice{{"updn", []route.Engine{updn.Engine{}}}}
	q.CutEach, q.CutPackets = true, -1
	e := answer(t, q).Engines[0]
	if len(e.Unanswered) > 0 {
		t.Fatal(e.Unanswered)
	}
	for _, c := range e.Costs {
		want := []string{"a", "b"}
		if c.Host {
			name, _, _ := strings.Cut(c.Cable, ":")
			want = []string{name}
		}
		if !slices.Equal(c.CutOff, want) || c.Shares.Lost == 0 || c.Packets.Cost <= 0 {
			t.Errorf("%s cuts off %q, want %q; %+v", c.Cable, c.CutOff, want, c.best())
		}
	}
}

// TestCostTable: a line for each engine and cable, of equal length.
func TestCostTable(t *testing.T) {
	q := packets(t, smallTree, "permutation")
	q.CutEach, q.CutPackets = true, 2
	q.Choices = append(q.Choices, Choice{"updn", []route.Engine{updn.Engine{}}})
	a := answer(t, q)
	var b strings.Builder
	if err := a.CostTable(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 1+2*32 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	packets := 0
	for _, r := range rows[1:] {
		if r[4] != "" {
			packets++
		}
	}
	if packets != 8 {
		t.Errorf("%d rows with packets, want 2 of each kind and engine", packets)
	}
}
