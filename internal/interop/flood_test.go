package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/flood"
	"heddle/internal/need"
)

// TestFlood floods OpenSM's SA and Heddle's over the socket: both get the same queries
// from the same client, and answer every one.
func TestFlood(t *testing.T) {
	for _, who := range []string{"OpenSM", "heddle"} {
		t.Run(who, func(t *testing.T) {
			b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
			if who == "OpenSM" {
				need.Tool(t, "opensm")
			}
			_, env := b.simulate(t)
			sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
			if who == "OpenSM" {
				b.opensm(t, env, b.cas[0], 0).await("SUBNET UP", 0, upTime)
			} else {
				start(t, b.dir, nil, heddle, "sm", "--api", "", "--api-socket", filepath.Join(b.dir, "api"), "--port", "ibsim:"+b.cas[0]+"@"+sock).await("SUBNET UP\n", 0, upTime)
			}
			port := func(i int) string { return "ibsim:" + b.cas[i] + "@" + sock }
			ask := func(v any, args ...string) {
				t.Helper()
				out := must(t, upTime, b.dir, nil, heddle, append([]string{"flood", "--json", "--timeout", "20s"}, args...)...)
				if err := json.Unmarshal([]byte(out), v); err != nil {
					t.Fatalf("%v: %s", err, tail(out))
				}
			}
			for _, query := range flood.Queries() {
				for _, window := range []string{"1", "64", "961"} {
					var f struct {
						flood.Figures
						Destinations int `json:"destinations"`
					}
					ask(&f, "--port", port(1), "--query", query, "--window", window, "--queries", "2000")
					if f.Errors != 0 || f.Answered != 2000 || f.QPS <= 0 || f.Median <= 0 || f.P99 < f.Median || f.Max < f.P99 {
						t.Errorf("%s, window %s: %+v", query, window, f.Figures)
					}
					if want := len(b.cas); query != "classportinfo" && f.Destinations != want {
						t.Errorf("%s: %d destinations, want the %d hosts", query, f.Destinations, want)
					}
				}
			}
			var x struct {
				Rounds []flood.RoundFigures `json:"rounds"`
			}
			args := []string{"--sif", port(1), "--instances", "192", "--rounds", "2", "--round-time", "300ms"}
			for i := range 5 {
				args = append(args, "--mif", port(2+i))
			}
			ask(&x, args...)
			if len(x.Rounds) != 2 || x.Rounds[0].Instances != 1 || x.Rounds[1].Instances != 961 {
				t.Fatalf("rounds %+v", x.Rounds)
			}
			// How many answers a round has, and how late they are, is up to who gets
			// the processor; that each instance had one before its round began is not.
			for _, r := range x.Rounds {
				if r.Total.Answered < r.SIF.Answered || r.Total.Timeouts != 0 || r.Total.Wrong != 0 || r.Total.Refused != 0 || r.Cut {
					t.Errorf("round %d: SIF %+v, total %+v", r.Round, r.SIF, r.Total)
				}
			}
		})
	}
}

// TestFloodInterrupted: an interrupt ends a flood and keeps its measurements.
func TestFloodInterrupted(t *testing.T) {
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	sim, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	start(t, b.dir, nil, heddle, "sm", "--api", "", "--api-socket", filepath.Join(b.dir, "api"), "--port", "ibsim:"+b.cas[0]+"@"+sock).await("SUBNET UP\n", 0, upTime)
	dst := b.fab.Nodes[len(b.fab.Nodes)-1].Ports[1].GUID.String()
	f := start(t, b.dir, nil, heddle, "flood", "--json", "--port", "ibsim:"+b.cas[1]+"@"+sock, "--time", "1h", "--window", "16", "--dst", dst)
	for at, limit := len(sim.Output()), time.Now().Add(upTime); ; at = len(sim.Output()) {
		fmt.Fprintln(sim.In, "attached")
		if _, err := sim.Await(b.cas[1], at, time.Second); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the flooder does not attach")
		}
	}
	if err := f.stop(syscall.SIGINT); err != nil {
		t.Errorf("ended with %v on SIGINT", err)
	}
	var got flood.Figures
	if err := json.Unmarshal([]byte(f.Output()), &got); err != nil || got.Errors != 0 {
		t.Errorf("%v: %s", err, tail(f.Output()))
	}
}

// TestFloodDevice floods through a virtual user-MAD device, where the kernel times the
// queries and the table of nodes is whole.
func TestFloodDevice(t *testing.T) {
	need.FUSE(t)
	b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	sm := start(t, b.dir, nil, heddle, "attach", b.cas[0]+"@"+sock, "--", heddle, "sm", "--api", "", "--api-socket", filepath.Join(b.dir, "api"), "--port", "umad:heddle0/1")
	sm.await("SUBNET UP\n", 0, upTime)
	var f struct {
		flood.Figures
		Destinations int `json:"destinations"`
	}
	out := must(t, upTime, b.dir, nil, heddle, "attach", b.cas[1]+"@"+sock, "--",
		heddle, "flood", "--json", "--port", "umad:heddle0/1", "--queries", "2000", "--window", "64", "--timeout", "20s")
	if err := json.Unmarshal([]byte(out), &f); err != nil || f.Answered != 2000 || f.Errors != 0 || f.Destinations != len(b.cas) {
		t.Errorf("%v: %s", err, tail(out))
	}
}
