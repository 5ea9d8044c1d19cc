package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
)

// laneDump is what a manager's dump files say of lanes: by LID of the port.
type laneDump struct {
	sl map[int]map[int]int // by source LID and destination LID: the path's level
	vl map[[3]int]string   // by LID, port in and port out: the lanes by level, in ibdmchk's words
	is map[int]string      // by LID: what kind of node
}

var (
	baseLID = regexp.MustCompile(`^(Switch|Channel Adapter) 0x[0-9a-f]+, base LID (\d+),`)
	pathSL  = regexp.MustCompile(`^(0x[0-9a-fA-F]+) : (\d+)`)
	laneRow = regexp.MustCompile(`^(\d+) +(\d+) +: ([\d ]+?) *$`)
)

// readLanes reads the dump files without the help of our own readers.
func readLanes(t *testing.T, dir string) laneDump {
	t.Helper()
	d := laneDump{map[int]map[int]int{}, map[[3]int]string{}, map[int]string{}}
	for _, name := range []string{"opensm-path-sl.dump", "opensm-sl2vl.dump"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for l := range strings.SplitSeq(string(text), "\n") {
			if m := baseLID.FindStringSubmatch(l); m != nil {
				at = number(m[2])
				d.is[at] = m[1]
				if d.sl[at] == nil {
					d.sl[at] = map[int]int{}
				}
			} else if m := pathSL.FindStringSubmatch(l); m != nil {
				d.sl[at][number(m[1])] = number(m[2])
			} else if m := laneRow.FindStringSubmatch(l); m != nil {
				d.vl[[3]int{at, number(m[1]), number(m[2])}] = strings.Join(strings.Fields(m[3]), " ")
			}
		}
	}
	return d
}

func number(s string) int {
	v, err := strconv.ParseInt(s, 0, 32)
	if err != nil {
		return -1
	}
	return int(v)
}

var (
	shownRow  = regexp.MustCompile(`(?m)^ports: in +(\d+), out +(\d+): \|([ \d|]+)\|`)
	shownPath = regexp.MustCompile(`(?s)dlid\.+(\d+).*?slid\.+(\d+).*?\n\t\tsl\.+0x([0-9A-Fa-f]+)`)
	shownArb  = regexp.MustCompile(`(?s)# Low priority.*?VL +: \|(.*?)\|\s*WEIGHT: \|(.*?)\|\s`)
)

// agree asks switches, a host and the manager, by infiniband-diags, for what
// the dump says, and returns how many lane tables and paths were compared.
func (d laneDump) agree(t *testing.T, tool func(args ...string) string) (rows, paths int) {
	t.Helper()
	var some []int // two switches and two hosts
	for lid := 1; len(some) < 2 && lid < 0xC000; lid++ {
		if d.is[lid] == "Channel Adapter" {
			some = append(some, lid)
		}
	}
	for lid, n := 1, 0; n < 2 && lid < 0xC000; lid++ {
		if d.is[lid] == "Switch" {
			some = append(some, lid)
			n++
		}
	}
	for k, lid := range some {
		ports := []string{"1", "3"}
		if d.is[lid] != "Switch" {
			ports = ports[:1]
		}
		for _, port := range ports {
			used := map[string]bool{}
			for _, m := range shownRow.FindAllStringSubmatch(tool("smpquery", "sl2vl", fmt.Sprint(lid), port), -1) {
				in, out := number(m[1]), number(m[2])
				want, ok := d.vl[[3]int{lid, in, out}]
				if !ok || in == out && out > 0 {
					continue // a packet does not leave where it came in
				}
				got := strings.Join(strings.FieldsFunc(m[3], func(r rune) bool { return r == ' ' || r == '|' }), " ")
				if got != want {
					t.Errorf("LID %d from port %d to %d: lanes %s, the dump says %s", lid, in, out, got, want)
				}
				for v := range strings.FieldsSeq(got) {
					used[v] = true
				}
				rows++
			}
			arb := shownArb.FindStringSubmatch(tool("smpquery", "vlarb", fmt.Sprint(lid), port))
			if arb == nil {
				t.Errorf("LID %d port %s shows no arbitration", lid, port)
				continue
			}
			lanes, weights := strings.Split(arb[1], "|"), strings.Split(arb[2], "|")
			served := map[string]bool{}
			for i := range min(len(lanes), len(weights)) {
				if strings.TrimSpace(weights[i]) != "0x0" {
					served[fmt.Sprint(number(strings.TrimSpace(lanes[i])))] = true
				}
			}
			for v := range used {
				if !served[v] {
					t.Errorf("LID %d port %s: no turn for lane %s: %q", lid, port, v, arb[0])
				}
			}
		}
		if k == 1 {
			continue
		}
		for to := range d.is {
			if to%6 != k || to == lid {
				continue
			}
			m := shownPath.FindStringSubmatch(tool("saquery", "--slid", fmt.Sprint(lid), "--dlid", fmt.Sprint(to), "PR"))
			if m == nil || number(m[1]) != to || number(m[2]) != lid {
				t.Errorf("no path from LID %d to %d: %q", lid, to, m)
				continue
			}
			if want, ok := d.sl[lid][to]; !ok {
				t.Errorf("the dump has no level from LID %d to %d", lid, to)
			} else if got := number("0x" + m[3]); got != want {
				t.Errorf("path from LID %d to %d: level %d, the dump says %d", lid, to, got, want)
			}
			paths++
		}
	}
	return rows, paths
}

