package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
)

// TestGroups: ibroute reads the written multicast trees from the switches, and ibdmchk
// finds each a tree with all its members; ibdmchk also accepts the dumps of a torus
// with lanes.
func TestGroups(t *testing.T) {
	need.Tool(t, "ibdmchk")
	need.Tool(t, "ibroute")
	for _, c := range []struct {
		engine string
		kind   []string
	}{
		{"minhop", []string{"fattree", "324"}},
		{"dor", []string{"torus", "5x5"}},
	} {
		t.Run(c.engine, func(t *testing.T) {
			dir := t.TempDir()
			net, err := run(t, upTime, dir, nil, heddle, append([]string{"topo", "gen"}, c.kind...)...)
			if err != nil {
				t.Fatal(err)
			}
			groups := "0xc000 ff12:401b:ffff::ffff:ffff 0x100001 0x100005 0x100009 0x100021\n" +
				"0xc001 ff12:401b:ffff::1 0x100003 0x10000b send:0x100011\n"
			for name, text := range map[string]string{"net": net, "groups": groups} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			sock := socketName()
			sim := start(t, dir, nil, heddle, "sim", "--netlist", "net", "--socket", sock)
			sim.await("READY\n", 0, upTime)
			sm := start(t, dir, nil, heddle, "sm", "--api", "", "--port", "ibsim:host-1@"+sock, "--engine", c.engine, "--groups", "groups", "--dump", "dump")
			sm.await("SUBNET UP\n", 0, upTime)

			args := []string{"-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs"}
			if c.engine == "dor" {
				args = append(args, "-c", "opensm-path-sl.dump", "-d", "opensm-sl2vl.dump")
			}
			out, _ := run(t, upTime, filepath.Join(dir, "dump"), nil, "ibdmchk", args...)
			for _, want := range []string{`Multicast Group:0xC000 has:\d+ switches and:4 HCAs`, `Multicast Group:0xC001 has:\d+ switches and:2 HCAs`, "no credit loops found"} {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("ibdmchk does not say %q", want)
				}
			}
			if strings.Contains(out, "-E-") || t.Failed() {
				t.Errorf("ibdmchk: %s", tail(out))
			}
			// The first switch, by directed route: the tables that it holds.
			env := []string{"IBSIM_SOCKNAME=" + sock, "SIM_HOST=host-1"}
			got := must(t, upTime, dir, env, "ibsim-run", "ibroute", "-M", "-D", "0,1")
			for _, want := range []string{"0xc000", "0xc001"} {
				if !strings.Contains(strings.ToLower(got), want) {
					t.Errorf("ibroute shows no %s:\n%s", want, got)
				}
			}
			if err := sm.stop(syscall.SIGTERM); err != nil {
				t.Error(fmt.Errorf("heddle sm ended with %w on SIGTERM", err))
			}
		})
	}
}
