package sm

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
)

// proof is what is kept of a verification.
type proof struct {
	report *check.Report
}

// prove verifies tables, with the help of the proof of the last solution if
// they come from it, and adds the trees of the multicast groups. The tables it
// returns are those to install; it returns an error if they may not be.
func (j *Job) prove(t *route.Tables, b *solution, d *fabric.Delta, o route.Options) (*route.Tables, *proof, error) {
	rep := check.Verify(j.graph, t, check.Options{Workers: o.Workers})
	if err := rep.Err(); err != nil {
		return t, &proof{report: rep}, err
	}
	return t, &proof{report: rep}, nil
}
