package lab

import "testing"

// TestVMs: virtual machines are made, attached, migrated, rolled back, given keys and ended,
// while links, switches, hypervisors, VPorts and managers fail; when the faults end the
// switches hold tables that deliver every LID and cannot deadlock. Each VM is at its last
// published place and reachable there, by members of its partitions alone. No address was ever
// at two functions, and no operation is incomplete.
func TestVMs(t *testing.T) {
	first, n := seeds(28, 10_000)
	asked, done, through, looks := 0, 0, 0, 0
	engines := inForce{}
	for s := first; s < first+n; s++ {
		tr := vmTrial(s)
		tr.Trace = n == 1
		err := tr.Run()
		if err != nil {
			t.Errorf("replay with HEDDLE_SEED=%d\n%s", s, tr.Report(err))
			return
		}
		engines.add(tr.InForce)
		asked, done, through, looks = asked+tr.Asked, done+tr.Done, through+tr.Judge.Through, looks+tr.Judge.Looks
	}
	t.Logf("%d operations, %d done, %d packets through, %d looks", asked, done, through, looks)
	engines.check(t, n)
	if n > 20 && (done < asked/3 || through == 0) {
		t.Errorf("of %d operations %d were done, %d packets went through: this proves little", asked, done, through)
	}
}

// TestVMsKept replays schedules in which an address was once at two interfaces, or in no snapshot,
// or a snapshot's tables led to another port.
func TestVMsKept(t *testing.T) {
	for _, s := range []uint64{
		507, 1452, // an address moves while a sweep reads everything
		1011, // a new manager brings an address elsewhere, and then is to leave it where it was
		1125, // a sweep is broken off in which a LID moves
		2009, // a move is taken back when the LID leads to the destination
		2285, // a shared port comes back with an address that went elsewhere
		2700, // a move is refused, and the old function has to come up again
		1127, // an interface ended while no manager ran; its LID was stored for it and given to another
		1572, // an interface without a place has a LID that its old function lost
	} {
		tr := vmTrial(s)
		if err := tr.Run(); err != nil {
			t.Errorf("seed %d: %s", s, tr.Report(err))
		}
	}
}
