package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/agent/acm"
	"heddle/agent/live"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
)

// acme is the ib_acme of Debian's package ibacm, and the environment in which it runs. The
// package is unpacked and not installed, because installing it starts its service.
func acme(t *testing.T) (path string, env []string) {
	t.Helper()
	if p, err := exec.LookPath("ib_acme"); err == nil {
		return p, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "heddle-ibacm")
	root := filepath.Join(dir, "root")
	path = filepath.Join(root, "usr/bin/ib_acme")
	if _, err := os.Stat(path); err != nil {
		apt, dpkg := need.Tool(t, "apt-get"), need.Tool(t, "dpkg-deb")
		tmp := t.TempDir()
		get := exec.CommandContext(t.Context(), apt, "download", "-o", "APT::Sandbox::User=root", "ibacm", "libibverbs1", "libnl-3-200", "libnl-route-3-200")
		get.Dir = tmp
		if out, err := get.CombinedOutput(); err != nil {
			need.Missing(t, "ib_acme", fmt.Sprintf("apt-get download ibacm: %v: %s", err, out))
		}
		debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
		fresh := filepath.Join(tmp, "root")
		for _, d := range debs {
			if out, err := exec.CommandContext(t.Context(), dpkg, "-x", d, fresh).CombinedOutput(); err != nil {
				t.Fatalf("dpkg-deb -x %s: %v: %s", d, err, out)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", fresh, dir).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	libs, _ := filepath.Glob(filepath.Join(root, "*/lib/*-linux-gnu"))
	more, _ := filepath.Glob(filepath.Join(root, "lib/*-linux-gnu"))
	return path, []string{"LD_LIBRARY_PATH=" + strings.Join(append(libs, more...), ":")}
}

// agentBed is a simulated subnet with a manager that permits caching, and an agent on a host.
type agentBed struct {
	t     *testing.T
	b     built
	sock  string // of the simulator
	sim   program
	sm    program
	agent program
	acm   string // sockets of the agent
	ctl   string
	hosts string // file of addresses

	ibacme string
	env    []string
}

func newAgentBed(t *testing.T) *agentBed {
	need.FUSE(t)
	a := &agentBed{t: t, b: testNet{name: "small", gen: []string{"xgft", "2", "4,4", "1,2"}}.build(t)}
	a.ibacme, a.env = acme(t)
	sim, env := a.b.simulate(t)
	a.sim, a.sock = sim, strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	a.startManager()
	dir := t.TempDir()
	a.acm, a.ctl, a.hosts = filepath.Join(dir, "acm.sock"), filepath.Join(dir, "ctl.sock"), filepath.Join(dir, "hosts")
	var text strings.Builder
	for i := range a.b.cas {
		fmt.Fprintf(&text, "10.0.0.%d %v\nnode-%d %v\n", i, a.gid(i), i, a.gid(i))
	}
	if err := os.WriteFile(a.hosts, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	a.startAgent()
	return a
}

// gid is the GID of the only port of a host.
func (a *agentBed) gid(i int) ib.GID {
	for n := range a.b.fab.Nodes {
		if x := &a.b.fab.Nodes[n]; x.ID == a.b.cas[i] {
			return ib.MakeGID(ib.DefaultSubnetPrefix, x.Ports[1].GUID)
		}
	}
	a.t.Fatalf("no host %d", i)
	return ib.GID{}
}

// The manager and the agent are on these hosts.
const managerHost, agentHost = 0, 2

func (a *agentBed) startManager() {
	a.sm = start(a.t, a.b.dir, nil, heddle, "attach", a.b.cas[managerHost]+"@"+a.sock, "--", heddle, "sm", "--port", "umad:heddle0/1",
		"--api", "", "--subnet-supports-sa-path-caching", "--state", filepath.Join(a.b.dir, "state"))
	a.sm.await("SUBNET UP\n", 0, upTime)
}

func (a *agentBed) startAgent() {
	a.agent = start(a.t, a.b.dir, nil, heddle, "attach", a.b.cas[agentHost]+"@"+a.sock, "--", heddle, "agent",
		"--acm", a.acm, "--control", a.ctl, "--addresses", a.hosts, "--netlink", "off")
	a.agent.await("AGENT READY", 0, upTime)
	a.wait("subscriptions", func(s *live.Status) bool { return s.Ports[0].Subscribed })
}

// status is what heddle agent show prints.
func (a *agentBed) status() (s live.Status) {
	a.t.Helper()
	out := must(a.t, upTime, a.b.dir, nil, heddle, "agent", "show", "--json", "--control", a.ctl)
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		a.t.Fatal(err)
	}
	return s
}

// wait asks for the status until it is as wanted.
func (a *agentBed) wait(what string, ok func(s *live.Status) bool) {
	a.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(upTime); ; <-tick.C {
		s := a.status()
		if ok(&s) {
			return
		}
		if time.Now().After(limit) {
			a.t.Fatalf("%s: %+v\n%s", what, s, tail(a.agent.Output()))
		}
	}
}

// acme runs ib_acme.
func (a *agentBed) acme(args ...string) (string, error) {
	return run(a.t, 30*time.Second, a.b.dir, a.env, a.ibacme, append([]string{"-S", a.acm}, args...)...)
}

// TestAgentACME: unmodified ib_acme gets its answers from the agent, which has them from the
// SA, in every form that there is.
func TestAgentACME(t *testing.T) {
	a := newAgentBed(t)
	own, other := a.gid(agentHost), a.gid(5)
	lids := map[int]string{}
	for _, i := range []int{agentHost, 5} {
		out := must(t, upTime, a.b.dir, nil, heddle, "attach", a.b.cas[i]+"@"+a.sock, "--", "ibstat")
		m := regexp.MustCompile(`Base lid: (\d+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("ibstat: %s", out)
		}
		lids[i] = m[1]
	}
	for _, c := range []struct {
		args []string
		want []string
		fail bool
	}{
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5], "-c"}, []string{"No data available"}, true}, // nothing is cached yet
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5]}, []string{"dgid: " + other.String(), "sgid: " + own.String(), "reversible: 1"}, false},
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5], "-c"}, []string{"dgid: " + other.String()}, false},
		{[]string{"-f", "l", "-s", lids[agentHost], "-d", lids[5], "-v"}, []string{"SA verification: success"}, false},
		{[]string{"-f", "g", "-s", own.String(), "-d", other.String()}, []string{"dlid: " + lids[5], "slid: " + lids[agentHost], "flow label: 0x0"}, false},
		{[]string{"-f", "g", "-s", own.String(), "-d", other.String(), "-v"}, []string{"SA verification: success"}, false},
		{[]string{"-f", "i", "-s", "10.0.0.2", "-d", "10.0.0.5"}, []string{"dlid: " + lids[5]}, false},
		{[]string{"-f", "i", "-d", "10.0.0.5"}, []string{"dlid: " + lids[5], "slid: " + lids[agentHost]}, false},
		{[]string{"-f", "n", "-s", "node-2", "-d", "node-5"}, []string{"dlid: " + lids[5]}, false},
		{[]string{"-f", "i", "-s", "10.0.0.2", "-d", "10.9.9.9"}, []string{"No data available"}, true},
		{[]string{"-f", "g", "-s", own.String(), "-d", "fe80::dead"}, []string{"No data available"}, true},
		{[]string{"-e"}, []string{"heddle", own.String(), ",1,0xffff,1,"}, false},
		{[]string{"-P"}, []string{"Route Cache Count"}, false},
		{[]string{"-P", "col"}, []string{"Resolve Count"}, false},
		{[]string{"-P", "all"}, []string{"Resolve Count"}, false}, // counts up until an index is refused
	} {
		out, err := a.acme(c.args...)
		if (err != nil) != c.fail {
			t.Errorf("ib_acme %s: %v\n%s", strings.Join(c.args, " "), err, tail(out))
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("ib_acme %s does not print %q:\n%s", strings.Join(c.args, " "), w, tail(out))
			}
		}
	}
	before := a.status().Ports[0]
	must(t, upTime, a.b.dir, a.env, a.ibacme, "-S", a.acm, "-f", "l", "-s", lids[agentHost], "-d", lids[5], "-C", "2000")
	after := a.status().Ports[0]
	if after.Queries != before.Queries || after.Answers["found/cache"]-before.Answers["found/cache"] < 2000 {
		t.Errorf("2,000 repetitions: %d queries; answers %v, then %v", after.Queries-before.Queries, before.Answers, after.Answers)
	}
	out := must(t, upTime, a.b.dir, nil, heddle, "agent", "show", "--paths", "--control", a.ctl)
	if !strings.Contains(out, "fresh") || !strings.Contains(out, other.String()) {
		t.Errorf("agent show --paths:\n%s", out)
	}
	if out := must(t, upTime, a.b.dir, nil, heddle, "agent", "flush", other.String(), "--control", a.ctl); !regexp.MustCompile(`[1-9]\d* entries removed`).MatchString(out) {
		t.Errorf("agent flush: %s", out)
	}
	if out, err := a.acme("-f", "l", "-s", lids[agentHost], "-d", lids[5], "-c"); err == nil {
		t.Errorf("the path is still cached:\n%s", out)
	}
	a.checkMetrics()
}

// checkMetrics: the control socket has them in Prometheus' form.
func (a *agentBed) checkMetrics() {
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", a.ctl)
	}}}
	r, err := c.Get("http://agent/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		a.t.Fatal(err)
	}
	for _, w := range []string{
		`heddle_agent_subscribed{port="heddle0/1"} 1`, `heddle_agent_answers_total{port="heddle0/1",result="found",source="cache"}`,
		`heddle_agent_netlink_served 0`, `heddle_agent_removed_total{port="heddle0/1",reason="flush"}`,
	} {
		if !strings.Contains(b.String(), w) {
			a.t.Errorf("no %s in\n%s", w, tail(b.String()))
		}
	}
}

// TestAgentNotices: when a host leaves the subnet the agent forgets the path to it.
func TestAgentNotices(t *testing.T) {
	a := newAgentBed(t)
	own, other := a.gid(agentHost).String(), a.gid(5).String()
	if out, err := a.acme("-f", "g", "-s", own, "-d", other); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fmt.Fprintf(a.sim.In, "node down %q\n", a.b.cas[5])
	a.wait("the notice that a host left", func(s *live.Status) bool { return s.Ports[0].Entries == 0 && s.Ports[0].Noticed > 0 })
	if out, err := a.acme("-f", "g", "-s", own, "-d", other); err == nil {
		t.Errorf("a path to a host that left:\n%s", out)
	}
	fmt.Fprintf(a.sim.In, "node up %q\n", a.b.cas[5])
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(upTime); ; <-tick.C {
		out, err := a.acme("-f", "g", "-s", own, "-d", other)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("no path to a host that is back: %v\n%s", err, out)
		}
	}
}

// TestAgentFailures: the agent killed under load, the SA silent, and hostile bytes. No program
// waits longer than --wait, 1 s by default; a direct query may take longer.
func TestAgentFailures(t *testing.T) {
	a := newAgentBed(t)
	own, other, third := a.gid(agentHost).String(), a.gid(5).String(), a.gid(7).String()
	for _, b := range [][]byte{{}, {1}, bytes.Repeat([]byte{0xFF}, 5000), {1, 1, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0}, []byte("GET / HTTP/1.0\r\n\r\n")} {
		c, err := net.Dial("unix", a.acm)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		if len(b) >= acm.HeaderLen { // a malformed request ends the connection
			_ = c.SetReadDeadline(time.Now().Add(upTime))
			if n, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				t.Errorf("% x…: read %d, %v; want the connection closed", b[:8], n, err)
			}
		}
		c.Close()
	}
	if out, err := a.acme("-f", "g", "-s", own, "-d", other); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// Killed under load: who was connected gets an error, and who comes later an answer.
	load := start(t, a.b.dir, a.env, a.ibacme, "-S", a.acm, "-f", "g", "-s", own, "-d", other, "-C", "100000000")
	a.wait("load", func(s *live.Status) bool { return s.Ports[0].Answers["found/cache"] > 1000 })
	a.agent.Kill()
	select {
	case <-load.Done():
	case <-time.After(5 * time.Second):
		t.Error("ib_acme still waits for an agent that was killed")
	}
	a.startAgent()
	if out, err := a.acme("-f", "g", "-s", own, "-d", other); err != nil {
		t.Fatalf("after a restart: %v\n%s", err, out)
	}
	a.killAgain(own, other)

	// The SA is silent: what is cached is served, and the rest is refused in time.
	_ = a.sm.stop(syscall.SIGKILL)
	if d, st := a.resolve(other); st != acm.OK || d > time.Second {
		t.Errorf("a cached path without an SA: status %d after %v", st, d)
	}
	for range 3 {
		if d, st := a.resolve(third); st != acm.TimedOut || d > 2*time.Second {
			t.Errorf("a path without an SA: status %d after %v", st, d)
		}
	}
	a.startManager()
	a.wait("the SA's return", func(s *live.Status) bool { return !s.Ports[0].Silent && s.Ports[0].Subscribed })
	if _, st := a.resolve(third); st != acm.OK {
		t.Errorf("after the SA's return: status %d: %+v\n%s", st, a.status(), tail(a.agent.Output()))
	}
}

// killAgain kills and restarts the agent three times under load, while one ib_acme after the
// other asks for a path. None waits longer than a direct query may take, 2 s: it gets an answer,
// or an error at once, because nobody listens.
func (a *agentBed) killAgain(own, other string) {
	a.t.Helper()
	type call struct {
		took time.Duration
		ok   bool
	}
	stop, ended := make(chan struct{}), make(chan []call)
	go func() {
		var calls []call
		for {
			select {
			case <-stop:
				ended <- calls
				return
			default:
			}
			cmd := exec.Command(a.ibacme, "-S", a.acm, "-f", "g", "-s", own, "-d", other)
			cmd.Env = append(os.Environ(), a.env...)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			calls = append(calls, call{time.Since(began), err == nil && bytes.Contains(out, []byte("dlid"))})
		}
	}()
	for range 3 {
		load := start(a.t, a.b.dir, a.env, a.ibacme, "-S", a.acm, "-f", "g", "-s", own, "-d", other, "-C", "100000000")
		a.wait("load", func(s *live.Status) bool { return s.Ports[0].Answers["found/cache"] > 1000 })
		a.agent.Kill()
		<-load.Done()
		a.startAgent()
	}
	close(stop)
	var good, bad []time.Duration
	for _, c := range <-ended {
		if c.ok {
			good = append(good, c.took)
		} else {
			bad = append(bad, c.took)
		}
	}
	slices.Sort(good)
	slices.Sort(bad)
	if len(good) == 0 || len(bad) == 0 {
		a.t.Fatalf("%d calls with an answer, %d without", len(good), len(bad))
	}
	a.t.Logf("three restarts: %d calls with an answer, median %v, longest %v; %d without one, median %v, longest %v",
		len(good), good[len(good)/2], good[len(good)-1], len(bad), bad[len(bad)/2], bad[len(bad)-1])
	if d := max(good[len(good)-1], bad[len(bad)-1]); d > 2*time.Second {
		a.t.Errorf("a call took %v", d)
	}
}

// resolve asks the agent for the path to a GID, as librdmacm does.
func (a *agentBed) resolve(dst string) (took time.Duration, st acm.Status) {
	a.t.Helper()
	var g ib.GID
	if err := g.UnmarshalText([]byte(dst)); err != nil {
		a.t.Fatal(err)
	}
	c, err := net.Dial("unix", a.acm)
	if err != nil {
		a.t.Fatal(err)
	}
	defer c.Close()
	e := acm.Endpoint{Type: acm.TypePath}
	r := wire.PathRecord{SGID: a.gid(agentHost), DGID: g}
	r.Put(e.Info[:])
	begin := time.Now()
	if _, err := c.Write(acm.Append(nil, acm.Header{Op: acm.Resolve, TID: 1}, e)); err != nil {
		a.t.Fatal(err)
	}
	b := make([]byte, acm.MaxLen)
	_ = c.SetReadDeadline(begin.Add(upTime))
	n, err := c.Read(b)
	if err != nil || n < acm.HeaderLen {
		a.t.Fatalf("%d bytes, %v", n, err)
	}
	return time.Since(begin), acm.Status(b[2])
}
