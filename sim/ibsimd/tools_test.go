package ibsimd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/internal/ibtools"
	"heddle/internal/need"
	"heddle/internal/proc"
	"heddle/sim"
)

func needTools(t *testing.T) {
	for _, tool := range []string{"ibsim-run", "opensm", "smpquery", "ibping"} {
		need.Tool(t, tool)
	}
}

// mustRun runs a program and returns what it printed.
func mustRun(t *testing.T, b *ibtools.Bench, node string, env []string, argv ...string) string {
	t.Helper()
	r := b.RunEnv(need.Patience, node, env, argv...)
	if r.Err != nil || r.Code != 0 {
		t.Fatalf("%v on %s: exit status %d, %v\n%s", argv, node, r.Code, r.Err, r.Out)
	}
	return r.Out
}

// A fabric with latency that loses packets: OpenSM must still bring it up, for
// every request is completed one way or the other.
func TestOpenSMOnALossyFabric(t *testing.T) {
	needTools(t)
	b := serve(t, tree(t, 2, 4, 2), sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Drop: 0.005},
		Options{AnswerTimeout: 200 * time.Millisecond})
	bench := ibtools.New(t, b.srv.SockName())
	bench.OpenSM(t, "Spine0", need.Patience, "-s", "1")
	out := mustRun(t, bench, "H-0-0", nil, "ibnetdiscover")
	if n := strings.Count(out, "\nCa\t"); n == 0 {
		t.Errorf("ibnetdiscover found no CA:\n%s", out)
	}
}

func TestToolsOverUDP(t *testing.T) {
	needTools(t)
	port := need.Port(t, 4)
	b := serve(t, star(t, 2), sim.Config{}, Options{UDPPort: port})
	bench := ibtools.New(t, b.srv.SockName())
	env := []string{"IBSIM_SERVER_NAME=127.0.0.1", fmt.Sprintf("IBSIM_SERVER_PORT=%d", port)}
	if out := mustRun(t, bench, "H1", env, "smpquery", "-D", "nodeinfo", "0,1"); !strings.Contains(out, "NumPorts") {
		t.Errorf("smpquery printed:\n%s", out)
	}
	if out := mustRun(t, bench, "H2", env, "ibnetdiscover"); strings.Count(out, "\nCa\t") != 2 {
		t.Errorf("ibnetdiscover printed:\n%s", out)
	}
}

// ibping's server is reached because it connected as SM; a plain SM next to it
// is not handed the vendor class that would crash it.
func TestPing(t *testing.T) {
	needTools(t)
	b := serve(t, star(t, 3), sim.Config{}, Options{})
	bench := ibtools.New(t, b.srv.SockName())
	osm := bench.OpenSM(t, "S", need.Patience)
	srv := bench.Start(t, "H2", []string{"SIM_SET_ISSM=1"}, "ibping", "-S")
	lid := func(node string) string {
		out := mustRun(t, bench, node, nil, "ibaddr", "-L")
		f := strings.Fields(out)
		return f[len(f)-1]
	}
	to := lid("H2")
	var last proc.Result
	for range 20 { // the server needs a moment to attach
		last = bench.Run(need.Patience, "H1", "ibping", "-c", "3", "-f", to)
		if strings.Contains(last.Out, "3 received") || strings.Contains(last.Out, " 0% packet loss") {
			break
		}
	}
	if !strings.Contains(last.Out, " 0% packet loss") {
		t.Errorf("ibping %s:\n%s\nserver:\n%s", to, last.Out, srv.Output())
	}
	bench.Run(need.Patience, "H1", "ibping", "-c", "1", lid("S"))
	select {
	case <-osm.Done():
		t.Errorf("OpenSM died of a request of a class that it does not know:\n%s", osm.Output())
	default:
	}
	mustRun(t, bench, "H1", nil, "sminfo")
}

// IsSM of a real subnet manager that is killed does not linger.
func TestKilledOpenSMIsReplaced(t *testing.T) {
	needTools(t)
	b := serve(t, star(t, 2), sim.Config{}, Options{})
	bench := ibtools.New(t, b.srv.SockName())
	bench.OpenSM(t, "S", need.Patience).Kill()
	deadline := time.Now().Add(need.Patience)
	for {
		r := bench.RunEnv(need.Patience, "S", []string{"SIM_SET_ISSM=1"}, "smpquery", "-D", "nodeinfo", "0")
		if r.Code == 0 && strings.Contains(r.Out, "NumPorts") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the dead manager still holds IsSM: exit status %d\n%s", r.Code, r.Out)
		}
	}
	bench.OpenSM(t, "H1", need.Patience)
}
