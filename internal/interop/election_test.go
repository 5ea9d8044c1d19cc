package interop

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/internal/need"
)

// simulate starts our simulator on a net and returns the environment of its
// clients.
func (b *built) simulate(t *testing.T, args ...string) (program, []string) {
	t.Helper()
	name := socketName()
	p := start(t, b.dir, nil, heddle, append([]string{"sim", "--netlist", b.path, "--socket", name}, args...)...)
	p.await("READY\n", 0, upTime)
	return p, []string{"IBSIM_SOCKNAME=" + name}
}

// opensm starts OpenSM on a node through ibsim's protocol.
func (b *built) opensm(t *testing.T, env []string, node string, priority int) program {
	t.Helper()
	dir, args := opensmFiles(t, priority)
	env = append(env, "SIM_HOST="+node, "OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir)
	return start(t, dir, env, "ibsim-run", append([]string{need.Tool(t, "opensm")}, args...)...)
}

// opensmFiles makes OpenSM's directory with a configuration for short polls,
// and the arguments that use it.
func opensmFiles(t *testing.T, priority int) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	conf := filepath.Join(dir, "opensm.conf")
	text := "sminfo_polling_timeout 300\npolling_retry_number 2\nsweep_interval 1\nforce_log_flush TRUE\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"-F", conf, "-e", "-f", "stdout", "-p", fmt.Sprint(priority)}
}

// seenLIDs are the LIDs that ibnetdiscover finds, by node and port.
func (b *built) seenLIDs(t *testing.T, env []string, node string) map[string]int {
	t.Helper()
	text := must(t, upTime, b.dir, append(env, "SIM_HOST="+node), "ibsim-run", "ibnetdiscover")
	f, err := fabric.ReadNetlist(bytes.NewReader([]byte(text)), fabric.NetlistOptions{Name: "ibnetdiscover"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := range n.Ports {
			if l := n.Ports[p].LID; l != 0 {
				out[fmt.Sprintf("%v[%d]", n.GUID, p)] = int(l)
			}
		}
	}
	return out
}

// TestElection lets heddle and OpenSM share a fabric: one master by priority,
// the other takes over when it dies, and no LID ever changes.
func TestElection(t *testing.T) {
	need.Tool(t, "opensm")
	for _, c := range []struct {
		name           string
		heddle, opensm int // priorities
	}{
		{"heddle higher", 5, 1},
		{"opensm higher", 1, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)
			_, env := b.simulate(t)
			sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
			startHeddle := func() (program, string) {
				addr := need.Addr(t)
				p := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+sock, "--api", addr, "--priority", fmt.Sprint(c.heddle),
					"--state", filepath.Join(b.dir, "state"), "--sweep-interval", "500ms", "--poll-interval", "300ms", "--poll-retries", "2")
				return p, addr
			}
			startOpenSM := func() program { return b.opensm(t, env, b.cas[1], c.opensm) }
			const limit = upTime

			hed, addr := startHeddle()
			hed.await("SUBNET UP\n", 0, upTime)
			before := b.seenLIDs(t, env, b.cas[2])
			if len(before) != len(b.cas)+b.fab.Count(2) {
				t.Fatalf("%d ports have LIDs, want %d", len(before), len(b.cas)+b.fab.Count(2))
			}
			same := func(when string) {
				t.Helper()
				if now := b.seenLIDs(t, env, b.cas[2]); !maps.Equal(now, before) {
					t.Errorf("%s: LIDs changed:\n%s", when, lidDiff(before, now))
				}
			}
			osm := startOpenSM()
			if c.heddle > c.opensm {
				osm.await("Entering STANDBY", 0, limit)
				same("with a standby")
				hed.stop(syscall.SIGKILL)
				at := osm.await("Entering MASTER", 0, limit)
				osm.await("SUBNET UP", at, limit)
				same("after OpenSM took over")
				hed, addr = startHeddle()
				hed.await("SUBNET UP\n", 0, limit) // its priority says so
				osm.await("Entering STANDBY", at, limit)
				same("after heddle came back")
				// The lower one coming back changes nothing.
				osm.stop(syscall.SIGKILL)
				osm = startOpenSM()
				osm.await("Entering STANDBY", 0, limit)
				if st := status(t, addr); st.State != "MASTER" {
					t.Errorf("heddle is %s after a lower manager came back, want MASTER", st.State)
				}
			} else {
				at := osm.await("Entering MASTER", 0, limit)
				osm.await("SUBNET UP", at, limit)
				same("after handing over to OpenSM")
				awaitState(t, &b, addr, "STANDBY", limit)
				osm.stop(syscall.SIGKILL)
				awaitState(t, &b, addr, "MASTER", limit)
				same("after heddle took over")
				osm = startOpenSM()
				osm.await("Entering MASTER", 0, limit)
				awaitState(t, &b, addr, "STANDBY", limit)
				same("after OpenSM came back")
			}
			osm.stop(syscall.SIGINT)
			hed.stop(syscall.SIGTERM)
		})
	}
}

// awaitState asks until the manager is in a state; every question is an
// event for the manager's loop, so nothing is waited for in vain.
func awaitState(t *testing.T, b *built, addr, state string, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		st := status(t, addr)
		if st.State == state && (state != "MASTER" || st.SubnetUp) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("manager is %s (%s), not %s, after %v", st.State, st.Phase, state, limit)
		}
		<-time.After(askAgain)
	}
}

func lidDiff(a, b map[string]int) string {
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if a[k] != b[k] {
			fmt.Fprintf(&out, "%s: %d, now %d\n", k, a[k], b[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[k]; !ok {
			fmt.Fprintf(&out, "%s: new %d\n", k, b[k])
		}
	}
	return out.String()
}
