package dftree

import (
	"testing"

	"heddle/internal/reporttest"
	"heddle/lab/experiment/bed"
)

// TestRun: test beds as published, and Figure 13 on a tree of 72 hosts.
func TestRun(t *testing.T) {
	r, err := run(bed.Options{Seed: 1, Runs: 1, Sizes: []int{72}}, []layout{{1, false}, {1, true}}, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	reporttest.MustHold(t, r)
	if _, err := Run(bed.Options{Sizes: []int{100}}); err == nil {
		t.Error("a tree of 100 hosts is no size of the experiment, and was taken")
	}
}

// TestIdealMovesOnlyContributors: the victim keeps its level, and flows to the hot spot
// have that of the slow lane before their first packet.
func TestIdealMovesOnlyContributors(t *testing.T) {
	x := experiments()[0]
	f, err := x.fabric()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newTestBed(f, ideal{}, bed.Wide(), append([]bed.Flow{x.victim}, x.contributors...), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range b.Flows {
		if err := b.begin(ideal{}, f, i > 0); err != nil {
			t.Fatal(err)
		}
		want := idealLevel
		if i == 0 {
			want = 0
		}
		if sl := f.Conn.QP().Path().SL; sl != want {
			t.Errorf("%v has level %d", f.Flow, sl)
		}
	}
	b.rates(second)
	if err := b.check(); err != nil {
		t.Error(err)
	}
}
