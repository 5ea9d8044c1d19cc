package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heddle/internal/need"
)

// TestLaneTablesAsOpenSM: with an opensm.conf that gives lanes by class of port, imported, heddle sets
// the SL-to-VL and arbitration tables and the limit of high priority that OpenSM sets with it. smpquery
// reads them back.
func TestLaneTablesAsOpenSM(t *testing.T) {
	need.Tool(t, "opensm")
	for _, c := range []struct{ name, conf string }{
		{"defaults", ""},
		{"classes", `qos_high_limit 5
qos_vlarb_high 0:64,1:32
qos_vlarb_low 0:0,1:4,2:8,3:12,4:16,5:20,6:24,7:28,8:32,9:36
qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7
qos_ca_high_limit 3
qos_ca_vlarb_high 2:100,9:50
qos_ca_sl2vl 0,0,1,1,2,2,3,3,15,15,5,5,6,6,7,7
qos_swe_high_limit 255
qos_swe_vlarb_low 3:1,2:2,1:3
qos_swe_sl2vl 7,6,5,4,3,2,1,0,15,1,2
qos_sw0_sl2vl 1,1,1,1,1,1,1,1
qos_sw0_vlarb_low 1:7
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testNet{name: "lanes", gen: []string{"xgft", "2", "2,2", "1,1"}}.build(t)
			conf := filepath.Join(b.dir, "opensm.conf")
			if err := os.WriteFile(conf, []byte("qos TRUE\nforce_log_flush TRUE\nrouting_engine updn\n"+c.conf), 0o644); err != nil {
				t.Fatal(err)
			}

			sim, env := b.simulate(t, "--enhanced-port0")
			start(t, b.dir, append(env, "SIM_HOST="+b.cas[0], "OSM_CACHE_DIR="+b.dir), "ibsim-run", need.Tool(t, "opensm"), "-F", conf, "-f", filepath.Join(b.dir, "log"))
			waitFile(t, filepath.Join(b.dir, "log"), "SUBNET UP")
			want := b.laneTables(t, env)
			sim.stop(syscall.SIGINT)

			_, env = b.simulate(t, "--enhanced-port0")
			out := must(t, upTime, b.dir, nil, heddle, "import", "opensm", "--conf", conf, "--cache", b.dir, "--no-lids", "--state", "state")
			if strings.Contains(out, "LEFT OUT") {
				t.Error(out)
			}
			sm := start(t, b.dir, nil, heddle, "sm", "--config", "heddle.yaml", "--api", "", "--port", "ibsim:"+b.cas[0]+"@"+strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="))
			sm.await("SUBNET UP\n", 0, upTime)
			if d := cmp.Diff(want, b.laneTables(t, env)); d != "" {
				t.Errorf("tables (-OpenSM +Heddle):\n%s", d)
			}
		})
	}
}

// laneTables are what smpquery shows of the lanes of all ports, with those of a host and of two
// switches.
func (b *built) laneTables(t *testing.T, env []string) (list []string) {
	t.Helper()
	query := func(args ...string) string {
		t.Helper()
		return must(t, upTime, b.dir, append(env, "SIM_HOST="+b.cas[1]), "ibsim-run", append([]string{"smpquery", "-D"}, args...)...)
	}
	// Of the host, of its switch, and of the switch behind that one.
	for _, path := range []string{"0", "0,1", "0,1,3"} {
		ports := 1
		if n := regexp.MustCompile(`NumPorts:\.*(\d+)`).FindStringSubmatch(query("nodeinfo", path)); n != nil {
			ports = number(n[1])
		}
		first := 0
		if path == "0" {
			first = 1
		}
		for port := first; port <= ports; port++ {
			info := query("portinfo", path, fmt.Sprint(port))
			limit := regexp.MustCompile(`VLHighLimit:\.*(\d+)`).FindString(info)
			if port > 0 && !regexp.MustCompile(`LinkState:\.+Active`).MatchString(info) {
				continue // nothing leaves by it
			}
			for _, what := range []string{"sl2vl", "vlarb"} {
				list = append(list, fmt.Sprintf("%s of %s port %d\n%s%s", what, path, port, query(what, path, fmt.Sprint(port)), limit))
			}
		}
	}
	t.Logf("%d tables", len(list))
	if len(list) < 16 {
		t.Fatalf("%d tables: %s", len(list), list)
	}
	return list
}
