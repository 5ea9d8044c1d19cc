package interop

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/faultdisk"
	"heddle/internal/need"
)

// TestPairOnBadDisks: under load the disk of the active manager, or of the standby, is full, fails (EIO),
// needs 5 s for a sync, or hangs in one. Changes are acknowledged again before the disk is well, by the
// other manager or by the active one alone; when it is, they are a pair again. When both hang, queries
// are answered. In the end both lose power at once, with all that was not synced, and both have all
// that was acknowledged.
func TestPairOnBadDisks(t *testing.T) {
	need.FUSE(t)
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	p := newPair(t, &b, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
	disks := [2]*faultdisk.Disk{faultdisk.New(1), faultdisk.New(2)}
	var procs [2]*faultdisk.Process
	for i := range disks {
		args := p.args(i)
		for k := range args {
			if strings.HasSuffix(args[k], fmt.Sprint("state", i)) {
				args[k] = "DIR/state"
			}
		}
		procs[i] = faultdisk.Run(t, disks[i], args[0], args[1:]...)
		go func() { _, _ = io.Copy(io.Discard, procs[i].Out) }()
		for end := time.Now().Add(need.Patience); ; {
			resp, err := http.Get("http://" + p.addr[i] + "/v1/ha")
			if err == nil {
				resp.Body.Close()
				break
			}
			if time.Now().After(end) {
				t.Fatalf("manager %d does not start: %v", i, err)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	p.paired()
	r := p.register(b.cas[3], 400*time.Millisecond)
	queries := watchLID(t, p.sock, b.cas[5], b.portGUID(b.cas[6]), 0)
	for _, ofActive := range []bool{true, false} {
		kinds := []string{"full", "fails", "needs 5 s", "hangs"}
		if !ofActive && os.Getenv("HEDDLE_LONG") == "" {
			kinds = []string{"fails", "hangs"} // a standby pauses before it tries its disk again
		}
		for _, kind := range kinds {
			active := p.paired()
			r.after(time.Now(), 20)
			sick := active
			if !ofActive {
				sick = 1 - active
			}
			d, at := disks[sick], time.Now()
			heal := d.Heal
			switch kind {
			case "full":
				d.Fail(faultdisk.Fault{Op: faultdisk.OpWrite, Count: -1, Errno: syscall.ENOSPC})
			case "fails":
				d.Fail(faultdisk.Fault{Op: faultdisk.OpAny, Count: -1, Errno: syscall.EIO})
			case "needs 5 s":
				heal = slow(t, d, 5*time.Second)
			case "hangs":
				heal = slow(t, d, need.Patience)
			}
			// Of those before the fault the last ones may be acknowledged after it.
			p.until(1-sick, "active and alone", func(h api.HA) bool { return h.Active && h.State == "alone" })
			t.Logf("the disk of manager %d (active %v) %s: the other one is alone after %v", sick, ofActive, kind, time.Since(at))
			first := r.after(time.Now(), 20)
			t.Logf("changes count %v after the fault at the latest", first.Sub(at))
			heal()
			if now := p.paired(); now == sick {
				t.Errorf("manager %d is active, whose disk was bad", sick)
			}
		}
	}
	// Both hang: nothing can be stored, and the SA answers from memory.
	r.after(time.Now(), 20)
	p.paired()
	heal := []func(){slow(t, disks[0], need.Patience), slow(t, disks[1], need.Patience)}
	for range 300 { // one each 5 ms
		queries.answered(t)
	}
	for _, well := range heal {
		well()
	}
	p.paired()
	r.after(time.Now(), 20)
	r.end()
	p.paired()
	for i, d := range disks {
		procs[i].Kill()
		s, text := imageState(t, d, faultdisk.TearAll)
		if s == nil {
			t.Fatalf("manager %d: the end of the power leaves %s", i, text)
		}
		have := map[ib.GID]map[uint64]bool{}
		services(have, s.Records)
		if lost := r.lost(time.Time{}, have[r.gid]); lost > 0 || len(have[r.gid]) == 0 {
			t.Errorf("manager %d lacks %d of %d services that were acknowledged", i, lost, len(r.acked))
		}
	}
	t.Logf("%d services were acknowledged", len(r.acked))
}

// slow has each request to a disk take as long, until the function that it returns is called.
func slow(t *testing.T, d *faultdisk.Disk, each time.Duration) (heal func()) {
	well := make(chan struct{})
	d.Hook(func() {
		late := time.NewTimer(each)
		defer late.Stop()
		select {
		case <-well:
		case <-late.C:
		}
	})
	heal = sync.OnceFunc(func() { d.Hook(nil); close(well) })
	t.Cleanup(heal) // the process cannot end before
	return heal
}
