package process

import (
	"maps"
	"testing"

	"heddle/replica"
)

// TestPairCounts: takeovers are counted by reason, and the first term of a pair is none.
func TestPairCounts(t *testing.T) {
	p := Pair{takeovers: map[replica.Why]uint64{}}
	for _, g := range []replica.Grant{
		{Why: replica.WhyNewer, First: true}, {Why: replica.WhySilence}, {Why: replica.WhyNewer}, {Why: replica.WhySilence},
	} {
		p.count(g)
	}
	if want := (map[replica.Why]uint64{replica.WhySilence: 2, replica.WhyNewer: 1}); !maps.Equal(p.takeovers, want) {
		t.Errorf("counted %v, want %v", p.takeovers, want)
	}
}
