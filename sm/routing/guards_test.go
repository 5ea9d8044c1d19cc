package routing

import (
	"testing"
	"time"

	"heddle/internal/installtest"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/job"
)

// TestGuardsAreReplaced: a sweep that computes tables anew repairs a fault with guards, and leaves no
// destination that waits. Another job follows all the same, which removes the guards.
func TestGuardsAreReplaced(t *testing.T) {
	for _, guards := range []int{0, 2} {
		x := &fixture{Network: installtest.New(t, "switches 2\nlink s0 s1\nhost s0\nhost s1")}
		x.Config.ImproveDelay = time.Second
		x.r = New(&x.Env, x.Install, Needs{Groups: none{}, LIDs: none{}, Placements: none{}, Lanes: x, Jobs: x})
		x.r.anew = true
		x.Install.Want(&route.Tables{NumVLs: 2})
		x.r.planImprovement(&job.Result{
			Base: &job.Solution{}, Partial: true, Plan: &transition.Plan{Fitted: &transition.Fitted{Guards: guards}},
		})
		if got := x.r.Next() != mad.Never; got != (guards > 0) {
			t.Errorf("%d guards: another job follows: %v", guards, got)
		}
	}
}
