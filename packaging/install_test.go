package packaging

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
)

// built are packages of one version.
type built struct{ deb, etcdDeb, rpm, etcdRPM string }

// buildTime is 2026-11-23.
const buildTime = "SOURCE_DATE_EPOCH=1795392000"

// build runs build.sh of a source tree.
func build(t *testing.T, tree, version string, env ...string) built {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(tree, "packaging", "build.sh"), dir)
	cmd.Env = append(os.Environ(), append(env, "PACKAGE_VERSION="+version, buildTime)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "Forbidden") {
			need.Missing(t, "nfpm", lastLine(out))
		}
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	one := func(pattern string) string {
		list, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v, %v", pattern, list, err)
		}
		return list[0]
	}
	return built{one("heddle_*.deb"), one("heddle-etcd_*.deb"), one("heddle-" + version + "*.rpm"), one("heddle-etcd-*.rpm")}
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// output runs a program that must succeed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(need.Tool(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// root is a Debian root that is thrown away.
type root struct {
	t   *testing.T
	dir string
}

// debian makes a clean root with systemd, which the packages depend on, and other packages.
func debian(t *testing.T, packages ...string) *root {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Missing(t, "root", "a root directory of Debian needs chroot and users")
	}
	if out, err := exec.Command(need.Tool(t, "unshare"), "--mount", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		need.Missing(t, "namespaces", lastLine(out))
	}
	r := &root{t, filepath.Join(t.TempDir(), "debian")}
	ctx, cancel := context.WithTimeout(t.Context(), 4*need.Patience) // a slow mirror, a busy machine
	defer cancel()
	// mmdebstrap mounts /proc and /sys. If it is killed they must not stay in the directory, which somebody
	// deletes then. --kill-child ends it with unshare.
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", need.Tool(t, "mmdebstrap"), "--mode=root",
		"--variant=minbase", "--include="+strings.Join(append([]string{"systemd", "passwd"}, packages...), ","), "bookworm", r.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		need.Missing(t, "debian", fmt.Sprintf("mmdebstrap: %v: %s", err, lastLine(out)))
	}
	return r
}

// run runs a script in the root.
func (r *root) run(script string) (string, error) {
	r.t.Helper()
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "chroot", r.dir, "/bin/sh", "-ec", "mount -t proc proc /proc\n"+script)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// do is run for what must succeed.
func (r *root) do(script string) string {
	r.t.Helper()
	out, err := r.run(script)
	if err != nil {
		r.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return out
}

// put copies a file into the root and returns its name there.
func (r *root) put(file string) string {
	r.t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "tmp", filepath.Base(file)), b, 0o644)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return "/tmp/" + filepath.Base(file)
}

// want runs a script and compares what it prints.
func (r *root) want(script, want string) {
	r.t.Helper()
	if got := strings.TrimSpace(r.do(script)); got != want {
		r.t.Errorf("%s\ngot  %s\nwant %s", script, got, want)
	}
}

// systemd makes scripts believe that systemd runs, with a systemctl that notes its arguments. All
// managers are active.
func (r *root) systemd() {
	r.do(`mkdir -p /run/systemd/system
rm -f /usr/bin/systemctl
printf '#!/bin/sh\necho "$@" >> /tmp/systemctl.log\n' > /usr/bin/systemctl
chmod +x /usr/bin/systemctl
: > /tmp/systemctl.log`)
}

// asked are the arguments of systemctl since the last call.
func (r *root) asked() string {
	return r.do("cat /tmp/systemctl.log; : > /tmp/systemctl.log")
}

// left are the files of the packages that are there.
const left = `find / -xdev -name '*heddle*' -not -path '/tmp/*' | sort`

