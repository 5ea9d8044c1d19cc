package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heddle/internal/need"
)

// TestRestartWithLanes: a manager that finds its own multi-lane routes installed does
// not change them. It does not assume that hosts use other service levels, which would
// drop packets.
func TestRestartWithLanes(t *testing.T) {
	need.Tool(t, "smpquery")
	dir := t.TempDir()
	net := must(t, upTime, dir, nil, heddle, "topo", "gen", "torus", "5x5")
	if err := os.WriteFile(filepath.Join(dir, "net"), []byte(net), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"dor", "dfsssp"} {
		sock := socketName()
		sim := start(t, dir, nil, heddle, "sim", "--netlist", "net", "--socket", sock)
		sim.await("READY\n", 0, upTime)
		args := []string{"sm", "--api", "", "--once", "--port", "ibsim:host-1@" + sock, "--engine", engine, "--state", filepath.Join(dir, engine)}
		must(t, upTime, dir, nil, heddle, args...)
		out := must(t, upTime, dir, nil, heddle, append(args, "--log-level", "info")...)
		if !strings.Contains(out, "SUBNET UP") || !strings.Contains(out, " 0 LFT blocks sent, 0 ports armed,") || strings.Contains(out, "kind=routed") {
			t.Errorf("%s: the second start changed something:\n%s", engine, tail(out))
		}
	}
}
