package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
	"heddle/internal/proc"
)

// fabric is a simulated subnet that serves user-MAD devices.
type fabric struct {
	t      *testing.T
	heddle string
	dir    string
	sock   string
	sim    *proc.Proc
}

// simulate serves what `heddle topo gen` makes of the arguments.
func simulate(t *testing.T, heddle string, gen ...string) *fabric {
	t.Helper()
	need.FUSE(t)
	f := &fabric{t: t, heddle: heddle, dir: t.TempDir(), sock: fmt.Sprintf("heddle-packaging-%d", os.Getpid())}
	net := f.must(heddle, append([]string{"topo", "gen"}, gen...)...)
	if err := os.WriteFile(filepath.Join(f.dir, "net"), []byte(net), 0o644); err != nil {
		t.Fatal(err)
	}
	f.sim = f.start(heddle, "sim", "--netlist", "net", "--socket", f.sock)
	if err := f.sim.WaitFor("READY\n", need.Patience); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fabric) start(name string, args ...string) *proc.Proc {
	f.t.Helper()
	p, err := proc.Start(proc.Command(f.dir, nil, name, args...))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.Kill)
	return p
}

func (f *fabric) must(name string, args ...string) string {
	f.t.Helper()
	r := proc.Run(need.Patience, proc.Command(f.dir, nil, name, args...))
	if r.Err != nil || r.Code != 0 {
		f.t.Fatalf("%s %q: exit %d, %v\n%s", name, args, r.Code, r.Err, r.Out)
	}
	return r.Out
}

// at runs a program on a host of the subnet.
func (f *fabric) at(host, name string, args ...string) string {
	f.t.Helper()
	return f.must(f.heddle, append([]string{"attach", host + "@" + f.sock, "--", need.Tool(f.t, name)}, args...)...)
}

// machine is a root of Debian in which systemd is process 1. Its adapter is that of a simulated host.
type machine struct {
	*root
	shell *proc.Proc
	marks int
}

// boot starts systemd in a root, and a shell there.
func (r *root) boot(f *fabric, host string) *machine {
	t := r.t
	t.Helper()
	need.Tool(t, "setpriv")
	name := fmt.Sprintf("heddle-packaging-%d", os.Getpid())
	t.Cleanup(func() { removeGroup(t, name) })
	script, err := filepath.Abs("testdata/boot.sh")
	if err != nil {
		t.Fatal(err)
	}
	p := f.start(f.heddle, "attach", host+"@"+f.sock, "--", "sh", script, r.dir, name)
	t.Cleanup(func() { // unshare takes no other signal
		p.Kill()
		<-p.Done()
	})
	m := &machine{root: r}
	eventually(t, "systemd has started", func() bool {
		select {
		case <-p.Done():
			need.Missing(t, "systemd", "as process 1: "+lastLine([]byte(p.Output())))
		default:
		}
		return initOf(r.dir) != 0
	})
	m.shell = f.start("nsenter", "-t", strconv.Itoa(initOf(r.dir)), "-a", "-r", "-w", "env", "-i", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "bash", "-e")
	// It answers when its private socket is there; all that is wanted at boot was started then.
	m.do("cd /root; until systemctl is-system-running --wait 2> /dev/null | grep -E 'running|degraded'; do sleep 0.1; done")
	return m
}

// initOf is the process whose root and whose name are those of systemd in a directory; 0: none.
func initOf(dir string) int {
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, p := range list {
		root, err := os.Readlink(p + "/root")
		if err != nil || root != dir {
			continue
		}
		if b, err := os.ReadFile(p + "/cmdline"); err == nil && bytes.HasPrefix(b, []byte("/lib/systemd/systemd\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			return pid
		}
	}
	return 0
}

// removeGroup removes a control group with all below it, once its processes have ended.
func removeGroup(t *testing.T, name string) {
	dir := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(dir); err != nil {
		dir = "/sys/fs/cgroup"
	}
	dir = filepath.Join(dir, name)
	eventually(t, dir+" is gone", func() bool {
		_ = exec.Command("find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

// do runs commands in the machine's shell, which goes on, and returns what they print. One that
// fails ends the test.
func (m *machine) do(commands string) string {
	m.t.Helper()
	m.marks++
	from := len(m.shell.Output())
	mark := fmt.Sprintf("--- done %d", m.marks)
	if _, err := fmt.Fprintf(m.shell.In, "%s\necho; echo '%s'\n", commands, mark); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.shell.Await("(?m)^"+mark+"$", from, need.Patience); err != nil {
		m.t.Fatalf("%s\n%v\n%s", commands, err, m.journal())
	}
	out, _, _ := strings.Cut(m.shell.Output()[from:], mark)
	return strings.TrimSpace(out)
}

// journal is what the machine has logged last.
func (m *machine) journal() string {
	out, err := exec.Command("journalctl", "--directory="+filepath.Join(m.dir, "var/log/journal"), "--no-pager", "-n", "40").CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// eventually waits for what must happen.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(need.Patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", what)
		}
	}
}
