package packaging

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
)

// TestSystemd: with systemd as process 1 the service starts as its user, within its restrictions, and
// is ready when its API answers. A manager that stands still is killed by the watchdog, and a new one
// serves; so is one that was killed. It reads its settings again, and stops in good order.
func TestSystemd(t *testing.T) {
	need.Long(t)
	r := debian(t, "infiniband-diags")
	p := build(t, "..", "1.0.0")
	f := simulate(t, filepath.Join(programs(t, p), "heddle"), "xgft", "2", "4,4", "1,1")
	m := r.boot(f, "host-1")
	m.copyIn(p.deb)
	m.do("dpkg -i heddle_*.deb")
	// /sys is a simulated one, so udev does not run; this is what the rule of the package does.
	m.do("chgrp heddle /dev/infiniband/umad* /dev/infiniband/issm*; chmod 660 /dev/infiniband/umad* /dev/infiniband/issm*")
	m.do("unit=heddle@$(ibstat -p)")
	if out := m.do("systemctl is-active $unit || true; systemctl is-enabled $unit || true"); out != "inactive\ndisabled" {
		t.Errorf("after the installation: %s", out)
	}

	// It is ready when systemctl comes back: the API answers.
	if out := m.do("systemctl enable --now $unit 2> /dev/null; heddle ctl health"); strings.Contains(out, "refused") {
		t.Errorf("ready, and its API says: %s", out)
	}
	show := func(property string) string {
		t.Helper()
		return m.do("systemctl show --value --property " + property + " $unit")
	}
	up := func() {
		t.Helper()
		m.do("until heddle ctl status 2> /dev/null | grep 'SUBNET UP'; do sleep 0.1; done")
	}
	up()
	m.do(`until test "$(systemctl show --value --property StatusText $unit)" = "subnet up"; do sleep 0.1; done`)
	pid := show("MainPID")
	if out := m.do("ps -o user=,args= -p " + pid + " 2> /dev/null || stat -c %U /proc/" + pid); !strings.HasPrefix(out, "heddle") {
		t.Errorf("it runs as %s", out)
	}
	if out := m.do("grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/" + pid + "/status"); strings.Join(strings.Fields(out), " ") != "CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2" {
		t.Errorf("its rights: %s", out)
	}
	for _, path := range []string{"/etc/heddle/x", "/usr/bin/x", "/var/lib/x", "/root/x"} {
		if out := m.do(fmt.Sprintf("nsenter -t %s -m setpriv --reuid heddle --regid heddle --clear-groups touch %s 2> /dev/null && echo written || echo refused", pid, path)); out != "refused" {
			t.Errorf("it can write %s", path)
		}
	}

	// again waits for another process that serves. The bound is three times what it takes: systemd counts in real time.
	again := func(what string, restarts int, limit time.Duration) string {
		t.Helper()
		begin := time.Now()
		m.do(fmt.Sprintf("until test $(systemctl show --value --property NRestarts $unit) = %d; do sleep 0.1; done", restarts))
		noticed := time.Since(begin)
		m.do("until systemctl is-active --quiet $unit; do sleep 0.1; done")
		up()
		t.Logf("%s: noticed and started again after %.1f s, serves after %.1f s", what, noticed.Seconds(), time.Since(begin).Seconds())
		if took := time.Since(begin); took > limit {
			t.Errorf("%s: the manager serves again after %v, want at most %v", what, took, limit)
		}
		now := show("MainPID")
		if now == pid || now == "0" {
			t.Errorf("%s: the process is %s, was %s", what, now, pid)
		}
		pid = now
		return m.do("journalctl --no-pager -u $unit")
	}
	m.do("kill -STOP " + pid)
	if log := again("SIGSTOP", 1, 33*time.Second); !strings.Contains(log, "Watchdog timeout (limit 10s)!") {
		t.Errorf("the watchdog did not notice:\n%s", log)
	}
	m.do("kill -KILL " + pid)
	again("SIGKILL", 2, 10*time.Second)

	m.do("systemctl reload $unit")
	m.do("until journalctl -u $unit | grep 'SIGHUP'; do sleep 0.1; done")
	m.do("systemctl stop $unit")
	if out := show("Result") + " " + show("ExecMainStatus") + " " + show("NRestarts"); out != "success 0 2" {
		t.Errorf("it ended with %s", out)
	}
	if out := m.do("cat /run/heddle/*/api.sock 2> /dev/null || echo gone; stat -c '%U %a' /var/lib/heddle/*"); out != "gone\nheddle 700" {
		t.Errorf("behind it: %s", out)
	}
}
