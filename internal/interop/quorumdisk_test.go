package interop

import (
	"fmt"
	"testing"
	"time"

	"heddle/internal/etcdtest"
	"heddle/internal/faultdisk"
	"heddle/internal/need"
)

// TestQuorumSlowDisk: the disk of one member of etcd needs longer and longer for each request, and then
// answers hardly any; by turns it leads when that begins. Queries and changes go on, nothing that was acknowledged
// is lost, and no manager becomes master because of it.
func TestQuorumSlowDisk(t *testing.T) {
	need.Long(t)
	d := faultdisk.New(1)
	x := newLedTrio(t, etcdtest.StartOn(t, d, 3))
	first, _ := x.calm()
	for i, each := range []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond, 5 * time.Second, 5 * time.Second} {
		_, at := x.calm()
		x.cluster.Lead(i % 2)
		heal := slow(t, d, each)
		for range 20 {
			x.j.after(time.Now(), 1)
			x.queries.answered(t)
		}
		x.goOn(fmt.Sprintf("the disk of a member needs %v for each request, and it leads: %v", each, i%2 == 0), at)
		heal()
	}
	if now := x.settled(-1); now != first {
		t.Errorf("manager %d is master because a disk was slow; it was %d", now, first)
	}
	x.ended()
}
