package sm

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
)

// prove verifies tables, with the help of the proof of the last solution if
// they come from it, and adds the trees of the multicast groups. The tables it
// returns are those to install; it returns an error if they may not be.
func (j *Job) prove(t *route.Tables, b *solution, d *fabric.Delta, o route.Options) (*route.Tables, *check.Proof, error) {
	co := check.Options{Workers: o.Workers}
	if len(j.groups) > 0 {
		t = j.withTrees(t, o)
	}
	var p *check.Proof
	if b != nil {
		p = b.proof.Update(j.graph, d, t, co)
	} else {
		p = check.Prove(j.graph, t, co)
	}
	return t, p, p.Err()
}