// newer is a deb with a higher version and another heddle.yaml.
func newer(t *testing.T, deb string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deb")
	output(t, "dpkg-deb", "--raw-extract", deb, dir)
	for name, change := range map[string][2]string{
		"DEBIAN/control":         {"Version: 1.0.0", "Version: 1.1.0"},
		"etc/heddle/heddle.yaml": {"#priority: 0", "#priority: 1"},
	} {
		file := filepath.Join(dir, name)
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(change[0])) {
			t.Fatalf("%s: %v\n%s", name, err, b)
		}
		if err := os.WriteFile(file, bytes.Replace(b, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "heddle_1.1.0.deb")
	output(t, "dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", dir, out) // in less than a second
	return out
}

// TestPackages builds the packages, installs, upgrades, removes and purges them in a clean root of
// Debian 12, as debs and as rpms.
func TestPackages(t *testing.T) {
	need.Long(t)
	p := build(t, "..", "1.0.0")
	t.Run("reproducible", func(t *testing.T) { reproducible(t, p) })
	t.Run("lintian", func(t *testing.T) {
		if out := output(t, "lintian", "--allow-root", "--fail-on=error,warning", p.deb, p.etcdDeb); out != "" {
			t.Error(out)
		}
	})
	t.Run("rpmlint", func(t *testing.T) {
		out := output(t, "rpmlint", "-c", "rpmlint.toml", p.rpm, p.etcdRPM)
		if !strings.Contains(out, " 0 errors, 0 warnings") {
			t.Error(out)
		}
	})
	t.Run("image", func(t *testing.T) { image(t, p) })
	t.Run("debian", func(t *testing.T) {
		r := debian(t, "rpm")
		r.deb(p)
		r.rpm(p, build(t, "..", "1.1.0", "PACKAGE_BIN="+programs(t, p)))
	})
}

// programs unpacks the programs of packages into a directory.
func programs(t *testing.T, p built) string {
	t.Helper()
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", p.deb, dir)
	output(t, "dpkg-deb", "--extract", p.etcdDeb, dir)
	return filepath.Join(dir, "usr", "bin")
}

// reproducible builds the packages again elsewhere.
func reproducible(t *testing.T, p built) {
	tree := t.TempDir()
	output(t, "sh", "-c", `tar -C .. --exclude=./.git --exclude=./bin -cf - . | tar -C "$0" -xf -`, tree)
	q := build(t, tree, "1.0.0")
	for _, pair := range [][2]string{{p.deb, q.deb}, {p.etcdDeb, q.etcdDeb}, {p.rpm, q.rpm}, {p.etcdRPM, q.etcdRPM}} {
		a, err := os.ReadFile(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s is another one", filepath.Base(pair[0]))
		}
	}
}

// image runs the contents of the container image as its user, without any capability.
func image(t *testing.T, p built) {
	if os.Geteuid() != 0 {
		need.Missing(t, "root", "another root directory needs chroot")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "rootfs.tar")
	output(t, "../contrib/container/rootfs.sh", filepath.Join(programs(t, p), "heddle"), file)
	fs := filepath.Join(dir, "fs")
	if err := os.Mkdir(fs, 0o755); err != nil {
		t.Fatal(err)
	}
	output(t, "tar", "-xf", file, "-C", fs)
	for args, want := range map[string]string{
		"version":              "heddle 1.0.0 ",
		"sm --port umad:0x1":   "no umad devices",
		"store check /var/lib": "heddle.db",
	} {
		cmd := exec.Command("/usr/bin/heddle", strings.Fields(args)...)
		cmd.Dir = "/"
		cmd.Env = []string{"HEDDLE_STATE=/var/lib/heddle", "HEDDLE_RUNTIME_DIR=/var/lib/heddle/run"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: fs, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || strings.Contains(string(out), "permission denied") {
			t.Errorf("%s: %s", args, out)
		}
	}
	if _, err := os.Stat(filepath.Join(fs, "var/lib/heddle/heddle.db")); err != nil {
		t.Errorf("the manager stored nothing: %v", err)
	}
}

// deb is the life of the debs.
func (r *root) deb(p built) {
	t := r.t
	r.systemd()
	one, two, etcd := r.put(p.deb), r.put(newer(t, p.deb)), r.put(p.etcdDeb)
	r.do("dpkg -i " + one + " " + etcd)
	if asked := r.asked(); started.MatchString("systemctl "+strings.ReplaceAll(asked, "\n", "\nsystemctl ")) || !strings.Contains(asked, "daemon-reload") {
		t.Errorf("installation asks systemd for:\n%s", asked)
	}
	r.want("heddle version | cut -d' ' -f1,2", "heddle 1.0.0")
	r.want("getent passwd heddle | cut -d: -f1,5,7", "heddle:Heddle subnet manager:/usr/sbin/nologin")
	r.want("stat -c '%n %U:%G %a' /etc/heddle/* /run/heddle /var/backups/heddle",
		"/etc/heddle/etcd.env root:root 640\n/etc/heddle/heddle.yaml root:heddle 640\n/run/heddle root:root 755\n/var/backups/heddle heddle:heddle 700")
	r.want("find /etc/systemd/system /etc/rc?.d -name '*heddle*'", "")
	r.want("ls /usr/share/man/man8/heddle.8.gz /usr/share/man/man8/heddle-ctl-backup.8.gz /usr/share/man/man5/heddle.yaml.5.gz | wc -l", "3")
	// systemd finds nothing to say about the units.
	r.want("cd /usr/lib/systemd/system && systemd-analyze verify --man=no ./heddle@.service ./heddle-backup@.timer ./heddle-backup@.service ./heddle-agent.service ./heddle-agent.socket ./heddle-etcd.service 2>&1", "")
	// The manager runs as its user with the settings of the unit, as far as it can without a port.
	said, _ := r.run(`mkdir -p /var/lib/heddle/x /run/heddle/x && chown heddle:heddle /var/lib/heddle/x /run/heddle/x
setpriv --reuid heddle --regid heddle --clear-groups --bounding-set=-all --no-new-privs \
env HEDDLE_CONFIG=/etc/heddle/heddle.yaml HEDDLE_STATE=/var/lib/heddle/x HEDDLE_RUNTIME_DIR=/run/heddle/x heddle sm --port umad:0x1`)
	if !strings.Contains(said, "no umad devices") {
		t.Errorf("the manager says: %s", said)
	}
	r.want("stat -c '%U %a' /var/lib/heddle/x/heddle.db", "heddle 600")

	// What people changed stays, against another file of the package too.
	r.do("sed -i 's/#priority: 0/priority: 7/' /etc/heddle/heddle.yaml && chmod 600 /etc/heddle/heddle.yaml && echo HEDDLE_LMC=1 > /etc/heddle/x.env")
	r.asked()
	said = r.do("dpkg --force-confdef --force-confold -i " + two)
	if asked := r.asked(); regexp.MustCompile(`(?m)^(stop|restart|start|try-restart)`).MatchString(asked) || !strings.Contains(said, "systemctl restart") {
		t.Errorf("an upgrade asks systemd for:\n%s\nand says\n%s", asked, said)
	}
	r.want("grep priority: /etc/heddle/heddle.yaml; stat -c %a /etc/heddle/heddle.yaml; cat /etc/heddle/x.env; cd /var/lib/heddle/x; ls heddle.db sa-key", "priority: 7\n600\nHEDDLE_LMC=1\nheddle.db\nsa-key")

	r.do("dpkg -r heddle")
	if asked := r.asked(); !strings.Contains(asked, "stop heddle@*.service") {
		t.Errorf("removal asks systemd for:\n%s", asked)
	}
	r.want("ls /etc/heddle; cd /var/lib/heddle/x; ls heddle.db sa-key; ls /usr/bin/heddle 2>&1 || true; getent passwd heddle | cut -d: -f1",
		"etcd.env\nheddle.yaml\nheddle.yaml.dpkg-dist\nx.env\nheddle.db\nsa-key\nls: cannot access '/usr/bin/heddle': No such file or directory\nheddle")
	r.do("dpkg -i " + two)
	r.want("grep priority: /etc/heddle/heddle.yaml; cd /var/lib/heddle/x; ls heddle.db sa-key", "priority: 7\nheddle.db\nsa-key")

	// A purge leaves nothing, and what belongs to the other package.
	r.do(`mkdir -p /etc/systemd/system/multi-user.target.wants /var/backups/heddle/x
ln -s /usr/lib/systemd/system/heddle@.service /etc/systemd/system/multi-user.target.wants/heddle@x.service
dpkg -P heddle`)
	r.want("ls /etc/heddle; getent passwd heddle || echo no user; find / -xdev -path '*heddle*' -not -path '/tmp/*' -not -path '*heddle-etcd*' -not -path '/etc/heddle*'", "etcd.env\nno user")
	r.do("dpkg -P heddle-etcd")
	r.want(left, "")
}

// rpm is the life of the rpms, in a root whose dependencies rpm does not know.
func (r *root) rpm(one, two built) {
	t := r.t
	r.do("rm -rf /tmp/*.deb && rpmdb --initdb")
	r.systemd()
	r.do("rpm -i --nodeps " + r.put(one.rpm) + " " + r.put(one.etcdRPM))
	if asked := r.asked(); started.MatchString("systemctl "+strings.ReplaceAll(asked, "\n", "\nsystemctl ")) || !strings.Contains(asked, "daemon-reload") {
		t.Errorf("installation asks systemd for:\n%s", asked)
	}
	r.want("heddle version | cut -d' ' -f1,2; rpm -V --nodeps heddle heddle-etcd", "heddle 1.0.0")
	r.want("stat -c '%n %U:%G %a' /etc/heddle/*", "/etc/heddle/etcd.env root:root 640\n/etc/heddle/heddle.yaml root:heddle 640")
	r.want("find /etc/systemd/system -name '*heddle*'", "")
	r.do("sed -i 's/#priority: 0/priority: 7/' /etc/heddle/heddle.yaml && mkdir -p /var/lib/heddle/x && touch /var/lib/heddle/x/heddle.db")
	r.do("rpm -U --nodeps " + r.put(two.rpm) + " " + r.put(two.etcdRPM))
	if asked := r.asked(); regexp.MustCompile(`(?m)^(stop|restart|start|try-restart)`).MatchString(asked) {
		t.Errorf("an upgrade asks systemd for:\n%s", asked)
	}
	r.want("rpm -q --qf '%{VERSION}\\n' heddle; grep -o 'priority: .*' /etc/heddle/heddle.yaml; ls /var/lib/heddle/x", "1.1.0\npriority: 7\nheddle.db")
	r.do("rpm -e heddle heddle-etcd")
	if asked := r.asked(); !strings.Contains(asked, "stop heddle@*.service") {
		t.Errorf("erasure asks systemd for:\n%s", asked)
	}
	// rpm has no purge: the state and a changed file stay.
	r.want(left, "/etc/heddle\n/etc/heddle/heddle.yaml.rpmsave\n/run/heddle\n/var/backups/heddle\n/var/lib/heddle\n/var/lib/heddle/x/heddle.db")
}
