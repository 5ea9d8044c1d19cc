package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/internal/need"
	"heddle/settings"
)

// TestPairOtherMaster: one manager has a wrong --peer-guid, or another secret. It does not take over from
// the first one, which answers as master, and says so with what to compare. Queries and changes go on.
func TestPairOtherMaster(t *testing.T) {
	need.Long(t) // each manager waits for 10 s; TestWrongPeerGUID of replica/live has the rule
	for _, kind := range []string{"wrong GUID", "other secret"} {
		t.Run(kind, func(t *testing.T) {
			b := smallTree.build(t)
			_, env := b.simulate(t)
			p := newPair(t, &b, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
			if kind == "wrong GUID" {
				p.named[1] = b.portGUID(b.cas[7])
			} else {
				name := filepath.Join(b.dir, "pair", "127.0.0.1", settings.HASecret)
				if err := os.WriteFile(name, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w := newWires() // without the stream only the port can say who is there
			for i := range p.via {
				p.via[i] = w.wire(t, p.ports[i])
			}
			if kind == "other secret" {
				w.cut(true)
			}
			p.start(0)
			p.serves(0)
			at := time.Now()
			p.start(1)
			p.until(1, "held", func(h api.HA) bool { return !h.Active && h.Pair.Held })
			p.event(1, at, "ha_other_master")
			h := p.ha(1)
			if h.State != "stale" || h.Pair.Master != p.guids[0].String() || !strings.Contains(h.Pair.MasterText, "--peer-guid") {
				t.Errorf("its status: %+v %+v", h, h.Pair)
			}
			out, err := p.ctl(1, "status")
			if err != nil || !strings.Contains(out, p.guids[0].String()) {
				t.Errorf("the status does not name the port that it sees: %v\n%s", err, out)
			}
			r := p.register(b.cas[3], 400*time.Millisecond)
			r.after(time.Now(), 20)
			if h := p.ha(0); !h.Active {
				t.Errorf("the first one is not active any more: %+v", h)
			}
		})
	}
}

// TestPairStale: the active manager stores changes alone and dies, and the other one starts without them.
// It takes over all the same, after a while, and says that changes may be missing. When the first one
// comes back, what it had stored alone is put aside.
func TestPairStale(t *testing.T) {
	b := smallTree.build(t)
	_, env := b.simulate(t)
	p := newPair(t, &b, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
	p.start(0)
	p.start(1)
	active := p.paired()
	stale := 1 - active
	r := p.register(b.cas[3], 400*time.Millisecond)
	r.after(time.Now(), 20)
	p.prog[stale].stop(syscall.SIGKILL)
	p.until(active, "alone", func(h api.HA) bool { return h.State == "alone" })
	alone := time.Now()
	r.after(alone, 20)
	r.end()
	p.prog[active].stop(syscall.SIGKILL)
	at := time.Now()
	p.start(stale)
	p.event(stale, at, "ha_active")
	p.serves(stale)
	if metric(t, p.addr[stale], `heddle_ha_takeovers_total{reason="stale"}`) != 1 {
		t.Errorf("how it took over: %+v", p.ha(stale))
	}
	p.prog[stale].await("may be missing", 0, upTime)
	again := p.register(b.cas[3], 400*time.Millisecond)
	again.after(time.Now(), 20)
	p.start(active)
	if now := p.paired(); now != stale {
		t.Errorf("manager %d is active, of the older term", now)
	}
	out, err := p.ctl(active, "forks")
	if err != nil || !strings.Contains(out, "fork-") {
		t.Errorf("forks: %v\n%s", err, out)
	}
	p.stored(again)
	list, err := filepath.Glob(filepath.Join(b.dir, fmt.Sprint("state", active), "fork-*.journal"))
	if err != nil || len(list) != 1 {
		t.Fatalf("fork files: %v %v", list, err)
	}
	forked := forkedServices(t, list[0])[r.gid]
	if lost := r.lost(alone, forked); lost > 0 || len(forked) == 0 {
		t.Errorf("%d services that were acknowledged alone are not in the fork file, which has %d", lost, len(forked))
	}
}