// onWire is a manager of a simulated fabric whose lanes are looked at.
type onWire struct {
	t    *testing.T
	b    built
	env  []string
	dump string
}

// look holds the dump against the fabric, and lets ibdmchk judge it.
func (w *onWire) look(when string) {
	w.t.Helper()
	d := readLanes(w.t, w.dump)
	rows, paths := d.agree(w.t, func(args ...string) string {
		w.t.Helper()
		return must(w.t, upTime, w.b.dir, append(w.env, "SIM_HOST="+w.b.cas[len(w.b.cas)-1]), "ibsim-run", args...)
	})
	levels := map[int]bool{}
	for _, to := range d.sl {
		for _, sl := range to {
			levels[sl] = true
		}
	}
	if rows < 12 || paths < 6 || len(levels) < 2 {
		w.t.Errorf("%s: %d lane tables, %d paths, %d levels", when, rows, paths, len(levels))
	}
	out, _ := run(w.t, upTime, w.dump, nil, "ibdmchk", "-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs", "-c", "opensm-path-sl.dump", "-d", "opensm-sl2vl.dump")
	if !strings.Contains(out, "no credit loops found") || strings.Contains(out, "-E-") {
		w.t.Errorf("%s: ibdmchk: %s", when, tail(out))
	}
}

// lanesHold brings a fabric up, looks, and looks again when a cable has failed.
func lanesHold(t *testing.T, engine string, gen []string, cable string) {
	b := testNet{name: engine, gen: gen}.build(t)
	sim, env := b.simulate(t)
	w := onWire{t, b, env, filepath.Join(b.dir, "dump")}
	sm := start(t, b.dir, nil, heddle, "sm", "--api", "", "--port", "ibsim:"+b.sm+"@"+strings.TrimPrefix(env[0], "IBSIM_SOCKNAME="), "--engine", engine, "--dump", w.dump, "--log-level", "debug")
	at := sm.await("SUBNET UP\n", 0, upTime)
	w.look("at first")
	if cable != "" && !t.Failed() {
		fmt.Fprintln(sim.In, "link down "+cable)
		at = sm.await("kind=link_down", at, upTime)
		sm.await("dump files are written again", at, 3*upTime)
		w.look("without a cable")
	}
	if err := sm.stop(syscall.SIGTERM); err != nil {
		t.Errorf("heddle sm ended with %v on SIGTERM", err)
	}
}

// laneNets are where several lanes are needed, and a cable whose failure dor
// and torus answer at once.
var laneNets = []struct {
	engine string
	gen    []string
	cable  string
	waits  bool // the change takes as long as hosts may take to repath
}{
	{"dor", []string{"torus", "5x5"}, `"sw-2-3"[3]`, false},
	{"torus", []string{"torus", "5x5"}, `"sw-2-3"[3]`, false},
	{"lash", []string{"torus", "5x5"}, `"sw-2-3"[3]`, true},
	{"dfsssp", []string{"torus", "5x5"}, `"sw-2-3"[3]`, true},
	{"nue", []string{"torus", "5x5"}, `"sw-2-3"[3]`, true},
	{"vftree", []string{"xgft", "2", "4,4", "1,2"}, `"sw-1-1"[6]`, true},
}

// TestInstalledLanes: lane tables, arbitration and service levels, as infiniband-diags
// reads them from the switches and from the manager, equal the dump, before and after a
// link failure; ibdmchk finds no credit loop in either dump.
func TestInstalledLanes(t *testing.T) {
	need.Tool(t, "ibdmchk")
	need.Tool(t, "smpquery")
	for _, c := range laneNets {
		t.Run(c.engine, func(t *testing.T) {
			cable := c.cable
			if c.waits {
				cable = ""
			}
			lanesHold(t, c.engine, c.gen, cable)
		})
	}
}

// TestLanesAfterWait is TestInstalledLanes with entries that stay discarded until hosts
// have had time to use new service levels.
func TestLanesAfterWait(t *testing.T) {
	need.Long(t)
	need.Tool(t, "ibdmchk")
	need.Tool(t, "smpquery")
	for _, c := range laneNets {
		if c.waits {
			t.Run(c.engine, func(t *testing.T) {
				t.Parallel()
				lanesHold(t, c.engine, c.gen, c.cable)
			})
		}
	}
}
