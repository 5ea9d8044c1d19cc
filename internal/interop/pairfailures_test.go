package interop

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
	"heddle/internal/need"
)

// pairFailure is a row of the table of failures in docs/ha.md.
type pairFailure struct {
	name string
	// ofStandby: the standby fails, and the active one stays. Otherwise the other one takes over.
	ofStandby bool
	fail      func(i int)
	heal      func(i int)
	event     string // of the one that is active then; "": none
	state     string // of the one that is active then
}

// TestPairFailures has processes, hosts, ports and the connection of a pair fail under load, by the table
// of failures in docs/ha.md. Each time one of the two is active and alone, as the table says which, says
// so, answers queries and stores changes; when all is well they are a pair again. In the end all that
// was acknowledged is on both disks.
func TestPairFailures(t *testing.T) {
	b := smallTree.build(t)
	sim, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	p := newPair(t, &b, sock)
	w := newWires()
	for i := range p.via {
		p.via[i] = w.wire(t, p.ports[i])
	}
	p.start(0)
	p.start(1)
	p.paired()
	r := p.register(b.cas[3], 400*time.Millisecond)
	queries := watchLID(t, sock, b.cas[5], b.portGUID(b.cas[6]), 0)
	cable := func(way string, i int) { fmt.Fprintf(sim.In, "link %s %q[1]\n", way, b.cas[i]) }
	kill := func(i int) { p.prog[i].stop(syscall.SIGKILL) }
	hostDies := func(i int) { p.prog[i].Signal(syscall.SIGSTOP); cable("down", i) }
	hostComes := func(i int) { kill(i); cable("up", i); p.start(i) }
	for _, f := range []pairFailure{
		{"the active process dies", false, kill, p.start, "ha_active", "alone"},
		{"the active one's host dies", false, hostDies, hostComes, "ha_active", "alone"},
		{"the active one's port dies", false, func(i int) { cable("down", i) }, func(i int) { cable("up", i) }, "ha_active", "paired"},
		{"the standby's process dies", true, kill, p.start, "ha_alone", "alone"},
		{"the standby ends", true, func(i int) { p.prog[i].stop(syscall.SIGTERM) }, p.start, "ha_alone", "alone"},
		{"the standby's host dies", true, hostDies, hostComes, "ha_alone", "alone"},
		{"the standby's port dies", true, func(i int) { cable("down", i) }, func(i int) { cable("up", i) }, "", "paired"},
		{"the connection is cut", true, func(int) { w.cut(true) }, func(int) { w.cut(false) }, "ha_alone", "alone"},
	} {
		active := p.paired()
		for i := range 2 { // a link that came up carries datagrams when the sweep has set it up
			p.until(i, "hearing the other one in the subnet", func(h api.HA) bool { return h.Pair.Fabric >= 0 && h.Pair.Fabric < 0.1 })
		}
		sick := active
		if f.ofStandby {
			sick = 1 - active
		}
		well := 1 - sick
		r.after(time.Now(), 5)
		queries.answered(t)
		queries.longest()
		takeovers := metric(t, p.addr[well], "heddle_ha_takeovers_total")
		at := time.Now()
		f.fail(sick)
		p.until(well, f.state+" and active: "+f.name, func(h api.HA) bool { return h.Active && h.State == f.state })
		settled := time.Since(at)
		changed := r.after(time.Now(), 5).Sub(at)
		queries.answered(t)
		t.Logf("%s: no query is answered for %v, the other one is %s after %v, changes count after %v at the latest", f.name, queries.longest().Round(time.Millisecond), f.state, settled.Round(time.Millisecond), changed.Round(time.Millisecond))
		if f.event != "" {
			p.event(well, at, f.event)
		}
		if !f.ofStandby {
			awaitState(t, &b, p.addr[well], "MASTER", need.Patience)
			p.event(well, at, "takeover")
			if now := metric(t, p.addr[well], "heddle_ha_takeovers_total"); now != takeovers+1 {
				t.Errorf("%s: heddle_ha_takeovers_total is %v, was %v", f.name, now, takeovers)
			}
		}
		if f.state == "alone" {
			await(t, f.name+": heddle_ha_peer_up is 0", func() bool { return metric(t, p.addr[well], `heddle_ha_peer_up{channel="stream"}`) == 0 })
		} else {
			p.until(sick, "without its port: "+f.name, func(h api.HA) bool { return !h.Active && !h.Pair.PortUsable })
		}
		f.heal(sick)
		if now := p.paired(); now != well {
			t.Errorf("%s: manager %d is active in the end", f.name, now)
		}
		if f.state == "alone" {
			p.event(1-well, at, "ha_paired")
		} else {
			p.until(sick, "well: "+f.name, func(h api.HA) bool { return h.Pair.PortUsable })
		}
		if lag := metric(t, p.addr[well], "heddle_ha_lag_entries"); lag > 5 { // those that are just written
			t.Errorf("%s: the standby lacks %v entries", f.name, lag)
		}
	}

	// Both lose power, when both have all, and when one has stored changes alone.
	for _, alone := range []bool{false, true} {
		active := p.paired()
		r.after(time.Now(), 5)
		if alone {
			kill(1 - active)
			p.until(active, "alone", func(h api.HA) bool { return h.State == "alone" })
			r.after(time.Now(), 5)
		}
		kill(active)
		if !alone {
			kill(1 - active)
		}
		p.prog[1-active], p.prog[active] = p.run(1-active), p.run(active)
		for i := range 2 {
			p.prog[i].await("serving the API", 0, upTime)
		}
		if now := p.paired(); alone && now != active {
			t.Errorf("manager %d is active, and the other one has stored changes alone", now)
		}
		r.after(time.Now(), 5)
	}
	p.stored(r)
	for i := range 2 {
		list, err := filepath.Glob(filepath.Join(b.dir, fmt.Sprint("state", i), "fork-*.journal"))
		if err != nil || len(list) != 0 {
			t.Errorf("manager %d has put changes aside: %v %v", i, list, err)
		}
	}
}

// await asks again until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(need.Patience); !ok(); <-time.After(askAgain) {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

// event waits until manager i has reported an event of a kind since at.
func (p *pair) event(i int, at time.Time, kind string) {
	p.t.Helper()
	awaitEvent(p.t, p.addr[i], at, kind)
}

func awaitEvent(t *testing.T, addr string, at time.Time, kind string) {
	t.Helper()
	for end := time.Now().Add(need.Patience); ; {
		var events []api.Event
		getJSON(t, "http://"+addr+"/v1/events", &events)
		if slices.ContainsFunc(events, func(e api.Event) bool { return e.Kind == kind && e.Time.After(at) }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s reports no event %s: %+v", addr, kind, events)
		}
		<-time.After(askAgain)
	}
}

// metric is the sum of a metric's series, or of those that begin with name if it has a label.
func metric(t *testing.T, addr, name string) (sum float64) {
	t.Helper()
	resp, err := patientHTTP.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		base, _, _ := strings.Cut(series, "{")
		if !ok || series != name && base != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Errorf("there is no metric %s:\n%s", name, tail(string(text)))
	}
	return sum
}
