package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestMigrateManagerKilled: the manager is killed without warning while a VM migrates live,
// before, during and after the stop of the VM, and starts again on its state. The migration
// ends well: the VM runs once, at its new place, with its LID, and answers.
func TestMigrateManagerKilled(t *testing.T) {
	dir := t.TempDir()
	net := must(t, upTime, dir, nil, heddle, "topo", "gen", "xgft", "2", "4,4", "1,1")
	if err := os.WriteFile(filepath.Join(dir, "net"), []byte(net), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"vswitch,4", "vport,4"} {
		sock, api := socketName(), "unix:"+filepath.Join(dir, model[:3]+".sock")
		sim := start(t, dir, nil, heddle, "sim", "--netlist", "net", "--socket", sock, "--hypervisors", model, "--manager", api,
			"--vm-memory", "64MiB", "--vm-dirty", "150MB", "--vm-hot", "1", "--vm-copy-rate", "200MB", "--vm-pause", "1s")
		sim.await("READY\n", 0, upTime)
		manager := func() program {
			p := start(t, dir, nil, heddle, "sm", "--port", "ibsim:host-1@"+sock, "--state", filepath.Join(dir, model[:3]), "--api", "", "--api-socket", strings.TrimPrefix(api, "unix:"))
			p.await("SUBNET UP\n", 0, upTime)
			return p
		}
		sm := manager()
		created := must(t, upTime, dir, nil, heddle, "ctl", "vm", "create", "web", "--lid", "own", "--at", "host-2", "--wait", "50s", "--api", api)
		lid := regexp.MustCompile(`(?m)^LID +(\d+) own`).FindStringSubmatch(created)
		if lid == nil {
			t.Fatal(created)
		}
		for i, when := range []string{"reserved .*\n", "copying .*\n", "pre-copy .*\n", "stopped .*and copies", "resumed .*\n"} {
			to := fmt.Sprintf("host-%d", 5+i)
			follow := start(t, dir, nil, heddle, "ctl", "vm", "migrate", "web", to, "--follow", "--api", api)
			follow.await(when, 0, upTime)
			sm.Signal(syscall.SIGKILL)
			<-sm.Done()
			sm = manager()
			follow.await("resumed +at "+to+"/1;", 0, upTime)
			<-follow.Done()
			if err := follow.Err(); err != nil {
				t.Errorf("%s, killed at %q: %v\n%s", model, when, err, follow.Output())
			}
			at := len(sim.Output())
			fmt.Fprintf(sim.In, "vm web\nprobe \"host-12\" web\nvport\n")
			sim.await(`"web" on "`+to+`"\[1\] VF 1 Active lid `+lid[1]+` .*\n\n?answered by "`+to+`"\[1\] VF 1`, at, upTime)
			sim.await(`"host-16"\[1\] .*\n(\t.*\n)+`, at, upTime)
			if n := strings.Count(sim.Output()[at:], `vm "web"`); n != 1 {
				t.Errorf("%s, killed at %q: the VM is on %d functions\n%s", model, when, n, sim.Output()[at:])
			}
		}
		sm.stop(syscall.SIGINT)
		sim.stop(syscall.SIGINT)
	}
}
